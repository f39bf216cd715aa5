"""Prints the time that NVRTC takes for the kernels of models, by kernel and by phase. It needs no GPU.

    python benchmarks/compile_times.py MODEL [...] [--json FILE]

The kernels are those of an H200 in 16 bits, with images and arrays of float32 bound; those that a start merges, because
they differ only in strides, are one. Each is compiled alone by this process: an empty kernel takes 0.03 s of that. In a
start they share texts, so that the sum of a model is more than its start's.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from samples import Series, measured, write

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
from framebind.interop.cuda import nvrtc
from framebind.interop.cuda.compiler_process import compile_text
from framebind.interop.null.device import NullDevice
from framebind.kernels.codegen.cuda import CUDA
from framebind.kernels.codegen.render import render_together
from framebind.kernels.codegen.source import KernelSource
from framebind.kernels.codegen.strides import sharing_kernels
from framebind.video.models import find_model
from null_programs import program_on_null

PHASES = "front end", "optimizer", "assembler"
"""NVRTC's phases, in the order in which it reports them: reading the text, NVVM, PTX to machine code."""


def kernels_of(model: Path) -> list[KernelSource]:
    """The different kernels that an H200 gets for a model."""
    device = NullDevice(group_size=256, invocations=132 * 2048)
    device.traits = replace(
        device.traits, matrix_units=True, local_bytes=48 << 10, max_memories=448, warpgroup_bytes=227 << 10,
        early_launches=True,
    )  # fmt: skip
    _, program = program_on_null(model.read_bytes(), "f16", device)
    steps = program.record().steps if program is not None else ()
    return list(dict.fromkeys(sharing_kernels([step.kernel.source for step in steps])))


def seconds_of(source: KernelSource, folder: Path) -> Iterator[float]:
    """The seconds of each of NVRTC's phases for a kernel."""
    text, _ = render_together([source], CUDA)
    times = folder / "times.csv"
    options = [*nvrtc.OPTIONS, f"--gpu-architecture=sm_{nvrtc.WARPGROUPS}a", f"--time={times}"]
    compile_text(ctypes.CDLL(nvrtc.library_file()), text.encode(), options)
    for line in times.read_text().splitlines()[1:]:
        yield float(line.split(",")[2]) / 1e3
    times.unlink()


def main(
    models: Annotated[list[str], typer.Argument(help="Names, or .tflite files.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write each kernel's times to this file.")] = None,
) -> None:
    series: list[Series] = []
    print(f"{'seconds':24}{'kernel':20}", *(f"{name:>10}" for name in ("number", *PHASES, "all")))
    for model in map(find_model, models):
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        with tempfile.TemporaryDirectory() as folder:
            for source in kernels_of(model):
                for phase, seconds in zip(PHASES, seconds_of(source, Path(folder)), strict=True):
                    found[source.name, phase].append(seconds)
        names = sorted({name for name, _ in found}, key=lambda name: -sum(sum(found[name, each]) for each in PHASES))
        for name in names:
            sums = [sum(found[name, phase]) for phase in PHASES]
            count = len(found[name, PHASES[0]])
            print(f"{model.stem[:22]:24}{name:20}{count:10}", *(f"{each:10.2f}" for each in (*sums, sum(sums))))
        labels = {"model": model.stem}
        series += [Series({**labels, "kernel": name, "phase": phase}, times) for (name, phase), times in found.items()]
        if json_file is not None:
            compiler = "CPU", "NVRTC " + ".".join(map(str, nvrtc.version()))
            write(json_file, measured("compile_times", [compiler], "s", series))


if __name__ == "__main__":
    typer.run(main)
