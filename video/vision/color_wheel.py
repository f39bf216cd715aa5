"""The colour wheel of optical flow (Baker, Scharstein, Lewis, Roth, Black and Szeliski, IJCV 2011, and their code)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SECTORS = (15, 6, 4, 11, 13, 6)
"""The number of colours from red to yellow, green, cyan, blue, magenta, and back to red."""
WHEEL_COLORS = sum(_SECTORS)

# Directions are colours: right is red, down yellow, left cyan to blue, up violet. No motion is white; the longest
# one has the full colour, and longer ones are darker.
WHEEL_COLOR = f"""
uniform sampler2D wheel;
vec3 wheel_color(vec2 motion) {{
    float radius = length(motion), angle = radius > 0.0 ? atan(-motion.y, -motion.x) / {np.pi} : 0.0;
    float place = (angle + 1.0) / 2.0 * {WHEEL_COLORS - 1}.0;
    int before = int(place);
    vec3 one = texelFetch(wheel, ivec2(before, 0), 0).rgb;
    vec3 other = texelFetch(wheel, ivec2((before + 1) % {WHEEL_COLORS}, 0), 0).rgb;
    vec3 full = mix(one, other, place - float(before));
    return radius <= 1.0 ? 1.0 - radius * (1.0 - full) : 0.75 * full;
}}
"""
"""GLSL: the colour of a motion (x, y), of which the length 1 has the full colour."""


def wheel_table() -> npt.NDArray[np.uint8]:
    """The colours of the wheel, (1, WHEEL_COLORS, RGB): in each sector one channel rises or falls by equal steps."""
    colors, corner = list[list[int]](), [255, 0, 0]
    for number, count in enumerate(_SECTORS):
        channel, rises = (1, 0, 2)[number % 3], number % 2 == 0
        for step in range(count):
            value = 255 * step // count
            colors.append([*corner[:channel], value if rises else 255 - value, *corner[channel + 1 :]])
        corner[channel] = 255 if rises else 0
    return np.array([colors], np.uint8)
