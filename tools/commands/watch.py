"""``python -m framebind watch``: cameras, network streams and files at once through a model, until Ctrl-C."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

import typer

import framebind as fb

from ...video.live.server import Page, parse_place
from ...video.live.watcher import Watcher, open_viewer
from ...video.session.tasks import TASKS
from ...video.signals import ended_by_signals
from ...video.work import TaskName, Work
from ..common.console import make_console, plain
from ..common.flags import AUTO, GpuFlags, Option, checked_backend, with_flags
from ..displays.streams import as_line, shown

Streams = Annotated[
    list[str],
    typer.Argument(metavar="STREAM...", help="Addresses (rtsp://, http://, srt://, rtmp://), cameras' numbers, files."),
]
Task = Annotated[str, typer.Option(help=f"One of {', '.join(name for name in TASKS if name != 'raw')}.")]
Model = Annotated[str, typer.Option(help="A .tflite file or a known model; by default the task's own.")]
Labels = Annotated[Path | None, typer.Option(help="The names of the classes of detect or classify, one per line.")]
Jsonl = Annotated[Path | None, typer.Option(help="Append a line per result to this file.")]
Web = Annotated[
    str, typer.Option(metavar="[HOST:]PORT", help="Serve a page with the pictures and figures; for this machine only, "
                      "unless another HOST is named.")
]  # fmt: skip
Stall = Annotated[float, typer.Option(min=0.1, max=600, help="Seconds without a packet until a stream counts as lost.")]
GiveUp = Annotated[
    float | None, typer.Option(min=0, help="Seconds for which a lost stream is tried again; by default without end.")
]
Allow = Annotated[list[str] | None, typer.Option(metavar="SCHEME", help="Allow addresses of udp, rtp or tcp, too.")]


@dataclass(frozen=True, kw_only=True)
class WatchFlags(GpuFlags):
    """The options of the delegate. By default streams are watched on CUDA if a GPU of NVIDIA is there."""

    backend: Annotated[
        str, Option(callback=checked_backend, help="gl, cl, cuda, or auto: cuda if it is there, or gl.")
    ] = AUTO


@with_flags
def watch(
    streams: Streams,
    task: Task = "detect",
    model: Model = "",
    labels: Labels = None,
    jsonl: Jsonl = None,
    web: Web = "",
    stall: Stall = 5.0,
    give_up: GiveUp = None,
    allow: Allow = None,
    *,
    flags: WatchFlags,
) -> None:
    """Watch streams: the newest frame of each goes through a model; streams that are lost are connected again.

    Example: python -m framebind watch 0 rtsp://192.168.1.20/door --task detect --jsonl found.jsonl --web 8080
    """
    console = make_console(stderr=True, soft_wrap=True)
    work, options = _work(task, model, labels, flags), _options(streams, stall, give_up, allow)
    place = _place(web)
    with contextlib.ExitStack() as stack:
        watcher = Watcher(stack.enter_context(open_viewer(work)), streams, options)
        if place is not None:
            page = stack.enter_context(contextlib.closing(Page(*place, watcher.figures, watcher.pictures)))
            console.print(plain(f"the page is at {page.address}"))
            if page.is_public:
                console.print(plain("whoever reaches this machine sees the streams: the page asks for no password"))
        try:
            with ended_by_signals(), shown(lambda: [each.snapshot() for each in watcher.streams]) as show:
                watcher.run(jsonl, show)
        except KeyboardInterrupt:
            pass
    for each in watcher.streams:
        snapshot = each.snapshot()
        console.print(plain(as_line(snapshot) + (f": {snapshot.status}" if each.state == "failed" else "")))
    if any(each.state == "failed" for each in watcher.streams):
        raise typer.Exit(1)


def _work(task: str, model: str, labels: Path | None, flags: GpuFlags) -> Work:
    if task == "raw":
        raise typer.BadParameter("raw outputs are for `process`: a task says what was found", param_hint="--task")
    try:
        return Work(cast("TaskName", task), model, save=(), labels=labels, options=flags.model_options())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _options(streams: list[str], stall: float, give_up: float | None, allow: list[str] | None) -> fb.StreamOptions:
    """The rules of addresses. Raises BadParameter for a scheme that is not allowed."""
    schemes = tuple(dict.fromkeys((*fb.StreamOptions().schemes, *(allow or ()))))
    try:
        options = fb.StreamOptions(schemes=schemes, stall=stall, attempts=None, seconds=give_up)
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
