"""The program that packs a texture into a camera's frame: RGB to luma and chroma of NV12 or YUY2, on the GPU.

It draws an RGBA8 texture each texel of which is four bytes of the frame, so that the frame is read back as it is.
"""

from __future__ import annotations

from ...gl.draw.draw import FragmentProgram
from ...gl.texture import GlTexture
from .camera import FrameLayout

# Luma and chroma are sums of shares of red, green and blue (YuvColours). Chroma is that of the mean of its pixels.
_CONVERSION = """
uniform sampler2D picture;
vec3 rgb(int x, int y) {{ return texelFetch(picture, min(ivec2(x, y), ivec2({right}, {bottom})), 0).rgb; }}
float luma(vec3 c) {{ return dot(vec4(c, 1.0), vec4({luma})); }}
vec2 chroma(vec3 c) {{ return vec2(dot(vec4(c, 1.0), vec4({first})), dot(vec4(c, 1.0), vec4({second}))); }}
"""
_PACKING = {
    "nv12": """
vec2 of_square(int x, int y) {{
    return chroma(0.25 * (rgb(x, y) + rgb(x + 1, y) + rgb(x, y + 1) + rgb(x + 1, y + 1)));
}}
void main() {{
    int x = 4 * int(gl_FragCoord.x), y = int(gl_FragCoord.y);
    if (y < {height}) {{
        color = vec4(luma(rgb(x, y)), luma(rgb(x + 1, y)), luma(rgb(x + 2, y)), luma(rgb(x + 3, y)));
    }} else {{
        y = 2 * (y - {height});
        color = vec4(of_square(x, y), of_square(x + 2, y));
    }}
}}
""",
    "yuy2": """
void main() {{
    int x = 2 * int(gl_FragCoord.x), y = int(gl_FragCoord.y);
    vec3 left = rgb(x, y), right = rgb(x + 1, y);
    vec2 pair = chroma(0.5 * (left + right));
    color = vec4(luma(left), pair.x, luma(right), pair.y);
}}
""",
}


class Packer:
    """Packs RGBA8 textures of ``layout.size`` in the context that is current. The frame is ``packed``."""

    def __init__(self, layout: FrameLayout) -> None:
        self.layout = layout
        rows, columns, _ = layout.shape
        self.packed = GlTexture(columns, rows, "rgba8", label=f"the camera's frame in {layout.format}")
        self._program = FragmentProgram(_text(layout))

    def pack(self, picture: GlTexture) -> GlTexture:
        """Draw the frame of a picture."""
        self._program.draw(self.packed, {"picture": picture})
        return self.packed


def _text(layout: FrameLayout) -> str:
    numbers = layout.colours.numbers
    black = numbers(0.0, 0.0, 0.0)
    columns = [numbers(*(float(i == n) for i in range(3))) for n in range(3)]
    luma, first, second = (
        ", ".join(repr(part / 255) for part in (*(column[n] - black[n] for column in columns), black[n]))
        for n in range(3)
    )
    width, height = layout.size
    text = _CONVERSION + _PACKING[layout.format]
    return text.format(
        right=width - 1, bottom=height - 1, height=layout.padded[1], luma=luma, first=first, second=second
    )
