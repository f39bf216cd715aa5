"""Prints, from shapes alone, the least time that a frame of each model can take on a GPU: bytes, arithmetic, steps.

python benchmarks/roofline.py [MODEL ...] [--storage f32|f16] [--steps]

*arena* is the memory of intermediate tensors, and *alive* the most bytes of them that are needed at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from names import FLOAT
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from framebind.delegate.claim.claims import claim
from framebind.delegate.compiler import compile_program
from framebind.delegate.plan.arena import most_alive
from framebind.delegate.plan.binding import Binding
from framebind.delegate.read.reader import read_model
from framebind.delegate.run.program import Program
from framebind.delegate.statistics import work_of
from framebind.interop.device import Step
from framebind.interop.null.device import NullDevice
from framebind.kernels.views import Dense, Picture, Storage, picture_parameters
from framebind.tools.measure.measure import FRAME
from framebind.video.models import find_model

WIDTH = 110
"""Width of the table in characters, also if the output is no terminal."""
BYTES_PER_US = 4.3e6
"""Bytes that an NVIDIA H200's memory moves; its data sheet says 4.8e6. Most tensors fit its cache, which is faster."""
MULTIPLY_ADDS_PER_US = 33.5e6
"""Multiply-adds of an H200 in float32, by its data sheet: 67 TFLOPS."""
STEP_US = 1.3
"""Time of a step inside one dispatch for the whole network, which is a device-wide barrier. Measured on an H200 before
this library was written. As a dispatch of its own, a step takes 1.9 us and more.
"""
INVOCATIONS = 132 * 2048
"""Invocations that keep an H200 busy: kernels are chosen for it."""


@dataclass(frozen=True)
class Work:
    """Work of one step: bytes read and written once each, multiply-adds of convolutions, and invocations."""

    label: str
    nbytes: int
    multiply_adds: int
    invocations: int

    @property
    def floor_us(self) -> float:
        """The least time of the step in microseconds, without its launch."""
        return max(self.nbytes / BYTES_PER_US, self.multiply_adds / MULTIPLY_ADDS_PER_US)


def work(step: Step) -> Work:
    """The work of a step; a texture is a whole frame of the camera's."""
    found, source = work_of(step, FRAME[0] * FRAME[1] * 4), step.kernel.source
    invocations = source.group_size * step.group_count
    return Work(f"{source.name} {step.label}", found.nbytes, found.multiply_adds, invocations)


def program_for(path: Path, storage: Storage, *, matrix_units: bool = False) -> Program:
    """The model on the null device, pictures bound to frames and all else to buffers."""
    subgraph = read_model(path.read_bytes()).subgraphs[0]
    claims = claim(subgraph, lambda: NullDevice().traits.target)
    graph = claims.graph(sorted(claims.nodes), subgraph.inputs, subgraph.outputs)
    inputs, shapes = graph.inputs, {t: graph.tensors[t].bhwc for t in (*graph.inputs, *graph.outputs)}  # as the model's
    device = NullDevice(group_size=128, invocations=INVOCATIONS)
    device.traits = replace(device.traits, matrix_units=matrix_units)
    program = Program(device, compile_program(graph, device.traits, storage))
    for tensor, shape in shapes.items():
        if tensor in inputs and shape[3] == 3:
            view = Picture(shape, "rgba8", "rgb", "bilinear")
            texture = device.texture(*FRAME, "rgba8", "frame")
            program.bind(tensor, Binding(texture, view, picture_parameters(shape, FRAME)))
        else:
            program.bind(tensor, Binding(device.buffer(Dense(shape).nbytes, "bound"), Dense(shape)))
    return program


def paths_of(names: Sequence[str]) -> Iterator[Path]:
    """The models of names, files and folders."""
    for name in names:
        if Path(name).is_dir():
            yield from sorted(Path(name).glob("*.tflite"))
        else:
            yield find_model(name)


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, .tflite files, or folders of them.")] = None,
    storage: Annotated[Literal["f32", "f16"], typer.Option(help="Of constants and intermediates.")] = "f16",
    steps: Annotated[bool, typer.Option("--steps", help="Also every step.")] = False,
) -> None:
    console = Console(width=WIDTH, soft_wrap=True)
    table = Table(title=f"Floors on an NVIDIA H200, {storage}, microseconds", box=SIMPLE, padding=(0, 1, 0, 0))
    columns = (
        "model",
        "steps",
        "MB",
        "multiply-adds M",
        "bytes",
        "arithmetic",
        "steps at 1.3",
        "floor",
        "arena MB",
        "alive",
    )
    for column in columns:
        table.add_column(column, no_wrap=True, justify="left" if column == "model" else "right")
    for path in paths_of(models or FLOAT):
        program = program_for(path, storage)
        items = [work(step) for step in program.record().steps]
        nbytes, adds = sum(item.nbytes for item in items), sum(item.multiply_adds for item in items)
        launches = len(items) * STEP_US
        floor = sum(item.floor_us for item in items) + launches
        times = (nbytes / BYTES_PER_US, adds / MULTIPLY_ADDS_PER_US, launches, floor)
        table.add_row(
            path.stem,
            str(len(items)),
            f"{nbytes / 1e6:.1f}",
            f"{adds / 1e6:,.0f}",
            *(f"{t:.0f}" for t in times),
            f"{program.arena_nbytes / 1e6:.1f}",
            f"{most_alive(program.layout.lifetimes.values()) / 1e6 if program.layout else 0:.1f}",
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
