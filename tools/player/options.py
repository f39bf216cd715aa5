"""The command line that the demos share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..common.flags import FrameFlags, field_parameters, set_parameters

Option = typer.Option


@dataclass(frozen=True)
class Options(FrameFlags):
    """The options of the command line that all demos have."""

    model: Annotated[str, Option(help="A .tflite file, or the name of a known model; the demo's own if not given.")]
    source: Annotated[
        str,
        Option(
            help="A camera's index, a video, a picture, a folder of them, an address (rtsp://, http://), a GStreamer "
            "pipeline, synthetic, or synthetic:PICTURE."
        ),
    ] = "synthetic"
    output: Annotated[
        list[Path],
        Option("--output", "--record", help="A video (.mp4, .mkv, .avi) or the last picture (.png); may be repeated."),
    ] = field(default_factory=list)
    camera: Annotated[int | None, Option(min=0, help="The camera of that number; the same as --source N.")] = None
    window: Annotated[bool, Option("--window", help="Show a window; the default if there is no --output.")] = False
    headless: Annotated[bool, Option("--headless", help="Show no window.")] = False
    frames: Annotated[int | None, Option(min=1, help="Stop after this many frames.")] = None
    duration: Annotated[
        float | None, Option(min=0, help="Stop after this many seconds of the source, by its own time.")
    ] = None
    loop: Annotated[bool, Option("--loop", help="Begin a video or pictures again at their end.")] = False
    size: Annotated[str | None, Option(help="WIDTHxHEIGHT of camera and synthetic frames.")] = None
    fps: Annotated[float | None, Option(min=1, help="Frames per second to ask a camera for.")] = None
    fourcc: Annotated[
        Literal["MJPG", "YUYV", "NV12"] | None,
        Option(help="The format to ask a camera for; YUYV and NV12 are converted on the GPU."),
    ] = None
    matrix: Annotated[
        Literal["bt601", "bt709"], Option(help="Colour space of YUYV and NV12: of webcams, or of HD video grabbers.")
    ] = "bt601"
    mirror: Annotated[bool, Option("--mirror", help="Mirror the frames, left to right.")] = False
    vsync: Annotated[
        bool, Option(help="Wait for the display, and show videos at their own speed; or run as fast as possible.")
    ] = True
    copying: Annotated[
        bool, Option("--copying", help="Copy each frame through the CPU, as programs without bindings do.")
    ] = False
    profile: Annotated[
        Path | None, Option(help="Write the times of each stage of each frame to this file, for chrome://tracing.")
    ] = None


def demo(model: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make ``function(options, ...)`` a command for typer, with its own parameters and the fields of Options.

    ``model`` is the default of --model; "" if the function chooses one itself. A second --source is an error: typer
    itself would take the last one without a word.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        # Not get_type_hints: Python 3.10 hides the Annotated of a parameter with the default None in an Optional.
        signature = inspect.signature(function, eval_str=True)
        own = [parameter for parameter in signature.parameters.values() if parameter.name != "options"]
        defaults: dict[str, Any] = {"model": model, "source": [Options.source]}
        parameters = [
            p.replace(annotation=Annotated[list[str], p.annotation.__metadata__[0]]) if p.name == "source" else p
            for p in field_parameters(Options, defaults)
        ]

        @functools.wraps(function)
        def command(**given: Any) -> None:
            of_all = {f.name: given.pop(f.name) for f in fields(Options)}
            source, *more = of_all["source"]
            if more:
                raise typer.BadParameter(f"--source is given {1 + len(more)} times: a run has one source")
            function(Options(**of_all | {"source": source}), **given)

        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        set_parameters(command, [*own, *parameters])
        return command

    return decorate
