"""Measures the same models in other engines: LiteRT's CPU interpreter, its own GPU accelerator, and PyTorch."""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..common.console import counted
from .inputs import Inputs
from .measure import Measurement, Schedule, Subject, read_and_write


def litert_cpu(path: Path, threads: int, schedule: Schedule, inputs: Inputs) -> Measurement:
    """Measure LiteRT's CPU interpreter (XNNPACK). A frame writes every input, runs and reads every output."""
    row = Measurement(path.stem, f"litert-cpu, {counted(threads, 'thread')}", "read")
    started = time.perf_counter()
    interpreter = fb.Interpreter(model_path=path, num_threads=threads, delegate="cpu")
    inputs = inputs.fitted(interpreter)
    interpreter.allocate_tensors()
    row.init = (time.perf_counter() - started) * 1e3
    row.show(interpreter, read_and_write(interpreter, inputs), schedule, streams=False)
    return row


class Accelerated(NamedTuple):
    """A model in LiteRT's GPU accelerator: functions that write all inputs, run it, and read all outputs."""

    write: Callable[[], None]
    run: Callable[[], None]
    read: Callable[[], list[npt.NDArray[Any]]]


def litert_gpu(path: Path, threads: int, schedule: Schedule, inputs: Inputs) -> Measurement:
    """Measure LiteRT's own GPU accelerator (CompiledModel), with its defaults.

    A frame writes every input, runs and reads every output. If it does not run on this machine, ``error`` says so.
    ``threads`` is ignored.
    """
    row = Measurement(path.stem, "litert-gpu", "read")
    if inputs.signature:
        row.error = "not measured: it is given no signature here"
        return row
    started = time.perf_counter()
    try:
        model = accelerated(path, inputs)
        row.init = (time.perf_counter() - started) * 1e3
    except (ImportError, RuntimeError, OSError) as error:
        row.error = f"not available here ({type(error).__name__}; LiteRT's own log says more)"
        return row

    def frame() -> None:
        for work in model:
            work()

    if not schedule.dry:
        row.time(Subject(frame), schedule, streams=False)
    return row


def accelerated(path: Path, inputs: Inputs) -> Accelerated:
    """A model in LiteRT's GPU accelerator. Raises ImportError, RuntimeError or OSError if it does not run here."""
    cpu = fb.Interpreter(model_path=path, delegate="cpu")
    inputs = inputs.fitted(cpu)
    cpu.allocate_tensors()
    ends: list[dict[str, Any]] = [*cpu.get_input_details(), *cpu.get_output_details()]
    details = {str(end["name"]): end for end in ends}
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    model = CompiledModel.from_file(str(path), HardwareAccelerator.GPU)
    signature = model.get_signature_by_index(0)
    tensors = model.get_input_tensor_details(signature["key"]), model.get_output_tensor_details(signature["key"])
    given = [details[tensors[0][name]["name"]] for name in signature["inputs"]]
    results = [details[tensors[1][name]["name"]] for name in signature["outputs"]]
    for number, detail in enumerate(given if inputs.shapes else ()):
        model.resize_input_tensor(number, list(map(int, detail["shape"])), strict=False)
    written, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    random = np.random.default_rng(0)
    values = [inputs.values(detail, random) for detail in given]

    def write() -> None:
        for buffer, value in zip(written, values, strict=True):
            buffer.write(value)

    def read() -> list[npt.NDArray[Any]]:
        return [
            buffer.read(math.prod(result["shape"]), np.dtype(result["dtype"]).type).reshape(result["shape"])
            for buffer, result in zip(outputs, results, strict=True)
        ]

    return Accelerated(write, lambda: model.run_by_index(0, written, outputs), read)


TORCH = "torch-compile", "torch-compile-max-autotune", "torch-cuda-graph"
"""PyTorch's ways, which ``benchmarks/torch_peer.py`` explains."""
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
"""The folder with the interpreter for PyTorch. The repository has it, and the package does not."""


def in_torch(
    name: str, path: Path, threads: int, schedule: Schedule, inputs: Inputs, folder: Path = BENCHMARKS
) -> Measurement:
    """Measure PyTorch on CUDA in one of TORCH, in float16, with inputs and outputs on the GPU.

    Its results are compared with LiteRT's first. If it does not run on this machine, ``error`` says so. ``threads`` is
    ignored.
    """
    if not (folder / "torch_peer.py").is_file():
        missing = "not available here: it needs a clone of framebind's repository"
        return Measurement(path.stem, name, "bound", error=missing)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.import_module("torch_peer").measure_torch(name, path, threads, schedule, inputs)


PEERS: dict[str, Callable[[Path, int, Schedule, Inputs], Measurement]] = {
    "litert-cpu": litert_cpu,
    "litert-gpu": litert_gpu,
    **{name: partial(in_torch, name) for name in TORCH},
}
"""Functions by name; their arguments are model, threads, schedule and inputs."""
