"""Sessions without a picture: decoded luma and chroma are bound to the model, and only its outputs are read.

On CUDA NVDEC decodes, and no pixel comes to the CPU. On OpenGL the CPU decodes; it also paints what a task finds on
the decoder's frames, which then go to the encoder. The finders of ``tasks`` make rows and marks of the outputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import framebind as fb

from ..apis import BY_NAME, DECODING, GL, is_decoding
from ..copies import SHOWN_COPIES
from ..models import find_model
from ..network import Network, Outputs, Sampling
from ..results.masks import add_run_lengths
from ..results.outputs import MarkedFrames, close_after_error, open_outputs
from ..results.rows import Row, make_rows
from ..times import Times
from ..work import Work
from .session import Session, keeping_current


def open_session(work: Work, *, egl: int | None = None) -> Session:
    """The session for a work: one without pictures if it needs none. See Session for ``egl``."""
    api = bound_api(work)
    if api is None:
        return Session(work, egl=egl)
    return BoundSession(work) if api is DECODING else MarkingSession(work, egl=egl)


def is_bound(work: Work) -> bool:
    """Whether a work is done on CUDA, where the decoder's frames are bound and none comes to the CPU."""
    return bound_api(work) is DECODING


def bound_api(work: Work) -> fb.Backend | None:
    """The API of a work that is done without pictures, or None.

    CUDA, also by "auto" on NVIDIA's GPU, if only rows are saved; OpenGL if the CPU can paint the task's video. Saved
    masks follow the edges of pictures if these are drawn: only "cuda" by name does without.
    """
    task = work.video_task
    if task.finder is None or task.hides:
        return None
    backend, is_painted, is_masked = work.options.backend, "video" in work.save, "masks" in work.save
    is_auto = backend == "auto"
    # Frames for CUDA, also those of cameras, come by PyAV: "auto" is another API without it.
    may_be_cuda = not is_painted and not (is_auto and (is_masked or find_spec("av") is None))
    if may_be_cuda and is_decoding(backend):
        return DECODING
    if is_masked:
        return None
    if not task.is_painted or (is_painted and work.suffix not in fb.MarkedVideo.suffixes):
        return None
    return GL if is_auto or BY_NAME[backend] is GL else None


class BoundSession(Session):
    """The context and the models that the videos of a work share. ``api`` is CUDA, or another for comparison."""

    def __init__(self, work: Work, *, api: fb.Backend = DECODING) -> None:
        super().__init__(work)
        self._api = api
        self._models: dict[str, Network] = {}

    def __enter__(self) -> BoundSession:
        # Sessions side by side share a GPU: none is to wait for another one's decoder.
        context = self._api.new_context(independent=True)
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
        self._times = Times()
        with self._current():
            reader = fb.open_source(source, start=work.start, end=work.end)
        yield from self._read(work, reader, source, place, outputs)

    def _read(
        self, work: Work, reader: fb.Source, source: str, place: Path | None, outputs: contextlib.ExitStack
    ) -> Iterator[list[Row]]:
        """Look at each frame of a reader, and write it. As ``_run``."""
        times, self._reader = self._times, reader
        with contextlib.ExitStack() as stack:
            stack.push(partial(close_after_error, outputs))
            stack.callback(times.end)
            stack.callback(self._stop, reader)
            with self._current():
                model = self._model(work.model_name)
                image, results = next(iter(model.inputs)), model.bind_outputs()
                finder = work.finder(model, reader.size)
                pictures = _Pictures(reader, times)
                painted = MarkedFrames(lambda: pictures.last, fb.Marks(), reader.rotation, finder.paint)
                mask = finder.mask if "masks" in work.save else None
                written = open_outputs(outputs, work, source, place, painted, reader, times, mask)

            def look(picture: fb.YuvPicture, sampling: Sampling) -> Outputs:
                model.bind_sampled(image, picture, in_stored(sampling, reader.size, reader.rotation))
                model.run()
                pictures.decode()  # while the GPU works
                return results

            mode: Literal["allow", "disallow"] = "allow"  # the first frame compiles and loads weights
            number = -1
            while True:
                with self._current(), fb.transfer_guard(mode, exempt=(*SHOWN_COPIES, model.upload)):
                    taken, number = pictures.take(), number + 1
                    if taken is None:
                        written.end()
                        return
                    if number % work.every:
                        continue
                    with times.stage("model"):
                        found = finder.find(partial(look, taken.picture))
                        if mask is not None and work.masks == "rle":
                            add_run_lengths(found, mask)
                        rows = make_rows(work.named or source, taken.time, number, found)
                    if finder.mark is not None and "video" in work.save:
                        with times.stage("draw"):
                            finder.mark(painted.marks)
                    written.put(rows)
                mode = "disallow"
                yield rows

    def _stop(self, reader: fb.Source) -> None:
        with self._current():
            reader.stop()

    def _model(self, name: str) -> Network:
        """The model of that name, made once."""
        if name not in self._models:
            path, options = find_model(name), replace(self.work.options, backend=self._api.short)
            self._models[name] = Network(path, options.options(path), api=self._api)
        return self._models[name]


class MarkingSession(BoundSession):
    """A session without a picture on OpenGL.

    Sources that give no luma and chroma go through one that draws, and so do masks that a GPU can paint.
    """

    def __init__(self, work: Work, *, egl: int | None = None) -> None:
        super().__init__(work, api=GL)
        self._egl = egl
        self._drawing: Session | None = None

    def __enter__(self) -> MarkingSession:
        with keeping_current():
            self._bound_context = self._stack.enter_context(fb.GlContext.headless(device_index=self._egl))
        return self

    def __exit__(self, *exception: object) -> None:
        if self._drawing is not None:
            self._drawing.__exit__(*exception)
        super().__exit__(*exception)

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        with self._bound_context.made_current():
            yield

    def _run(self, work: Work, source: str, place: Path | None, outputs: contextlib.ExitStack) -> Iterator[list[Row]]:
        self._times = Times()
        if "masks" in work.video_task.saves and "video" in work.save and not self._bound_context.software:
            yield from self._run_drawing(work, source, place, outputs)
            return
        reader = fb.open_source(source, start=work.start, end=work.end)
        if reader.decoder == "nvdec":  # a CudaContext of the caller is current
            reader.stop()
            reader = fb.open_source(source, start=work.start, end=work.end, decoder="cpu")
        if reader.decoder == "cpu" and not reader.live:
            yield from self._read(work, reader, source, place, outputs)
            return
        reader.stop()
        yield from self._run_drawing(work, source, place, outputs)

    def _run_drawing(
        self, work: Work, source: str, place: Path | None, outputs: contextlib.ExitStack
    ) -> Iterator[list[Row]]:
        """As ``_run``, in a session that draws, which shares the context."""
        self._drawing = self._drawing or Session(self.work, context=self._bound_context).__enter__()
        try:
            yield from self._drawing._run(work, source, place, outputs)
        finally:
            self._times, self._reader = self._drawing._times, self._drawing._reader


class _Taken(NamedTuple):
    picture: fb.YuvPicture
    time: float | None


class _Pictures:
    """The pictures of a video with their times. The next one may be decoded before it is taken."""

    def __init__(self, reader: fb.Source, times: Times) -> None:
        self._reader, self._pictures, self._times = reader, reader.pictures(), times
        self._ahead: _Taken | Exception | None = None
        self._is_ahead = False
        self._last: _Taken | None = None

    @property
    def last(self) -> fb.YuvPicture:
        """The picture that was taken last."""
        assert self._last is not None
        return self._last.picture

    def decode(self) -> None:
        """Decode the next picture, unless that was done. Its error is raised by ``take``."""
        if self._is_ahead:
            return
        self._is_ahead = True
        try:
            with self._times.stage("decode"):
                picture = next(self._pictures, None)
            self._ahead = None if picture is None else _Taken(picture, self._reader.time)
        except fb.FramebindError as error:
            self._ahead = error

    def take(self) -> _Taken | None:
        """The next picture and its time; None at the end."""
        self.decode()
        ahead, self._ahead, self._is_ahead = self._ahead, None, False
        if isinstance(ahead, Exception):
            raise ahead
        self._last = ahead
        return ahead


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
