"""Colours objects, each with a mask of its own and a box (YOLO-seg, RF-DETR-seg)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..answers.prototypes import PrototypeSums
from ..head import in_pixels, sound
from ..heads import best_fit, decoder_of
from ..layouts import PictureShape
from ..sampling import Crop, Values
from ..task import Drawing, Finder, Fit, Mask, Model, Run, Scene, VideoTask, draw_found
from ..vision.instances import Instance, Part, classes_of, instances, part_of
from ..vision.labels import add_names, class_names
from ..vision.masks import OPACITY
from ..vision.palette import palette
from ..vision.run_lengths import encode_part
from . import detect


def fits(model: Model) -> Fit | None:
    """Whether a head knows the model's outputs."""
    return best_fit(model, "instances")


class Instances:
    """The objects of the last frame of one video, with their masks."""

    def __init__(
        self, model: Model, size: tuple[int, int], labels: Path | None, mean: Values | None, std: Values | None
    ) -> None:
        """Raise ModelError for a model whose outputs no head knows."""
        self._decoder, self._size = decoder_of(model, "instances"), size
        known, usual = model.metadata.classes, self._decoder.names
        self.names = class_names(labels, self._decoder.classes, known, usual)
        self.crop = self._decoder.crop(model, size)
        self._sampling = self._decoder.sampling(model, self.crop, mean, std)
        assert self._decoder.prototypes is not None, "heads of instances find masks"
        self.prototypes, self.takes_one = self._decoder.prototypes, self._decoder.takes_one
        """The number and sizes of the prototypes' output, and whether a mask is one of them."""
        self._sums = PrototypeSums(*self.prototypes)
        self.objects, self.parts = list[detect.Detection](), list[Part]()
        self.coefficients: npt.NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self._outputs: Sequence[npt.NDArray[np.float32]] = ()
        self._masks: list[Instance] | None = []

    def find(self, run: Run) -> list[dict[str, Any]]:
        """Find the objects of the next frame, as rows without masks."""
        self._outputs, self._masks = run.outputs(self._sampling), None
        found = sound(self._decoder.decode(self._outputs, self._decoder.least))
        assert found.coefficients is not None, "heads of instances find masks"
        self.coefficients = found.coefficients
        self.parts = [part_of(box, self._size) for box in in_pixels(found.boxes, self.crop)]
        self.objects = detect.match(detect.detections(found, self.crop), self.objects)
        add_names(self.names, self.numbers)
        return [detect.as_row(each, self.names) for each in self.objects]

    @property
    def masks(self) -> list[Instance]:
        """The masks of the objects. Their sums of prototypes are read from the GPU when they are first asked for."""
        if self._masks is None:
            self._masks = instances(self._outputs, self.coefficients, self._sums, self.parts, self.crop)
        return self._masks

    def add_masks(self, rows: list[dict[str, Any]]) -> None:
        """Add the objects' masks to the rows of ``find``."""
        for row, (part, mask) in zip(rows, self.masks, strict=True):
            row["mask"] = encode_part(mask, (part.left, part.top), self._size)

    @property
    def numbers(self) -> list[int]:
        """The classes of the objects."""
        return [each.number for each in self.objects]

    def mark(self, marks: fb.video.Marks) -> None:
        """Draw the boxes of the objects."""
        detect.draw_boxes(marks, self.objects, self.names, self._size)

    def classes(self) -> npt.NDArray[np.uint8]:
        """The classes (height, width) of the frame's pixels: 0 is nothing, 1 class 0."""
        return classes_of(self.masks, self.numbers, self._size)

    def colored(self, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
        """The classes in colour, RGBA of (height, width, 4), at ``size``."""
        rows, columns = (np.arange(n) * whole // n for n, whole in zip(size[::-1], self._size[::-1], strict=True))
        colors = np.array([(0.0, 0.0, 0.0), *palette(255)])
        rgba = np.concatenate([(255 * colors).round(), np.full((256, 1), 255)], 1).astype(np.uint8)
        return rgba[self.classes()[rows[:, None], columns]]

    def paint(self) -> Callable[[fb.video.Planes], None]:
        """Give the function that colours the objects of this frame."""
        return partial(_paint, self.masks, self.numbers)


def finder(
    model: Model,
    size: tuple[int, int],
    labels: Path | None = None,
    mean: Values | None = None,
    std: Values | None = None,
) -> Finder:
    """Find objects and their masks, and smooth their boxes. Raises ModelError for a model that no head knows."""
    return _finder(Instances(model, size, labels, mean, std), size)


def _finder(found: Instances, size: tuple[int, int]) -> Finder:
    mask = Mask(found.classes, partial(found.colored, size), ("nothing", *found.names))
    return Finder(found.find, found.mark, mask, found.colored, found.paint, add_masks=found.add_masks)


def _paint(masks: list[Instance], numbers: list[int], planes: fb.video.Planes) -> None:
    """Mix the colour of its class into each object; of those that overlap, the first one is seen."""
    colors, taken = palette(max([0, *numbers]) + 1), np.zeros(planes.planes[0].shape, bool)
    for (part, mask), number in zip(masks, numbers, strict=True):
        coverage = np.zeros(taken.shape, np.uint8)
        coverage[part.slices] = np.where(mask & ~taken[part.slices], round(255 * OPACITY), 0)
        taken[part.slices] |= mask
        planes.cover(coverage, colors[number])


# The picture by OpenGL ------------------------------------------------------------------------------------------------

_DRAW = """
uniform sampler2D frame;
uniform vec4 cells, place;
uniform vec3 tint;
layout(std430, binding = 0) readonly buffer prototypes { float value[]; };
float at(ivec2 cell) {
    cell = clamp(cell, ivec2(0), SIZE - 1);
    int first = (cell.y * SIZE.x + cell.x) * CELL;
    float sum = 0.0;
    SUM
    return sum;
}
void main() {
    vec2 here = cells.xy + uv * cells.zw;
    ivec2 cell = ivec2(floor(here));
    vec2 share = here - floor(here);
    float above = mix(at(cell), at(cell + ivec2(1, 0)), share.x);
    float below = mix(at(cell + ivec2(0, 1)), at(cell + ivec2(1, 1)), share.x);
    if (mix(above, below, share.y) <= 0.0) discard;
    color = vec4(mix(texture(frame, place.xy + uv * place.zw).rgb, tint, OPACITY), 1.0);
}
"""
"""Colours one object. Its coefficients are uniforms, because no buffer is written between frames."""


def drawing(scene: Scene, labels: Path | None = None, mean: Values | None = None, std: Values | None = None) -> Drawing:
    """Draw the objects' masks from the prototypes, which stay on the GPU too."""
    size, network = scene.picture.size, scene.network
    found = Instances(network, size, labels, mean, std)
    output, shape = found.prototypes
    tensor = list(network.outputs)[output]
    if tensor in network.computed_on_cpu():
        raise fb.ModelError(
            f"{network.path.name}: its prototypes '{network.names[tensor]}' are computed on the CPU, so that no mask "
            "can be drawn from them on the GPU: save rows (--save jsonl)"
        )
    program = fb.FragmentProgram(_source(shape, takes_one=found.takes_one))
    buffer = [each for each in network.outputs if each not in network.computed_on_cpu()].index(tensor)

    def show(frame: fb.GlTexture, buffers: Sequence[fb.GlBuffer]) -> None:
        scene.picture.copy_from(frame)
        colors = palette(max([0, *found.numbers]) + 1)
        # The first object is drawn last: of those that overlap it is seen.
        for row, part, number in [*zip(found.coefficients, found.parts, found.numbers, strict=True)][::-1]:
            if part.right > part.left and part.bottom > part.top:
                uniforms = _uniforms(part, size, found.crop, shape)
                uniforms |= _weights(row, takes_one=found.takes_one) | {"tint": colors[number]}
                viewport = part.left, part.top, part.right - part.left, part.bottom - part.top
                program.draw(scene.picture, {"frame": frame}, {"prototypes": buffers[buffer]}, uniforms, viewport)

    return draw_found(scene, _finder(found, size), show)


def _source(shape: PictureShape, *, takes_one: bool) -> str:
    """The program for prototypes of this shape: a sum of as many products, without a loop, or one of them."""
    pixels = shape.height * shape.width
    cell, channel = (1, pixels) if shape.layout == "nchw" else (shape.channels, 1)
    weights = [f"uniform vec4 w{number};\n" for number in range(1 if takes_one else -(-shape.channels // 4))]
    sums = (
        [f"sum = value[first + int(w0.x + 0.5) * {channel}];"]
        if takes_one
        else [f"sum += value[first + {n * channel}] * w{n // 4}[{n % 4}];" for n in range(shape.channels)]
    )
    sizes = f"#define SIZE ivec2({shape.width}, {shape.height})\n#define CELL {cell}\n#define OPACITY {OPACITY}\n"
    return sizes + "".join(weights) + _DRAW.replace("SUM", "\n    ".join(sums))


def _weights(coefficients: npt.NDArray[Any], *, takes_one: bool) -> dict[str, tuple[float, ...]]:
    """The coefficients of an object's mask in vectors of four, or the number of the one that is 1."""
    weights = np.zeros(4 if takes_one else -(-len(coefficients) // 4) * 4)
    weights[: 1 if takes_one else len(coefficients)] = coefficients.argmax() if takes_one else coefficients
    return {f"w{number}": tuple(map(float, four)) for number, four in enumerate(weights.reshape(-1, 4))}


def _uniforms(part: Part, size: tuple[int, int], crop: Crop, shape: PictureShape) -> dict[str, tuple[float, ...]]:
    """The places of a part of the frame in the prototypes and in the frame."""
    wide, tall = part.right - part.left, part.bottom - part.top
    across, down = shape.width / crop[2], shape.height / crop[3]
    cells = (part.left - crop[0]) * across - 0.5, (part.top - crop[1]) * down - 0.5, wide * across, tall * down
    place = part.left / size[0], part.top / size[1], wide / size[0], tall / size[1]
    return {"cells": cells, "place": place}


TASK = VideoTask(
    "", finder, drawing, options=("labels", "mean", "std"), saves=("video", "masks", "jsonl", "parquet"), fits=fits
)
