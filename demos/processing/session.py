"""A session: the GL context and the networks through which the videos of a work go, one after the other."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import framebind as fb

from ..models import find_model
from ..player.network import Network
from ..player.report import ALLOWED_COPIES
from ..player.task import Scene
from .outputs import open_outputs
from .tasks import TASKS
from .work import Work

UNFINISHED = ".framebind-unfinished-"
"""Prefix of the folders in which outputs are written before they take their places."""


class Session:
    """The GL context and the networks that the videos of a work share: a model is compiled once for each size."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._networks: dict[str, Network] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Session:
        self._context = self._stack.enter_context(fb.GlContext.headless())
        self._timer = fb.GlTimer()
        return self

    def __exit__(self, *exception: object) -> None:
        self._networks.clear()
        self._stack.close()

    def process(
        self, source: Path, place: Path, advance: Callable[[float], None] = lambda seconds: None
    ) -> dict[str, Any]:
        """Process one video; ``advance`` gets the seconds of each frame on the video's clock.

        Outputs take their places together when all are complete; after an error there is none. Returns frames, seconds,
        CPU seconds, and bytes between host and GPU after the first frame, which compiles and loads weights.
        """
        began, cpu = time.perf_counter(), time.process_time()
        fb.transfers.reset()
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=place.parent) as folder:
            unfinished = Path(folder) / place.name
            frames = self._run(source, unfinished, advance)
            for made, wanted in zip(self.work.outputs(unfinished), self.work.outputs(place), strict=True):
                made.replace(wanted)
        return {
            "frames": frames, "seconds": round(time.perf_counter() - began, 3),
            "cpu_seconds": round(time.process_time() - cpu, 3), "bytes": fb.transfers.bytes,
            "outputs": [str(path) for path in self.work.outputs(place)],
        }  # fmt: skip

    def _run(self, source: Path, place: Path, advance: Callable[[float], None]) -> int:
        """Draw and write each frame. Returns their number."""
        frames = 0
        with contextlib.ExitStack() as stack:
            reader = stack.enter_context(fb.open_source(source, start=self.work.start, end=self.work.end))
            picture = stack.enter_context(fb.GlTexture(*reader.size, "rgba8", label="the picture"))
            prepare, model = TASKS[self.work.task]
            # A task of its own for each video: it remembers where things were in the frame before.
            task = prepare(Scene(self._network(self.work.model or model), picture, self._network))
            overlay = fb.Overlay()
            put = stack.enter_context(open_outputs(self.work, source, place, picture, reader))
            for number, frame in enumerate(reader.textures(self._context)):
                if number % self.work.every:
                    continue
                task.draw(frame)
                if task.overlay is not None:
                    task.overlay(overlay)
                    overlay.draw(picture)
                put(task)
                self._timer.end()
                advance(reader.time or 0.0)
                if not frames:
                    fb.transfers.reset()
                    stack.enter_context(fb.transfer_guard("disallow", exempt=ALLOWED_COPIES))
                frames += 1
        return frames

    def _network(self, name: str) -> Network:
        """The network of that name, made once."""
        if name not in self._networks:
            path = find_model(name)
            self._networks[name] = Network(path, self.work.flags.options(path), self._timer)
        return self._networks[name]
