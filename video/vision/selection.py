"""Boxes of a detector, decoded and selected on the GPU: only the boxes to draw are read back, not those of all anchors.

Four small fragment shaders: decode each anchor's box and find its best class; count the better anchors of each likely
one; sort the likeliest by that number; and suppress those that overlap a better one (non-maximum suppression).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import framebind as fb

from .ssd import FACE_SIDE

Array = npt.NDArray[Any]
Select = Callable[[float], fb.GlTexture]

MOST_BOXES = 50
"""The most boxes that are kept."""
CANDIDATES = 128
"""The most anchors that suppression examines, the likeliest first: an object has about ten above the least score."""

# MediaPipe's tensors_to_detections_calculator: pixels of the model's input, all but the size relative to the anchor.
_FACES = f"""
vec4 decoded(vec4 values, int part, vec2 middle, vec2 size) {{
    values /= {float(FACE_SIDE)};
    if (part > 0) return values + middle.xyxy;
    return vec4(middle + values.xy - 0.5 * values.zw, middle + values.xy + 0.5 * values.zw);
}}
"""
# The Object Detection API's faster_rcnn_box_coder with the scales 10, 10, 5, 5; y before x. A centre is in tenths of
# the anchor's size, a size is 5 times the logarithm of its ratio to the anchor's.
_OBJECTS = """
vec4 decoded(vec4 values, int part, vec2 middle, vec2 size) {
    vec2 centre = middle + values.yx / 10.0 * size, reach = 0.5 * exp(values.wz / 5.0) * size;
    return vec4(centre - reach, centre + reach);
}
"""
_DECODERS = {"faces": _FACES, "objects": _OBJECTS}

# A column for each anchor. Row 0: the score of its best class and the number of that class. Row 1: its box (left, top,
# right, bottom). Further rows: its points, two in each.
_DECODE = """
layout(std430, binding = 0) readonly buffer scores { float score[]; };
layout(std430, binding = 1) readonly buffer boxes { vec4 box[]; };
layout(std430, binding = 2) readonly buffer anchors { vec4 anchor[]; };
void main() {
    int number = int(gl_FragCoord.x), part = int(gl_FragCoord.y) - 1;
    if (part >= 0) {
        color = decoded(box[number * PARTS + part], part, anchor[number].xy, anchor[number].zw);
        return;
    }
    color = vec4(score[number * CLASSES + FIRST], float(FIRST), 0.0, 0.0);
    for (int other = FIRST + 1; other < CLASSES; other++) {
        float value = score[number * CLASSES + other];
        if (value > color.x) color.xy = vec2(value, float(other));
    }
}
"""
# For each anchor whose score is at least ``least``, the number of better ones: no two have the same.
_RANK = """
uniform sampler2D found;
uniform float least;
void main() {
    int number = int(gl_FragCoord.x), rank = CANDIDATES;
    float score = texelFetch(found, ivec2(number, 0), 0).x;
    if (score >= least) {
        rank = 0;
        for (int other = 0; other < ANCHORS; other++) {
            float value = texelFetch(found, ivec2(other, 0), 0).x;
            if (value > score || (value == score && other < number)) rank++;
        }
    }
    color = vec4(rank);
}
"""
# The numbers of the likeliest anchors, the best first; -1 behind the last.
_SORT = """
uniform sampler2D ranks;
void main() {
    color = vec4(-1.0);
    for (int number = 0; number < ANCHORS; number++) {
        if (texelFetch(ranks, ivec2(number, 0), 0).x == floor(gl_FragCoord.x)) color = vec4(number);
    }
}
"""
# The columns of the anchors that are kept, the best first, with a 1 behind score and class; zeros behind the last. An
# anchor is kept if its box overlaps no kept box of its class by more than OVERLAP (intersection over union).
_KEEP = """
uniform sampler2D found, sorted;
bool suppresses(int other, int number) {
    if (texelFetch(found, ivec2(other, 0), 0).y != texelFetch(found, ivec2(number, 0), 0).y) return false;
    vec4 one = texelFetch(found, ivec2(other, 1), 0), two = texelFetch(found, ivec2(number, 1), 0);
    vec2 shared_sides = max(min(one.zw, two.zw) - max(one.xy, two.xy), 0.0);
    vec2 first = max(one.zw - one.xy, 0.0), second = max(two.zw - two.xy, 0.0);
    float area = shared_sides.x * shared_sides.y;
    return area > OVERLAP * (first.x * first.y + second.x * second.y - area);
}
void main() {
    int kept[BOXES], count = 0, column = int(gl_FragCoord.x);
    color = vec4(0.0);
    for (int candidate = 0; candidate < CANDIDATES; candidate++) {
        int number = int(texelFetch(sorted, ivec2(candidate, 0), 0).x), before = 0;
        if (number < 0) return;
        while (before < count && !suppresses(kept[before], number)) before++;
        if (before < count) continue;
        if (count == column) {
            color = texelFetch(found, ivec2(number, int(gl_FragCoord.y)), 0);
            if (gl_FragCoord.y < 1.0) color.z = 1.0;
            return;
        }
        kept[count++] = number;
    }
}
"""


@dataclass(frozen=True)
class Boxes:
    """The outputs of a detector, float32 in buffers, and their format.

    ``scores`` are (anchors, classes) and ``values`` (anchors, 4 or 16): a box and points. ``anchors`` are rows (centre
    x, centre y, width, height). ``first`` is the number of the first class that is not the background, ``overlap`` the
    largest overlap of two boxes of one class.
    """

    scores: fb.GlBuffer
    values: fb.GlBuffer
    anchors: Array
    classes: int
    parts: int
    """Number of values of an anchor, in fours."""
    first: int
    overlap: float
    coding: Literal["faces", "objects"]


def selector(boxes: Boxes) -> Select:
    """Make a function that selects boxes on the GPU.

    ``select(least)`` returns a texture (MOST_BOXES columns, 1 + parts rows) of the boxes whose score is ``least`` or
    more, after suppression, the best first; a score is as the model puts it out. Row 0 has score, class and 1, or 0
    behind the last box; row 1 the box; further rows two points each.
    """
    count = len(boxes.anchors)
    constants = {
        "ANCHORS": count, "PARTS": boxes.parts, "CLASSES": boxes.classes, "FIRST": boxes.first,
        "CANDIDATES": CANDIDATES, "BOXES": MOST_BOXES,
    }  # fmt: skip
    head = "".join(f"const int {name} = {value};\n" for name, value in constants.items())
    head += f"const float OVERLAP = {boxes.overlap};\n"
    texts = (_DECODERS[boxes.coding] + _DECODE, _RANK, _SORT, _KEEP)
    decode, rank, sort, keep = (fb.FragmentProgram(head + text) for text in texts)
    anchors = boxes.anchors.astype(np.float32)
    buffers = {
        "scores": boxes.scores, "boxes": boxes.values,
        "anchors": fb.GlBuffer(anchors.nbytes, anchors, label="the anchors"),
    }  # fmt: skip
    found = fb.GlTexture(count, 1 + boxes.parts, "rgba32f", label="every anchor's box")
    ranks = fb.GlTexture(count, 1, "r32f", label="the anchors' ranks")
    likeliest = fb.GlTexture(CANDIDATES, 1, "r32f", label="the likeliest anchors")
    kept = fb.GlTexture(MOST_BOXES, 1 + boxes.parts, "rgba32f", label="the boxes to draw")

    def select(least: float) -> fb.GlTexture:
        decode.draw(found, buffers=buffers)
        rank.draw(ranks, {"found": found}, uniforms={"least": least})
        sort.draw(likeliest, {"ranks": ranks})
        keep.draw(kept, {"found": found, "sorted": likeliest})
        return kept

    return select
