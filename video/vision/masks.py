"""Masks at a picture's size from the scores of a small segmentation: steady over time, with the picture's own edges."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..copies import DETECTIONS
from ..layouts import PictureShape

SPATIAL, RANGE, FLOOR, RADIUS = 1.0, 0.1, 1e-4, 2
"""Parameters of the joint bilateral filter: standard deviations in mask pixels and in colours from 0 to 1, the least
weight of a colour, and the radius in mask pixels.
"""
SAME = 1 / 1024
"""Difference of neighbouring pixels of a mask, from 0 to 1, below which they count as equal: a quarter of a byte's
step.
"""
MEMORY = 0.9
"""Share of the previous mask in a pixel for which the new mask is completely uncertain (probability 0.5)."""
NOBODY, PERSON_FROM = 0.3, 0.7
"""Values of a mask up to which a pixel is background, and from which on it is the person. Between them it is both."""
OPACITY = 0.6
"""The share of a class's colour in its pixels."""

_SMALL = """
uniform sampler2D frame, previous;
uniform float first;
layout(std430, binding = 0) readonly buffer scores { float score[]; };
ivec2 here;
float at(int channel) { return score[PLACE]; }
"""
_PLACES = {
    "nhwc": "(here.y * WIDTH + here.x) * CHANNELS + channel",
    "nchw": "(channel * HEIGHT + here.y) * WIDTH + here.x",
}
# The Shannon entropy in bits of "person or not" says how little the new mask knows; MediaPipe's
# SegmentationSmoothingCalculator mixes by (an approximation of) it.
_PERSON = """
float person() {
    if (CHANNELS == 1) return at(0);
    float highest = at(0), sum = 0.0;
    for (int channel = 1; channel < CHANNELS; channel++) highest = max(highest, at(channel));
    for (int channel = 0; channel < CHANNELS; channel++) sum += exp(at(channel) - highest);
    return exp(at(PERSON) - highest) / sum;
}
void main() {
    here = ivec2(gl_FragCoord.xy);
    float p = clamp(person(), 1e-6, 1.0 - 1e-6), before = texelFetch(previous, here, 0).a;
    float unknown = -(p * log2(p) + (1.0 - p) * log2(1.0 - p));
    if (first < 0.5) p = mix(p, before, MEMORY * unknown);
    color = vec4(texture(frame, uv).rgb, p);
}
"""
_ALPHA = """
void main() {
    here = ivec2(gl_FragCoord.xy);
    color = vec4(texture(frame, uv).rgb, clamp(at(0), 0.0, 1.0));
}
"""
_CLASS = """
void main() {
    here = ivec2(gl_FragCoord.xy);
    color = vec4(texture(frame, uv).rgb, score[here.y * WIDTH + here.x]);
}
"""
# Most of a picture is within a mask or outside of it: there a mean of equal values needs no weights.
_NEIGHBOURS = f"""
    ivec2 size = textureSize(small, 0);
    vec2 place = uv * vec2(size) - 0.5;
    ivec2 middle = ivec2(floor(place + 0.5));
    float lowest = 1e30, highest = -1e30;
    for (int y = -{RADIUS}; y <= {RADIUS}; y++) {{
        for (int x = -{RADIUS}; x <= {RADIUS}; x++) {{
            float mask = texelFetch(small, clamp(middle + ivec2(x, y), ivec2(0), size - 1), 0).a;
            lowest = min(lowest, mask);
            highest = max(highest, mask);
        }}
    }}
    if (highest - lowest < {SAME}) {{ ALIKE }}
    for (int y = -{RADIUS}; y <= {RADIUS}; y++) {{
        for (int x = -{RADIUS}; x <= {RADIUS}; x++) {{
            ivec2 at = middle + ivec2(x, y);
            vec4 there = texelFetch(small, clamp(at, ivec2(0), size - 1), 0);
            vec2 way = (vec2(at) - place) / {SPATIAL};
            vec3 other = (there.rgb - here) / {RANGE};
            float weight = exp(-0.5 * dot(way, way)) * max(exp(-0.5 * dot(other, other)), {FLOOR});
            EACH
        }}
    }}
"""
_MEAN = "sum += weight * value(there.a, here); weights += weight;"
_VOTE = "votes[int(there.a + 0.5)] += weight;"


# Joint bilateral upsampling (Kopf, Cohen, Lischinski and Uyttendaele, SIGGRAPH 2007): a mean of the mask's pixels
# nearby, weighted by distance and by likeness of colour in the frame.
SPREAD = f"""
uniform sampler2D frame, small;
vec4 spread(vec2 uv, vec3 here) {{
    vec4 sum = vec4(0.0);
    float weights = 0.0;
    {_NEIGHBOURS.replace("ALIKE", "return value(0.5 * (lowest + highest), here);").replace("EACH", _MEAN)}
    return sum / weights;
}}
"""
# The class that has most of these weights: a number has no mean.
_NUMBER = f"""
uniform sampler2D frame, small;
void main() {{
    vec3 here = texture(frame, uv).rgb;
    float votes[CLASSES];
    for (int number = 0; number < CLASSES; number++) votes[number] = 0.0;
    {_NEIGHBOURS.replace("ALIKE", "color = vec4(float(int(lowest + 0.5)) / 255.0); return;").replace("EACH", _VOTE)}
    int best = 0;
    for (int number = 1; number < CLASSES; number++) if (votes[number] > votes[best]) best = number;
    color = vec4(float(best) / 255.0);
}}
"""
_MASK = "vec4 value(float mask, vec3 here) { return vec4(mask); }\n"
_MASK_MAIN = "void main() { color = spread(uv, texture(frame, uv).rgb); }\n"
_SAME_SIZE = "uniform sampler2D small;\nvoid main() { color = vec4(texture(small, uv).a); }\n"

_SMALL_VALUE = """
uniform sampler2D small;
void main() { color = vec4(texelFetch(small, ivec2(gl_FragCoord.xy), 0).a); }
"""


class GlMask:
    """The mask of a video, by OpenGL: scores are smoothed over time, and enlarged along the edges of each frame.

    ``CpuMask`` has the same formulas. A mask is that of people, with values from 0 to 1, or has numbers of classes.
    """

    def __init__(
        self,
        scores: fb.GlBuffer,
        shape: PictureShape,
        large: tuple[int, int],
        *,
        person: int | None = None,
        is_alpha: bool = False,
    ) -> None:
        """``scores`` are float32 of a ``shape``; ``large`` is the frames' size (width, height).

        Scores of one channel are probabilities of a person, others those of classes. ``person`` is the number of the
        class of people, whose mask it is then. None: ``scores`` are the numbers of classes, (height, width) float32,
        which are steady already. ``is_alpha`` says that the one channel is the alpha of a matting model: it is not
        smoothed over time, and at the frames' own size taken as it is.
        """
        self._scores, self._channels, self._is_classes = scores, shape.channels, person is None
        size = shape.size
        constants = f"const int WIDTH = {size[0]}, HEIGHT = {size[1]}, CHANNELS = {shape.channels};\n"
        if person is None:
            main = _CLASS
        else:
            constants += f"const float MEMORY = {MEMORY};\nconst int PERSON = {person};\n"
            main = _ALPHA if is_alpha else _PERSON
        self._smooth = fb.FragmentProgram(constants + _SMALL.replace("PLACE", _PLACES[shape.layout]) + main)
        self._previous, self._new = (fb.GlTexture(*size, "rgba16f", label=f"small mask {n}") for n in range(2))
        self._first, self._large_size = 1.0, large
        self._follows, self._is_as_large = person is not None and not is_alpha, is_alpha and size == large
        self._values = fb.GlTexture(*size, "r8", label="values of the small mask")
        self.textures: dict[str, fb.GlTexture] = {}
        """The textures of the last ``smooth``: the frame, and the small mask."""

    def smooth(self, frame: fb.GlTexture) -> dict[str, fb.GlTexture]:
        """Make the small mask of a frame. Returns the textures that ``SPREAD`` takes: the frame, and the small mask.

        The small mask has the frame's colours, and in alpha the mask, or the number of the class.
        """
        self._previous, self._new = self._new, self._previous
        before, first = ({"previous": self._previous}, {"first": self._first}) if self._follows else ({}, {})
        self._smooth.draw(self._new, {"frame": frame, **before}, {"scores": self._scores}, first)
        self._first, self.textures = 0.0, {"frame": frame, "small": self._new}
        return self.textures

    def small(self) -> npt.NDArray[Any]:
        """The small mask of people in the last frame, read: (height, width), from 0 to 1."""
        self._read.draw(self._values, {"small": self._new})
        return self._values.read(reason=DETECTIONS)[..., 0] / np.float32(255)

    def enlarge(self) -> fb.GlTexture:
        """Draw the mask of the last frame at the frame's size, and return it: ``large``."""
        self._enlarge.draw(self.large, {"small": self._new} if self._is_as_large else self.textures)
        return self.large

    @cached_property
    def large(self) -> fb.GlTexture:
        """The mask that ``enlarge`` drew, in red: from 0 to 1, or the numbers of classes, divided by 255."""
        return fb.GlTexture(*self._large_size, "r8", label="the mask")

    @cached_property
    def _enlarge(self) -> fb.FragmentProgram:
        if self._is_as_large:
            return fb.FragmentProgram(_SAME_SIZE)
        return fb.FragmentProgram(enlarger(self._channels if self._is_classes else None))

    @cached_property
    def _read(self) -> fb.FragmentProgram:
        return fb.FragmentProgram(_SMALL_VALUE)


def enlarger(classes: int | None) -> str:
    """A shader that enlarges what ``small`` has in alpha along the edges of ``frame``: a mask, or so many classes."""
    return _MASK + SPREAD + _MASK_MAIN if classes is None else f"const int CLASSES = {classes};\n{_NUMBER}"
