"""Plays a source through a task, frame by frame, into a window and files, and does what the keys say."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import framebind as fb

from .hud import KEYS, Figures, draw_hud, room_beside
from .network import Network
from .report import ALLOWED_COPIES, Report, copied_bytes
from .task import Task
from .trace import Trace

_NOTE_SECONDS = 4.0


@dataclass
class File:
    """A file that pictures go to, and how many went there."""

    path: Path
    sink: fb.Sink
    pictures: int = 0


class Player:
    """One run. ``title`` names the run on screen; ``pace`` is the least number of seconds a frame takes."""

    def __init__(
        self,
        title: str,
        task: Task,
        networks: Sequence[Network],
        picture: fb.GlTexture,
        source: fb.Source,
        window: fb.Window | None,
        timer: fb.GlTimer,
        pace: float,
        trace: Trace | None,
    ) -> None:
        self.title, self.task, self.networks, self.picture = title, task, networks, picture
        self.source, self.window, self.timer, self.pace, self.trace = source, window, timer, pace, trace
        self.context, self.fps = picture.context, source.fps or 30.0
        self.reports = {False: Report(), True: Report()}
        """By whether it was in the copying mode."""
        self._lap_frames, self._lap_began, self._lap_bytes = 0, 0.0, copied_bytes()
        self.overlay, self.hud_overlay = fb.Overlay(), fb.Overlay()
        self.figures = Figures(timer)
        self.files: list[File] = []
        self.written: list[Path] = []
        """The files that are complete, in that order."""
        self.recording: File | None = None
        self.paused = self.going_on = False
        self.hud = self.help = True
        self.chosen = 0
        self._note, self._note_until, self._compared = "", 0.0, ""
        self._keys: dict[str, Callable[[], None]] = {
            "space": self._pause, "s": self._screenshot, "r": self._record, "c": self._copying, "h": self._hud,
            "?": self._help, "f1": self._help, "f": self._full_screen, "m": self._mirror, "q": self._quit,
            "escape": self._quit,
        }  # fmt: skip

    def play(self, frames: int | None, duration: float | None, advance: Callable[[], None]) -> Report:
        """Until the source ends, ``frames`` or ``duration`` (seconds) are over, the user quits, or Ctrl-C.

        ``advance`` is called after each frame. ``close`` then finishes the recordings.
        """
        started, self.going_on = 0.0, True
        with contextlib.ExitStack() as guard, contextlib.suppress(KeyboardInterrupt):
            for number, frame in enumerate(self._frames(frames)):
                self._frame(frame, number)
                advance()
                if number == 0:
                    self.context.finish()
                    fb.transfers.reset()
                    guard.enter_context(fb.transfer_guard("disallow", exempt=ALLOWED_COPIES))
                    started, self.reports = time.perf_counter(), {False: Report(), True: Report()}
                    self._begin_lap()
                if not self.going_on or (duration is not None and time.perf_counter() - started >= duration):
                    break
            self.context.finish()
        self._end_lap()
        bound, copying = self.reports[False], self.reports[True]
        report = bound if bound.frames else copying
        report.dropped, report.copying = self.source.dropped, copying if bound.frames and copying.frames else None
        return report

    def close(self) -> None:
        """Finish the recordings and the profile. More than once."""
        while self.files:
            self._close_file(self.files[0])
        if self.trace is not None:
            self.trace.close()
            self.trace = None

    def open_file(self, path: Path) -> File:
        """A file that every picture from now on goes to."""
        sink = fb.open_sink(path, self.context, self.picture.size, fps=self.fps, live=self.source.live)
        self.files.append(File(path, sink))
        return self.files[-1]

    def _close_file(self, file: File) -> None:
        self.files.remove(file)
        file.sink.close()
        if file.pictures:
            self.written.append(file.path)

    @property
    def copying(self) -> bool:
        """Whether the copying mode is on; see Network."""
        return any(network.copying for network in self.networks)

    def set_copying(self, copying: bool) -> None:
        """Copying mode on or off."""
        for network in self.networks:
            network.copying = copying

    def _begin_lap(self) -> None:
        """From here on, frames are of one mode."""
        self._lap_frames, self._lap_began, self._lap_bytes = 0, time.perf_counter(), copied_bytes()
        self.figures = Figures(self.timer)

    def _end_lap(self) -> None:
        """Count the frames of the lap for the mode that they were drawn in."""
        copied = {name: count - self._lap_bytes[name] for name, count in copied_bytes().items()}
        self.reports[self.copying].add(self._lap_frames, time.perf_counter() - self._lap_began, copied)

    # A frame ----------------------------------------------------------------------------------------------------------

    def _frames(self, frames: int | None) -> Iterator[fb.GlTexture]:
        """The source's frames; while paused, the same one again and again."""
        taken, due = 0, time.perf_counter()
        for frame in self.source.textures(self.context, self.timer):
            taken += 1
            yield frame
            while True:
                due = max(due + self.pace, time.perf_counter())
                if self.pace or self.paused:
                    time.sleep(max(due - time.perf_counter(), 0.0))
                if not (self.paused and self.going_on):
                    break
                yield frame
            if frames is not None and taken >= frames:
                return

    def _frame(self, frame: fb.GlTexture, number: int) -> None:
        self._lap_frames += 1
        self.timer.mark("draw")
        self.task.draw(frame)
        column = 0.0
        if self.task.overlay is not None:
            column = self.task.overlay(self.overlay) or 0.0
            self.overlay.draw(self.picture)
        if self.files and not self.paused:
            self.timer.mark("record")
            for file in self.files:
                file.sink.put(self.picture)
                file.pictures += 1
        if self.window is not None:
            self.timer.mark("show")
            self._show(self.window, column)
        stages = self.timer.end()
        self.figures.add(stages, self.source.captured if self.source.live else None)
        if self.trace is not None:
            self.trace.add(number - self.timer.depth, stages)

    def _show(self, window: fb.Window, column: float) -> None:
        size, (top, bottom) = window.framebuffer_size, self._lines()
        draw_hud(self.hud_overlay, size, room_beside(column, self.picture.size, size), window.scale, top, bottom)
        window.show(self.picture, self.hud_overlay)
        for key in window.keys():
            if key in self._keys:
                try:
                    self._keys[key]()
                except fb.SourceError as error:  # a file that cannot be written here is no reason to end
                    self._say(str(error))
            elif key.isdecimal() and 1 <= int(key) <= len(self.task.choices):
                self._choose(int(key) - 1)
        self.going_on = self.going_on and not window.should_close

    def _lines(self) -> tuple[list[str], list[str]]:
        top, bottom = list[str](), list[str]()
        if self.hud:
            width, height = self.source.size
            name = self.source.name if self.source.live else f"{Path(self.source.name).name}   {width}x{height}"
            top = [self.title, name, *self.figures.text, self._compared]
            states = (("paused", self.paused), ("recording", bool(self.files)), ("copying mode", self.copying))
            top.append("   ".join(name for name, on in states if on))
            if self.help:
                bottom = [self._choices(), KEYS]
        now = time.perf_counter()
        return top, [self.source.status, self._note if now < self._note_until else "", *bottom]

    def _choices(self) -> str:
        return "   ".join(
            f"[{number + 1} {choice.name}]" if number == self.chosen else f"{number + 1} {choice.name}"
            for number, choice in enumerate(self.task.choices)
        )

    def _say(self, note: str) -> None:
        self._note, self._note_until = note, time.perf_counter() + _NOTE_SECONDS

    # Keys -------------------------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        self.paused = not self.paused

    def _quit(self) -> None:
        self.going_on = False

    def _hud(self) -> None:
        self.hud = not self.hud

    def _help(self) -> None:
        self.help = not (self.hud and self.help)
        self.hud = True

    def _mirror(self) -> None:
        self.source.mirror = not self.source.mirror

    def _copying(self) -> None:
        """The other mode; the last figures of this one stay on screen beside those of the other."""
        self.context.finish()
        self._end_lap()
        if self.figures.text:
            frames, _, copied, *_ = self.figures.text
            mode = "copying mode" if self.copying else "without copies"
            self._compared = f"({mode}: {frames}, {copied.partition(' (')[0]})"
        self.set_copying(not self.copying)
        self._begin_lap()

    def _choose(self, number: int) -> None:
        self.chosen = number
        with fb.transfer_guard("allow"):
            self.task.choices[number].choose()

    def _full_screen(self) -> None:
        assert self.window is not None
        self.window.toggle_full_screen()

    def _screenshot(self) -> None:
        path = _new_file(".png")
        sink = fb.open_sink(path, self.context, self.picture.size)
        sink.put(self.picture)
        sink.close()
        self.written.append(path)
        self._say(f"wrote {path}")

    def _record(self) -> None:
        if self.recording is None:
            path = _new_file(".mp4")
            self.recording = self.open_file(path)
            self._say(f"recording {path}")
        else:
            self._close_file(self.recording)
            self.recording = None
            self._say("recording stopped")


def _new_file(suffix: str) -> Path:
    """In the current folder, named after this moment."""
    return Path(f"framebind-{datetime.now():%Y%m%d-%H%M%S-%f}{suffix}")
