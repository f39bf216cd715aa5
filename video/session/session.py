"""A session: the GPU context and the networks through which the videos of a work go, one after the other."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import framebind as fb

from ..apis import DECODING, GL
from ..copies import SAVED_COPIES
from ..further_inputs import NO_OPTIONS, FurtherInputs
from ..models import find_model
from ..network import Network
from ..results.masks import add_run_lengths
from ..results.outputs import MarkedFrames, close_after_error, open_outputs
from ..results.rows import Row, make_rows
from ..task import Mask, Scene
from ..times import Times
from ..work import Work
from .planes import Planes
from .road import planes_api, takes_planes
from .textures import Textures

MOST_NETWORKS = 4
"""Most models, or sizes of one, that are kept: a folder may have videos of many sizes."""


class Renderer(Protocol):
    """The frames of a video on their road through the model: ``Textures`` or ``Planes``."""

    @property
    def picture(self) -> fb.GlTexture | MarkedFrames:
        """The picture that is saved as video."""
        ...

    @property
    def mask(self) -> Mask | None: ...
    @property
    def copies(self) -> tuple[str, ...]:
        """Reasons of copies that each frame makes, beside SAVED_COPIES."""
        ...

    def take(self) -> fb.Frame | None:
        """The next frame that counts; None at the end. Raises SourceError."""
        ...

    def find(self, frame: fb.Frame, *, in_full: bool) -> list[dict[str, Any]]:
        """Run the model on a frame. Returns what was found in it, with the masks of objects if ``in_full``."""
        ...

    def mark(self, *, is_seen: bool) -> None:
        """Show what was found, if anybody sees the picture: it is complete then."""
        ...

    def written(self) -> None:
        """Note that the frame was written."""
        ...

    def end(self) -> None:
        """Note that there are no more frames."""
        ...


class Session:
    """The GPU context and the networks that the videos of a work share: a model is compiled once for each size.

    One video at a time goes through it, on the thread that opened it.
    """

    def __init__(self, work: Work, *, egl: int | None = None, road: Literal["", "textures", "planes"] = "") -> None:
        """``egl`` is the EGL number of the GPU that draws, by default the first one that works.

        ``road`` compares two roads: "textures" draws each frame, "planes" binds what any source gives on OpenGL. By
        default work and source decide.
        """
        self.work, self._egl, self._road = work, egl, road
        self._api: fb.Backend | None = {"textures": None, "planes": GL}.get(road, planes_api(work))
        """The API on which planes are bound, if any are."""
        self._networks: dict[tuple[str, tuple[int, int] | None], Network] = {}
        self._takes_any_size: dict[str, bool] = {}
        self._overlay: fb.video.Overlay | None = None
        self._timer: fb.GlTimer | None = None
        self._cpu = time.process_time()
        """The process's CPU time at the last result."""
        self._times = Times()
        """The seconds of the last video."""
        self._source: fb.video.Source | None = None
        """The last video."""
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Session:
        with keeping_current():
            # Sessions side by side share a GPU: none is to wait for another one's decoder.
            options = self.work.options
            if self._api is DECODING:
                context: Any = self._stack.enter_context(DECODING.new_context(options.device, independent=True))
                context.release()
            else:
                on_gl = options.device and options.api is GL
                device = "" if self._egl is None else str(self._egl)
                context = self._stack.enter_context(GL.new_context(options.device if on_gl else device))
                if options.device and not on_gl:
                    self._stack.enter_context(options.api.new_context(options.device))
            self._context = context
        return self

    def __exit__(self, *exception: object) -> None:
        with self._current():
            for network in self._networks.values():
                network.close()
            self._networks.clear()
            self._overlay = self._timer = None
        self._stack.close()

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        """Within the block the context is current. The caller's own is, while it has rows."""
        if isinstance(self._context, fb.GlContext):
            with self._context.made_current():
                yield
            return
        self._context.make_current()
        try:
            yield
        finally:
            self._context.release()

    def process(
        self,
        source: Path,
        place: Path,
        advance: Callable[[float], None] = lambda seconds: None,
        work: Work | None = None,
    ) -> dict[str, Any]:
        """Process one video; ``advance`` gets the seconds of each frame on the video's clock.

        ``work`` may be another part of the video than the session's.

        Outputs take their places together when all are complete; after an error there is none. Returns frames, seconds,
        CPU seconds since the last video, bytes between host and GPU after the first frame, which compiles and loads
        weights, packets that were damaged, and "times": where the time went (``Times.tracks``).
        """
        return self.begin(source, place, advance, work)()

    def begin(
        self, source: Path, place: Path, advance: Callable[[float], None], work: Work | None = None
    ) -> Callable[[], dict[str, Any]]:
        """Process the frames of a video, as ``process`` does.

        The returned function waits until the outputs are complete and in their places, on any thread, and gives the
        result. So the next video can begin meanwhile.
        """
        began, work = time.perf_counter(), work or self.work
        frames, first, outputs = 0, 0, contextlib.ExitStack()
        in_full = bool({"jsonl", "parquet"}.intersection(work.save)) or ("masks" in work.save and work.masks == "rle")
        for rows in self._run(work, str(source), place, outputs, in_full=in_full):
            if not frames:
                first = fb.transfers.bytes
            frames += 1
            advance(rows[0]["time"] or 0.0)
        copied, times = fb.transfers.bytes - first if frames else 0, self._times
        damaged = self._source.damaged if self._source is not None else 0

        def finish() -> dict[str, Any]:
            outputs.close()
            cpu, self._cpu = time.process_time() - self._cpu, time.process_time()
            return {
                "frames": frames, "seconds": round(time.perf_counter() - began, 3), "cpu_seconds": round(cpu, 3),
                "bytes": copied, "damaged": damaged, "times": times.tracks(),
                "outputs": [str(path) for path in work.outputs(place)],
            }  # fmt: skip

        return finish

    @property
    def times(self) -> dict[str, dict[str, float]]:
        """The seconds of each stage of the last video, by track."""
        return self._times.tracks()

    def frames(self, work: Work, source: str, place: Path | None) -> Iterator[list[Row]]:
        """Process one video, and give the rows of each frame, one at least.

        ``work`` may be another part of the videos than the session's; its task and model are the session's. Without a
        ``place`` nothing is written. The outputs take their places when the last frame was taken.
        """
        with contextlib.ExitStack() as outputs:
            yield from self._run(work, source, place, outputs, in_full=True)

    def _run(
        self, work: Work, source: str, place: Path | None, outputs: contextlib.ExitStack, *, in_full: bool
    ) -> Iterator[list[Row]]:
        """Find and write what is in each frame. While the caller has its rows, its own context and guard are in force.

        ``in_full``: rows have the masks of objects.

        The files are complete, and in their places, when ``outputs`` is closed. After an error that is done here.
        """
        stack, times = contextlib.ExitStack(), Times()
        self._times = times

        def close(*exception: Any) -> bool | None:
            with self._current():
                return stack.__exit__(*exception)

        with contextlib.ExitStack() as closing:
            closing.push(close)
            with self._current():
                stack.push(partial(close_after_error, outputs))
                opened = stack.enter_context(fb.open_source(source, start=work.start, end=work.end))
                self._source, renderer = opened, self._renderer(stack, work, opened, times)
                mask = renderer.mask if "masks" in work.save else None
                written = open_outputs(outputs, work, place, renderer.picture, opened, times, mask)
                stack.callback(renderer.end)
            mode: Literal["allow", "disallow"] = "allow"  # the first frame compiles and loads weights
            for number in itertools.count(0, work.every):
                with self._current(), fb.transfer_guard(mode, exempt=(*SAVED_COPIES, *renderer.copies)):
                    frame = renderer.take()
                    if frame is None:
                        written.end()
                        return
                    found = renderer.find(frame, in_full=in_full)
                    if mask is not None and work.masks == "rle":
                        add_run_lengths(found, mask)
                    rows = make_rows(work.named or source, frame.time, number, found)
                    renderer.mark(is_seen="video" in work.save)
                    written.put(rows)
                    renderer.written()
                mode = "disallow"
                yield rows

    def _renderer(self, stack: contextlib.ExitStack, work: Work, source: fb.video.Source, times: Times) -> Renderer:
        """The road of a video. A task of its own for each video: it remembers where things were in the frame before."""
        software = isinstance(self._context, fb.GlContext) and self._context.software
        if self._api is not None and (
            self._road == "planes" or takes_planes(work, source, self._api, software=software)
        ):
            return Planes(work, source, self._bound_network(work.model_name, self._api), times)
        self._timer = timer = self._timer or fb.GlTimer()
        load = partial(self._drawing_network, size=source.size, timer=timer)
        network = load(work.model_name)
        enlarged = work.enlarged(network)
        size = enlarged * source.size[0], enlarged * source.size[1]
        picture = stack.enter_context(fb.GlTexture(*size, "rgba8", label="the picture"))
        return Textures(work, source, Scene(network, picture, load, enlarged), self._marks, timer, times)

    def _marks(self) -> fb.video.Overlay:
        """The overlay, made once: its font is 1.6 MB."""
        self._overlay = self._overlay or fb.video.Overlay()
        return self._overlay

    def _bound_network(self, name: str, api: fb.Backend) -> Network:
        """The network of that name for planes: made once."""
        key = (f"{api.short} {name}", None)
        if key not in self._networks:
            path, options = find_model(name), replace(self.work.options, backend=api.short)
            self._networks[key] = Network(path, options.options(path), api=api, further=options.further)
        self._networks[key].reset_feedback()
        return self._networks[key]

    def _drawing_network(self, name: str, size: tuple[int, int], timer: fb.GlTimer) -> Network:
        """The network of that name, for pictures of that size if it takes any: made once, and compiled once."""
        key = (name, None) if self._takes_any_size.get(name) is False else (name, size)
        if key not in self._networks:
            path = find_model(name)
            network = Network(path, self.work.options.options(path), timer, further=self._further_of(name))
            self._takes_any_size[name] = any(map(network.takes_any_size, network.inputs))
            key = key if self._takes_any_size[name] else (name, None)
            while len(self._networks) >= MOST_NETWORKS:
                del self._networks[next(iter(self._networks))]
            self._networks[key] = network
        self._networks[key].reset_feedback()
        return self._networks[key]

    def _further_of(self, name: str) -> FurtherInputs:
        """The work's options for inputs, which are for its model alone: a task may load others."""
        return self.work.options.further if name == self.work.model_name else NO_OPTIONS


@contextlib.contextmanager
def keeping_current() -> Iterator[None]:
    """Make the GL context current again after the block, which makes contexts, that was current before it."""
    before = fb.GlContext.current() if fb.GlContext.is_current() else None
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(fb.DeviceError):  # another library's: only that can make it current
                before.make_current()
