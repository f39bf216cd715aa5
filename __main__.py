"""Command line: ``python -m framebind COMMAND``, or ``framebind COMMAND``. A command is a file in tools/commands/.

Exit codes: 0 done; 1 failed, with one message that says why; 2 the command line is wrong.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import framebind as fb

from .tools.common.console import printable
from .tools.common.flags import ToolCommand, canonical
from .tools.common.output import leave_stdout

COMMANDS = (
    "doctor", "devices", "inspect", "models", "benchmark", "diff", "culprit", "certify", "process", "watch", "camera",
    "evaluate", "demo",
)  # fmt: skip


class _Commands(TyperGroup):
    """The commands. Each is imported when it is asked for, since importing them all takes longer than most starts."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name) if cmd_name in COMMANDS else None


def _command(name: str) -> Any:
    """The command of that name, for Typer: its file's function, or group of commands, of the same name."""
    module = import_module(".demos.command" if name == "demo" else f".tools.commands.{name}", __package__)
    found = getattr(module, name)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(cls=ToolCommand)(function)
    command = typer.main.get_command(found)
    command.name = name
    return command


app = typer.Typer(
    cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False,
    context_settings={"token_normalize_func": canonical},
)  # fmt: skip


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
