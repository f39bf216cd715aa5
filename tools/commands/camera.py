"""``python -m framebind camera``: a blurred, replaced or painted picture as a camera that other programs can use."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from functools import partial
from typing import Annotated, Any, Literal

import typer

import framebind as fb

from ...video.signals import ended_by_signals
from ...video.tasks import find_task
from ...video.vision.effects import BLUR_NAME, check_background
from ...video.work import RAW, task_for
from ..common.console import counted, make_console, plain
from ..common.flags import FrameFlags, with_flags
from ..common.output import print_line
from ..player.options import Options
from ..player.run import run

Effect = Literal["blur", "background", "style", "matte", "none"]
WINDOW = "window"
GREEN = "#00b140"
"""The background of the effect "matte": programs such as OBS make this green transparent ("chroma key")."""
TASKS = {"blur": "matte", "background": "matte", "matte": "matte", "style": "style"}
KINDS = ("pipewire", "v4l2", "http", "rtsp", "rtsps", "srt", "whip")
NAME = "framebind"
"""The camera's name in PipeWire, unless --to has another one."""

Source = Annotated[
    str,
    typer.Argument(
        help="A camera's index, a video or a picture (shown again and again), an address (rtsp://, http://), synthetic."
    ),
]
EffectOption = Annotated[
    Effect | None,
    typer.Option(
        help="Blur the background, replace it by --background, paint everything in a style, put people before the "
        "green that OBS makes transparent (matte), or none. By default blur, or what the --model is for."
    ),
]
Background = Annotated[str, typer.Option(help="For background and matte: a colour as #rrggbb, or a picture.")]
Model = Annotated[str, typer.Option(help="A .tflite file or a known model; by default the effect's own.")]
To = Annotated[
    list[str],
    typer.Option(
        metavar="pipewire[:NAME]|v4l2[:DEVICE]|http://[HOST]:PORT|rtsp://...|srt://...|whip://...|window",
        help="Where the picture goes: to programs, browsers or a server; window may be added to another one.",
    ),
]
Size = Annotated[str | None, typer.Option(help="WIDTHxHEIGHT of camera and synthetic frames.")]
Fps = Annotated[float | None, typer.Option(min=1, help="Frames per second to ask a camera for.")]
Mirror = Annotated[bool, typer.Option("--mirror", help="Mirror the frames, left to right.")]
Frames = Annotated[int | None, typer.Option(min=1, help="Stop after this many frames.")]
List = Annotated[bool, typer.Option("--list", help="List what can be written to, and end.")]


@with_flags
def camera(
    source: Source = "0",
    effect: EffectOption = None,
    background: Background = "",
    model: Model = "",
    to: To = ["pipewire"],  # noqa: B006 - Typer copies it
    size: Size = None,
    fps: Fps = None,
    mirror: Mirror = False,
    frames: Frames = None,
    list_: List = False,
    *,
    flags: FrameFlags,
) -> None:
    """Make a camera that meetings, OBS and browsers can open, or that a server gets, of a camera, a video or a picture.

    It computes nothing until a program opens it.

    Example: python -m framebind camera --effect blur

    Example: python -m framebind camera --effect background --background beach.jpg --to pipewire:Beach 1

    Example: python -m framebind camera --effect style talk.mp4 --to http://:8080
    """
    if list_:
        _print_list()
        return
    address, shown = _places(to)
    task, given = _task(effect, background, model, flags)
    options = Options(
        model=model or (find_task(task).model if task else ""), source=source, size=size, fps=fps, mirror=mirror,
        frames=frames, loop=True, window=shown, headless=not shown,
        **{f.name: getattr(flags, f.name) for f in fields(FrameFlags)},
    )  # fmt: skip
    console = make_console(stderr=True, soft_wrap=True)
    prepare = partial(find_task(task).prepare, **given) if task else None
    with ended_by_signals():
        report = run(prepare, options, camera=address)
    console.print(plain(report if report.frames else f"shown: {counted(report.frames, 'frame')}"))


def _print_list() -> None:
    """Print a line for each place that pictures can go to."""
    for place in fb.video.list_virtual_cameras():
        print_line(f"{place.address}: {'' if place.is_ready else 'no, '}{place.about}")
    has_screen = sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    print_line(f"{WINDOW}: {'on this screen' if has_screen else 'no, there is no screen'}")


def _places(to: list[str]) -> tuple[str, bool]:
    """The address of the virtual camera ("" for none), and whether there is a window. Raises BadParameter."""
    cameras = [place for place in to if place != WINDOW]
    for place in cameras:
        if place.partition(":")[0] not in KINDS:
            raise typer.BadParameter(f"'{place}' is none of {', '.join(KINDS)} and {WINDOW}", param_hint="--to")
    if len(cameras) > 1:
        raise typer.BadParameter("a run makes one camera, and may show a window besides", param_hint="--to")
    address = "".join(cameras)
    return f"{address}:{NAME}" if address == KINDS[0] else address, WINDOW in to


def _task(effect: Effect | None, background: str, model: str, flags: FrameFlags) -> tuple[str, dict[str, Any]]:
    """The task that makes the picture ("" for none), and its options. Raises BadParameter for what does not fit."""
    if background and effect not in ("background", "matte"):
        raise typer.BadParameter("a background is for --effect background or matte", param_hint="--background")
    if effect == "none":
        if model:
            raise typer.BadParameter("the effect none runs no model", param_hint="--model")
        return "", {}
    if effect is None and model:
        task = task_for("", model, further=flags.model_options().further)
        if task == RAW:
            raise typer.BadParameter(f"no task knows the outputs of '{model}': name an --effect", param_hint="--model")
        return task, {}
    if background:
        check_background(background)
    behind = {"background": background, "matte": background or GREEN, "blur": BLUR_NAME}
    task = TASKS[effect or "blur"]
    return task, {"background": behind[effect or "blur"]} if task == "matte" else {}
