"""``python -m framebind certify``: compares this machine's drivers with LiteRT's CPU kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Devices = Annotated[
    list[str] | None,
    typer.Option("--device", help="gl, gles, cuda, cl, or cl:NAME; several times for several. By default each GPU."),
]
Everything = Annotated[bool, typer.Option("--all", help="All operator cases, which takes up to 30 minutes.")]
Minutes = Annotated[
    float | None, typer.Option(min=0.0, help="The most minutes that it may take; by default 3, or 30 with --all.")
]
Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODEL", help="Your own .tflite files: their names and messages will be in the file."),
]
Output = Annotated[Path, typer.Option(help="The JSON file; the page of text is beside it.")]


def certify(
    models: Models = None,
    device: Devices = None,
    everything: Everything = False,
    minutes: Minutes = None,
    output: Output = Path("certificate.json"),
) -> None:
    """Check each operator and model on this machine's devices against LiteRT's CPU kernels, and write a report.

    Exit status 1 if anything differs, fails, crashes or hangs. Ctrl-C stops it; the same command goes on from there.

    Example: python -m framebind certify

    Example: python -m framebind certify --device cl:pocl --minutes 10
    """
    # Only now: the cases of all operators take as long to import as all that other commands need.
    from ..certify.command import run_certification

    run_certification(models or [], device, everything=everything, minutes=minutes, output=output)
