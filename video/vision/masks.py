"""Masks at a picture's size from the scores of a small segmentation: steady over time, with the picture's own edges."""

from __future__ import annotations

from collections.abc import Callable

import framebind as fb

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
STAY = 1.0
"""A pixel changes its class if another one scores higher by this."""

_SMALL = """
uniform sampler2D frame, previous;
uniform float first;
layout(std430, binding = 0) readonly buffer scores { float score[]; };
ivec2 here;
float at(int channel) { return score[(here.y * WIDTH + here.x) * CHANNELS + channel]; }
"""
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
_CLASS = """
void main() {
    here = ivec2(gl_FragCoord.xy);
    int before = first < 0.5 ? int(texelFetch(previous, here, 0).a + 0.5) : -1, best = 0;
    float highest = -1e30;
    for (int channel = 0; channel < CHANNELS; channel++) {
        float value = at(channel) + (channel == before ? STAY : 0.0);
        if (value > highest) { highest = value; best = channel; }
    }
    color = vec4(texture(frame, uv).rgb, float(best));
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


def _neighbours(alike: str, each: str) -> str:
    """GLSL that does ``each`` for the mask's pixels nearby, with its weight, or ``alike`` if they are all the same."""
    return _NEIGHBOURS.replace("ALIKE", alike).replace("EACH", each)


# Joint bilateral upsampling (Kopf, Cohen, Lischinski and Uyttendaele, SIGGRAPH 2007): a mean of the mask's pixels
# nearby, weighted by distance and by likeness of colour in the frame.
SPREAD = f"""
uniform sampler2D frame, small;
vec4 spread(vec2 uv, vec3 here) {{
    vec4 sum = vec4(0.0);
    float weights = 0.0;
    {_neighbours("return value(0.5 * (lowest + highest), here);", _MEAN)}
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
    {_neighbours("color = vec4(float(int(lowest + 0.5)) / 255.0); return;", _VOTE)}
    int best = 0;
    for (int number = 1; number < CLASSES; number++) if (votes[number] > votes[best]) best = number;
    color = vec4(float(best) / 255.0);
}}
"""
_MASK = "vec4 value(float mask, vec3 here) { return vec4(mask); }\n"
_MASK_MAIN = "void main() { color = spread(uv, texture(frame, uv).rgb); }\n"

Smooth = Callable[[fb.GlTexture], fb.GlTexture]


def smooth_person(scores: fb.GlBuffer, size: tuple[int, int], channels: int, person: int) -> Smooth:
    """Make a function that smooths the mask of a person over time.

    ``smooth(frame)`` returns a texture of ``size`` (width, height): the frame's colours, and the mask, from 0 to 1, in
    alpha. ``scores`` are float32 (height, width, channels): probabilities of a person if there is one channel, else
    scores of classes; ``person`` is the number of the class of people.
    """
    return _smooth(scores, size, channels, f"const float MEMORY = {MEMORY};\nconst int PERSON = {person};\n", _PERSON)


def smooth_classes(scores: fb.GlBuffer, size: tuple[int, int], channels: int) -> Smooth:
    """As ``smooth_person``, with the number of a class in alpha: the best, or the one before if nearly as good."""
    return _smooth(scores, size, channels, f"const float STAY = {STAY};\n", _CLASS)


def _smooth(scores: fb.GlBuffer, size: tuple[int, int], channels: int, constants: str, main: str) -> Smooth:
    constants += f"const int WIDTH = {size[0]}, HEIGHT = {size[1]}, CHANNELS = {channels};\n"
    program = fb.FragmentProgram(constants + _SMALL + main)
    textures = [fb.GlTexture(*size, "rgba16f", label=f"small mask {n}") for n in range(2)]
    first = True

    def smooth(frame: fb.GlTexture) -> fb.GlTexture:
        nonlocal first
        previous, new = textures
        program.draw(new, {"frame": frame, "previous": previous}, {"scores": scores}, {"first": float(first)})
        textures.reverse()
        first = False
        return new

    return smooth


def enlarge() -> fb.FragmentProgram:
    """A program that enlarges the mask in alpha of ``small`` (see smooth_person) along the edges of ``frame``."""
    return fb.FragmentProgram(_MASK + SPREAD + _MASK_MAIN)


def enlarge_classes(classes: int) -> fb.FragmentProgram:
    """As ``enlarge``, for numbers of classes in alpha: draws the number, divided by 255, of the class of each pixel."""
    return fb.FragmentProgram(f"const int CLASSES = {classes};\n{_NUMBER}")
