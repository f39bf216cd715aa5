"""Prints, from shapes alone, the least time that a frame of each model can take on a GPU: bytes, arithmetic, steps.

python benchmarks/roofline.py [MODEL ...] [--storage f32|f16] [--steps]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import typer
from names import FLOAT
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from framebind.delegate.bindings import Binding
from framebind.delegate.claims import build_graph, claim
from framebind.delegate.program import Program
from framebind.delegate.reader import read_model
from framebind.demos.measure import FRAME
from framebind.demos.models import find_model
from framebind.interop.device import Step
from framebind.interop.null import NullDevice
from framebind.kernels.layout import Dense, Picture, Storage, picture_parameters
from framebind.kernels.layout import Table as Constants

WIDTH = 110
"""Of the table, in characters, also where the output is no terminal."""
BYTES_PER_US = 4.3e6
"""What an NVIDIA H200's memory moves, of 4.8e6 by its data sheet. Most tensors here fit its cache, which is faster."""
MULTIPLY_ADDS_PER_US = 33.5e6
"""Of an H200 in float32, by its data sheet: 67 TFLOPS."""
STEP_US = 1.3
"""A step of one dispatch for the whole network, measured on an H200 before this library was written: a device-wide
barrier. As a dispatch of its own it costs 1.9 us and more.
"""
INVOCATIONS = 132 * 2048
"""What keeps an H200 busy: kernels are chosen for it."""


@dataclass(frozen=True)
class Work:
    """Of one step: bytes read and written once each, multiply-adds of convolutions, and invocations."""

    label: str
    nbytes: int
    multiply_adds: int
    invocations: int

    @property
    def floor_us(self) -> float:
        """Without its launch."""
        return max(self.nbytes / BYTES_PER_US, self.multiply_adds / MULTIPLY_ADDS_PER_US)


def work(step: Step) -> Work:
    """Every multiplier of a table named "weights" is used once a pixel of the output (or, transposed, of the input)."""
    source = step.kernel.source
    views = {argument.name: argument.view for argument in source.arguments}
    counted = views["src"] if source.name == "transpose_conv" else views.get("dst")
    pixels = 0 if counted is None or isinstance(counted, Constants) else math.prod(counted.shape[:3])
    factors = sum(4 * v.count for name, v in views.items() if isinstance(v, Constants) and name.endswith("weights"))
    picture = sum(FRAME[0] * FRAME[1] * 4 for v in views.values() if isinstance(v, Picture))
    nbytes = sum(view.nbytes for view in views.values()) + picture
    return Work(f"{source.name} {step.label}", nbytes, pixels * factors, source.group * step.tiles)


def program_for(name: str, storage: Storage) -> Program:
    """The model on the null device, pictures bound to frames and all else to buffers."""
    subgraph = read_model(find_model(name).read_bytes()).subgraphs[0]
    claims = claim(subgraph)
    graph = build_graph(claims, sorted(claims.nodes), subgraph.inputs, subgraph.outputs, {})
    device = NullDevice(group=128, invocations=INVOCATIONS)
    program = Program(device, graph, storage)
    for tensor in (*graph.inputs, *graph.outputs):
        shape = graph.tensors[tensor].bhwc
        if tensor in graph.inputs and shape[3] == 3:
            view = Picture(shape, "rgba8", "rgb", "bilinear")
            texture = device.texture(*FRAME, "rgba8", "frame")
            program.bind(tensor, Binding(texture, view, picture_parameters(shape, FRAME, "rgb")))
        else:
            program.bind(tensor, Binding(device.buffer(Dense(shape).nbytes, "bound"), Dense(shape)))
    return program


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    storage: Annotated[Literal["f32", "f16"], typer.Option(help="Of constants and intermediates.")] = "f16",
    steps: Annotated[bool, typer.Option("--steps", help="Also every step.")] = False,
) -> None:
    console = Console(width=WIDTH, soft_wrap=True)
    table = Table(title=f"Floors on an NVIDIA H200, {storage}, microseconds", box=SIMPLE, padding=(0, 1, 0, 0))
    columns = ("model", "steps", "MB", "multiply-adds M", "bytes", "arithmetic", "steps at 1.3", "floor")
    for column in columns:
        table.add_column(column, no_wrap=True, justify="left" if column == "model" else "right")
    for name in models or FLOAT:
        items = [work(step) for step in program_for(name, storage).steps]
        nbytes, adds = sum(item.nbytes for item in items), sum(item.multiply_adds for item in items)
        launches = len(items) * STEP_US
        floor = sum(item.floor_us for item in items) + launches
        times = (nbytes / BYTES_PER_US, adds / MULTIPLY_ADDS_PER_US, launches, floor)
        table.add_row(
            find_model(name).stem,
            str(len(items)),
            f"{nbytes / 1e6:.1f}",
            f"{adds / 1e6:,.0f}",
            *(f"{t:.0f}" for t in times),
        )
        for item in items if steps else ():
            console.print(
                f"{item.floor_us:7.2f} us {item.nbytes / 1e3:9,.0f} kB {item.multiply_adds / 1e6:7.1f} M "
                f"{item.invocations:9,} invocations  {item.label}",
                highlight=False,
            )
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
