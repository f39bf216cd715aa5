"""Measures one model on one device: latency of frames, time of initialization, and memory."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..apis import Api
from ..player.network import shapes

FRAME = (640, 480)
"""Width and height of the camera's frames in texels."""
WARM_UP_SECONDS = 0.5
"""Least time of the warm-up, as in TFLite's benchmark_model; idle GPUs raise their clocks meanwhile."""
PROFILES = 20
"""Number of profiled runs; each dispatch's median is reported."""

Precision = Literal["f32", "f16"]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Latency:
    """Statistics in milliseconds over ``count`` frames; ``first`` is the first of all, before the warm-up."""

    count: int
    first: float
    warm_up: float
    min: float
    median: float
    p95: float
    max: float
    avg: float
    std: float


@dataclass
class Measurement:
    """A row of figures; times are in milliseconds.

    ``init`` is the time to make interpreter, delegate and GPU programs; ``initialization`` has its phases (see
    fb.Statistics). ``stream`` is the time per frame if ``latency.count`` frames are submitted back to back, with one
    wait at the end; ``submit`` is the CPU's part of a frame. ``error`` says why there are no figures.
    """

    model: str
    on: str
    io: str = ""
    error: str = ""
    init: float = 0.0
    latency: Latency | None = None
    stream: float | None = None
    submit: float | None = None
    initialization: dict[str, float] = field(default_factory=dict)
    statistics: fb.Statistics | None = None
    steps: list[fb.StepTime] = field(default_factory=list)


@dataclass(frozen=True)
class Subject:
    """A timed subject: ``frame`` submits one inference, ``wait`` returns when all that was submitted is done."""

    frame: Callable[[], Any]
    wait: Callable[[], Any] = lambda: None


def milliseconds(work: Callable[[], Any]) -> float:
    """Time of one call of ``work``."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def time_frames(subject: Subject, warm_up_runs: int, runs: int) -> tuple[Latency, float]:
    """The latency of ``runs`` frames after a warm-up, with a wait after each, and the median of their CPU part."""

    def frame() -> None:
        subject.frame()
        subject.wait()

    first, warm, until = milliseconds(frame), list[float](), time.perf_counter() + WARM_UP_SECONDS
    while warm_up_runs and (len(warm) < warm_up_runs or time.perf_counter() < until):
        warm.append(milliseconds(frame))
    times, submits = list[float](), list[float]()
    for _ in range(runs):
        started = time.perf_counter()
        submits.append(milliseconds(subject.frame))
        subject.wait()
        times.append((time.perf_counter() - started) * 1e3)
    latency = Latency(
        count=runs, first=first, warm_up=float(np.mean(warm or [first])), min=min(times),
        median=float(np.median(times)), p95=float(np.percentile(times, 95)), max=max(times),
        avg=float(np.mean(times)), std=float(np.std(times)),
    )  # fmt: skip
    return latency, float(np.median(submits))


def random_input(detail: dict[str, Any], random: np.random.Generator) -> Array:
    """Random values as benchmark_model's: floats from -0.5 to 0.5, booleans, integers from 0 to 99 or of 8 bits."""
    shape, dtype = tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"])
    if dtype.kind == "f":
        return random.uniform(-0.5, 0.5, shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    low, high = {"int8": (-127, 128), "uint8": (0, 255)}.get(dtype.name, (0, 100))
    return random.integers(low, high, shape).astype(dtype)


# framebind ------------------------------------------------------------------------------------------------------------


def measure_on_gpu(
    path: Path,
    api: Api,
    *,
    precision: Precision,
    bound: bool,
    warm_up_runs: int,
    runs: int,
    profiled: bool = False,
    preference: fb.InferencePreference = fb.InferencePreference.FAST_SINGLE_ANSWER,
) -> Measurement:
    """Measure framebind on the context that is current.

    ``bound``: inputs and outputs are objects on the GPU, and nothing is copied; else both are in CPU memory.
    ``profiled``: also time each dispatch. Raises BindingError for a model whose tensors cannot be bound.
    """
    started = time.perf_counter()
    interpreter = fb.Interpreter(model_path=path)
    options = fb.GpuDelegateOptions(
        backend=api.backend, is_precision_loss_allowed=precision == "f16", inference_preference=preference
    )
    delegate = fb.GpuDelegate(options)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    init = (time.perf_counter() - started) * 1e3
    try:
        subject = _bound(interpreter, delegate, api) if bound else read_and_write(interpreter)
        init += milliseconds(delegate.record)
        latency, submit = time_frames(subject, warm_up_runs, runs)
        statistics = delegate.statistics()
        row = Measurement(path.stem, f"{api.short} {precision}", "bound" if bound else "read")
        row.init, row.latency, row.statistics = init, latency, statistics
        row.initialization = {phase: seconds * 1e3 for phase, seconds in statistics.initialization.items()}
        if bound:
            row.submit, row.stream = submit, _stream(subject, runs)
        if profiled:
            row.steps = _profile(delegate)
        return row
    finally:
        delegate.close()


def _stream(subject: Subject, runs: int) -> float:
    def frames() -> None:
        for _ in range(runs):
            subject.frame()
        subject.wait()

    return milliseconds(frames) / runs


def _bound(interpreter: fb.Interpreter, delegate: fb.GpuDelegate, api: Api) -> Subject:
    """A subject whose tensors are all bound.

    A frame binds the next texture of a ring to the first input that is a picture (1 to 4 channels), and runs.
    """
    random, picture = np.random.default_rng(0), -1
    interpreter.set_allow_buffer_handle_output(True)

    details: list[dict[str, Any]] = interpreter.get_input_details()
    for (tensor, shape), detail in zip(shapes(details).items(), details, strict=True):
        if picture < 0 and len(shape) == 4 and shape[0] == 1 and shape[3] <= 4:
            picture = tensor
        else:
            values = random_input(detail, random).astype(np.float32)
            delegate.bind_buffer_to_tensor(api.buffer(values), tensor)
    for tensor, shape in shapes(interpreter.get_output_details()).items():
        delegate.bind_buffer_to_tensor(api.buffer(np.zeros(math.prod(shape), np.float32)), tensor)
    pixels = [random.integers(0, 256, (FRAME[1], FRAME[0], 4), np.uint8) for _ in range(3)]
    ring = itertools.cycle([api.texture(p) for p in pixels])

    if picture >= 0:  # now, so that the commands are recorded once
        delegate.bind_buffer_to_tensor(next(ring), picture)

    def frame() -> None:
        if picture >= 0:
            delegate.bind_buffer_to_tensor(next(ring), picture)
        interpreter.invoke()

    return Subject(frame, lambda: delegate.fence().wait())


def read_and_write(interpreter: fb.Interpreter) -> Subject:
    """A subject that writes every input, runs, and reads every output, as a script does without a GPU."""
    random = np.random.default_rng(0)
    inputs: list[dict[str, Any]] = interpreter.get_input_details()
    outputs = tuple(shapes(interpreter.get_output_details()))
    values = {tensor: random_input(detail, random) for tensor, detail in zip(shapes(inputs), inputs, strict=True)}

    def frame() -> None:
        for tensor, value in values.items():
            interpreter.set_tensor(tensor, value)
        interpreter.invoke()
        for tensor in outputs:
            interpreter.get_tensor(tensor)

    return Subject(frame)


def _profile(delegate: fb.GpuDelegate) -> list[fb.StepTime]:
    """Each dispatch with the median of its times, in order."""
    runs = [delegate.profile() for _ in range(PROFILES)]
    return [
        fb.StepTime(step.label, step.kernel, round(float(np.median([run[number].nanoseconds for run in runs]))))
        for number, step in enumerate(runs[0])
    ]
