"""A session without a picture: decoded luma and chroma are bound to the model, and only its outputs are read.

On CUDA NVDEC decodes, and no pixel comes to the CPU. The finders of ``tasks`` make rows of the outputs.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..apis import BY_NAME, CUDA, Api
from ..models import find_model
from ..player.network import Sampling, shapes
from ..player.report import ALLOWED_COPIES, DETECTIONS
from .outputs import close_after_error, open_outputs
from .rows import Row, make_rows
from .session import Session
from .tasks import FINDERS, make_finder, model_of
from .times import Times
from .work import Work

Values = npt.NDArray[np.float32]


def open_session(work: Work, *, egl: int | None = None) -> Session:
    """The session for a work: one without pictures if only rows are saved, on CUDA. See Session for ``egl``."""
    return BoundSession(work) if is_bound(work) else Session(work, egl=egl)


def is_bound(work: Work) -> bool:
    """Whether a work is done without pictures: on CUDA, or "auto" on NVIDIA's GPU, if only rows are saved."""
    if {"video", "masks"} & set(work.save) or work.task not in FINDERS:
        return False
    backend = work.flags.backend
    if backend == "auto":
        return fb.CompatibilityList().best_options_for_this_device().backend == CUDA.backend
    return BY_NAME[backend] is CUDA


class BoundSession(Session):
    """The context and the models that the videos of a work share. ``api`` is CUDA, or another for comparison."""

    def __init__(self, work: Work, *, api: Api = CUDA) -> None:
        super().__init__(work)
        self._api = api
        self._models: dict[str, BoundModel] = {}

    def __enter__(self) -> BoundSession:
        # Sessions side by side share a GPU: none is to wait for another one's decoder.
        context = fb.CudaContext(independent=True) if self._api is CUDA else self._api.new_context()
        self._bound_context: Any = self._stack.enter_context(context)
        self._bound_context.release()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._current():
            for model in self._models.values():
                model.close()
        self._models.clear()
        self._stack.close()

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        """Within the block the context is current. The caller's own is, while it has rows."""
        self._bound_context.make_current()
        try:
            yield
        finally:
            self._bound_context.release()

    def _run(self, work: Work, source: str, place: Path | None, outputs: contextlib.ExitStack) -> Iterator[list[Row]]:
        self._times = times = Times()
        with contextlib.ExitStack() as stack:
            stack.push(partial(close_after_error, outputs))
            stack.callback(times.end)
            with self._current():
                reader = stack.enter_context(fb.open_source(source, start=work.start, end=work.end))
                model = self._model(model_of(work))
                find = make_finder(work, model, reader.size)
                written = open_outputs(outputs, work, source, place, None, reader, times)
                pictures = _Pictures(reader, times)

            def look(picture: fb.YuvPicture, sampling: Sampling) -> Outputs:
                return model.run(picture, in_stored(sampling, reader.size, reader.rotation), pictures.decode)

            mode: Literal["allow", "disallow"] = "allow"  # the first frame compiles and loads weights
            number = -1
            while True:
                with self._current(), fb.transfer_guard(mode, exempt=ALLOWED_COPIES):
                    taken, number = pictures.take(), number + 1
                    if taken is None:
                        return
                    if number % work.every:
                        continue
                    picture, time = taken
                    with times.stage("model"):
                        rows = make_rows(work.named or source, time, number, find(partial(look, picture)))
                    written.put(rows)
                if reader.decoder == "nvdec":  # the CPU's planes are copied
                    mode = "disallow"
                yield rows

    def _model(self, name: str) -> BoundModel:
        """The model of that name, made once."""
        if name not in self._models:
            path, flags = find_model(name), replace(self.work.flags, backend=self._api.short)
            self._models[name] = BoundModel(path, flags.options(path), self._api)
        return self._models[name]


class _Pictures:
    """The pictures of a video with their times. The next one may be decoded before it is taken."""

    def __init__(self, reader: fb.Source, times: Times) -> None:
        self._reader, self._pictures, self._times = reader, reader.pictures(), times
        self._ahead: tuple[fb.YuvPicture, float | None] | Exception | None = None
        self._is_ahead = False

    def decode(self) -> None:
        """Decode the next picture, unless that was done. Its error is raised by ``take``."""
        if self._is_ahead:
            return
        self._is_ahead = True
        try:
            with self._times.stage("decode"):
                picture = next(self._pictures, None)
            self._ahead = None if picture is None else (picture, self._reader.time)
        except fb.FramebindError as error:
            self._ahead = error

    def take(self) -> tuple[fb.YuvPicture, float | None] | None:
        """The next picture and its time; None at the end."""
        self.decode()
        ahead, self._ahead, self._is_ahead = self._ahead, None, False
        if isinstance(ahead, Exception):
            raise ahead
        return ahead


class BoundModel:
    """A model whose input is a picture of video, and whose outputs lie in buffers. Implements player.task.Model."""

    def __init__(self, path: Path, options: fb.GpuDelegateOptions, api: Api) -> None:
        """The context of ``api`` must be current."""
        self.path = path
        self._interpreter, self._delegate = fb.Interpreter(model_path=str(path)), fb.GpuDelegate(options)
        self._interpreter.modify_graph_with_delegate(self._delegate)
        self._interpreter.set_allow_buffer_handle_output(True)
        details: list[dict[str, Any]] = self._interpreter.get_output_details()
        self.inputs, self.outputs = shapes(self._interpreter.get_input_details()), shapes(details)
        self.names = {int(each["index"]): str(each["name"]) for each in details}
        self._buffers = [api.buffer(np.zeros(max(math.prod(shape), 1), np.float32)) for shape in self.outputs.values()]
        for tensor, buffer in zip(self.outputs, self._buffers, strict=True):
            self._delegate.bind_buffer_to_tensor(buffer, tensor)

    def run(self, picture: fb.YuvPicture, sampling: Sampling, meanwhile: Callable[[], None]) -> Outputs:
        """Run the model on a picture. ``meanwhile`` is called while the GPU works."""
        (image,) = self.inputs
        self._delegate.bind_buffer_to_tensor(
            picture, image, mean=sampling.mean, std=sampling.std, crop=sampling.crop, rotation=sampling.rotation
        )
        self._interpreter.invoke()
        meanwhile()
        return Outputs(self._buffers, list(self.outputs.values()))

    def close(self) -> None:
        """Free everything on the GPU."""
        self._delegate.close()
        for buffer in self._buffers:
            buffer.release()


class Outputs(Sequence[Values]):
    """The outputs of a run. Each is read when it is asked for: many models have large ones that nobody looks at."""

    def __init__(self, buffers: list[Any], shapes: list[tuple[int, ...]]) -> None:
        self._buffers, self._shapes = buffers, shapes

    def __len__(self) -> int:
        return len(self._buffers)

    @overload
    def __getitem__(self, number: int) -> Values: ...
    @overload
    def __getitem__(self, number: slice) -> list[Values]: ...
    def __getitem__(self, number: int | slice) -> Values | list[Values]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        buffer, values = self._buffers[number], np.empty(self._shapes[number], np.float32)
        if isinstance(buffer, fb.CudaArray):
            buffer.read(fb.CudaContext.current(), values, DETECTIONS)
        else:
            buffer.read_into(values, DETECTIONS)
        return values


def in_stored(sampling: Sampling, size: tuple[int, int], rotation: int) -> Sampling:
    """A part of an upright picture of ``size`` (width, height) as the part of the picture that is stored.

    ``rotation`` is ``Source.rotation``: a turn clockwise around the middle that takes the one into the other.
    """
    if not rotation or sampling.crop is None:
        return sampling._replace(rotation=sampling.rotation + rotation)
    x, y, width, height = sampling.crop
    right, down = x + width / 2 - size[0] / 2, y + height / 2 - size[1] / 2
    cosine, sine = {90: (0, 1), 180: (-1, 0), 270: (0, -1)}[rotation]
    right, down = cosine * right - sine * down, sine * right + cosine * down
    stored = size if rotation == 180 else size[::-1]
    crop = (stored[0] / 2 + right - width / 2, stored[1] / 2 + down - height / 2, width, height)
    return sampling._replace(crop=crop, rotation=sampling.rotation + rotation)
