"""Runs a demo: makes its source, window, model and files, plays, and prints the report."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer

import framebind as fb

from ...video.apis import GL
from ...video.assets import PHOTOGRAPH
from ...video.copies import VIRTUAL_CAMERA
from ...video.further_inputs import NO_OPTIONS
from ...video.models import find_model
from ...video.network import Network
from ...video.signals import ended_by_signals
from ...video.task import Drawing, Scene
from ..common.console import make_console, plain, progress_bar
from .hud import STARTING, Hud, with_bar
from .keys import LEGEND, press
from .laps import Laps
from .options import Options
from .player import Player
from .recorder import Recorder
from .report import Report
from .trace import Trace

TAKES = {"--size": "cameras and synthetic motion", "--fps": "cameras", "--fourcc": "cameras"}
"""The sources that take an option; others would ignore it."""

console = make_console(stderr=True, soft_wrap=True)


def run(
    prepare: Callable[[Scene], Drawing] | None,
    options: Options,
    *,
    photograph: Path = PHOTOGRAPH,
    camera: str = "",
) -> Report:
    """Run a task over a source until it ends, the options say so, the window is closed, or Ctrl-C.

    ``prepare`` makes the task's drawing; None shows the frames as they are, without a model. ``photograph`` is the one
    that moves if the source is "synthetic". ``camera`` is the address of a virtual camera that shows the pictures, as
    ``VideoWriter`` takes it.
    """
    source, shown = _source(options, photograph), options.window or not (options.output or options.headless)
    if (shown or camera) and source.length == 1:  # a picture: it stays until the window is closed
        source.close()
        source = _source(replace(options, loop=True), photograph)
    with source, contextlib.ExitStack() as stack:
        endless = source.length is None and options.frames is None and options.duration is None
        if endless and options.output and not shown:
            raise fb.SourceError(f"{source.name} has no end: say how many --frames to write, or the --duration")
        name = Path(options.model).stem
        opened = _open_window(source, name, vsync=options.vsync) if shown else None
        window = stack.enter_context(opened) if opened else None
        _open_contexts(options, window, stack)
        timer, networks = fb.GlTimer(), list[Network]()
        picture, hud = fb.GlTexture(*source.size, "rgba8", label="the picture"), Hud()
        if window:
            hud.announce(window, STARTING)

        task = _drawing(prepare, options, picture, timer, networks)
        recorder = Recorder(picture, fps=source.fps or 30.0, live=source.live)
        stack.callback(_print_written, recorder)  # when the files are closed: also after an error
        trace = stack.enter_context(contextlib.closing(Trace(options.profile))) if options.profile else None
        stack.enter_context(contextlib.closing(recorder))
        shows = stack.enter_context(_open_camera(camera, source)) if camera else None
        paced = (window is not None or camera != "") and options.vsync and not source.live
        player = Player(
            task, source, picture, window=window, hud=hud, timer=timer, laps=Laps(networks, timer), recorder=recorder,
            camera=shows, reopen=partial(_source, options, photograph), trace=trace,
            seconds_per_frame=1 / (source.fps or 30) if paced else 0.0,
            legend=LEGEND, on_key=press,
        )  # fmt: skip
        for path in options.output:
            recorder.open(path)
        player.laps.mode = "copying" if options.copying else "gpu"
        stack.callback(lambda: player.source.close())
        source.mirror = options.mirror
        frames, seconds = _limits(options, source)
        length = min((n for n in (frames, source.length) if n is not None), default=None)
        bar = contextlib.nullcontext(lambda: None) if length is None else progress_bar("frames", length)
        with bar as advance:
            return player.play(frames=frames, duration=seconds, advance=advance)


def _drawing(
    prepare: Callable[[Scene], Drawing] | None,
    options: Options,
    picture: fb.GlTexture,
    timer: fb.GlTimer,
    networks: list[Network],
) -> Drawing:
    """The drawing of a task. The networks that it loads are added to ``networks``."""
    if prepare is None:
        return Drawing(picture.copy_from)

    def load(model: str) -> Network:
        further = options.model_options().further if model == options.model else NO_OPTIONS
        network = Network(path := find_model(model), options.options(path), timer, further=further)
        networks.append(network)
        return network

    return prepare(Scene(load(options.model), picture, load))


def _open_camera(address: str, source: fb.video.Source) -> fb.video.VideoWriter:
    """A virtual camera for pictures of the source's frames. A person is told its name."""
    camera = fb.video.VideoWriter(address, source.size, source.fps or 30.0, reason=VIRTUAL_CAMERA)
    console.print(plain(_where(camera, address)))
    return camera


def _where(camera: fb.video.VideoWriter, address: str) -> str:
    """A sentence that says where the pictures are."""
    if camera.address:
        return f"browsers see the camera at {camera.address} until Ctrl-C"
    if "://" in address:
        return f"the pictures are sent to {fb.video.masked_address(address)} until Ctrl-C"
    kind, _, name = address.partition(":")
    named = f"'{name}' of {kind}" if name else f"of {kind}"
    return f"the camera {named} is there for other programs, until Ctrl-C"


def _open_window(source: fb.video.Source, name: str, *, vsync: bool) -> fb.Window:
    """A window for the source's frames and the bar below them."""
    try:
        return fb.Window(*with_bar(source.size), f"framebind: {name}", vsync=vsync)
    except fb.DeviceError as error:
        raise fb.DeviceError(f"{error}. A demo needs no window with --output FILE or --headless") from error


def _open_contexts(options: Options, window: fb.Window | None, stack: contextlib.ExitStack) -> None:
    """Make the GL context that draws current: the window's, or one of its own.

    If --device names the model's OpenCL device, its context is current as well.
    """
    on_gl = options.device and options.api is GL
    if on_gl and window is not None:
        raise typer.BadParameter("--device of OpenGL needs --headless: a window is on the GPU of its screen")
    if window is None:
        stack.enter_context(GL.new_context(options.device if on_gl else ""))
    if options.device and not on_gl:
        stack.enter_context(options.api.new_context(options.device))


def _limits(options: Options, source: fb.video.Source) -> tuple[int | None, float | None]:
    """The most frames, and the most seconds, to play. For a file or synthetic motion, these are seconds of the video.

    Each frame gives one picture, however long it takes to compute. A picture that stays in a window has no
    duration, unless it is recorded.
    """
    if options.duration is None or source.live or not (source.fps or options.output):
        return options.frames, options.duration
    frames = max(round(options.duration * (source.fps or 30.0)), 1)
    return min(frames, options.frames or frames), None


def _print_written(recorder: Recorder) -> None:
    for path in recorder.written:
        console.print(plain(f"wrote {path}"))


def _source(options: Options, photograph: Path) -> fb.video.Source:
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
    is_camera, is_synthetic = name.isdecimal(), name == "synthetic" or name.startswith("synthetic:")
    for option, given, taken in (
        ("--size", size, is_camera or is_synthetic), ("--fps", options.fps, is_camera),
        ("--fourcc", options.fourcc, is_camera),
    ):  # fmt: skip
        if given is not None and not taken:
            raise typer.BadParameter(f"{option} is for {TAKES[option]}: '{fb.video.masked_address(name)}' has its own")
    written = [*options.output, *([options.profile] if options.profile else [])]
    _check_written(written, source=name, model=options.model)
    name = f"synthetic:{photograph}" if name == "synthetic" else name
    return fb.open_source(
        name, size=size, fps=options.fps, fourcc=options.fourcc, matrix=options.matrix, loop=options.loop
    )


def _check_written(written: Sequence[Path], *, source: str, model: str) -> None:
    """Refuse to write a file that is also read, is in a folder of pictures that is read, or is named twice.

    ``source`` and ``model`` are anything that --source and --model take. Raises BadParameter.
    """
    places = [path.resolve() for path in written]
    for path, place in zip(written, places, strict=True):
        if places.count(place) > 1:
            raise typer.BadParameter(f"'{path}' would be written twice: give each file once")
        is_read = any(_is_same(path, read) for read in (source, source.removeprefix("synthetic:"), model))
        if is_read or (path.exists() and _is_same(path.parent, source)):
            raise typer.BadParameter(f"'{path}' is read and would be replaced: write to another file")


def _is_same(one: Path, other: str) -> bool:
    """True if both are the same file or folder, by whatever names; False if one of them does not exist."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def main(prepare: Callable[[Scene], Drawing], options: Options, *, photograph: Path = PHOTOGRAPH) -> None:
    """Run a task as a program: print the report at the end, or one line and exit code 1 if it fails."""
    # FFmpeg and OpenCV print a line for each damaged frame, each refused connection and each frame that a full disk
    # does not take; our own message says it once.
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")
    try:
        with ended_by_signals():
            report = run(prepare, options, photograph=photograph)
    except fb.FramebindError as error:
        console.print(plain(f"{type(error).__name__}: {error}"))
        raise typer.Exit(1) from error
    console.print(plain(report))
