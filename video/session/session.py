"""A session: the GL context and the networks through which the videos of a work go, one after the other."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import framebind as fb

from ..copies import SAVED_COPIES
from ..models import find_model
from ..network import Network
from ..results.masks import add_run_lengths
from ..results.outputs import close_after_error, open_outputs
from ..results.rows import Row, make_rows
from ..task import Drawing, Mask, Scene
from ..times import WAIT, Times
from ..work import Work

MOST_NETWORKS = 4
"""Most models, or sizes of one, that are kept: a folder may have videos of many sizes."""


class Session:
    """The GL context and the networks that the videos of a work share: a model is compiled once for each size.

    One video at a time is drawn, on the thread that opened it.
    """

    def __init__(self, work: Work, *, egl: int | None = None, context: fb.GlContext | None = None) -> None:
        """``egl`` is the GPU's EGL number, by default the first one that works; or ``context`` is somebody else's."""
        self.work, self._egl, self._given = work, egl, context
        self._networks: dict[tuple[str, tuple[int, int] | None], Network] = {}
        self._takes_any_size: dict[str, bool] = {}
        self._overlay: fb.Overlay | None = None
        self._cpu = time.process_time()
        """The process's CPU time at the last result."""
        self._times = Times()
        """The seconds of the last video."""
        self._reader: fb.Source | None = None
        """The last video."""
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Session:
        with keeping_current():
            if self._given is None:
                self._context = self._stack.enter_context(fb.GlContext.headless(device_index=self._egl))
            else:
                self._context = self._given
            with self._context.made_current():
                self._timer = fb.GlTimer()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._context.made_current():
            self._networks.clear()
            self._overlay = None
        self._stack.close()

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
        weights, packets that were damaged, and "times": where the time went (``Times.lanes``).
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
        for rows in self._run(work, str(source), place, outputs):
            if not frames:
                first = fb.transfers.bytes
            frames += 1
            advance(rows[0]["time"] or 0.0)
        copied, times = fb.transfers.bytes - first if frames else 0, self._times
        damaged = self._reader.damaged if self._reader is not None else 0

        def finish() -> dict[str, Any]:
            outputs.close()
            cpu, self._cpu = time.process_time() - self._cpu, time.process_time()
            return {
                "frames": frames, "seconds": round(time.perf_counter() - began, 3), "cpu_seconds": round(cpu, 3),
                "bytes": copied, "damaged": damaged, "times": times.lanes(),
                "outputs": [str(path) for path in work.outputs(place)],
            }  # fmt: skip

        return finish

    @property
    def times(self) -> dict[str, dict[str, float]]:
        """The seconds of each stage of the last video, by lane."""
        return self._times.lanes()

    def frames(self, work: Work, source: str, place: Path | None) -> Iterator[list[Row]]:
        """Process one video, and give the rows of each frame, one at least.

        ``work`` may be another part of the videos than the session's; its task and model are the session's. Without a
        ``place`` nothing is written. The outputs take their places when the last frame was taken.
        """
        with contextlib.ExitStack() as outputs:
            yield from self._run(work, source, place, outputs)

    def _run(self, work: Work, source: str, place: Path | None, outputs: contextlib.ExitStack) -> Iterator[list[Row]]:
        """Draw and write each frame. While the caller has its rows, the caller's own context and guard are in force.

        The files are complete, and in their places, when ``outputs`` is closed. After an error that is done here.
        """
        stack, self._times = contextlib.ExitStack(), Times()

        def close(*exception: Any) -> bool | None:
            with self._context.made_current():
                return stack.__exit__(*exception)

        with contextlib.ExitStack() as closing:
            closing.push(close)
            with self._context.made_current():
                stack.push(partial(close_after_error, outputs))
                reader = stack.enter_context(fb.open_source(source, start=work.start, end=work.end))
                self._reader, reader.every = reader, work.every
                picture = stack.enter_context(fb.GlTexture(*reader.size, "rgba8", label="the picture"))
                # A task of its own for each video: it remembers where things were in the frame before.
                task = self._task(work, picture)
                mask = task.mask() if task.mask is not None and "masks" in work.save else None
                written = open_outputs(outputs, work, source, place, picture, reader, self._times, mask)
                frames = zip(itertools.count(0, work.every), reader.textures(self._context, self._timer), strict=False)
                stack.callback(self._times.end, self._timer, reader)
            mode: Literal["allow", "disallow"] = "allow"  # the first frame compiles and loads weights
            while True:
                with self._context.made_current(), fb.transfer_guard(mode, exempt=SAVED_COPIES):
                    with self._times.stage(WAIT):
                        number, frame = next(frames, (0, None))
                    if frame is None:
                        written.end()
                        return
                    self._timer.mark("draw")
                    self._draw(task, frame, picture, is_seen="video" in work.save)
                    found = _found(task, mask if work.masks == "rle" else None)
                    rows = make_rows(work.named or source, reader.time, number, found)
                    self._timer.mark("read back")
                    written.put(rows)
                    self._times.add(self._timer.end())
                mode = "disallow"
                yield rows

    def _task(self, work: Work, picture: fb.GlTexture) -> Drawing:
        load = partial(self._network, size=picture.size)
        return work.drawing(Scene(load(work.model_name), picture, load))

    def _network(self, name: str, size: tuple[int, int]) -> Network:
        """The network of that name, for pictures of that size if it takes any: made once, and compiled once."""
        key = (name, None) if self._takes_any_size.get(name) is False else (name, size)
        if key not in self._networks:
            path = find_model(name)
            network = Network(path, self.work.options.options(path), self._timer)
            self._takes_any_size[name] = any(map(network.takes_any_size, network.inputs))
            key = key if self._takes_any_size[name] else (name, None)
            while len(self._networks) >= MOST_NETWORKS:
                del self._networks[next(iter(self._networks))]
            self._networks[key] = network
        return self._networks[key]

    def _draw(self, task: Drawing, frame: fb.GlTexture, picture: fb.GlTexture, *, is_seen: bool) -> None:
        """Draw a frame, and what was found in it if anybody sees that."""
        task.draw(frame)
        if task.overlay is not None and is_seen:
            self._overlay = self._overlay or fb.Overlay()  # once: its font is 1.6 MB
            task.overlay(self._overlay)
            self._overlay.draw(picture)


def _found(task: Drawing, mask: Mask | None) -> list[dict[str, Any]]:
    """The results of the frame that was drawn last, with their places if there is a mask."""
    found = task.results() if task.results else []
    if mask is not None:
        add_run_lengths(found, mask)
    return found


@contextlib.contextmanager
def keeping_current() -> Iterator[None]:
    """After the block, in which contexts are made, the GL context that was current before is current again."""
    before = fb.GlContext.current() if fb.GlContext.is_current() else None
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(fb.DeviceError):  # another library's: only that can make it current
                before.make_current()
