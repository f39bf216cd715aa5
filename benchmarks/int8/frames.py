"""Times quantized models with convolutions that sum integers, and with all arithmetic on real values.

python benchmarks/int8/frames.py [MODEL ...] [--backend cuda,opencl] [--runs N] [--json FILE]

*floats* leaves out the pass ``sum_integers`` (delegate/transform/quantized_steps.py): convolutions are then computed
by the general kernel. *apart* leaves out the passes that join two convolutions of integers, and *halves* the pass
``multiply_bytes`` (delegate/transform/byte_products.py): matrix units then multiply halves.
*stream* is the time per frame of many back to back, *frame* that of a bound frame and the wait for it, *kernels* the
GPU's own times of the steps as dispatches of their own, by kernel; medians, in microseconds.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parents[1]))

from names import QUANTIZED
from one_dispatch import bind, record, timed
from samples import Label, Series, measured, write

from framebind.delegate.transform.byte_products import multiply_bytes
from framebind.delegate.transform.graph import Graph
from framebind.delegate.transform.pipeline import Pass, Rewrite
from framebind.delegate.transform.quantized_steps import sum_integers
from framebind.delegate.transform.separable import fuse_expanded, fuse_separable
from framebind.interop.device import Device
from framebind.interop.discovery.devices import open_device
from framebind.video.apis import BY_NAME
from framebind.video.models import find_model

compiler: Any = import_module("framebind.delegate.compiler")
"""The module whose pipeline of passes is replaced."""


WAYS: dict[str, tuple[Rewrite, ...]] = {
    "floats": (sum_integers,), "apart": (fuse_separable, fuse_expanded), "halves": (multiply_bytes,),
    "integers": (),
}  # fmt: skip
"""The passes that are left out, by the name of what is measured."""


@contextmanager
def passes_without(dropped: tuple[Rewrite, ...]) -> Iterator[None]:
    """Within the block, programs are made without these passes."""
    whole = compiler.transform

    def without(graph: Graph, passes: Sequence[Pass]) -> Graph:
        return whole(graph, [each for each in passes if each.run not in dropped])

    compiler.transform = without
    try:
        yield
    finally:
        compiler.transform = whole


def measure(device: Device, backend: str, path: Path, runs: int) -> tuple[int, dict[str, list[float]]]:
    """The number of a model's steps as it is compiled now, and microseconds by figure or kernel."""
    model = bind(path, "f16", device, backend)
    model.frame()
    program = model.program
    whole = [[1e3 * each for each in times] for times in timed(device, model.frame, runs)]
    commands = record(device, program, "separate")
    kernels: dict[str, list[float]] = defaultdict(list)
    for _ in range(20):
        spent: dict[str, float] = defaultdict(float)
        for step, (_, nanoseconds) in zip(program.steps, commands.timings(), strict=True):
            spent[step.kernel.source.name] += nanoseconds / 1e3
        for name, each in spent.items():
            kernels[name].append(each)
    commands.release()
    steps = len(program.steps)
    model.delegate.close()
    return steps, {**dict(zip(("frame", "stream", "submit"), whole, strict=True)), **dict(sorted(kernels.items()))}


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    backend: Annotated[str, typer.Option(help="APIs, with commas.")] = "cuda,opencl",
    ways: Annotated[str, typer.Option(help="What is measured, with commas.")] = ",".join(WAYS),
    runs: Annotated[int, typer.Option(help="Frames that are timed.")] = 300,
    output: Annotated[Path | None, typer.Option("--json", help="A file for the results.")] = None,
) -> None:
    series, devices = list[Series](), list[tuple[str, str]]()
    for api in backend.split(","):
        with BY_NAME[api].new_context():  # pyright: ignore[reportArgumentType]
            device = open_device(api)  # pyright: ignore[reportArgumentType]
            for path in map(find_model, models or QUANTIZED):
                for way in ways.split(","):
                    with passes_without(WAYS[way]):
                        steps, found = measure(device, api, path, runs)  # pyright: ignore[reportArgumentType]
                    labels: dict[str, Label] = {"model": path.stem, "on": api, "way": way, "steps": steps}
                    series += [Series({**labels, "figure": figure}, times) for figure, times in found.items()]
                    medians = {figure: round(float(np.median(times)), 1) for figure, times in found.items()}
                    print(json.dumps({**labels, **medians}), flush=True)
            devices.append((device.traits.name, device.traits.driver))
            device.close()
        if output is not None:
            write(output, measured("int8", devices, "us", series))


if __name__ == "__main__":
    typer.run(main)
