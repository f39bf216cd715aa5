"""Plays a source through a task, frame by frame, into a window, files and a virtual camera."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import framebind as fb

from ...video.copies import SHOWN_COPIES
from ...video.network import Mode
from ...video.signals import raise_if_signalled
from ...video.task import Drawing
from .hud import ACCENT, BRIGHT, DIM, Hud, Part
from .laps import Laps
from .recorder import Recorder
from .report import Report
from .trace import Trace

_LOOK_SECONDS = 0.25
"""Time between two looks at signals while no program watches the camera."""


class Player:
    """The loop over frames. Keys change its state between two frames (see keys.py).

    ``camera`` is a virtual camera; while nobody sees a picture, none is computed, and a source that is live is closed,
    until ``reopen`` opens it again. ``legend`` has the keys.
    ``on_key(player, key)`` is called for each key that is pressed in the window. ``seconds_per_frame`` is the least
    time that a frame takes.
    """

    def __init__(
        self,
        task: Drawing,
        source: fb.video.Source,
        picture: fb.GlTexture,
        *,
        window: fb.Window | None,
        hud: Hud,
        timer: fb.GlTimer,
        laps: Laps,
        recorder: Recorder,
        camera: fb.video.VideoWriter | None,
        reopen: Callable[[], fb.video.Source],
        trace: Trace | None,
        seconds_per_frame: float,
        legend: Sequence[Part],
        on_key: Callable[[Player, str], None],
    ) -> None:
        self.task, self.source, self.window = task, source, window
        self.laps, self.recorder, self.hud, self.camera = laps, recorder, hud, camera
        self.paused, self.going_on = False, True
        self.variant = 0
        """The number of the task's current variant."""
        self._picture, self._overlay, self._timer, self._trace = picture, fb.video.Overlay(), timer, trace
        self._reopen = reopen
        self._seconds_per_frame, self._on_key = seconds_per_frame, on_key
        self._legend = legend

    def play(self, *, frames: int | None, duration: float | None, advance: Callable[[], None]) -> Report:
        """Play until the source ends, ``frames`` or ``duration`` (seconds) are over, the user quits, or Ctrl-C.

        ``advance`` is called after each frame. The first frame compiles and loads weights: it is not in the report.
        """
        started, number = 0.0, -1
        with contextlib.ExitStack() as guard, contextlib.suppress(KeyboardInterrupt):
            for number, frame in enumerate(self._frames(frames)):
                self._play_frame(frame, number)
                advance()
                raise_if_signalled()
                if number == 0:
                    self._picture.context.finish()
                    fb.transfers.reset()
                    guard.enter_context(fb.transfer_guard("disallow", exempt=SHOWN_COPIES))
                    started = time.perf_counter()
                    self.laps.restart()
                if not self.going_on or (duration is not None and time.perf_counter() - started >= duration):
                    break
            self._picture.context.finish()
        self._end_trace(number + 1)
        return self.laps.finish(dropped=self.source.dropped)

    def switch_mode(self, mode: Mode) -> None:
        """Change to a mode of the networks, or from it to "gpu". Frames in flight count for the previous mode."""
        self._picture.context.finish()
        self.laps.switch_mode("gpu" if self.laps.mode == mode else mode)

    def choose_variant(self, number: int) -> None:
        """Switch to a variant of the task."""
        self.variant = number
        with fb.transfer_guard("allow"):
            self.task.variants[number].choose()

    def _frames(self, limit: int | None) -> Iterator[fb.GlTexture]:
        """The source's frames, at most ``limit``; while paused, the same one repeatedly."""
        due = time.perf_counter()
        for frame in itertools.islice(self._seen_frames(), limit):
            yield frame
            while True:
                due = max(due + self._seconds_per_frame, time.perf_counter())
                if self._seconds_per_frame or self.paused:
                    time.sleep(max(due - time.perf_counter(), 0.0))
                if not (self.paused and self.going_on):
                    break
                yield frame

    def _seen_frames(self) -> Iterator[fb.GlTexture]:
        """The source's frames while somebody sees them. A live source is another one after each pause."""
        if self._is_unseen():
            self._wait_for_viewers()
        while self.going_on:
            for frame in self.source.frames(self._picture.context, timer=self._timer):
                yield frame.texture
                if self._is_unseen():
                    self._wait_for_viewers()
                    if self.source.live:
                        break
            else:
                return

    def _is_unseen(self) -> bool:
        """Whether nobody sees a picture: there is no window, and no program watches the camera."""
        return self.camera is not None and self.window is None and not self.camera.is_watched

    def _wait_for_viewers(self) -> None:
        """Wait until somebody sees pictures. A live source is closed until then: a webcam's light is off."""
        began, mirror, is_live = time.perf_counter(), self.source.mirror, self.source.live
        if is_live:
            self.source.close()
        while self.camera is not None and self._is_unseen() and self.going_on:
            self.camera.wait_until_watched(_LOOK_SECONDS)
            raise_if_signalled()
        if is_live:
            self.source = self._reopen()
            self.source.mirror = mirror
        self.laps.leave_out(time.perf_counter() - began)

    def _play_frame(self, frame: fb.GlTexture, number: int) -> None:
        self.laps.count_frame()
        self._timer.mark("draw")
        self.task.draw(frame)
        self.task.draw_marks(self._picture, self._overlay)
        if self.recorder.is_recording:
            self._timer.mark("record")
            if self.paused:
                self.recorder.hold()
            else:
                self.recorder.put()
        if self.camera is not None:
            self._timer.mark("camera")
            self.camera.put(self._picture)
        if self.window is not None:
            self._timer.mark("show")
            self._show(self.window)
        stages = self._timer.end()
        self.laps.figures.add(stages, self.source.captured if self.source.live else None)
        if self._trace is not None:
            self._trace.add(number - self._timer.depth, stages)

    def _end_trace(self, frames: int) -> None:
        """Write the stages of the last frames, which the timer gives late."""
        if self._trace is not None:
            for number in range(frames, frames + self._timer.depth):
                self._trace.add(number - self._timer.depth, self._timer.end())

    def _show(self, window: fb.Window) -> None:
        figures = [*self._figures(), self._choices()]
        self.hud.show(window, self._picture, figures=figures, keys=self._legend, status=self.source.status)
        for key in window.keys():
            self._on_key(self, key)
        self.going_on = self.going_on and not window.should_close

    def _figures(self) -> list[list[Part]]:
        speed, *others = self.laps.figures.text or ["Measuring ..."]
        states = (("Paused.", self.paused), ("Recording.", self.recorder.is_recording))
        first = [((name, ACCENT),) for name, on in states if on]
        compared = [[((self.laps.compared, DIM),)]] if self.laps.compared else []
        return [[*first, *(((text, BRIGHT),) for text in (speed, *others))], *compared]

    def _choices(self) -> list[Part]:
        """The source, the key that shows the others, and the variants."""
        width, height = self.source.size
        name = self.source.name if self.source.live else f"{file_name(self.source.name)}, {width}x{height}"
        variants: list[Part] = [
            ((str(number + 1), ACCENT), (f" {variant.name}", BRIGHT if number == self.variant else DIM))
            for number, variant in enumerate(self.task.variants)
        ]
        return [((name, DIM),), (("h", ACCENT), (" keys", DIM)), *variants]


def file_name(source: str) -> str:
    """The name of the file in the name of a source, such as "video 'folder/clip.mp4'" or "synthetic:folder/a.png"."""
    quoted = source.partition("'")[2].removesuffix("'")
    return Path(quoted or source).name
