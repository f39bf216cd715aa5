"""The command line: ``python -m framebind devices``."""

from __future__ import annotations

import dataclasses
import json
import sys
from importlib.util import find_spec
from typing import Annotated

import framebind as fb

if missing := [name for name in ("rich", "typer") if find_spec(name) is None]:
    sys.exit(f"the command line needs {' and '.join(missing)}: pip install 'framebind[demos]'")

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(help="TensorFlow Lite models on the GPU, on your own GL textures and buffers.", no_args_is_help=True)


@app.callback()
def _commands() -> None:
    """Makes ``devices`` a command of its own, though it is the only one."""


@app.command()
def devices(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """List the GL and OpenCL devices, how they share memory, and what a model is best run on."""
    found = fb.CompatibilityList()
    best = found.best_options_for_this_device()
    if as_json:
        content = {
            "devices": [dataclasses.asdict(device) for device in found.devices],
            "sharing": [dataclasses.asdict(report) for report in found.sharing],
            "delegate_supported": found.is_delegate_supported_on_this_device(),
            "best_options": dataclasses.asdict(best),
        }
        print(json.dumps(content, indent=2))
        return
    console = Console(soft_wrap=False)
    console.print(_device_table(found))
    console.print(_sharing_table(found))
    advice = (
        f"GpuDelegate with the backend '{best.backend}'"
        if best.backend
        else f"no delegate, and Interpreter(num_threads={best.num_threads})"
    )
    console.print(f"Best here: {advice}: {best.reason}.", highlight=False)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", show_lines=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _device_table(found: fb.CompatibilityList) -> Table:
    table = _table("Devices", "API", "device", "version", "f16", "usable")
    for device in found.devices:
        usable = device.unusable or ("yes, but it is the CPU" if device.software else "yes")
        table.add_row(device.api, device.name, device.version, device.f16, usable)
    return table


def _sharing_table(found: fb.CompatibilityList) -> Table:
    table = _table("GL objects in models on OpenCL", "OpenGL", "OpenCL", "shared by", "not by")
    for report in found.sharing:
        refused = "\n".join(f"{name}: {reason}" for name, reason in report.refused.items())
        table.add_row(report.gl, report.cl, report.strategy or "nothing", refused)
    return table


if __name__ == "__main__":
    app(prog_name="python -m framebind")
