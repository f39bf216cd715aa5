"""Pictures of people before another background, drawn by OpenGL: a colour, a picture, their own, blurred, or none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import framebind as fb

from .masks import NOBODY, PERSON_FROM
from .palette import Color
from .pictures import Picture, read_picture

BLURRED_HEIGHT, BLUR = 160, 4.0
"""Height of the blurred background in pixels, and the standard deviation of its blur in these pixels."""
BLUR_NAME = "blur"
"""The background that is the frame's own, blurred, beside colours (#rrggbb) and picture files."""
ALPHA_NAME = "alpha"
"""The background that is none: the picture is transparent there."""
MARGIN = 2.0
"""Pixels around people that keep their colours in a transparent picture: a pixel of chroma is 2 x 2 pixels."""
Draw = Callable[[fb.GlTexture], None]
Masked = Callable[[fb.GlTexture], fb.GlTexture]
"""Gives the mask of people in a frame: a texture, from 0 to 1 in red."""

# The part of a pixel that people cover, by the probability of a person, or as a matting model says it.
_BY_PROBABILITY = f"float covered(float mask) {{ return smoothstep({NOBODY}, {PERSON_FROM}, mask); }}\n"
_BY_ALPHA = "float covered(float mask) { return mask; }\n"
# The background picture fills the frame; if it is too wide or too high, it is cut on both sides.
_CUTOUT = """
uniform sampler2D frame, mask, behind;
void main() {
    vec2 frame_size = vec2(textureSize(frame, 0)), size = vec2(textureSize(behind, 0));
    vec2 part = frame_size / size / max(frame_size.x / size.x, frame_size.y / size.y);
    vec3 background = texture(behind, (uv - 0.5) * part + 0.5).rgb;
    color = vec4(mix(background, texture(frame, uv).rgb, covered(texture(mask, uv).r)), 1.0);
}
"""
# The person is left out of the blur, which would otherwise draw a halo around the person.
_BEHIND = """
uniform sampler2D frame, mask;
uniform vec2 pixel;
void main() {
    color = vec4(0.0);
    for (int corner = 0; corner < 4; corner++) {
        vec2 at = uv + (vec2(corner & 1, corner >> 1) - 0.5) * 0.5 * pixel;
        float share = 1.0 - texture(mask, at).r;
        color += 0.25 * vec4(texture(frame, at).rgb * share, share);
    }
}
"""
_BLUR = f"""
uniform sampler2D sharp;
uniform vec2 pixel;
void main() {{
    color = vec4(0.0);
    float weights = 0.0;
    for (int x = -{round(2.5 * BLUR)}; x <= {round(2.5 * BLUR)}; x++) {{
        float weight = exp(-0.5 * float(x * x) / {BLUR * BLUR});
        color += weight * texture(sharp, uv + float(x) * pixel);
        weights += weight;
    }}
    color /= weights;
}}
"""
_BLURRED = """
uniform sampler2D frame, mask, behind;
void main() {
    vec4 background = texture(behind, uv);
    vec3 seen = background.rgb / max(background.a, 0.001);
    color = vec4(mix(seen, texture(frame, uv).rgb, covered(texture(mask, uv).r)), 1.0);
}
"""
# Far from people the picture is black, so that the room is not in the file. Near them it is the frame's: codecs mix the
# colours of neighbouring pixels, and black would show at the edges.
_TRANSPARENT = f"""
uniform sampler2D frame, mask;
void main() {{
    vec2 pixel = 1.0 / vec2(textureSize(frame, 0));
    float nearby = 0.0;
    for (int at = 0; at < 9; at++)
        nearby = max(nearby, texture(mask, uv + {MARGIN} * pixel * (vec2(at % 3, at / 3) - 1.0)).r);
    float person = covered(texture(mask, uv).r);
    color = vec4(covered(nearby) > 0.0 ? texture(frame, uv).rgb : vec3(0.0), person);
}}
"""


def cutout(picture: fb.GlTexture, mask: Masked, behind: fb.GlTexture, people: Masked | None = None) -> Draw:
    """Make a function that draws the people of a frame before the background ``behind``.

    ``people`` gives a texture of people's own colours, of the frame's size, after the mask, which is alpha then; None
    takes the frame's colours.
    """
    program = _program(_CUTOUT, people)

    def draw(frame: fb.GlTexture) -> None:
        covered = mask(frame)
        program.draw(picture, {"frame": people(frame) if people else frame, "mask": covered, "behind": behind})

    return draw


def transparent(picture: fb.GlTexture, mask: Masked, people: Masked | None = None) -> Draw:
    """Make a function that draws the people of a frame, and alpha, which is straight: 0 behind them.

    ``people`` as for ``cutout``.
    """
    program = _program(_TRANSPARENT, people)

    def draw(frame: fb.GlTexture) -> None:
        covered = mask(frame)
        program.draw(picture, {"frame": people(frame) if people else frame, "mask": covered})

    return draw


def blurred(picture: fb.GlTexture, mask: Masked, people: Masked | None = None) -> Draw:
    """Make a function that draws a frame with everything blurred but the people. ``people`` as for ``cutout``."""
    width, height = picture.size
    size = (max(round(width * BLURRED_HEIGHT / height), 1), BLURRED_HEIGHT)
    one, two = (fb.GlTexture(*size, "rgba16f", label=f"the background {n}") for n in range(2))
    behind, blur, show = fb.FragmentProgram(_BEHIND), fb.FragmentProgram(_BLUR), _program(_BLURRED, people)
    across, down = (1 / size[0], 0.0), (0.0, 1 / size[1])

    def draw(frame: fb.GlTexture) -> None:
        covered = mask(frame)
        behind.draw(one, {"frame": frame, "mask": covered}, uniforms={"pixel": (across[0], down[1])})
        blur.draw(two, {"sharp": one}, uniforms={"pixel": across})
        blur.draw(one, {"sharp": two}, uniforms={"pixel": down})
        show.draw(picture, {"frame": people(frame) if people else frame, "mask": covered, "behind": one})

    return draw


def _program(text: str, people: Masked | None) -> fb.FragmentProgram:
    return fb.FragmentProgram((_BY_PROBABILITY if people is None else _BY_ALPHA) + text)


def is_color(background: str) -> bool:
    """True for a background that is written as a colour, #rrggbb."""
    return background.startswith("#")


def check_background(background: str) -> None:
    """Raise SourceError for a background that is no colour, no picture that can be read, not "blur" and not "alpha"."""
    if is_color(background):
        color_of(background)
    elif background not in (BLUR_NAME, ALPHA_NAME):
        _picture_of(background)


def _picture_of(background: str) -> Picture:
    picture = read_picture(background)
    if picture is None:
        raise fb.SourceError(f"the background '{background}' is no picture that can be read, and no colour as #rrggbb")
    return picture


def background_texture(text: str) -> fb.GlTexture:
    """A texture of one texel for a colour, or of the picture's size for a picture file. Raises SourceError."""
    if is_color(text):
        color = 255 * np.array(color_of(text))
        return fb.GlTexture.from_array(color.round().astype(np.uint8).reshape(1, 1, 3))
    return fb.GlTexture.from_array(_picture_of(text))


def color_of(text: str) -> Color:
    """Red, green and blue, from 0 to 1, of a colour as #rrggbb. Raises SourceError if it is none."""
    try:
        red, green, blue = bytes.fromhex(text[1:])
    except ValueError as error:
        raise fb.SourceError(
            f"the background '{text}' is no colour: write it as #rrggbb, for instance #00b140"
        ) from error
    return red / 255, green / 255, blue / 255
