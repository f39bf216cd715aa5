"""Interface between a demo and the runner: ``prepare(scene)`` makes a Task once; the runner calls it for each frame.

A demo is a file in demos/ with

* ``prepare(scene: Scene) -> Task``: makes its textures, buffers and shaders, binds the model's outputs to them
  (``scene.network.bind``), and returns a Task;
* ``command``: a function decorated with ``options.demo(model)``, which calls ``run.main(prepare, options)``. The
  command line finds it by this name.

``task.draw(frame)`` binds the frame, runs the model and draws ``scene.picture``, with GPU work only: a copy between
host and GPU is an error while frames are drawn, except for the outputs that are read as ``report.DETECTIONS``. The
modes with copies use the same draw (see Network).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import framebind as fb

from .network import Network, Sampling


@dataclass(frozen=True)
class Scene:
    """A demo's environment: the model that --model names, the picture to draw, and a loader of further models."""

    network: Network
    picture: fb.GlTexture
    """An RGBA8 texture of the size of the source's frames."""
    load: Callable[[str], Network]


@dataclass(frozen=True)
class Variant:
    """A variant of the task, for one of the keys 1 to 9. ``choose`` may copy to the GPU: it runs between two frames."""

    name: str
    choose: Callable[[], None]


@dataclass(frozen=True)
class Mask:
    """The mask of the last frame, at the picture's size. Each form is computed when it is called."""

    values: Callable[[], npt.NDArray[np.uint8]]
    """(height, width): the number of the class, or the covered part of a pixel, 255 for all of it."""
    show: Callable[[], fb.GlTexture | npt.NDArray[np.uint8]]
    """A picture to look at: an RGBA8 texture, or (height, width, RGBA)."""
    classes: Sequence[str] = ()
    """Names of the classes; empty if the values are covered parts."""


@dataclass(frozen=True)
class Task:
    """``draw`` takes a frame (RGBA8, row 0 on top) and draws the picture. The first of ``variants`` is the default."""

    draw: Callable[[fb.GlTexture], None]
    variants: Sequence[Variant] = ()
    overlay: Callable[[fb.Marks], None] | None = None
    """Adds text, boxes and points, in pixels of the picture, after each draw; the runner draws them over it."""
    results: Callable[[], list[dict[str, Any]]] | None = None
    """Gives the results of the last draw, as values for JSON, in pixels of the picture; None if the picture is the only
    result.
    """
    mask: Callable[[], Mask] | None = None
    """Makes the mask, once; None if the task has none."""


class Model(Protocol):
    """A model's file, and the shapes and names of its inputs and outputs by tensor index. A Network is one."""

    @property
    def path(self) -> Path: ...
    @property
    def inputs(self) -> Mapping[int, tuple[int, ...]]: ...
    @property
    def outputs(self) -> Mapping[int, tuple[int, ...]]: ...
    @property
    def names(self) -> Mapping[int, str]: ...


Run = Callable[[Sampling], Sequence[npt.NDArray[np.float32]]]
"""Runs a model on the frame, sampled so. Returns its outputs in the order of ``Model.outputs``."""


@dataclass(frozen=True)
class Finder:
    """A task by NumPy, without a picture: a demo's ``finder(model, size)`` makes one for a video of frames of ``size``.

    It remembers the results of the previous frame.
    """

    find: Callable[[Run], list[dict[str, Any]]]
    """Gives the same results as ``Task.results``, for the next frame."""
    mark: Callable[[fb.Marks], None] | None = None
    """Adds marks to the last frame, as ``Task.overlay``; None if the task has none."""
    mask: Mask | None = None
    """Gives the mask of the last frame, at the picture's size; None if the task has none."""
    colored_mask: Callable[[tuple[int, int]], npt.NDArray[np.uint8]] | None = None
    """Gives the picture ``Mask.show`` of the mask, at any size (width, height); None if the task has none."""
    paint: Callable[[], Callable[[fb.Planes], None]] | None = None
    """Gives a function that paints the last frame below the marks, on any thread; None if the task only marks it."""
