"""Cuts people out: they are painted before a colour, a picture, or their own background, blurred."""

from __future__ import annotations

from ..task import Drawing, Finder, Model, Scene, VideoTask
from ..vision.effects import BLUR_NAME, is_color
from . import segment


def finder(model: Model, size: tuple[int, int], background: str = "") -> Finder:
    """Find people, and paint them before a colour. Another background needs the drawing."""
    color = background if is_color(background) else segment.BACKGROUND
    return segment.finder(model, size, "cutout", color)


def drawing(scene: Scene, background: str = "") -> Drawing:
    """Draw people before a colour (#rrggbb), a picture file, or the frame's own background ("blur")."""
    if background == BLUR_NAME:
        return segment.drawing(scene, "blur")
    return segment.drawing(scene, "cutout", background or segment.BACKGROUND)


TASK = VideoTask("selfie_segmentation", finder, drawing, options=("background",), saves=segment.TASK.saves)
