"""``python -m framebind watch``: cameras, network streams and files at once through a model, until Ctrl-C."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

import framebind as fb

from ...video.live.recording import SPACE
from ...video.live.server import Page, check_origin, parse_place
from ...video.live.watcher import Watcher, open_viewer
from ...video.signals import ended_by_signals
from ...video.tasks import task_names
from ...video.work import DETECT, RAW, STYLE, Work, task_for
from ..common.console import make_console, plain
from ..common.flags import Depth, Labels, Mean, Most, Std, VideoFlags, normalization, with_flags
from ..displays.streams import as_line, shown

Streams = Annotated[
    list[str],
    typer.Argument(metavar="STREAM...", help="Addresses (rtsp://, http://, srt://, rtmp://), cameras' numbers, files."),
]
Task = Annotated[
    str,
    typer.Option(
        help=f"One of {', '.join(name for name in task_names() if name != RAW)}; by default the one that knows the "
        "--model best, or detect without a --model."
    ),
]
Model = Annotated[str, typer.Option(help="A .tflite file or a known model; by default the task's own.")]
Jsonl = Annotated[Path | None, typer.Option(help="Append a line per result to this file.")]
All = Annotated[bool, typer.Option("--all", help="Write a line for each frame, also if nothing is found in it.")]
Web = Annotated[
    str, typer.Option(metavar="[HOST:]PORT", help="Serve a page with the pictures and figures; for this machine only, "
                      "unless another HOST is named.")
]  # fmt: skip
Embed = Annotated[
    list[str] | None, typer.Option(metavar="SITE", help="Let this site, such as http://localhost:3000, show the page.")
]
Record = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Write a video of what is found, from 3 seconds before it to 3 after, to this folder."
    ),
]
Space = Annotated[
    float, typer.Option(min=0.01, metavar="GB", help="Most gigabytes of recordings: the oldest ones are removed.")
]
Stall = Annotated[float, typer.Option(min=0.1, max=600, help="Seconds without a packet until a stream counts as lost.")]
GiveUp = Annotated[
    float | None, typer.Option(min=0, help="Seconds for which a lost stream is tried again; by default without end.")
]
Allow = Annotated[list[str] | None, typer.Option(metavar="SCHEME", help="Allow addresses of udp, rtp or tcp, too.")]


@with_flags
def watch(
    streams: Streams,
    task: Task = "",
    model: Model = "",
    labels: Labels = None,
    mean: Mean = "",
    std: Std = "",
    depth: Depth = "",
    most: Most = None,
    jsonl: Jsonl = None,
    all_frames: All = False,
    web: Web = "",
    embed: Embed = None,
    record: Record = None,
    record_space: Space = SPACE,
    stall: Stall = 5.0,
    give_up: GiveUp = None,
    allow: Allow = None,
    *,
    flags: VideoFlags,
) -> None:
    """Watch streams: the newest frame of each goes through a model; streams that are lost are connected again.

    Example: python -m framebind watch 0 rtsp://192.168.1.20/door --task detect --jsonl found.jsonl --web 8080
    """
    console = make_console(stderr=True, soft_wrap=True)
    if all_frames and jsonl is None:
        raise typer.BadParameter("lines go to the file of --jsonl: name one", param_hint="--all")
    work, options = (
        _work(task, model, {"labels": labels, "depth": depth, "most": most, **normalization(mean, std)}, flags),
        _options(streams, stall, give_up, allow),
    )
    if record is not None and work.task == STYLE:
        raise typer.BadParameter("'style' finds nothing that could be recorded", param_hint="--record")
    place, sites = _place(web), _sites(embed or [], web)
    with contextlib.ExitStack() as stack:
        viewer = stack.enter_context(open_viewer(work))
        watcher = Watcher(viewer, streams, options, folder=record, space=record_space)
        if place is not None:
            page = stack.enter_context(contextlib.closing(Page(*place, watcher.figures, watcher.pictures, embed=sites)))
            console.print(plain(f"the page is at {page.address}"))
            if page.is_public:
                console.print(plain("whoever reaches this machine sees the streams: the page asks for no password"))
        try:
            with ended_by_signals(), shown(watcher.snapshots) as show:
                watcher.run(jsonl, show, all_frames=all_frames)
        except KeyboardInterrupt:
            pass
    for each in watcher.snapshots():
        console.print(plain(as_line(each) + (f": {each.status}" if each.state == "failed" else "")))
    if any(each.state == "failed" for each in watcher.streams):
        raise typer.Exit(1)


def _work(task: str, model: str, given: dict[str, Any], flags: VideoFlags) -> Work:
    named, task = task, task_for(task, model, DETECT, flags.model_options().further)
    if task == RAW:
        raise typer.BadParameter(
            "raw outputs are for `process`: name a task that says what was found; no task knows the model by itself"
            if not named
            else "raw outputs are for `process`: a task says what was found",
            param_hint="--task",
        )
    try:
        return Work(task, model, save=(), options=flags.model_options(), **given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _options(
    streams: list[str], stall: float, give_up: float | None, allow: list[str] | None
) -> fb.video.StreamOptions:
    """The rules of addresses. Raises BadParameter for a scheme that is not allowed."""
    schemes = tuple(dict.fromkeys((*fb.video.StreamOptions().schemes, *(allow or ()))))
    try:
        options = fb.video.StreamOptions(schemes=schemes, stall=stall, attempts=None, seconds=give_up)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    for each in streams:
        scheme = each.partition("://")[0].lower() if "://" in each else ""
        if scheme and scheme not in (*schemes, "file"):
            raise typer.BadParameter(f"addresses begin with one of {', '.join(schemes)}, not '{scheme}' (--allow)")
    return options


def _place(web: str) -> tuple[str, int] | None:
    try:
        return parse_place(web) if web else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--web") from error


def _sites(embed: list[str], web: str) -> list[str]:
    """The sites that may show the page."""
    if embed and not web:
        raise typer.BadParameter("there is no page without --web", param_hint="--embed")
    try:
        return list(map(check_origin, embed))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--embed") from error
