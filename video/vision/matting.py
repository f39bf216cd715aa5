"""Colours of people without those of their background, at a frame's size, from the foreground of a matting model."""

from __future__ import annotations

import framebind as fb

from ..layouts import PictureShape

# The model sees a small frame. What it takes away from that, or adds, is enlarged and added to the frame's own colours,
# which keep their details: the residual of Lin et al., Robust High-Resolution Video Matting, WACV 2022.
_COLORS = """
uniform sampler2D frame, small;
layout(std430, binding = 0) readonly buffer values { float value[]; };
vec3 residual(ivec2 here) {
    here = clamp(here, ivec2(0), ivec2(WIDTH, HEIGHT) - 1);
    int first = (here.y * WIDTH + here.x) * STEP;
    return vec3(value[first], value[first + NEXT], value[first + 2 * NEXT]) - texelFetch(small, here, 0).rgb;
}
void main() {
    vec2 place = uv * vec2(WIDTH, HEIGHT) - 0.5, share = fract(place);
    ivec2 p = ivec2(floor(place));
    vec3 above = mix(residual(p), residual(p + ivec2(1, 0)), share.x);
    vec3 below = mix(residual(p + ivec2(0, 1)), residual(p + ivec2(1, 1)), share.x);
    color = vec4(clamp(texture(frame, uv).rgb + mix(above, below, share.y), 0.0, 1.0), 1.0);
}
"""


class GlForeground:
    """The colours of people in the frames of a video, by OpenGL."""

    def __init__(self, values: fb.GlBuffer, shape: PictureShape, size: tuple[int, int]) -> None:
        """``values`` are the model's foreground, red, green and blue from 0 to 1, float32 of a ``shape`` of 3 channels.

        ``size`` (width, height) is that of the frames.
        """
        step, following = (1, shape.width * shape.height) if shape.layout == "nchw" else (3, 1)
        self._program = fb.FragmentProgram(
            f"const int WIDTH = {shape.width}, HEIGHT = {shape.height}, STEP = {step}, NEXT = {following};\n{_COLORS}"
        )
        self._values, self._colors = values, fb.GlTexture(*size, "rgba8", label="the colours of people")

    def draw(self, frame: fb.GlTexture, small: fb.GlTexture) -> fb.GlTexture:
        """The colours of people in a frame, of which ``small`` has the model's picture. Valid until the next call."""
        self._program.draw(self._colors, {"frame": frame, "small": small}, {"values": self._values})
        return self._colors
