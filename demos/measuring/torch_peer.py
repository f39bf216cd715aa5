"""Measures the same models in PyTorch, in float16: the graph by torch.compile, or PyTorch's kernels as a CUDA graph."""

# pyright: reportMissingImports=false
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from .inputs import Inputs
from .measure import Measurement, Schedule, Subject, time_frames, time_stream

BOUND = 0.05
"""The largest error that is timed, as a share of the largest value of an output: a wrong graph is far beyond it."""
WARM_UPS = 3
"""Runs before a capture: cuDNN makes its choices in the first one."""
Arrays = list[npt.NDArray[Any]]
Run = Callable[..., Sequence[Any]]
"""A function of the model's input tensors that returns its outputs."""
Prepare = Callable[[bytes, Sequence[Any]], Run]


def torch_compile(path: Path, threads: int, schedule: Schedule, inputs: Inputs) -> Measurement:
    """Measure PyTorch on CUDA: torch.compile with mode "max-autotune", of one graph without breaks.

    Inputs and outputs are float16 tensors that stay on the GPU. Its results are compared with LiteRT's first. If it
    does not run here, ``error`` says so. ``threads`` is ignored; of other shapes than the model's own it takes batches,
    as ``--input-shape picture:8,256,256,3``.
    """
    return _measured(Measurement(path.stem, "torch.compile f16", "bound"), path, schedule, inputs, compile_whole)


def torch_cuda_graph(path: Path, threads: int, schedule: Schedule, inputs: Inputs) -> Measurement:
    """Measure PyTorch on CUDA without its compiler: its own kernels, submitted as one CUDA graph. See torch_compile."""
    return _measured(Measurement(path.stem, "torch CUDA graph f16", "bound"), path, schedule, inputs, capture_whole)


def _measured(row: Measurement, path: Path, schedule: Schedule, inputs: Inputs, prepare: Prepare) -> Measurement:
    """The row with the figures of what ``prepare`` makes of the model's bytes and its inputs, or with an error."""
    try:
        import torch
    except ImportError:
        row.error = "not available here: it needs PyTorch (pip install torch)"
        return row
    if not torch.cuda.is_available():
        row.error = "not available here: PyTorch finds no GPU of CUDA"
        return row
    if inputs.signature:
        row.error = "not measured: it is given no signature here"
        return row
    with torch.no_grad():
        started = time.perf_counter()
        values = _values(path, inputs)
        given = [torch.tensor(value).to("cuda", torch.float16) for value in values]
        run = prepare(path.read_bytes(), given)
        results = [output.float().cpu().numpy() for output in run(*given)]
        row.init = (time.perf_counter() - started) * 1e3
        error = relative_error(results, litert_results(path, values))
        if not error <= BOUND:
            row.error = f"not measured: its results differ from LiteRT's by {error:.3g} of the largest value"
            return row
        if not schedule.dry:
            subject = Subject(lambda: run(*given), torch.cuda.synchronize)
            row.latency, row.submit = time_frames(subject, schedule)
            row.stream = time_stream(subject, row.latency.count)
    return row


def compile_whole(content: bytes, given: Sequence[Any]) -> Run:
    """A compiled function of the model's inputs, which are these tensors in each call.

    The graph is traced as a whole first: what torch.compile cannot trace, it would run piece by piece, ten times
    slower. The tensors are said to stay where they are, or CUDA graphs would copy them in each call.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    from .torch_graph import TorchGraph

    whole = make_fx(TorchGraph(content, given[0].dtype, given[0].device))(*given)
    for tensor in given:
        torch._dynamo.mark_static_address(tensor)
    return torch.compile(whole, mode="max-autotune", fullgraph=True)


def capture_whole(content: bytes, given: Sequence[Any]) -> Run:
    """A CUDA graph of the kernels that PyTorch runs for the model on these tensors, with the fastest convolutions that
    cuDNN finds. In each call it takes what is in the tensors then.
    """
    import torch

    from .torch_graph import TorchGraph

    torch.backends.cudnn.benchmark = True
    whole, stream = TorchGraph(content, given[0].dtype, given[0].device), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            whole(*given)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = whole(*given)

    def run(*_: Any) -> tuple[Any, ...]:
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
    """The outputs of LiteRT's CPU kernels for a batch, one frame after the other."""
    interpreter = fb.Interpreter(model_path=path, delegate="cpu")
    interpreter.allocate_tensors()
    frames: list[Arrays] = []
    for number in range(max(len(value) for value in values)):
        for tensor, value in zip(interpreter.inputs(), values, strict=True):
            interpreter.set_tensor(tensor, value[number : number + 1] if len(value) > 1 else value)
        interpreter.invoke()
        frames.append([interpreter.get_tensor(tensor) for tensor in interpreter.outputs()])
    return [np.concatenate(parts) for parts in zip(*frames, strict=True)]


def _values(path: Path, inputs: Inputs) -> Arrays:
    random = np.random.default_rng(0)
    details: list[dict[str, Any]] = fb.Interpreter(model_path=path, delegate="cpu").get_input_details()
    return [
        inputs.values(detail | {"shape": inputs.shapes.get(detail["name"], detail["shape"])}, random)
        for detail in details
    ]
