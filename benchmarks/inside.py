"""Times each step inside one dispatch: work-group 0 reads the GPU's clock before and after every barrier.

python benchmarks/inside.py [MODEL ...] [--device-name NAME] [--runs N]

Events time whole dispatches only. *own* is work-group 0's part of a step. *whole* is the time until the next step
begins: it includes the slowest work-group and the barrier. *again* are the same times of a second run of each step
right after the first, when its instructions and data are in the caches. It needs NVIDIA's OpenCL, whose clocks inline
PTX can read.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from names import FLOAT
from one_dispatch import bind, record
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import framebind as fb
from framebind.delegate.run.program import Program
from framebind.interop.cl.compute.barrier import ClBarrier
from framebind.interop.device import Device, Resource, Step
from framebind.interop.discovery.devices import open_device
from framebind.interop.record.one_dispatch import Merged
from framebind.kernels.codegen.dialect import Dialect
from framebind.kernels.codegen.one_dispatch import ProgramSource
from framebind.video.models import find_model

MOST_ROWS = 1000
FIRST = 16
"""Index of the first clock in the barrier's state, in words of 64 bits. From 8 on: nanoseconds at both ends."""
COLUMNS = ("", "step", "kernel", "tiles", "own", "whole", "again: own", "whole")
CLOCKS = (
    '#define CLOCK(t) asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory")\n'
    '#define NANOSECONDS(t) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) :: "memory")\n'
)
cl_one_dispatch: Any = import_module("framebind.interop.cl.compute.one_dispatch")
"""The module whose names are replaced to measure."""
_render, _table = cl_one_dispatch.render_program, cl_one_dispatch.table


_STATE, _WAIT = (
    "  __local uint barrier_seen[2];",
    "wait_at_barrier(barrier_state, barrier_seen, barrier_spins);",
)
"""Lines of a program's loop over its steps (kernels/codegen/opencl.py)."""


def _note(place: str, nanoseconds: str = "") -> str:
    """OpenCL C: group 0 writes its clock, and the time, if ``nanoseconds`` names an index for it."""
    time_too = f"NANOSECONDS(t); clocks[{nanoseconds}] = t;" if nanoseconds else ""
    return (
        "if (get_global_id(0) == 0) { ulong t; volatile __global ulong* clocks = "
        f"(volatile __global ulong*)barrier_state; CLOCK(t); clocks[{place}] = t; {time_too} }}\n"
    )


def render_timed(source: ProgramSource, dialect: Dialect) -> str:
    """The program with the clock read before and after each barrier and at the end, and space for twice the rows.

    A work-group waits where it arrives, so that a step's own time holds the loads that it makes before it waits
    otherwise.
    """
    count = source.steps * source.row
    text = (
        _render(source, dialect)
        .replace(f"copy[{count}];", f"copy[{2 * count}];")
        .replace(f"i < {count};", f"i < {2 * count};")
    )
    head, loop = text.rsplit(_STATE, 1)
    loop = loop.replace("tile == first ? row[3] : 0", "0")
    for before, replaced in (
        ("if (row[3] != 0 && first >= tiles)", "if (0)"),
        ("if (row[3] != 0) {", f"{_note(f'{FIRST} + 2 * i')}if (row[3] != 0) {{"),
        ("int tiles =", f"if (row[3] != 0) {{ {_WAIT} }} {_note(f'{FIRST + 1} + 2 * i')}int tiles ="),
    ):
        assert loop.count(before) == 1
        loop = loop.replace(before, replaced)
    loop = loop.replace("for (int i = 0;", f"{_note(str(FIRST), '8')}  for (int i = 0;", 1)
    end = loop.rindex("}")
    loop = f"{loop[:end]}{_note(f'{FIRST} + 2 * rows', '9')}{loop[end:]}"
    return f"{CLOCKS}{head}{_STATE}{loop}"


def enlarge_barrier_state(device: Device) -> Resource:
    """Make the barrier's state larger, with the clocks behind it; returns its buffer."""
    buffer = device.buffer(8 * (FIRST + 2 * MOST_ROWS + 2), "clocks")
    device.write(buffer, np.zeros(buffer.nbytes // 4, np.uint32), "clocks")
    state = functools.cached_property(lambda _: buffer.memory)  # type: ignore[attr-defined]
    state.__set_name__(ClBarrier, "state")
    ClBarrier.state = state  # type: ignore[assignment]
    return buffer


def twice(steps: Sequence[Step], merged: Merged, groups: int) -> npt.NDArray[np.int32]:
    """The table with each row twice, a barrier between the two. In-place steps compute nonsense, in the same time."""
    rows = _table(steps, merged, groups)
    again = rows.copy()
    again[:, 3] = 1
    return np.stack([rows, again], 1).reshape(-1, rows.shape[1])


def microseconds(
    device: Device, program: Program, state: Resource, make_table: Callable[..., npt.NDArray[np.int32]], runs: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The medians of *own* and *whole* of each row, in microseconds."""
    cl_one_dispatch.table = make_table
    commands = record(device, program, "one")
    rows = len(program.steps) * (2 if make_table is twice else 1)
    own: list[npt.NDArray[np.float64]] = []
    whole: list[npt.NDArray[np.float64]] = []
    clocks = np.empty(FIRST + 2 * rows + 1, np.uint64)
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until or len(own) < runs:
        commands.run()
        device.finish()
        device.read(state, clocks, "clocks")
        ticks = clocks[FIRST:].astype(np.float64)
        scale = float(clocks[9] - clocks[8]) / (ticks[-1] - ticks[0]) / 1e3
        arrived, begun = ticks[0::2], ticks[1::2]
        own.append((arrived[1:] - begun) * scale)
        whole.append((np.append(begun[1:], arrived[-1]) - begun) * scale)
    commands.release()
    return np.median(own[-runs:], 0), np.median(whole[-runs:], 0)


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    device_name: Annotated[str, typer.Option(help="A part of the device's name.")] = "nvidia",
    storage: Annotated[str, typer.Option(help="f16 or f32.")] = "f16",
    runs: Annotated[int, typer.Option(help="Runs of which medians are taken.")] = 50,
) -> None:
    """A table for each model: microseconds of each step inside one dispatch."""
    cl_one_dispatch.render_program = render_timed
    with fb.cl.ClContext(device_name or None):
        device = open_device("opencl")
        state = enlarge_barrier_state(device)
        device.dispatches = "one"
        for path in map(find_model, models or FLOAT):
            cl_one_dispatch.table = _table
            model = bind(path, storage, device, "opencl")
            model.frame()
            program = model.program
            own, whole = microseconds(device, program, state, _table, runs)
            own_again, whole_again = (each[1::2] for each in microseconds(device, program, state, twice, runs))
            table = Table(
                box=SIMPLE, padding=(0, 1, 0, 0), title=f"{path.stem}, {storage}: {whole.sum():.1f} us inside"
            )
            for number, column in enumerate(COLUMNS):
                table.add_column(column, no_wrap=True, justify="right" if number > 2 else "left", max_width=36)
            for i, step in enumerate(program.steps):
                figures = (f"{each[i]:.2f}" for each in (own, whole, own_again, whole_again))
                table.add_row(str(i), step.label, step.kernel.source.name, str(step.group_count), *figures)
            Console(width=110, soft_wrap=True).print(table)
            model.delegate.close()
        device.close()


if __name__ == "__main__":
    typer.run(main)
