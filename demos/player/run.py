"""Runs a demo: makes its source, window, model and files, plays, and prints the report."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import skimage
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import framebind as fb

from ..models import find_model
from .keys import LEGEND, press
from .laps import Laps
from .network import Network
from .options import Options
from .player import Player
from .recorder import Recorder
from .report import Report
from .task import Scene, Task
from .trace import Trace

PHOTOGRAPHS = Path(skimage.__file__).parent / "data"
PHOTOGRAPH = PHOTOGRAPHS / "astronaut.png"
"""The photograph under the synthetic source, from scikit-image's wheel."""

console = Console(stderr=True, soft_wrap=True)


def run(prepare: Callable[[Scene], Task], options: Options) -> Report:
    """Run a task over a source until it ends, the options say so, the window is closed, or Ctrl-C."""
    source, shown = _source(options), options.window or not (options.output or options.headless)
    if shown and source.length == 1:  # a picture: it stays until the window is closed
        source.stop()
        source = _source(replace(options, loop=True))
    with source, contextlib.ExitStack() as stack:
        endless = source.length is None and options.frames is None and options.duration is None
        if endless and options.output and not shown:
            raise fb.SourceError(f"{source.name} has no end: say how many --frames to write, or the --duration")
        name = Path(options.model).stem
        opened = fb.Window(*source.size, f"framebind: {name}", vsync=options.vsync) if shown else None
        window = stack.enter_context(opened) if opened else None
        context = window.context if window else stack.enter_context(fb.GlContext.headless())
        timer, networks = fb.GlTimer(), list[Network]()
        picture = fb.GlTexture(*source.size, "rgba8", label="the picture")

        def load(model: str) -> Network:
            network = Network(find_model(model), fb.GpuDelegateOptions(backend=options.backend), timer)
            networks.append(network)
            return network

        task = prepare(Scene(load(options.model), picture, load))
        recorder = Recorder(picture, fps=source.fps or 30.0, live=source.live)
        stack.callback(_print_written, recorder)  # when the files are closed: also after an error
        trace = stack.enter_context(contextlib.closing(Trace(options.profile))) if options.profile else None
        stack.enter_context(contextlib.closing(recorder))
        paced = window is not None and options.vsync and not source.live
        player = Player(
            task, source, picture, window=window, timer=timer, laps=Laps(networks, timer), recorder=recorder,
            trace=trace, seconds_per_frame=1 / (source.fps or 30) if paced else 0.0,
            title=f"{name} on {options.backend}   {context.renderer}", legend=LEGEND, on_key=press,
        )  # fmt: skip
        for path in options.output:
            recorder.open(path)
        player.laps.copying = options.copying
        source.mirror = options.mirror
        length = min((n for n in (options.frames, source.length) if n is not None), default=None)
        with _progress(length) as advance:
            return player.play(frames=options.frames, duration=options.duration, advance=advance)


def _print_written(recorder: Recorder) -> None:
    for path in recorder.written:
        console.print(f"wrote {path}", highlight=False)


def _source(options: Options) -> fb.Source:
    if options.window and options.headless:
        raise typer.BadParameter("--window and --headless exclude each other")
    if options.camera is not None and options.source != Options.source:
        raise typer.BadParameter("--camera and --source exclude each other")
    size, name = None, options.source if options.camera is None else str(options.camera)
    if options.size is not None:
        width, x, height = options.size.partition("x")
        if not (x and width.isdecimal() and height.isdecimal() and int(width) and int(height)):
            raise typer.BadParameter(f"--size is WIDTHxHEIGHT, for instance 640x480, not '{options.size}'")
        size = int(width), int(height)
    name = f"synthetic:{PHOTOGRAPH}" if name == "synthetic" else name
    return fb.open_source(
        name, size=size, fps=options.fps, fourcc=options.fourcc, matrix=options.matrix, loop=options.loop
    )


@contextlib.contextmanager
def _progress(length: int | None) -> Iterator[Callable[[], Any]]:
    """A progress bar if the number of frames is known; yields the function that advances it by one."""
    if length is None:
        yield lambda: None
        return
    columns = (TextColumn("frames"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("frames", total=length)
        yield lambda: progress.advance(task)


def main(prepare: Callable[[Scene], Task], options: Options) -> None:
    """Run a task as a program: print the report at the end, or one line and exit code 1 if it fails."""
    # FFmpeg prints a line for each damaged frame and each refused connection; our own message says it once.
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    try:
        with _ended_by_kill():
            report = run(prepare, options)
    except fb.FramebindError as error:
        console.print(f"[red]{type(error).__name__}[/red]: {error}", highlight=False)
        raise typer.Exit(1) from error
    console.print(str(report), highlight=False)


@contextlib.contextmanager
def _ended_by_kill() -> Iterator[None]:
    """Let SIGTERM end a demo as Ctrl-C does, so that its recordings are finished and play."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
