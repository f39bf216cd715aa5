"""Cuts people out: they are painted before a colour, a picture, their own background, blurred, or none (alpha)."""

from __future__ import annotations

from ..network import Values
from ..task import Drawing, Finder, Fit, Match, Model, Scene, VideoTask, maps_of, picture_of
from ..vision.effects import ALPHA_NAME, BLUR_NAME, is_color
from . import segment


def fits(model: Model) -> Fit | None:
    """Whether the model's one output has one channel."""
    maps, picture = maps_of(model), picture_of(model)
    if picture is None or picture.channels == 4 or len(maps) != 1 or maps[0] is None or maps[0].channels != 1:
        return None
    return Fit(Match.SHAPES, f"its one output is a mask of {maps[0].width} x {maps[0].height}")


def finder(
    model: Model,
    size: tuple[int, int],
    background: str = "",
    mean: Values | None = None,
    std: Values | None = None,
) -> Finder:
    """Find people, and paint them before a colour. Another background needs the drawing."""
    color = background if is_color(background) else segment.BACKGROUND
    return segment.finder(model, size, "cutout", color, mean=mean, std=std)


def drawing(scene: Scene, background: str = "", mean: Values | None = None, std: Values | None = None) -> Drawing:
    """Draw people before a colour (#rrggbb), a picture file, the frame's own background ("blur"), or none ("alpha")."""
    if background == BLUR_NAME:
        return segment.drawing(scene, "blur", mean=mean, std=std)
    if background == ALPHA_NAME:
        return segment.drawing(scene, "cutout", None, mean=mean, std=std)
    return segment.drawing(scene, "cutout", background or segment.BACKGROUND, mean=mean, std=std)


TASK = VideoTask(
    "selfie_segmentation", finder, drawing, options=("background", "mean", "std"), saves=segment.TASK.saves, fits=fits
)
