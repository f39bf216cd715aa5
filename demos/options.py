"""The command line that the demos share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer

Model = Annotated[str, typer.Option(help="A .tflite file, or the name of a known model.")]
SourceName = Annotated[
    str, typer.Option(help="A camera's index, a video, a picture, a folder of them, synthetic or synthetic:PICTURE.")
]
Output = Annotated[
    list[Path] | None, typer.Option(help="A video (.mp4, .mkv, .avi) or the last picture (.png); may be repeated.")
]
Window = Annotated[bool, typer.Option("--window", help="Show a window; the default where there is no --output.")]
Frames = Annotated[int | None, typer.Option(min=1, help="Stop after this many frames.")]
Backend = Annotated[Literal["opengl"], typer.Option(help="The API that runs the model.")]
Size = Annotated[str | None, typer.Option(help="WIDTHxHEIGHT of camera and synthetic frames.")]


@dataclass(frozen=True)
class Options:
    """What the command line says, for every demo the same."""

    model: str
    source: str = "synthetic"
    output: list[Path] = field(default_factory=list)
    window: bool = False
    frames: int | None = None
    backend: Backend = "opengl"
    size: str | None = None
