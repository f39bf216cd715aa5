"""The three modes of running a task: pictures one by one, the frames of a video, and a live stream."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from ...basic_types import Array
from ..calculators.image_to_tensor import WHOLE
from .errors import TaskError
from .gpu_network import WholePictures
from .gpu_picture import GpuPicture, gpu_picture
from .gpu_tracker import GpuTracker
from .image import Image, rgb_pixels
from .options import BaseOptions, ImageProcessingOptions, VisionTaskRunningMode, rectangle_of

if TYPE_CHECKING:
    from typing_extensions import Self

Result = TypeVar("Result")
Options = TypeVar("Options")

_WORDS = {
    VisionTaskRunningMode.IMAGE: "image",
    VisionTaskRunningMode.VIDEO: "video",
    VisionTaskRunningMode.LIVE_STREAM: "live stream",
}
MOST_WAITING = 1
"""Frames of a live stream that wait while one runs: a newer one takes the place of an older one."""

Live = Callable[[Any, Any, int], None]
Picture = Image | Any
"""An Image, or a picture in the GPU's memory: see ``gpu_picture``."""


class Pipeline(Protocol):
    """The networks and calculators of a task."""

    def process(self, pixels: Any, rectangle: Array, milliseconds: int | None) -> Any:
        """The result for a picture (height, width, 3) and the rectangle (5) of it to look at.

        ``milliseconds`` is None for single pictures; for others it is later than at the last call.
        """
        ...


@runtime_checkable
class OnGpu(Protocol):
    """A pipeline that takes pictures in the GPU's memory too."""

    on_gpu: GpuTracker[Any] | WholePictures[Any]
    """The task's networks on the GPU."""


class _Begun(NamedTuple):
    """A frame of a live stream that the GPU has, and whose result nobody has got yet."""

    finish: Callable[[], Any]
    image: Any
    milliseconds: int


class VisionTask(Generic[Options, Result]):
    """A task in one of the three modes; the base of all tasks.

    In the live-stream mode pipeline and callback run on one thread of the task's own. Pictures in the GPU's memory stay
    on the caller's thread, because there alone the objects of their context can be used: a frame is submitted, and the
    result of the one before goes to the callback.
    """

    options_type: ClassVar[type[Any]]
    """The class of the task's options."""
    pipeline_type: ClassVar[Callable[[Any], Pipeline]]
    """The class of the task's pipeline, which is made of the options."""
    takes_gpu_pictures: ClassVar[bool] = False
    """True if a picture may be in the GPU's memory."""
    takes_region: ClassVar[bool] = False
    """True if ``ImageProcessingOptions.region_of_interest`` is taken."""

    def __init__(self, options: Any, callback: Live | None) -> None:
        self._mode: VisionTaskRunningMode = options.running_mode
        live = self._mode is VisionTaskRunningMode.LIVE_STREAM
        if live and callback is None:
            raise TaskError("The vision task is in live stream mode, a user-defined result callback must be provided.")
        if callback is not None and not live:
            raise TaskError(
                "The vision task is in image or video mode, a user-defined result callback should not be provided."
            )
        self._callback = callback
        self._pipeline: Any = None
        self._last = -1
        self._closed = False
        self._lock = threading.Lock()
        self._waiting: list[tuple[Image, Array, int]] = []
        self._begun: _Begun | None = None
        self._worker = ThreadPoolExecutor(1, "framebind-live") if live else None
        try:  # objects of the GPU belong to the thread that makes them
            make = type(self).pipeline_type
            self._pipeline = self._worker.submit(make, options).result() if self._worker else make(options)
        except BaseException:
            self.close()
            raise

    @classmethod
    def create_from_model_path(cls, model_path: str) -> Self:
        """A task of this model with default options, for single pictures."""
        return cls.create_from_options(cls.options_type(base_options=BaseOptions(model_asset_path=model_path)))

    @classmethod
    def create_from_options(cls, options: Options) -> Self:
        """A task with these options.

        Raises
        ------
        ValueError
            If an option is wrong, or if the file is no model of this task.
        FileNotFoundError
            If there is no file at ``base_options.model_asset_path``.
        """
        return cls(options, getattr(options, "result_callback", None))

    def _run_image(self, image: Picture, options: ImageProcessingOptions | None) -> Any:
        self._check_mode(VisionTaskRunningMode.IMAGE)
        return self._run(*self._looked_at(image, options), None)

    def _run_video(self, image: Picture, milliseconds: int, options: ImageProcessingOptions | None) -> Any:
        self._check_mode(VisionTaskRunningMode.VIDEO)
        pixels, rectangle = self._looked_at(image, options)
        self._check_time(milliseconds)
        return self._run(pixels, rectangle, milliseconds)

    def _run(self, pixels: Any, rectangle: Array, milliseconds: int | None) -> Any:
        if isinstance(pixels, GpuPicture):
            return self._pipeline.on_gpu.begin(pixels, milliseconds or 0)()
        return self._pipeline.process(pixels, rectangle, milliseconds)

    def _run_live(self, image: Picture, milliseconds: int, options: ImageProcessingOptions | None) -> None:
        self._check_mode(VisionTaskRunningMode.LIVE_STREAM)
        pixels, rectangle = self._looked_at(image, options)
        self._check_time(milliseconds)
        if isinstance(pixels, GpuPicture):
            begun = _Begun(self._pipeline.on_gpu.begin(pixels, milliseconds), image, milliseconds)
            before, self._begun = self._begun, begun
            self._finish(before)
            return
        assert self._worker is not None
        with self._lock:
            self._waiting.append((image, rectangle, milliseconds))
            late = len(self._waiting) > MOST_WAITING
            if late:
                self._waiting.pop(0)
        if not late:
            self._worker.submit(self._process_next)

    def _process_next(self) -> None:
        with self._lock:
            if not self._waiting:
                return
            image, rectangle, milliseconds = self._waiting.pop(0)
        process = partial(self._pipeline.process, rgb_pixels(image), rectangle, milliseconds)
        self._finish(_Begun(process, image, milliseconds))

    def _finish(self, begun: _Begun | None) -> None:
        """Give the result of a live stream's frame to the callback."""
        if begun is None:
            return
        try:
            result = begun.finish()
            assert self._callback is not None
            self._callback(result, begun.image, begun.milliseconds)
        except Exception:
            logging.exception("%s: the frame at %d ms failed", type(self).__name__, begun.milliseconds)

    def _check_mode(self, needed: VisionTaskRunningMode) -> None:
        if self._closed:
            raise TaskError(f"this {type(self).__name__} is closed: create another one")
        if self._mode is not needed:
            raise TaskError(
                f"Task is not initialized with the {_WORDS[needed]} mode. Current running mode:"
                f"{_WORDS[self._mode]} mode"
            )

    def _check_time(self, milliseconds: int) -> None:
        if milliseconds < 0 or milliseconds <= self._last:
            raise TaskError(
                f"Input timestamp must be monotonically increasing: {milliseconds} ms comes after {self._last} ms"
            )
        self._last = milliseconds

    def _looked_at(self, image: Picture, options: ImageProcessingOptions | None) -> tuple[Any, Array]:
        if not isinstance(image, Image):
            return self._on_gpu(image, options), WHOLE
        rectangle = rectangle_of(options, (image.width, image.height), takes_region=self.takes_region)
        return rgb_pixels(image), rectangle

    def _on_gpu(self, image: Any, options: ImageProcessingOptions | None) -> GpuPicture:
        picture, name = gpu_picture(image), type(self).__name__
        if not self.takes_gpu_pictures:
            raise TaskError(
                f"{name} takes an mp.Image, in the CPU's memory; this is {type(image).__name__}: read its pixels"
            )
        if options is not None and not (rectangle_of(options, picture.size, takes_region=True) == WHOLE).all():
            raise TaskError("a picture in the GPU's memory is taken whole: a turned one is a fb.Frame(rotation=...)")
        return picture

    def close(self) -> None:
        """Wait for the frames of a live stream that run, and let the networks go. May be called again.

        If pictures were in the GPU's memory, their context is current.
        """
        self._closed = True
        if self._worker is not None:
            self._worker.shutdown(wait=True)
        begun, self._begun = self._begun, None
        self._finish(begun)
        if isinstance(self._pipeline, OnGpu):
            self._pipeline.on_gpu.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DetectingTask(VisionTask[Options, Result]):
    """A task whose methods are called ``detect``."""

    def detect(self, image: Picture, image_processing_options: ImageProcessingOptions | None = None) -> Result:
        """The result for a picture: an mp.Image, or one in the GPU's memory if the task takes those.

        Raises
        ------
        ValueError
            If the task runs in another mode, or if an argument does not fit.
        """
        return self._run_image(image, image_processing_options)

    def detect_for_video(
        self, image: Picture, timestamp_ms: int, image_processing_options: ImageProcessingOptions | None = None
    ) -> Result:
        """The result for a frame of a video.

        Raises
        ------
        ValueError
            As ``detect``, and if the timestamp, in milliseconds, is not after the last one.
        """
        return self._run_video(image, timestamp_ms, image_processing_options)

    def detect_async(
        self, image: Picture, timestamp_ms: int, image_processing_options: ImageProcessingOptions | None = None
    ) -> None:
        """Give a frame of a live stream, whose result goes to ``result_callback``; newer frames may overtake it.

        A picture in the GPU's memory is submitted by this call, on this thread, which has its context. None overtakes
        it, and its result comes one frame late: the next call, or ``close``, gives it to the callback on its thread.

        Raises
        ------
        ValueError
            As ``detect_for_video``. What fails later, in the networks or in the callback, is logged.
        """
        self._run_live(image, timestamp_ms, image_processing_options)
