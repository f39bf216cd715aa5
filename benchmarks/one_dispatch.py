"""Times each model's steps as separate dispatches and as one or few, and compares the results bit by bit.

python benchmarks/one_dispatch.py --backend opencl --check 10000 [MODEL ...]
python benchmarks/one_dispatch.py --backend opengl --way parts [MODEL ...]
python benchmarks/one_dispatch.py --backend cuda --way full --check 1000 [MODEL ...]

*full* is a graph of CUDA whose kernels start after the previous one has ended; separate dispatches start earlier. Each
run of the comparison takes the next of three frames. The arena has the values of the previous frame, or is filled with
NaN before each hundredth frame, so that a step that reads too early gives a wrong result.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import typer
from names import FLOAT
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import framebind as fb
from framebind.delegate.plan.placement import slot_name
from framebind.delegate.run.program import Program
from framebind.interop.cuda.compute import graph
from framebind.interop.device import CommandList, Device, Resource
from framebind.interop.discovery.devices import open_device
from framebind.video.apis import BY_NAME
from framebind.video.models import find_model

Way = Literal["auto", "separate", "parts", "one", "full"]
"""A way to run steps: those of Device.dispatches, and "full"."""
COLUMNS = ("model", "dispatches", "barriers", "median", "stream", "submit", "on the GPU", "different runs")
"""The times are milliseconds: *median* of a run and the wait for it, *stream* per run of many back to back, *submit*
the CPU's part of a run, and the GPU's own clock. On CUDA separate dispatches are a graph, but for the GPU's clock.
"""
TOGETHER = 100
"""Runs that are compared at once."""
WARM_UP = 0.3
FRAME = (640, 480)
"""Width and height of the frames in texels."""
NO_CAPABILITY = 1000
"""A compute capability that no GPU has: its kernels would not start early."""


@dataclass(frozen=True)
class BoundModel:
    """A model whose inputs and outputs are all bound: the first input to the next texture of a ring, each frame."""

    interpreter: fb.Interpreter
    delegate: fb.GpuDelegate
    ring: Iterator[Resource]
    picture: int

    def frame(self) -> None:
        self.delegate.bind_buffer_to_tensor(next(self.ring), self.picture)
        self.interpreter.invoke()

    @property
    def program(self) -> Program:
        """The program that runs on the GPU; known after the first frame."""
        (program,) = [p.program for p in self.delegate.engine.partitions if p.program is not None]
        return program


def bind(path: Path, storage: str, device: Device, backend: str) -> BoundModel:
    """Make the model on the device, whose context is current. Inputs other than the picture are buffers of noise."""
    interpreter = fb.Interpreter(model_path=path)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend, is_precision_loss_allowed=storage == "f16"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    noise = np.random.default_rng(0)
    inputs = interpreter.get_input_details()
    outputs = interpreter.get_output_details()
    for tensor in inputs[1:]:
        values = noise.normal(size=tuple(tensor["shape"])).astype(np.float32)
        buffer = device.buffer(values.nbytes, "input")
        device.write(buffer, values, "noise for the benchmark")
        delegate.bind_buffer_to_tensor(buffer, tensor["index"])
    for tensor in outputs:
        delegate.bind_buffer_to_tensor(device.buffer(math.prod(tensor["shape"]) * 4, "output"), tensor["index"])
    ring = [device.texture(*FRAME, "rgba8", f"frame {number}") for number in range(3)]
    for texture in ring:
        device.write(texture, noise.integers(0, 256, (FRAME[1], FRAME[0], 4), np.uint8), "noise for the benchmark")
    return BoundModel(interpreter, delegate, itertools.cycle(ring), int(inputs[0]["index"]))


def milliseconds(device: Device, run: Callable[[], None], runs: int) -> tuple[float, float, float]:
    """Median time of ``runs`` with a wait after each; time per run if back to back; median of the CPU's part."""
    whole, stream, submit = timed(device, run, runs)
    return statistics.median(whole), stream[0], statistics.median(submit)


def timed(device: Device, run: Callable[[], None], runs: int) -> tuple[list[float], list[float], list[float]]:
    """The milliseconds of which those are medians; that of runs back to back is one."""
    until = time.perf_counter() + WARM_UP
    while time.perf_counter() < until:
        run()
        device.fence().wait()
    whole: list[float] = []
    submit: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        submit.append(1e3 * (time.perf_counter() - start))
        device.fence().wait()
        whole.append(1e3 * (time.perf_counter() - start))
    start = time.perf_counter()
    for _ in range(runs):
        run()
    device.finish()
    return whole, [1e3 * (time.perf_counter() - start) / runs], submit


def record(device: Device, program: Program, way: Way) -> CommandList:
    """Record the program's steps once more, with the same bindings."""
    if way == "full":
        commands = with_full_edges(device, program)
    else:
        commands = device.record(program.steps, way)
    slots = {o.resource for step in program.steps for o in step.operands.values()}
    for tensor, binding in program.bindings.items():
        if any(getattr(slot, "name", "") == slot_name(tensor) for slot in slots):
            commands.set_slot(slot_name(tensor), binding.resource)
    return commands


def with_full_edges(device: Device, program: Program) -> CommandList:
    """The program's steps as a graph of CUDA in which each kernel starts after the end of the one before."""
    capability, graph.DEPENDENT_LAUNCHES = graph.DEPENDENT_LAUNCHES, NO_CAPABILITY
    try:
        return device.record(program.steps, "separate")
    finally:
        graph.DEPENDENT_LAUNCHES = capability


def bits(device: Device, resources: list[Resource]) -> list[npt.NDArray[np.uint32]]:
    """The bits of each output."""
    found: list[npt.NDArray[np.uint32]] = []
    for resource in resources:
        found.append(np.empty(resource.nbytes // 4, np.uint32))
        device.read(resource, found[-1], "comparison")
    return found


def differing_runs(device: Device, model: BoundModel, lists: list[CommandList], runs: int) -> int:
    """The number of ``runs`` in which the second list's outputs differ from the first's.

    TOGETHER runs follow each other without a wait, each into its own outputs.
    """
    program = model.program
    name, poison = slot_name(model.picture), np.full(program.arena_nbytes // 4, np.nan, np.float32)
    bound = {slot_name(tensor): program.bindings[tensor].resource for tensor in program.graph.outputs}
    textures = [next(model.ring) for _ in range(3)]
    expected: list[list[npt.NDArray[np.uint32]]] = []
    for texture in textures:
        lists[0].set_slot(name, texture)
        lists[0].run()
        expected.append(bits(device, list(bound.values())))
    rows = [{slot: device.buffer(old.nbytes, slot) for slot, old in bound.items()} for _ in range(TOGETHER)]
    arena, wrong = program._arena, 0
    assert arena is not None
    for first in range(0, runs, TOGETHER):
        device.write(arena, poison, "poison")
        numbers = range(first, min(first + TOGETHER, runs))
        for number, row in zip(numbers, rows, strict=False):
            lists[1].set_slot(name, textures[number % 3])
            for slot, resource in row.items():
                lists[1].set_slot(slot, resource)
            lists[1].run()
        for number, row in zip(numbers, rows, strict=False):
            found = bits(device, list(row.values()))
            wrong += not all(np.array_equal(a, b) for a, b in zip(found, expected[number % 3], strict=True))
    for slot, resource in bound.items():
        lists[1].set_slot(slot, resource)
    return wrong


def measure(
    device: Device, backend: str, path: Path, storage: str, way: Way, runs: int, compared: int
) -> list[list[str]]:
    """Rows of COLUMNS: the recorded steps as separate dispatches and the other way; then frames of the interpreter."""
    device.dispatches = "separate"
    model = bind(path, storage, device, backend)
    model.frame()
    program = model.program
    lists = [record(device, program, each) for each in ("separate", way)]
    wrong = differing_runs(device, model, lists, compared) if compared else 0
    rows: list[list[str]] = []
    for commands in lists:
        times = milliseconds(device, commands.run, runs)
        commands.timings()
        spent = sum(nanoseconds for _, nanoseconds in commands.timings()) / 1e6
        figures = [f"{figure:.3f}" for figure in (*times, spent)]
        rows.append([path.stem, str(commands.dispatches), str(commands.barriers), *figures, f"{wrong} of {compared}"])
    model.delegate.close()
    for dispatches in dict.fromkeys(("separate", way, "auto")):
        if dispatches == "full":
            continue
        device.dispatches = dispatches
        model = bind(path, storage, device, backend)
        model.frame()
        figures = [f"{figure:.3f}" for figure in milliseconds(device, model.frame, runs)]
        commands = model.program.record()
        rows.append([f"  frames, {dispatches}", str(len(commands.timings())), str(commands.barriers), *figures, "", ""])
        model.delegate.close()
    return rows


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    backend: Annotated[str, typer.Option(help="The API.")] = "opencl",
    device_name: Annotated[str, typer.Option(help="Of OpenCL: a part of the device's name.")] = "",
    storage: Annotated[str, typer.Option(help="f16 or f32.")] = "f16",
    runs: Annotated[int, typer.Option(help="Frames that are timed.")] = 200,
    way: Annotated[Way, typer.Option(help="The way that is compared with separate dispatches.")] = "one",
    compared: Annotated[int, typer.Option("--check", help="Runs that are compared.")] = 100,
) -> None:
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for number, column in enumerate(COLUMNS):
        table.add_column(column, no_wrap=True, justify="right" if number else "left")
    with fb.cl.ClContext(device_name) if device_name else BY_NAME[backend].new_context():
        device = open_device(backend)
        for path in map(find_model, models or FLOAT):
            for row in measure(device, backend, path, storage, way, runs, compared):
                table.add_row(*row)
                print(*row, flush=True)
        table.title = f"{device.traits.name}, {device.traits.driver}, {storage}"
        device.close()
    Console(width=110, soft_wrap=True).print(table)


if __name__ == "__main__":
    typer.run(main)
