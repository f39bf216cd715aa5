"""Command line: ``python -m framebind COMMAND``, or ``framebind COMMAND``. A command is a file in tools/commands/.

Exit codes: 0 done; 1 failed, with one message that says why; 2 the command line is wrong.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

import typer

import framebind as fb

from .demos.command import demo
from .tools.commands.benchmark import benchmark
from .tools.commands.certify import certify
from .tools.commands.culprit import culprit
from .tools.commands.devices import devices
from .tools.commands.diff import diff
from .tools.commands.doctor import doctor
from .tools.commands.evaluate import evaluate
from .tools.commands.inspect import inspect
from .tools.commands.models import models
from .tools.commands.process import process
from .tools.commands.watch import watch
from .tools.common.console import printable
from .tools.common.flags import canonical
from .tools.common.output import leave_stdout
from .tools.measure.tool_flags import ToolCommand

COMMANDS = (doctor, devices, inspect, models, benchmark, diff, culprit, certify, process, watch)

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, context_settings={"token_normalize_func": canonical}
)
for command in COMMANDS:
    app.command(cls=ToolCommand)(command)
app.add_typer(evaluate, name="evaluate")
app.add_typer(demo, name="demo")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"framebind {fb.__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")]


@app.callback()
def framebind(version: Version = False) -> None:
    """TensorFlow Lite models on the GPU, on your own GL textures and buffers."""


def _open_closed_streams() -> None:
    """Open standard streams that are closed (``>&-``) to nowhere, or files that are written get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


def main() -> None:
    """Run the command that sys.argv names."""
    _open_closed_streams()
    gc.freeze()  # what was imported lives until the end: collections need not look at it again
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except fb.FramebindError as error:
        sys.exit(printable(f"{type(error).__name__}: {error}"))
    except OSError as error:  # the output, for instance to a full disk
        leave_stdout()
        # A pipe is closed by a reader that has read enough, as head does.
        sys.exit(1 if isinstance(error, BrokenPipeError) else printable(f"OSError: {error}"))


if __name__ == "__main__":
    main()
