"""Tasks for frames of video: what a file of tasks/ declares, and what it makes for one video.

A task is one file ``video/tasks/NAME.py`` with an object ``TASK``, found by that name: ``framebind demo NAME``,
``process --task NAME`` and ``watch --task NAME`` work without another file. A model alone names its task: each task
says which models it takes (``VideoTask.fits``), and the one that knows the model best is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

import framebind as fb

from .assets import PHOTOGRAPH
from .layouts import Layout, PictureShape, map_shape, picture_shape
from .model_metadata import ModelMetadata
from .network import Mode, Network
from .sampling import Crop, Sampling, Values


class Model(Protocol):
    """A model's file, and the shapes, names and layouts of its inputs and outputs by tensor index.

    A Network is one, and a ModelFile. Of a ``.task`` bundle it is the first network; ``bundle`` has the files by name.
    """

    @property
    def path(self) -> Path: ...
    @property
    def inputs(self) -> Mapping[int, tuple[int, ...]]: ...
    @property
    def outputs(self) -> Mapping[int, tuple[int, ...]]: ...
    @property
    def names(self) -> Mapping[int, str]: ...
    @property
    def layouts(self) -> Mapping[int, Layout]: ...
    @property
    def choices(self) -> Mapping[int, int]:
        """The outputs that have the number of a class, and the numbers of classes: see ``choices_of``."""
        ...

    @property
    def takes_bytes(self) -> bool:
        """Whether an input is of uint8 without a scale: a picture's bytes."""
        ...

    @property
    def metadata(self) -> ModelMetadata: ...
    @property
    def bundle(self) -> Mapping[str, bytes]: ...


def picture_of(model: Model) -> PictureShape | None:
    """The sizes of the one picture of 1, 3 or 4 channels that a model takes; None if it takes anything else."""
    if len(model.inputs) != 1:
        return None
    ((tensor, shape),) = model.inputs.items()
    found = picture_shape(shape, model.layouts[tensor])
    return found if found is not None and found.channels in (1, 3, 4) else None


def maps_of(model: Model) -> list[PictureShape | None]:
    """The sizes of each output that is a map with the proportions of the model's one picture; None for the others."""
    picture = picture_of(model)
    return [
        None if picture is None else map_shape(shape, model.layouts[tensor], picture)
        for tensor, shape in model.outputs.items()
    ]


def sampling_of(
    model: Model, mean: Values | None, std: Values | None, *, usual: tuple[Values, Values], crop: Crop | None = None
) -> Sampling:
    """The sampling of an upright picture, normalized as the user says, or else the model's file.

    ``usual`` are the mean and the standard deviation of models of this kind, if neither says anything. A model that
    takes bytes normalizes them itself.
    """
    if mean is None and std is None and not model.takes_bytes:
        known = model.metadata
        mean, std = (known.mean, known.std) if known.std else usual
    return Sampling(0.0 if mean is None else mean, 1.0 if std is None else std, crop, 0.0)


class Run(NamedTuple):
    """A frame, and the model to run on it."""

    frame: Any
    """The frame where it is: a texture of OpenGL (RGBA8, row 0 on top), or a ``fb.Frame`` with its planes."""
    outputs: Callable[[Sampling], Sequence[npt.NDArray[np.float32]]]
    """Runs the model on the frame, sampled so, and returns its outputs in the order of ``Model.outputs``.

    A model of two pictures gets the frame before in its first input, and the new one in its second; a first frame,
    twice. The arrays are valid until the next run.
    """
    mode: Mode = "gpu"


@dataclass(frozen=True)
class Variant:
    """A variant of the task, for one of the keys 1 to 9. ``choose`` may copy to the GPU: it runs between two frames."""

    name: str
    choose: Callable[[], None]


@dataclass(frozen=True)
class Mask:
    """The mask of the last frame, at the picture's size. Each form is computed when it is called."""

    values: Callable[[], npt.NDArray[np.uint8] | npt.NDArray[np.uint16]]
    """(height, width): the number of the class, or the covered part of a pixel, 255 for all of it; or any other value
    of a pixel in 16 bits.
    """
    show: Callable[[], fb.GlTexture | npt.NDArray[np.uint8]]
    """A picture to look at: an RGBA8 texture, or (height, width, RGBA)."""
    classes: Sequence[str] = ()
    """Names of the classes; empty if the values are covered parts."""


AddMasks = Callable[[list[dict[str, Any]]], None]
"""Adds a mask to each result of a frame, as COCO's run-length encoding."""


@dataclass(frozen=True)
class Finder:
    """A task's arithmetic for one video: NumPy finds the results of each frame in the model's outputs.

    It remembers the results of the previous frame.
    """

    find: Callable[[Run], list[dict[str, Any]]]
    """Gives the results of the next frame, as values for JSON, in pixels of the picture."""
    mark: Callable[[fb.video.Marks], None] | None = None
    """Adds text, boxes and points to the last frame, in pixels of the picture; None if the task has none."""
    mask: Mask | None = None
    """Gives the mask of the last frame, at the picture's size; None if the task has none."""
    colored_mask: Callable[[tuple[int, int]], npt.NDArray[np.uint8]] | None = None
    """Gives the picture ``Mask.show`` of the mask, at any size (width, height); None if the task has none."""
    paint: Callable[[], Callable[[fb.video.Planes], None]] | None = None
    """Gives a function that paints the last frame below the marks, on any thread; None if the task only marks it."""
    variants: Sequence[Variant] = ()
    """Variants of what is found; the first is the default."""
    add_masks: AddMasks | None = None
    """Adds the masks of objects to the last frame's results; None if objects have none of their own.

    It is called only if somebody takes the results, because what masks are made of is read from the GPU then.
    """

    def find_in_full(self, run: Run) -> list[dict[str, Any]]:
        """The results of the next frame, with the masks of objects."""
        found = self.find(run)
        if self.add_masks is not None:
            self.add_masks(found)
        return found


@dataclass(frozen=True)
class Scene:
    """The surroundings of a drawing: the model that --model names, the picture to draw, a loader of further models."""

    network: Network
    picture: fb.GlTexture
    """An RGBA8 texture of the size of the source's frames, times ``enlarged``."""
    load: Callable[[str], Network]
    enlarged: int = 1


Show = Callable[[fb.GlTexture, Sequence[fb.GlBuffer]], None]
"""Draws ``Scene.picture`` from a frame and the buffers of the outputs that the GPU computed, in their order."""


@dataclass(frozen=True)
class Drawing:
    """A task's picture of one video, drawn by OpenGL. ``draw`` takes a frame (RGBA8, row 0 on top).

    ``draw`` binds the frame, runs the model and draws ``Scene.picture``, with GPU work only: a copy between host and
    GPU is an error while frames are drawn, except for the outputs that are read as ``copies.DETECTIONS``. The player's
    modes with copies use the same draw (see Network).
    """

    draw: Callable[[fb.GlTexture], None]
    variants: Sequence[Variant] = ()
    """The first is the default."""
    mark: Callable[[fb.video.Marks], None] | None = None
    """Adds marks as ``Finder.mark`` after each draw; whoever shows the picture draws them over it."""
    results: Callable[[], list[dict[str, Any]]] | None = None
    """Gives the results of the last draw, as ``Finder.find``; None if the picture is the only result."""
    mask: Callable[[], Mask] | None = None
    """Makes the mask, once; None if the task has none."""
    add_masks: AddMasks | None = None
    """Adds the masks of objects to ``results``, as ``Finder.add_masks``."""

    def found(self, *, in_full: bool) -> list[dict[str, Any]]:
        """The results of the last draw; none if the picture is the only result. ``in_full``: with objects' masks."""
        found = [] if self.results is None else self.results()
        if in_full and self.add_masks is not None:
            self.add_masks(found)
        return found

    def draw_marks(self, picture: fb.GlTexture, marks: fb.video.Overlay) -> None:
        """Draw the marks of the last draw over its picture, if the task has some."""
        if self.mark is not None:
            self.mark(marks)
            marks.draw(picture)


def draw_found(scene: Scene, finder: Finder, show: Show | None = None) -> Drawing:
    """Make the picture of what a finder finds: its marks come over what ``show`` draws, or over the frame."""
    network, found = scene.network, list[dict[str, Any]]()
    buffers = list(network.bind_outputs().buffers.values()) if show is not None else []

    def draw(frame: fb.GlTexture) -> None:
        nonlocal found
        if show is None:
            scene.picture.copy_from(frame)
        found = finder.find(Run(frame, partial(network.run_on, frame), network.mode))
        if show is not None:
            show(frame, buffers)

    mask = finder.mask
    make = None if mask is None else lambda: mask
    return Drawing(draw, finder.variants, finder.mark, lambda: found, make, finder.add_masks)


class Match(IntEnum):
    """The degree to which a task knows a model. Of several tasks that take a model, the highest degree decides."""

    ANY = 0
    """The task knows nothing of the model."""
    SHAPES = 1
    """The model's inputs and outputs have shapes that are usual for the task."""
    OUTPUTS = 2
    """The model's outputs are, by shapes or names, those of a known kind that hardly another kind has."""
    METADATA = 3
    """The model's file names the task."""


class Fit(NamedTuple):
    """The degree to which a task knows a model, and the reason, which ends a sentence that begins with "because"."""

    match: Match
    because: str


@dataclass(frozen=True)
class VideoTask:
    """A task for videos and streams, without state. Its name is that of its file."""

    model: str
    """Name of the model that is used by default; "" if the user must name one."""
    finder: Callable[..., Finder] | None
    """Makes the arithmetic for one video: ``finder(model, size, **options)``, with the frames' size (width, height).

    None if the task has no results but its picture. Raises ModelError for a model of another task.
    """
    drawing: Callable[..., Drawing] | None = None
    """Makes the picture for one video: ``drawing(scene, **options)``. None: the frame with the finder's marks."""
    options: Sequence[str] = ()
    """Fields of ``Work`` that finder and drawing take."""
    saves: Sequence[str] = ("video", "jsonl", "parquet")
    """Kinds of files that can be saved; "masks" if the finder has masks. The first is the default."""
    masks: Sequence[str] = ("video", "png", "rle")
    """Forms of saved masks, fields of ``Work``: without "rle" if a mask is no region of a class."""
    has_memory: bool = True
    """True if a frame's results depend on earlier frames: a video of a task without memory may be divided."""
    has_pairs: bool = False
    """True if the model takes two pictures: the frame before and the new one."""
    is_painted: bool = True
    """True if ``mark`` and ``paint`` of the finder make the same picture as the drawing, on the decoder's frames."""
    paints: Callable[[Model], bool] | None = None
    """Says, if ``is_painted``, whether that holds for a model; None: for any."""
    hides: bool = False
    """True if the drawing hides parts of the frame, so that a frame itself, with marks, is never to be shown."""
    enlarges: Callable[[Network], int] | None = None
    """Gives the number of times that saved pictures are larger than the frames; None: they have the frames' size."""
    photograph: Path = PHOTOGRAPH
    """The photograph that moves in a demo without a source."""
    fits: Callable[[Model], Fit | None] | None = None
    """Says whether a model without a named task is for this one, from its file alone; None if it is not.

    Without this function only ``--task`` chooses the task.
    """

    def prepare(self, scene: Scene, **options: Any) -> Drawing:
        """Make the picture for one video on the GL context that is current. Raises ModelError as ``finder``."""
        if self.drawing is not None:
            return self.drawing(scene, **options)
        assert self.finder is not None, "a task has a finder or a drawing"
        return draw_found(scene, self.finder(scene.network, scene.picture.size, **options))
