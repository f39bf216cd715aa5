"""A session: the GL context and the networks through which the videos of a work go, one after the other."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import framebind as fb

from ..models import find_model
from ..player.network import Network
from ..player.report import ALLOWED_COPIES
from ..player.task import Mask, Scene, Task
from .masks import MASKS, add_run_lengths
from .outputs import open_outputs, take_place
from .raw import OUTPUTS
from .rows import Row, make_rows
from .tasks import model_of, prepare
from .times import WAIT, Times
from .work import Work

UNFINISHED = ".framebind-unfinished-"
"""Prefix of the folders in which outputs are written before they take their places; the process's number follows."""

COPIES = (*ALLOWED_COPIES, OUTPUTS, MASKS)
"""Reasons of the copies that are allowed after the first frame."""


class Session:
    """The GL context and the networks that the videos of a work share: a model is compiled once for each size.

    One video at a time, on the thread that opened it.
    """

    def __init__(self, work: Work, *, egl: int | None = None) -> None:
        """``egl`` is the GPU's EGL number; by default the first one that works is taken."""
        self.work, self._egl = work, egl
        self._networks: dict[str, Network] = {}
        self._times = Times()
        """The seconds of the last video."""
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Session:
        before = fb.GlContext.current() if fb.GlContext.is_current() else None
        self._context = self._stack.enter_context(fb.GlContext.headless(device_index=self._egl))
        self._timer = fb.GlTimer()
        if before is not None:
            with contextlib.suppress(fb.DeviceError):  # another library's: only that can make it current
                before.make_current()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._context.made_current():
            self._networks.clear()
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
        CPU seconds, bytes between host and GPU after the first frame, which compiles and loads weights, and "times":
        where the time went (``Times.lanes``).
        """
        began, cpu, work = time.perf_counter(), time.process_time(), work or self.work
        frames, first = 0, 0
        for rows in self.frames(work, str(source), place):
            if not frames:
                first = fb.transfers.bytes
            frames += 1
            advance(rows[0]["time"] or 0.0)
        return {
            "frames": frames, "seconds": round(time.perf_counter() - began, 3),
            "cpu_seconds": round(time.process_time() - cpu, 3), "bytes": fb.transfers.bytes - first if frames else 0,
            "outputs": [str(path) for path in work.outputs(place)], "times": self._times.lanes(),
        }  # fmt: skip

    def frames(self, work: Work, source: str, place: Path | None) -> Iterator[list[Row]]:
        """Process one video, and give the rows of each frame, one at least.

        ``work`` may be another part of the videos than the session's; its task and model are the session's. Without a
        ``place`` nothing is written. The outputs take their places when the last frame was taken.
        """
        if place is None:
            yield from self._run(work, source, None)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{UNFINISHED}{os.getpid()}-", dir=place.parent) as folder:
            unfinished = Path(folder) / place.name
            yield from self._run(work, source, unfinished)
            for made, wanted in zip(work.outputs(unfinished), work.outputs(place), strict=True):
                take_place(made, wanted)

    def _run(self, work: Work, source: str, place: Path | None) -> Iterator[list[Row]]:
        """Draw and write each frame. While the caller has its rows, the caller's own context and guard are in force."""
        stack, self._times = contextlib.ExitStack(), Times()

        def close(*exception: Any) -> bool | None:
            with self._context.made_current():
                return stack.__exit__(*exception)

        with contextlib.ExitStack() as closing:
            closing.push(close)
            with self._context.made_current():
                reader = stack.enter_context(fb.open_source(source, start=work.start, end=work.end))
                picture = stack.enter_context(fb.GlTexture(*reader.size, "rgba8", label="the picture"))
                # A task of its own for each video: it remembers where things were in the frame before.
                task, overlay = self._task(work, picture), fb.Overlay() if "video" in work.save else None
                mask = task.mask() if task.mask is not None and "masks" in work.save else None
                put = stack.enter_context(open_outputs(work, source, place, picture, reader, self._times, mask))
                frames = enumerate(reader.textures(self._context, self._timer))
                stack.callback(self._times.end, self._timer, reader)
            mode: Literal["allow", "disallow"] = "allow"  # the first frame compiles and loads weights
            while True:
                with self._context.made_current(), fb.transfer_guard(mode, exempt=COPIES):
                    with self._times.stage(WAIT):
                        number, frame = next(frames, (0, None))
                    if frame is None:
                        return
                    self._timer.mark("draw")
                    if number % work.every:
                        self._times.add(self._timer.end())
                        continue
                    _draw(task, frame, picture, overlay)
                    rows = make_rows(source, reader.time, number, _found(task, mask if work.masks == "rle" else None))
                    self._timer.mark("read back")
                    put(rows)
                    self._times.add(self._timer.end())
                mode = "disallow"
                yield rows

    def _task(self, work: Work, picture: fb.GlTexture) -> Task:
        return prepare(work, Scene(self._network(model_of(work)), picture, self._network))

    def _network(self, name: str) -> Network:
        """The network of that name, made once."""
        if name not in self._networks:
            path = find_model(name)
            self._networks[name] = Network(path, self.work.flags.options(path), self._timer)
        return self._networks[name]


def _draw(task: Task, frame: fb.GlTexture, picture: fb.GlTexture, overlay: fb.Overlay | None) -> None:
    """Draw a frame, and what was found in it if there is an overlay: nobody sees it if no video is saved."""
    task.draw(frame)
    if task.overlay is not None and overlay is not None:
        task.overlay(overlay)
        overlay.draw(picture)


def _found(task: Task, mask: Mask | None) -> list[dict[str, Any]]:
    """The results of the frame that was drawn last, with their places if there is a mask."""
    found = task.results() if task.results else []
    if mask is not None:
        add_run_lengths(found, mask)
    return found
