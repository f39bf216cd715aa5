"""Blurs the faces of each frame, so that nobody is recognized.

A detector of objects as --model blurs whatever it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..task import Drawing, Finder, Model, Run, Scene, VideoTask, draw_found
from ..vision.non_max_suppression import overlaps
from . import detect

LEAST_SCORE = 0.5
"""Least score of a face, below that of the task "detect": a wrong blur does less harm than a face that is seen."""
GROWN = 1.5
"""Sides of what is blurred, as a part of the box's, which ends at eyebrows and chin."""
HELD_FRAMES = 15
"""Frames for which a face that is no longer found stays blurred where it was: detectors miss single frames."""
SAME_OVERLAP = 0.1
"""Least overlap (intersection over union) at which a face that is found takes the place of one that is held."""
_CELLS = 5.0
"""Cells along each side of a face: few enough that its features are gone."""
# The mean colours of a coarse grid of cells over the face, mixed between the middles of four cells.
_BLUR = f"""
uniform sampler2D frame;
uniform vec4 part;
vec3 mean_of(vec2 cell) {{
    vec3 sum = vec3(0.0);
    for (int y = 0; y < 4; y++) {{
        for (int x = 0; x < 4; x++) {{
            vec2 at = (cell + (vec2(x, y) + 0.5) / 4.0) / {_CELLS};
            sum += texture(frame, part.xy + at * part.zw).rgb;
        }}
    }}
    return sum / 16.0;
}}
void main() {{
    vec2 around = 2.0 * uv - 1.0;
    if (dot(around, around) > 1.0) discard;
    vec2 place = uv * {_CELLS} - 0.5, cell = floor(place), share = place - cell;
    vec3 above = mix(mean_of(cell), mean_of(cell + vec2(1.0, 0.0)), share.x);
    vec3 below = mix(mean_of(cell + vec2(0.0, 1.0)), mean_of(cell + vec2(1.0, 1.0)), share.x);
    color = vec4(mix(above, below, share.y), 1.0);
}}
"""


class _Held(NamedTuple):
    """A face: its box (left, top, right, bottom) in pixels, and the frames for which it is blurred yet."""

    box: npt.NDArray[np.float32]
    frames: int


def finder(model: Model, size: tuple[int, int]) -> Finder:
    """Find faces, as the task "detect" does. Raises ModelError for a model that is no known detector."""
    return replace(detect.finder(model, size, LEAST_SCORE), mark=None)


def drawing(scene: Scene) -> Drawing:
    """Draw the frame with its faces blurred."""
    found, held = finder(scene.network, scene.picture.size), list[_Held]()
    program, (width, height) = fb.FragmentProgram(_BLUR), scene.picture.size

    def find(run: Run) -> list[dict[str, Any]]:
        rows = found.find(run)
        held[:] = _still_blurred([np.array(row["box"], np.float32) for row in rows], held)
        return rows

    def show(frame: fb.GlTexture, _: Sequence[fb.GlBuffer]) -> None:
        scene.picture.copy_from(frame)
        for face in held:
            x, y, across, down = _area(face.box)
            part = x / width, y / height, across / width, down / height
            program.draw(scene.picture, {"frame": frame}, uniforms={"part": part}, viewport=(x, y, across, down))

    return draw_found(scene, replace(found, find=find), show)


def _still_blurred(found: list[npt.NDArray[np.float32]], before: list[_Held]) -> list[_Held]:
    """The faces of this frame, and those of earlier ones that were not found again, for some frames."""
    boxes = np.stack(found) if found else np.zeros((0, 4), np.float32)
    lost = [
        _Held(face.box, face.frames - 1)
        for face in before
        if face.frames and not (overlaps(face.box, boxes) > SAME_OVERLAP).any()
    ]
    return [_Held(box, HELD_FRAMES) for box in found] + lost


def _area(box: npt.NDArray[np.float32]) -> tuple[int, int, int, int]:
    """The rectangle (x, y, width, height) that is blurred, in pixels: it holds the ellipse of the grown box."""
    middle, sides = (box[:2] + box[2:]) / 2, GROWN * (box[2:] - box[:2])
    (x, y), (right, bottom) = np.floor(middle - sides / 2), np.ceil(middle + sides / 2)
    return int(x), int(y), max(int(right - x), 1), max(int(bottom - y), 1)


TASK = VideoTask("face_detection_front", finder, drawing, is_painted=False, hides=True)
