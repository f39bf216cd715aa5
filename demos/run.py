"""The runner that the demos share: command line, source, sink, loop, and the figures at the end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import skimage
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import framebind as fb

from .models import find_model
from .options import Options

PHOTOGRAPHS = Path(skimage.__file__).parent / "data"
PHOTOGRAPH = PHOTOGRAPHS / "astronaut.png"
"""What the synthetic source moves over where none is named: scikit-image's wheel ships a few photographs."""
ALLOWED_COPIES = ("camera frame", "video frame")
"""The copies that the steady state may make: the camera's upload, and reading back what is being recorded."""

console = Console(stderr=True, soft_wrap=True)


@dataclass(frozen=True)
class Scene:
    """What a task works with: an interpreter whose model runs on the GPU, and the picture to draw each frame."""

    interpreter: fb.Interpreter
    delegate: fb.GpuDelegate
    picture: fb.GlTexture


def shapes(details: list[dict[str, Any]]) -> dict[int, tuple[int, ...]]:
    """Of LiteRT's tensor details: tensor index to BHWC shape."""
    return {int(tensor["index"]): tuple(int(n) for n in tensor["shape"]) for tensor in details}


Draw = Callable[[fb.GlTexture], None]
"""What a task makes of a Scene: takes a frame, runs the model on it and draws the picture."""


@dataclass
class Report:
    """What a run did in its steady state (the first frame, which compiles and loads weights, is left out)."""

    frames: int = 0
    seconds: float = 0.0
    uploaded: int = 0
    recorded: int = 0
    copied: int = 0
    dropped: int = 0

    def __str__(self) -> str:
        if not self.frames:
            return "one frame: too few to measure"
        mean, dropped = self.seconds / self.frames, f", {self.dropped} dropped" if self.dropped else ""
        upload, recorded, copied = (n // self.frames for n in (self.uploaded, self.recorded, self.copied))
        return (
            f"{self.frames} frames after the first{dropped}: {1 / mean:.1f} fps, {mean * 1000:.1f} ms a frame\n"
            f"bytes between host and GPU a frame: {upload + recorded + copied} in all, of which {upload} the source's "
            f"upload, {recorded} the recording, {copied} anything else"
        )


def run(prepare: Callable[[Scene], Draw], options: Options) -> Report:
    """Run a task over a source until it ends, ``options.frames`` are done, the window is closed, or Ctrl-C."""
    source = _source(options)
    with source, contextlib.ExitStack() as stack:
        if source.length is None and options.frames is None and options.output and not options.window:
            raise fb.SourceError(f"{source.name} has no end: say how many --frames to write")
        title = f"framebind: {Path(options.model).stem}"
        show = options.window or not options.output
        window = stack.enter_context(fb.Window(*source.size, title)) if show else None
        context = window.context if window else stack.enter_context(fb.GlContext.headless())
        picture = fb.GlTexture(*source.size, "rgba8", label="the picture")
        draw = prepare(_scene(options, picture))
        targets = [*options.output, *([window] if window else [])]
        fps = source.fps or 30.0
        with contextlib.ExitStack() as opened:
            sinks = [fb.open_sink(target, context, source.size, fps=fps) for target in targets]
            for sink in sinks:
                opened.enter_context(contextlib.closing(sink))
            return _loop(source, context, draw, picture, sinks, options.frames)


def _loop(
    source: fb.Source,
    context: fb.GlContext,
    draw: Draw,
    picture: fb.GlTexture,
    sinks: list[fb.Sink],
    frames: int | None,
) -> Report:
    report, started = Report(), 0.0
    length = min((n for n in (frames, source.length) if n is not None), default=None)
    with _progress(length) as advance, contextlib.ExitStack() as guard, contextlib.suppress(KeyboardInterrupt):
        for number, frame in enumerate(islice(source.textures(context), frames)):
            draw(frame)
            going_on = all([sink.put(picture) for sink in sinks])
            advance()
            if number == 0:
                context.finish()
                fb.transfers.reset()
                guard.enter_context(fb.transfer_guard("disallow", exempt=ALLOWED_COPIES))
                started = time.perf_counter()
            else:
                report.frames = number
            if not going_on:
                break
        context.finish()
    report.seconds = time.perf_counter() - started
    report.uploaded, report.recorded = (_bytes(reason) for reason in ALLOWED_COPIES)
    report.copied, report.dropped = fb.transfers.bytes_except(*ALLOWED_COPIES), source.dropped
    return report


def _bytes(reason: str) -> int:
    return sum(hop.bytes for (_, why), hop in fb.transfers.by_reason.items() if why == reason)


def _source(options: Options) -> fb.Source:
    size = None
    if options.size is not None:
        width, x, height = options.size.partition("x")
        if not (x and width.isdecimal() and height.isdecimal() and int(width) and int(height)):
            raise typer.BadParameter(f"--size is WIDTHxHEIGHT, for instance 640x480, not '{options.size}'")
        size = int(width), int(height)
    return fb.open_source(f"synthetic:{PHOTOGRAPH}" if options.source == "synthetic" else options.source, size=size)


def _scene(options: Options, picture: fb.GlTexture) -> Scene:
    interpreter = fb.Interpreter(model_path=str(find_model(options.model)))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=options.backend))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    return Scene(interpreter, delegate, picture)


@contextlib.contextmanager
def _progress(length: int | None) -> Iterator[Callable[[], Any]]:
    """A bar where the length is known."""
    if length is None:
        yield lambda: None
        return
    columns = (TextColumn("frames"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("frames", total=length)
        yield lambda: progress.advance(task)


def main(prepare: Callable[[Scene], Draw], options: Options) -> None:
    """Run a task as a program: figures at the end, one line and exit code 1 where it fails."""
    try:
        report = run(prepare, options)
    except fb.FramebindError as error:
        console.print(f"[red]{type(error).__name__}[/red]: {error}", highlight=False)
        raise typer.Exit(1) from error
    console.print(str(report), highlight=False)
    for path in options.output:
        console.print(f"wrote {path}", highlight=False)
