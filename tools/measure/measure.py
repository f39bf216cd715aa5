"""Measures one model on one device: latency of frames, time of initialization, and memory."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb

from ...video.network import shapes
from .inputs import Inputs

FRAME = (640, 480)
"""Width and height of the camera's frames in texels."""
WARM_UP_SECONDS = 1.0
"""Least time of the warm-up. A GPU lowers its clock while programs are compiled, and NVIDIA's takes 0.3 to 0.7 s of
frames on OpenGL to raise it again (``benchmarks/clocks.py``). TFLite's benchmark_model warms up for half a second.
"""
STREAMS, STREAM_SECONDS = 20, 1.0
"""Largest number of streams, and the seconds after which no other one begins."""
PROFILES = 20
"""Number of profiled runs; each dispatch's median is reported."""


@dataclass(frozen=True)
class Schedule:
    """The frames of a measurement: ``warm_up`` of them at least, then ``runs``, or as many as ``seconds`` allow.

    ``delay`` is a pause before each timed frame, in seconds; with a ``frequency`` above 0 so many frames begin per
    second, if they are fast enough. ``dry``: nothing is run, initialization alone is timed. ``least_seconds``: more
    frames than ``runs`` are timed until then; ``warm_up_seconds`` alike, if ``warm_up`` is not 0. ``shows``: rows have
    LiteRT's tensors before and after the frames, and the last frame's outputs.
    """

    warm_up: int = 1
    runs: int = 50
    seconds: float = math.inf
    delay: float = 0.0
    dry: bool = False
    least_seconds: float = 0.0
    warm_up_seconds: float = WARM_UP_SECONDS
    frequency: float = 0.0
    shows: bool = False

    def pause(self, number: int, began: float) -> None:
        """Wait until a timed frame may begin; ``began`` is when the first did, by ``time.perf_counter``."""
        if self.frequency > 0:
            time.sleep(max(0.0, began + number / self.frequency - time.perf_counter()))
        elif self.delay > 0:
            time.sleep(self.delay)

    def goes_on(self, number: int, began: float) -> bool:
        """True if another frame is timed after ``number`` of them."""
        passed = time.perf_counter() - began
        return not number or (passed < self.seconds and (number < self.runs or passed < self.least_seconds))


@dataclass(frozen=True)
class Latency:
    """Statistics in milliseconds over ``count`` frames; ``first`` is the first of all, before the warm-up."""

    count: int
    first: float
    warm_up: float
    min: float
    median: float
    p95: float
    p99: float
    max: float
    avg: float
    std: float


class TensorState(NamedTuple):
    """A tensor of LiteRT's: its index, name, type and shape."""

    number: int
    name: str
    dtype: str
    shape: tuple[int, ...]


Samples = dict[str, list[float]]
"""Milliseconds of each frame, of each frame's part of the CPU, and per frame of each stream: frame, submit, stream."""


@dataclass
class Measurement:
    """A row of figures; times are in milliseconds.

    ``init`` is the time to make interpreter, delegate and GPU programs; ``initialization`` has its phases (see
    fb.Statistics). ``stream`` is the time per frame if ``latency.count`` frames are submitted back to back, with one
    wait at the end; ``submit`` is the CPU's part of a frame. Both are medians of ``samples``. ``error`` says
    why there are no figures; ``difference`` is how far the results are from LiteRT's, as a share of an output's largest
    value, of peers that are measured beside it. ``steps``, ``costs`` and ``memory`` are of a profile; the last three
    are there if the schedule ``shows`` them.
    """

    model: str
    on: str
    io: str = ""
    error: str = ""
    init: float = 0.0
    latency: Latency | None = None
    stream: float | None = None
    submit: float | None = None
    difference: float | None = None
    samples: Samples = field(default_factory=dict)
    initialization: dict[str, float] = field(default_factory=dict)
    statistics: fb.Statistics | None = None
    steps: list[fb.StepTime] = field(default_factory=list)
    costs: list[fb.StepCost] = field(default_factory=list)
    memory: list[fb.TensorMemory] = field(default_factory=list)
    before: list[TensorState] = field(default_factory=list)
    after: list[TensorState] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)

    def show(self, interpreter: fb.Interpreter, subject: Subject, schedule: Schedule, *, streams: bool) -> None:
        """Time a subject's frames as ``time`` does; keep what the schedule ``shows``."""
        if schedule.shows:
            self.before = tensor_states(interpreter)
        if not schedule.dry:
            self.time(subject, schedule, streams=streams)
        if schedule.shows and not schedule.dry:
            self.after, self.outputs = tensor_states(interpreter), [output.tobytes() for output in subject.outputs()]

    def time(self, subject: Subject, schedule: Schedule, *, streams: bool) -> None:
        """Time a subject's frames; ``streams``: also streams, and the CPU's part of a frame."""
        self.latency, self.samples = time_frames(subject, schedule)
        if not streams:  # what a frame reads back, it has waited for
            del self.samples["submit"]
            return
        self.samples["stream"] = time_streams(subject, self.latency.count, min(STREAM_SECONDS, schedule.seconds))
        self.submit, self.stream = (float(np.median(self.samples[name])) for name in ("submit", "stream"))


@dataclass(frozen=True)
class Subject:
    """A timed subject: ``frame`` submits one inference, ``wait`` returns when all that was submitted is done.

    ``outputs`` reads those of the last one.
    """

    frame: Callable[[], Any]
    wait: Callable[[], Any] = lambda: None
    outputs: Callable[[], Sequence[npt.NDArray[Any]]] = tuple

    def run(self) -> None:
        """Submit one inference, and wait for it."""
        self.frame()
        self.wait()


def milliseconds(work: Callable[[], Any]) -> float:
    """Time of one call of ``work``."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def warm_up(frame: Callable[[], Any], schedule: Schedule) -> list[float]:
    """The milliseconds of the frames that run before those of the measurement, so that the GPU's clock is up."""
    warm, began = list[float](), time.perf_counter()
    least = min(schedule.warm_up_seconds, schedule.seconds) if schedule.warm_up else 0.0
    while len(warm) < schedule.warm_up or time.perf_counter() < began + least:
        warm.append(milliseconds(frame))
        if time.perf_counter() > began + schedule.seconds:
            break
    return warm


def time_frames(subject: Subject, schedule: Schedule) -> tuple[Latency, Samples]:
    """The latency of a schedule's frames, with a wait after each, and its samples "frame" and "submit"."""
    first, warm = milliseconds(subject.run), warm_up(subject.run, schedule)
    times, submits, began = list[float](), list[float](), time.perf_counter()
    while schedule.goes_on(len(times), began):
        schedule.pause(len(times), began)
        started = time.perf_counter()
        submits.append(milliseconds(subject.frame))
        subject.wait()
        times.append((time.perf_counter() - started) * 1e3)
    latency = Latency(
        count=len(times), first=first, warm_up=float(np.mean(warm or [first])), min=min(times),
        median=float(np.median(times)), p95=float(np.percentile(times, 95)), p99=float(np.percentile(times, 99)),
        max=max(times), avg=float(np.mean(times)), std=float(np.std(times)),
    )  # fmt: skip
    return latency, {"frame": times, "submit": submits}


def time_streams(subject: Subject, frames: int, seconds: float = STREAM_SECONDS) -> list[float]:
    """Times per frame of streams: ``frames`` frames back to back, with one wait at the end.

    Up to STREAMS of them run, for as long as ``seconds`` allow, and one at least.
    """

    def stream() -> None:
        for _ in range(frames):
            subject.frame()
        subject.wait()

    times, began = list[float](), time.perf_counter()
    while not times or (len(times) < STREAMS and time.perf_counter() < began + seconds):
        times.append(milliseconds(stream) / frames)
    return times


# framebind ------------------------------------------------------------------------------------------------------------


def measure_on_gpu(
    path: Path,
    api: fb.Backend,
    options: fb.GpuDelegateOptions,
    schedule: Schedule,
    inputs: Inputs,
    *,
    bound: bool,
    profiled: bool = False,
) -> Measurement:
    """Measure framebind on the context that is current.

    ``bound``: inputs and outputs are objects on the GPU, and nothing is copied; else both are in CPU memory, as those
    of a signature always are. ``profiled``: also time each dispatch. Raises BindingError for a model whose tensors
    cannot be bound.
    """
    bound = bound and not inputs.signature
    row = Measurement(path.stem, f"{api.short} {options.storage}", "bound" if bound else "read")
    started = time.perf_counter()
    interpreter, delegate = fb.Interpreter(model_path=path), fb.GpuDelegate(options)
    interpreter.modify_graph_with_delegate(delegate)
    try:
        inputs = inputs.fitted(interpreter)
        interpreter.allocate_tensors()
        row.init = (time.perf_counter() - started) * 1e3
        subject = _bound(interpreter, delegate, api, inputs) if bound else read_and_write(interpreter, inputs)
        row.init += milliseconds(delegate.record)
        row.show(interpreter, subject, schedule, streams=bound)
        if profiled and not schedule.dry:
            delegate.profile()  # which compiles each step by itself
            warm_up(subject.run, schedule)
            row.steps, row.costs, row.memory = _profile(delegate), delegate.steps(), delegate.memory()
        row.statistics = delegate.statistics()
        row.initialization = {phase: seconds * 1e3 for phase, seconds in row.statistics.initialization.items()}
        return row
    finally:
        delegate.close()


def _bound(interpreter: fb.Interpreter, delegate: fb.GpuDelegate, api: fb.Backend, inputs: Inputs) -> Subject:
    """A subject whose tensors are all bound.

    A frame binds the next texture of a ring to the first input that is a picture (1 to 4 channels) and comes from no
    file, and runs.
    """
    random, picture = np.random.default_rng(0), -1
    interpreter.set_allow_buffer_handle_output(True)

    details = interpreter.get_input_details()
    for (tensor, shape), detail in zip(shapes(details).items(), details, strict=True):
        is_picture = len(shape) == 4 and shape[0] == 1 and shape[3] <= 4
        if picture < 0 and is_picture and not inputs.gives(detail):
            picture = tensor
        else:
            values = inputs.values(detail, random).astype(np.float32)
            delegate.bind_buffer_to_tensor(api.new_buffer(values), tensor)
    for tensor, shape in shapes(interpreter.get_output_details()).items():
        delegate.bind_buffer_to_tensor(api.new_buffer(np.zeros(math.prod(shape), np.float32)), tensor)
    pixels = [random.integers(0, 256, (FRAME[1], FRAME[0], 4), np.uint8) for _ in range(3)]
    ring = itertools.cycle([api.new_texture(p) for p in pixels])

    if picture >= 0:  # now, so that the commands are recorded once
        delegate.bind_buffer_to_tensor(next(ring), picture)

    def frame() -> None:
        if picture >= 0:
            delegate.bind_buffer_to_tensor(next(ring), picture)
        interpreter.invoke()

    def outputs() -> list[npt.NDArray[Any]]:
        for tensor in shapes(interpreter.get_output_details()):
            delegate.ensure_tensor_data_is_readable(tensor)
        return outputs_of(interpreter)

    return Subject(frame, lambda: delegate.fence().wait(), outputs)


def read_and_write(interpreter: fb.Interpreter, inputs: Inputs) -> Subject:
    """A subject that writes every input, runs, and reads every output, as a script does without a GPU."""
    random = np.random.default_rng(0)
    if inputs.signature:
        runner = interpreter.get_signature_runner(inputs.signature)
        arguments = inputs.arguments(runner, random)
        return Subject(lambda: runner(**arguments), outputs=lambda: list(runner(**arguments).values()))
    details = interpreter.get_input_details()
    outputs = tuple(shapes(interpreter.get_output_details()))
    values = {tensor: inputs.values(detail, random) for tensor, detail in zip(shapes(details), details, strict=True)}

    def frame() -> None:
        for tensor, value in values.items():
            interpreter.set_tensor(tensor, value)
        interpreter.invoke()
        for tensor in outputs:
            interpreter.get_tensor(tensor)

    return Subject(frame, outputs=lambda: outputs_of(interpreter))


def outputs_of(interpreter: fb.Interpreter) -> list[npt.NDArray[Any]]:
    """The outputs of the last inference, in the model's order."""
    return [interpreter.get_tensor(tensor) for tensor in shapes(interpreter.get_output_details())]


def tensor_states(interpreter: fb.Interpreter) -> list[TensorState]:
    """LiteRT's tensors as they are now."""
    details: list[dict[str, Any]] = interpreter.get_tensor_details()
    return [
        TensorState(
            int(detail["index"]), str(detail["name"]), np.dtype(detail["dtype"]).name, tuple(map(int, detail["shape"]))
        )
        for detail in details
    ]


def _profile(delegate: fb.GpuDelegate) -> list[fb.StepTime]:
    """The median time of each dispatch, in the order of the run."""
    runs = [delegate.profile() for _ in range(PROFILES)]
    return [
        fb.StepTime(step.label, step.kernel, round(float(np.median([run[number].nanoseconds for run in runs]))))
        for number, step in enumerate(runs[0])
    ]
