"""MediaPipe's tasks on the frames of a video, which stay on the GPU: only rows of what is found are read."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

import framebind as fb

from ..basic_types import Array
from ..copying_mode import COPYING
from ..network import Mode, Network
from ..task import Fit, Match, Model, Run
from .calculators.image_to_tensor import WHOLE
from .core.gpu_picture import gpu_picture
from .core.gpu_tracker import Found, GpuTracker
from .core.options import BaseOptions

Things = TypeVar("Things")
Seen = TypeVar("Seen", covariant=True)

MILLISECONDS = 1000 / 30
"""Assumed time per frame, as MediaPipe's solutions assume it."""
_CPU, _GPU = BaseOptions.Delegate.CPU, BaseOptions.Delegate.GPU
_DELEGATES: dict[Mode, BaseOptions.Delegate] = {"gpu": _CPU, "cpu": _CPU, "copying": _GPU}
"""The device of networks that take arrays, by the mode; in "gpu" only those that see no pictures do."""


class Pipeline(Protocol[Seen]):
    """The networks and calculators of a task, such as ``FacePipeline``."""

    @property
    def on_gpu(self) -> GpuTracker[Any]: ...
    def seen(self, found: Found, /) -> Seen:
        """The things in a picture on the GPU."""
        ...

    def find(self, pixels: Array, rectangle: Array, milliseconds: float | None) -> Seen:
        """The things in the next picture (height, width, 3)."""
        ...


class FrameTask(Generic[Things]):
    """A task on one frame of a video after the other: a call gives the things in the next frame.

    Frames stay on the GPU, and only the rows of things are read. In the network's modes with copies the task gets the
    frame's pixels, as a program without framebind gives them to it.
    """

    def __init__(self, content: bytes, make: Callable[[BaseOptions], Pipeline[Things]]) -> None:
        """``content`` is a bundle's, of which ``make`` makes the pipeline. Raises ModelError as it does."""
        self._content, self._make, self._milliseconds = content, make, 0.0
        self._pipelines = dict[Mode, Pipeline[Things]]()
        self._on_gpu = self._opened("gpu")

    def begin(self, options: fb.GpuDelegateOptions) -> None:
        """Begin a video: forget what was in earlier frames. ``options`` are the delegate's."""
        self._on_gpu.on_gpu.options = options
        self._milliseconds = 0.0
        self._pipelines = {"gpu": self._on_gpu}
        self._on_gpu.on_gpu.forget()

    def __call__(self, run: Run) -> Things:
        self._milliseconds += MILLISECONDS
        if run.mode == "gpu":
            picture, tracker = gpu_picture(run.frame), self._on_gpu.on_gpu
            number = tracker.submit(picture, self._milliseconds)
            return self._on_gpu.seen(Found(tracker.take(number), picture.size, ()))
        if run.mode not in self._pipelines:
            self._pipelines[run.mode] = self._opened(run.mode)
        with fb.transfer_guard("allow"):
            pixels = np.ascontiguousarray(run.frame.read(reason=COPYING)[..., :3])
            return self._pipelines[run.mode].find(pixels, WHOLE, self._milliseconds)

    def _opened(self, mode: Mode) -> Pipeline[Things]:
        return self._make(BaseOptions(model_asset_buffer=self._content, delegate=_DELEGATES[mode]))

    def close(self) -> None:
        """Free all memory on the GPU."""
        self._on_gpu.on_gpu.close()


def follow(model: Model, name: Hashable, make: Callable[[BaseOptions], Pipeline[Things]]) -> Callable[[Run], Things]:
    """A function that gives the things in one frame of a video after the other: see FrameTask.

    What one video compiled is used for the next one with the same network and ``name``.
    """

    def open_task() -> FrameTask[Things]:
        return FrameTask(model.path.read_bytes(), make)

    if not isinstance(model, Network):
        return open_task()
    _check_backend(model)

    def find(run: Run) -> Things:
        model.mark("inference")
        things = task(run)
        model.mark("draw")
        return things

    task = model.keep(find, name, open_task)
    task.begin(model.options)
    return find


def _check_backend(network: Network) -> None:
    """Raise BindingError if another API than that of the frames is to run the networks."""
    if network.options.backend not in ("auto", network.api.name):
        raise fb.BindingError(
            f"the networks of {network.path.name} run where the frames are, and here these are {network.api.objects}: "
            f"take the backend {network.api.short} or auto; cuda is for rows of videos, without a painted one"
        )


def bundle_fit(model: Model, *names: str, without: str = "") -> Fit | None:
    """Whether a model is a bundle with files of these names, and without another one."""
    if without in model.bundle or not all(name in model.bundle for name in names):
        return None
    return Fit(Match.METADATA, f"its bundle has {names[0]}")


def in_pixels(landmarks: Array, size: tuple[int, int]) -> Array:
    """Normalized landmarks (n, 2 or more) as x and y in pixels of a picture of ``size``."""
    return landmarks[:, :2] * np.array(size, np.float32)


def point_fields(landmarks: Array, size: tuple[int, int]) -> dict[str, Any]:
    """The fields of a row for landmarks (n, 3, or 4 and more with visibility): places and depths in pixels."""
    depths = landmarks[:, 2].astype(float) * size[0]
    fields = {"points": in_pixels(landmarks, size).astype(float).round(2).tolist(), "depths": depths.round(2).tolist()}
    if landmarks.shape[1] > 3:
        fields["point_scores"] = landmarks[:, 3].astype(float).round(4).tolist()
    return fields


def world_points(landmarks: Array) -> list[list[float]]:
    """Landmarks (n, 3 or more) in metres, as values for JSON."""
    return landmarks[:, :3].astype(float).round(4).tolist()
