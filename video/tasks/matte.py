"""Cuts people out: they are painted before a colour, a picture, their own background, blurred, or none (alpha)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..layouts import PictureShape
from ..sampling import Values
from ..task import Drawing, Finder, Fit, Mask, Match, Model, Run, Scene, VideoTask, maps_of, picture_of, sampling_of
from ..vision.effects import ALPHA_NAME, BLUR_NAME, is_color
from ..vision.masks import GlMask
from ..vision.masks_on_cpu import CpuMask
from ..vision.matting import GlForeground
from . import segment

USUAL = 0.0, 1.0
"""Matting models take pictures from 0 to 1."""


class Matting(NamedTuple):
    """The outputs of a matting model, by number, and their sizes: alpha, of one channel, and the colours of people."""

    alpha: int
    shape: PictureShape
    foreground: int
    foreground_shape: PictureShape


def matting_of(model: Model) -> Matting | None:
    """The outputs of a model that gives alpha and foreground of its picture's size, as Robust Video Matting does.

    Its states are no outputs here (``feedback.py``). None for any other model.
    """
    picture, found = picture_of(model), dict[int, tuple[int, PictureShape]]()
    for number, shape in enumerate(maps_of(model)):
        if shape is not None and picture is not None and shape.size == picture.size:
            found[shape.channels] = number, shape
    if len(model.outputs) != 2 or set(found) != {1, 3} or picture is None or picture.channels != 3:
        return None
    return Matting(*found[1], *found[3])


def fits(model: Model) -> Fit | None:
    """Whether the model's one output has one channel, or its two outputs are alpha and foreground."""
    if (matting := matting_of(model)) is not None:
        size = f"{matting.shape.width} x {matting.shape.height}"
        return Fit(Match.OUTPUTS, f"its outputs are the foreground, of 3 channels, and alpha, of 1, of {size}")
    maps, picture = maps_of(model), picture_of(model)
    if picture is None or picture.channels == 4 or len(maps) != 1 or maps[0] is None or maps[0].channels != 1:
        return None
    if model.choices:  # classes, of segment
        return None
    return Fit(Match.SHAPES, f"its one output is a mask of {maps[0].width} x {maps[0].height}")


def finder(
    model: Model,
    size: tuple[int, int],
    background: str = "",
    mean: Values | None = None,
    std: Values | None = None,
) -> Finder:
    """Find people, and paint them before a colour. Another background needs the drawing.

    Nothing is painted with a matting model: its foreground is not read, and the drawing alone shows it.
    """
    color = background if is_color(background) else segment.BACKGROUND
    matting = matting_of(model)
    if matting is None:
        return segment.finder(model, size, "cutout", color, mean=mean, std=std)
    sampling, mask = sampling_of(model, mean, std, usual=USUAL), CpuMask(segment.PERSON, is_alpha=True)

    def find(run: Run) -> list[dict[str, Any]]:
        mask.smooth(matting.shape.from_tensor(run.outputs(sampling)[matting.alpha]))
        return segment.rows_of_people(mask.small)

    def colored(shown: tuple[int, int]) -> npt.NDArray[np.uint8]:
        grey = mask.enlarged(shown)
        return np.dstack([grey, grey, grey, np.full_like(grey, 255)])

    return Finder(find, mask=Mask(partial(mask.enlarged, size), partial(colored, size)), colored_mask=colored)


def drawing(scene: Scene, background: str = "", mean: Values | None = None, std: Values | None = None) -> Drawing:
    """Draw people before a colour (#rrggbb), a picture file, the frame's own background ("blur"), or none ("alpha").

    With a matting model, by its alpha and its foreground, which stay on the GPU.
    """
    effect, behind = "cutout", background or segment.BACKGROUND
    if background == BLUR_NAME:
        effect, behind = "blur", segment.BACKGROUND
    elif background == ALPHA_NAME:
        behind = None
    matting = matting_of(scene.network)
    if matting is None:
        return segment.drawing(scene, effect, behind, mean=mean, std=std)
    network, shape, size = scene.network, matting.shape, scene.picture.size
    sampling, (image,), tensors = sampling_of(network, mean, std, usual=USUAL), network.inputs, list(network.outputs)
    pixels = shape.width * shape.height
    alpha, foreground = fb.GlBuffer(4 * pixels, label="alpha"), fb.GlBuffer(12 * pixels, label="the foreground")
    network.bind(tensors[matting.alpha], alpha)
    network.bind(tensors[matting.foreground], foreground)
    people = GlMask(alpha, shape, size, person=segment.PERSON, is_alpha=True)
    colors = GlForeground(foreground, matting.foreground_shape, size)
    painting = segment.people_paintings(
        scene.picture, people, behind, lambda frame: colors.draw(frame, people.textures["small"])
    )[effect]

    def draw(frame: fb.GlTexture) -> None:
        network.bind_sampled(image, frame, sampling)
        network.run()
        painting.draw(frame)

    return Drawing(draw, results=painting.rows, mask=painting.mask)


TASK = VideoTask(
    "selfie_segmentation", finder, drawing, options=("background", "mean", "std"), saves=segment.TASK.saves,
    paints=lambda model: matting_of(model) is None, fits=fits,
)  # fmt: skip
