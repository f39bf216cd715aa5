"""The layout of frames in planes of Y, U and V in upload memory, with the GLSL that converts them to RGB.

The planes follow one another without padding in one texture with one sample per texel; its rows have no meaning. So the
same code serves all sizes, also odd ones, all chroma subsamplings, NV12, and samples of 8 and 16 bits.
"""

from __future__ import annotations

from ...gl.khronos import GL
from ..decode.planar import PlanarFormat
from .pixel_layouts import Layout

# A pixel takes the chroma of its pair or square as it is, as swscale does if it does not scale. The rows are those of
# YuvColours: luma and chroma are the numbers as parts of 255 or 65535.
_TO_RGB = """
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
"""By the clockwise turn in degrees: the position in the planes of pixel ``at`` of the turned picture."""


def planar_layout(planes: PlanarFormat, turn: int = 0) -> Layout:
    """The layout of frames of that format that are shown turned clockwise by ``turn`` degrees."""
    rows = -(-planes.nbytes // planes.number_bytes // planes.width)
    words = planes.number_bytes == 2
    return Layout(
        f"{planes} turned {turn}", (rows * planes.width * planes.number_bytes,), (planes.width, rows),
        GL.RG8 if words else GL.R8, GL.RG if words else GL.RED, _glsl(planes, turn),
    )  # fmt: skip


def _glsl(planes: PlanarFormat, turn: int) -> str:
    width, height, luma = planes.width, planes.height, planes.width * planes.height
    chroma_width, chroma_height = planes.chroma
    pairs = len(planes.yuv.chroma) == 1
    return _TO_RGB.format(
        turned=_TURNED[turn].format(width=width, height=height),
        width=width, chroma_width=chroma_width, columns=planes.yuv.columns, rows=planes.yuv.rows,
        number="(word.r + 256.0 * word.g) * (255.0 / 65535.0)" if planes.number_bytes == 2 else "word.r",
        u=luma, v=luma + (1 if pairs else chroma_width * chroma_height), step=2 if pairs else 1,
        matrix=", ".join(repr(factor) for row in planes.colours.rows() for factor in row),
    )  # fmt: skip
