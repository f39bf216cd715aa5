"""The conversion of uploaded frames to RGB for textures: NV12, YUYV, planes of any format. A layout has its GLSL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ....kernels.colours import YuvColours
from ...errors import SourceError
from ...gl.khronos import GL
from ...pixel_formats import PlanarFormat

Matrix = Literal["bt601", "bt709"]

# Planes of Y, U and V follow one another without padding in one texture with one sample per texel; its rows have no
# meaning. So one code serves all sizes, also odd ones, all chroma subsamplings, NV12, and samples of 8 and 16 bits.
# A pixel takes the chroma of its pair or square as it is, as swscale does if it does not scale. The rows are those of
# YuvColours: luma and chroma are the numbers as parts of 255 or 65535.
_OF_PLANES = """
float number(int index) {{
    vec2 word = texelFetch(raw, ivec2(index % {width}, index / {width}), 0).rg;
    return {number};
}}
vec3 fetch(ivec2 at) {{
    at = {turned};
    ivec2 c = at / ivec2({columns}, {rows});
    int chroma = c.y * {chroma_width} + c.x;
    vec4 yuv = vec4(
        number(at.y * {width} + at.x), number({u} + chroma * {step}), number({v} + chroma * {step}), 1.0
    );
    return clamp(yuv * mat3x4({matrix}), 0.0, 1.0);
}}
"""
_TURNED = {
    0: "at",
    90: "ivec2(at.y, {height} - 1 - at.x)",
    180: "ivec2({width} - 1 - at.x, {height} - 1 - at.y)",
    270: "ivec2({width} - 1 - at.y, at.x)",
}
"""GLSL for the position in the planes of pixel ``at`` of the turned picture, by the clockwise turn in degrees."""
_FETCH = {
    # GLES has no BGR format, so on both the bytes go up as RGB and change places here.
    "bgr": "vec3 fetch(ivec2 at) { return texelFetch(raw, at, 0).bgr; }\n",
    "yuyv": """
vec3 fetch(ivec2 at) {{
    vec4 pair = texelFetch(raw, ivec2(at.x >> 1, at.y), 0);
    vec4 yuv = vec4((at.x & 1) == 0 ? pair.r : pair.b, pair.g, pair.a, 1.0);
    return clamp(yuv * mat3x4({matrix}), 0.0, 1.0);
}}
""",
}


@dataclass(frozen=True)
class Layout:
    """Layout of frames of one format and size, as an array and as a raw texture."""

    name: str
    shape: tuple[int, ...]
    """Shape of the uint8 array."""
    texture: tuple[int, int]
    """Width and height of the raw texture, in texels."""
    internal: int
    """GL internal format of the raw texture."""
    external: int
    """GL format of the uploaded bytes."""
    glsl: str
    """Defines ``vec3 fetch(ivec2 at)``: the RGB of a pixel, read from ``raw``. ``size`` is the picture's."""

    @property
    def nbytes(self) -> int:
        """Bytes of a frame."""
        nbytes = 1
        for side in self.shape:
            nbytes *= side
        return nbytes


def layout_of(name: str, width: int, height: int, matrix: Matrix = "bt601") -> Layout:
    """The layout "bgr", "yuyv" (Y0 U Y1 V) or "nv12" (all Y, then pairs of U and V) of frames of that size.

    Raises SourceError if the format cannot have the size.
    """
    if name == "bgr":
        return Layout(name, (height, width, 3), (width, height), GL.RGB8, GL.RGB, _FETCH[name])
    if width % 2 or (name == "nv12" and height % 2):
        raise SourceError(f"{name.upper()} frames cannot be {width}x{height}: their sides are even. Take another size")
    if name == "yuyv":
        glsl = _FETCH[name].format(matrix=_factors(YuvColours(matrix, "limited")))
        return Layout(f"{name} {matrix}", (height, width, 2), (width // 2, height), GL.RGBA8, GL.RGBA, glsl)
    planes = planar_layout(PlanarFormat(name, matrix, "limited", "left", width, height))
    return replace(planes, name=f"{name} {matrix}", shape=(height * 3 // 2, width))


def planar_layout(planes: PlanarFormat, turn: int = 0) -> Layout:
    """The layout of frames of that format that are shown turned clockwise by ``turn`` degrees."""
    rows = -(-planes.nbytes // planes.number_bytes // planes.width)
    words = planes.number_bytes == 2
    return Layout(
        f"{planes.format} turned {turn}", (rows * planes.width * planes.number_bytes,), (planes.width, rows),
        GL.RG8 if words else GL.R8, GL.RG if words else GL.RED, _glsl(planes, turn),
    )  # fmt: skip


def _glsl(planes: PlanarFormat, turn: int) -> str:
    width, height, luma = planes.width, planes.height, planes.width * planes.height
    chroma_width, chroma_height = planes.chroma
    pairs = len(planes.layout.chroma) == 1
    return _OF_PLANES.format(
        turned=_TURNED[turn].format(width=width, height=height),
        width=width, chroma_width=chroma_width, columns=planes.layout.columns, rows=planes.layout.rows,
        number="(word.r + 256.0 * word.g) * (255.0 / 65535.0)" if planes.number_bytes == 2 else "word.r",
        u=luma, v=luma + (1 if pairs else chroma_width * chroma_height), step=2 if pairs else 1,
        matrix=_factors(planes.colours),
    )  # fmt: skip


def _factors(colours: YuvColours) -> str:
    """The factors of a matrix from luma and chroma to RGB, for GLSL."""
    return ", ".join(repr(factor) for row in colours.rows() for factor in row)
