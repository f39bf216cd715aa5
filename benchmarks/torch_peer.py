"""Measures the same models in PyTorch, in float16: its own kernels or those of torch.compile, as one CUDA graph."""

# pyright: reportMissingImports=false
from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb
from framebind.tools.measure.inputs import Inputs
from framebind.tools.measure.measure import Measurement, Schedule, Subject

BOUND = 1e-3
"""The largest error of the graph in float32, as a share of an output's largest value. With a larger one it is not
timed, unless LiteRT's own results differ as much for inputs that move by a millionth. Those of a model that sorts do.
The error in float16 is only reported, because it comes from PyTorch's arithmetic and not from the graph.
"""
WARM_UPS = 3
"""Runs before a capture: cuDNN makes its choices in the first one."""
THREADS = 4
"""Threads of LiteRT's CPU kernels, whose results are the reference."""
Arrays = list[npt.NDArray[Any]]
Run = Callable[..., Sequence[Any]]
"""A function of the model's input tensors that returns its outputs."""
Measure = Callable[[Schedule], Measurement]


class TorchWay(NamedTuple):
    """One way to run a model in PyTorch: its name in tables, and whether and with which options it is compiled."""

    label: str
    is_compiled: bool = False
    options: dict[str, Any] | None = None


TORCH_WAYS = {
    "torch-cuda-graph": TorchWay("torch CUDA graph f16"),
    "torch-compile": TorchWay("torch.compile f16", is_compiled=True),
    "torch-compile-tuned": TorchWay(
        "torch.compile, products tuned, f16", is_compiled=True,
        options={
            "max_autotune": True, "max_autotune_conv_backends": "ATEN", "test_configs.max_mm_configs": 6,
            "benchmark_epilogue_fusion": False,
        },
    ),
    "torch-compile-max-autotune": TorchWay(
        "torch.compile max-autotune f16", is_compiled=True,
        options={"max_autotune": True, "coordinate_descent_tuning": True},
    ),
}  # fmt: skip
"""Ways by name. The last one is mode "max-autotune", which compiles for minutes. "tuned" ends within one: it tunes 1x1
convolutions, as products of matrices, among six tiles, and leaves the others to cuDNN.
"""


def measure_torch(name: str, path: Path, threads: int, schedule: Schedule, inputs: Inputs) -> Measurement:
    """Measure PyTorch on CUDA in one of TORCH_WAYS: all kernels of a frame as one CUDA graph.

    Inputs and outputs are float16 tensors that stay on the GPU. Its results in float32 are compared with LiteRT's
    first; those in float16 are off by ``difference``. If it does not run here, ``error`` says so. ``threads`` is
    ignored; of other shapes than the model's own it takes batches, as ``--input-shape picture:8,256,256,3``.
    """
    return prepare(name, path, inputs)(schedule)


def prepare(name: str, path: Path, inputs: Inputs) -> Measure:
    """A function that measures a way of TORCH_WAYS. What takes the CPU long is done before it returns: LiteRT's
    results, and the compilation. The function needs the GPU for itself: there cuDNN chooses its kernels, too.
    """
    way = TORCH_WAYS[name]
    row = Measurement(path.stem, way.label, "bound", error=_why_not(inputs))
    if row.error:
        return lambda schedule: row
    import torch

    values = values_of(path, inputs)
    expected = litert_results(path, values)
    started = time.perf_counter()
    with torch.no_grad():
        error = relative_error(_in_float32(path, values), expected)
        if error > BOUND and error > 2 * noise_of(path, values, expected):
            row.error = f"not measured: in float32 its results differ from LiteRT's by {error:.3g} of the largest value"
            return lambda schedule: row
        given = [torch.tensor(value).to("cuda", torch.float16) for value in values]
        function = built(way, path.read_bytes(), given)
    row.init = (time.perf_counter() - started) * 1e3

    def measure(schedule: Schedule) -> Measurement:
        started = time.perf_counter()
        with torch.no_grad():
            run = captured(function, given)
            results = [output.float().cpu().numpy() for output in run()]
        row.init += (time.perf_counter() - started) * 1e3
        row.difference = relative_error(results, expected)
        if not schedule.dry:
            row.time(Subject(run, torch.cuda.synchronize), schedule, streams=True)
        return row

    return measure


def _why_not(inputs: Inputs) -> str:
    """The reason why PyTorch is not measured here, or ""."""
    try:
        import torch
    except ImportError:
        return "not available here: it needs PyTorch (pip install torch)"
    if not torch.cuda.is_available():
        return "not available here: PyTorch finds no GPU of CUDA"
    return "not measured: it is given no signature here" if inputs.signature else ""


def _in_float32(path: Path, values: Arrays) -> Arrays:
    """The results of the graph in float32, without TF32's short products."""
    import torch
    from torch_graph import TorchGraph

    torch.backends.cudnn.allow_tf32 = False
    graph = TorchGraph(path.read_bytes(), torch.float32, "cuda")
    return [output.cpu().numpy() for output in graph(*(torch.tensor(value).cuda() for value in values))]


def built(way: TorchWay, content: bytes, given: Sequence[Any]) -> Run:
    """The model's bytes as a function of tensors like these, compiled if the way says so.

    The function is traced as a whole before it is compiled: torch.compile would run a function that it cannot trace
    piece by piece, ten times slower. Its own CUDA graphs are not used: ``captured`` makes one for all ways, without
    their cost in Python.
    """
    import torch
    from torch._inductor.runtime.benchmarking import benchmarker
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch_graph import TorchGraph

    graph = TorchGraph(content, given[0].dtype, given[0].device)
    if not way.is_compiled:
        return graph
    assemble_with(Path(torch.__path__[0]) / "bin" / "ptxas")
    try_alone(benchmarker)
    sys.setswitchinterval(1e-4)  # each launch of a trial would wait 5 ms for every thread that compiles meanwhile
    compiled = torch.compile(make_fx(graph)(*given), fullgraph=True, options=way.options)
    compiled(*given)  # the first call compiles
    return compiled


def assemble_with(ptxas: Path) -> None:
    """Let this process assemble Triton's kernels with PyTorch's ptxas, if there is one, as Inductor's workers do.

    The version of ptxas is part of the key of Triton's cache. With Triton's own, of another version, a process finds no
    kernel that its workers compiled for it, and compiles all of them again, one after the other.
    """
    if ptxas.exists():
        os.environ.setdefault("TRITON_PTXAS_PATH", str(ptxas))


@cache
def try_alone(benchmarker: Any) -> None:
    """Let the trials of kernels of Inductor's benchmarker wait for those of other processes, whose work would disturb
    the times. A second call changes nothing.
    """
    tried = benchmarker.benchmark_gpu

    def alone(trial: Callable[[], Any], *given: Any, **options: Any) -> Any:
        trial()  # which compiles the kernel, if no worker has
        with (Path(tempfile.gettempdir()) / "framebind-trials.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                return tried(trial, *given, **options)
            finally:  # closing is not enough: a worker of Inductor's that was forked meanwhile has the file open, too
                fcntl.flock(file, fcntl.LOCK_UN)

    benchmarker.benchmark_gpu = alone


def captured(function: Run, given: Sequence[Any]) -> Callable[[], Sequence[Any]]:
    """A CUDA graph of the kernels that the function runs on these tensors, with the fastest convolutions that cuDNN
    finds. Each call uses the current contents of the tensors.
    """
    import torch

    torch.backends.cudnn.benchmark = True
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            function(*given)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = function(*given)

    def run() -> Sequence[Any]:
        graph.replay()
        return outputs

    return run


def relative_error(results: Arrays, expected: Arrays) -> float:
    """The largest difference of any output, as a share of that output's largest value."""
    return max(
        float(np.abs(result - wanted).max() / max(np.abs(wanted).max(), 1e-6))
        for result, wanted in zip(results, expected, strict=True)
    )


def litert_results(path: Path, values: Arrays) -> Arrays:
    """The outputs of LiteRT's CPU kernels for a batch, one frame after the other. The first of many processes computes
    them, and keeps them in a file for the others.
    """
    digest = hashlib.sha256(path.read_bytes())
    for value in values:
        digest.update(value.tobytes())
    kept = Path(tempfile.gettempdir()) / f"framebind-litert-{digest.hexdigest()}.npz"
    with kept.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not kept.exists():
            part = kept.with_suffix(".part.npz")
            np.savez(part, *_computed_by_litert(path, values))
            part.replace(kept)  # whole, or not at all
    with np.load(kept) as arrays:
        return [arrays[name] for name in arrays.files]


def _computed_by_litert(path: Path, values: Arrays) -> Arrays:
    interpreter = fb.Interpreter(model_path=path, delegate="cpu", num_threads=THREADS)
    interpreter.allocate_tensors()
    frames: list[Arrays] = []
    for number in range(max(len(value) for value in values)):
        for tensor, value in zip(interpreter.inputs(), values, strict=True):
            interpreter.set_tensor(tensor, value[number : number + 1] if len(value) > 1 else value)
        interpreter.invoke()
        frames.append([interpreter.get_tensor(tensor) for tensor in interpreter.outputs()])
    return [np.concatenate(parts) for parts in zip(*frames, strict=True)]


def noise_of(path: Path, values: Arrays, expected: Arrays) -> float:
    """The difference of LiteRT's own results if the inputs move by a millionth."""
    random = np.random.default_rng(1)
    moved = [(v * (1 + 1e-6 * random.standard_normal(v.shape))).astype(v.dtype) for v in values]
    return relative_error(litert_results(path, moved), expected)


def values_of(path: Path, inputs: Inputs) -> Arrays:
    """Random values of the inputs, the same in each process."""
    random = np.random.default_rng(0)
    details: list[dict[str, Any]] = fb.Interpreter(model_path=path, delegate="cpu").get_input_details()
    return [
        inputs.values(detail | {"shape": inputs.shapes.get(detail["name"], detail["shape"])}, random)
        for detail in details
    ]
