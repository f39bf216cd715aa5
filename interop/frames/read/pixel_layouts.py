"""Layouts of frames in upload memory, with the GLSL that converts each to RGB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ....kernels.colours import LUMA_SHARES
from ...errors import SourceError
from ...gl.khronos import GL

Matrix = Literal["bt601", "bt709"]

# Limited range, 8 bits: luma is 16 to 235, chroma 16 to 240 around 128 (BT.601-7, 2.5.3). A pixel takes the chroma
# sample of its pair or square as it is, as OpenCV does.
_YUV = """
const vec2 K = vec2({red}, {blue});
vec3 to_rgb(vec3 yuv) {{
    yuv = (yuv * 255.0 - vec3(16.0, 128.0, 128.0)) / vec3(219.0, 224.0, 224.0);
    float red = yuv.x + 2.0 * (1.0 - K.x) * yuv.z, blue = yuv.x + 2.0 * (1.0 - K.y) * yuv.y;
    return clamp(vec3(red, (yuv.x - K.x * red - K.y * blue) / (1.0 - K.x - K.y), blue), 0.0, 1.0);
}}
"""
_FETCH = {
    # GLES has no BGR format, so on both the bytes go up as RGB and change places here.
    "bgr": "vec3 fetch(ivec2 at) { return texelFetch(raw, at, 0).bgr; }\n",
    "yuyv": """
vec3 fetch(ivec2 at) {
    vec4 pair = texelFetch(raw, ivec2(at.x >> 1, at.y), 0);
    return to_rgb(vec3((at.x & 1) == 0 ? pair.r : pair.b, pair.g, pair.a));
}
""",
    "nv12": """
vec3 fetch(ivec2 at) {
    ivec2 chroma = ivec2(at.x & ~1, size.y + (at.y >> 1));
    float u = texelFetch(raw, chroma, 0).r, v = texelFetch(raw, chroma + ivec2(1, 0), 0).r;
    return to_rgb(vec3(texelFetch(raw, at, 0).r, u, v));
}
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
    red, blue = LUMA_SHARES[matrix]
    glsl = _YUV.format(red=red, blue=blue) + _FETCH[name]
    if name == "yuyv":
        return Layout(f"{name} {matrix}", (height, width, 2), (width // 2, height), GL.RGBA8, GL.RGBA, glsl)
    return Layout(f"{name} {matrix}", (height * 3 // 2, width), (width, height * 3 // 2), GL.R8, GL.RED, glsl)
