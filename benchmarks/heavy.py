"""Times larger models on each API and beside PyTorch and LiteRT's GPU accelerator, with the errors.

    python benchmarks/heavy.py FOLDER|MODEL ... [--ways cuda,cl,gl,...] [--also MODEL:WAY,...] [--seconds 100]
        [--json FILE]
    python benchmarks/heavy.py --table FILE

Each model and way has a process of its own. All get ready side by side, and a process that is not ready after
``--seconds`` is ended, which is said. Then each in turn has the machine for itself: a warm-up, 300 frames with a wait
after each, and streams of as many. All are given the same random inputs, which lie on the GPU, and compute
in 16 bits. A frame of LiteRT's accelerator reads its outputs, since nothing else waits for it; its stream reads them
once. An error is the largest difference from LiteRT's CPU interpreter in any output, as a share of the largest value of
that output. *times* is the frame of the fastest peer as a multiple of ours on CUDA; of LiteRT's accelerator, which
copies in each frame, it takes the stream.

torch.compile in mode max-autotune tries kernels for a minute or several. ``TORCHINDUCTOR_CACHE_DIR``, if it is set,
keeps what it found: a later call with the same models is ready as soon as the others. Name few models at a time for
this mode: if many compile at once, busy CPUs disturb the trials, and slower kernels are chosen.

``benchmarks/report.py add FILE`` keeps what ``--json FILE`` wrote.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from processes import Child, answers, is_ready, start, take_turn
from roofline import paths_of
from samples import Label, Measured, Series, measured, read, write
from torch_peer import TORCH_WAYS, litert_results, prepare, relative_error, values_of

import framebind as fb
from framebind.tools.measure.inputs import Inputs
from framebind.tools.measure.measure import Measurement, Schedule, Subject
from framebind.tools.measure.peers import accelerated
from framebind.video.apis import BY_NAME

LITERT = "litert-gpu"
WAYS = ("cuda", "cl", "gl", "torch-cuda-graph", "torch-compile", "torch-compile-max-autotune", LITERT)
GOALS = {
    "unet_512": 0.32, "yolov8n_640": 0.26, "deeplab_mnv2_513": 0.24, "resnet18_224": 0.11, "mobilenetv2_224": 0.10,
    "vit_tiny_224": 0.15,
}  # fmt: skip
"""Milliseconds of a frame on CUDA that are aimed at."""
Measure = Callable[[], Measurement]


@dataclass(frozen=True)
class Answer:
    """The rows that a process measured, and its device and driver."""

    row: Measurement
    device: tuple[str, str] = ("", "")


# A process ------------------------------------------------------------------------------------------------------------


def work(path: Path, way: str, schedule: Schedule, connection: Any) -> None:
    """Get ready, wait for the turn, and send an Answer; a process's function."""
    if way not in TORCH_WAYS and hasattr(os, "nice"):
        os.nice(5)  # torch.compile takes longest to get ready; when a process is timed, no other one runs
    with contextlib.ExitStack() as stack:
        take_turn(connection, [ready(path, way, schedule, stack)])


def ready(path: Path, way: str, schedule: Schedule, stack: contextlib.ExitStack) -> Callable[[], Answer]:
    """A function that times the model. Everything that can run beside other processes is done before it returns."""
    if way in BY_NAME:
        stack.enter_context(BY_NAME[way].new_context())
        return ours(path, BY_NAME[way], schedule)
    if way in TORCH_WAYS:
        prepared = prepare(way, path, Inputs())
        return lambda: Answer(prepared(schedule), torch_device())
    row = Measurement(path.stem, way, "bound")
    try:
        return litert(row, path, schedule)
    except (ImportError, RuntimeError, OSError) as error:
        row.error = f"{type(error).__name__}: {error}"
        return lambda: Answer(row)


def ours(path: Path, api: fb.Backend, schedule: Schedule) -> Callable[[], Answer]:
    """The model on an API whose context is current, everything bound to buffers of float32, and run once."""
    values = values_of(path, Inputs())
    row = Measurement(path.stem, f"{api.short} f16", "bound")
    started = time.perf_counter()
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(api.name, is_precision_loss_allowed=True))
    interpreter = fb.Interpreter(model_path=path, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_allow_buffer_handle_output(True)
    for tensor, value in zip(interpreter.inputs(), values, strict=True):
        delegate.bind_buffer_to_tensor(api.new_buffer(value), tensor)
    details = interpreter.get_output_details()
    for detail in details:
        made = np.zeros(math.prod(detail["shape"]), np.float32)
        delegate.bind_buffer_to_tensor(api.new_buffer(made), detail["index"])
    interpreter.invoke()
    delegate.fence().wait()
    row.init = (time.perf_counter() - started) * 1e3
    for tensor in interpreter.outputs():
        delegate.ensure_tensor_data_is_readable(tensor)
    results = [np.array(interpreter.get_tensor(tensor)) for tensor in interpreter.outputs()]
    row.difference = relative_error(results, litert_results(path, values))

    def measure() -> Answer:
        row.time(Subject(interpreter.invoke, lambda: delegate.fence().wait()), schedule, streams=True)
        told = delegate.statistics()
        return Answer(row, (told.device, told.driver))

    return measure


def torch_device() -> tuple[str, str]:
    """The GPU and the versions of PyTorch."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        return "", ""
    if not torch.cuda.is_available():
        return "", ""
    return torch.cuda.get_device_name(), f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"


def litert(row: Measurement, path: Path, schedule: Schedule) -> Callable[[], Answer]:
    """The model in LiteRT's GPU accelerator. Raises an error if it does not run here."""
    model = accelerated(path, Inputs())
    model.write()
    model.run()
    row.difference = relative_error(model.read(), litert_results(path, values_of(path, Inputs())))

    def measure() -> Answer:
        row.time(Subject(model.run, model.read), schedule, streams=True)
        return Answer(row)

    return measure


def onnx_cuda() -> str:
    """Why ONNX Runtime is not among the peers."""
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]
    except ImportError:
        return "ONNX Runtime is not installed."
    providers = ", ".join(onnxruntime.get_available_providers())
    return f"ONNX Runtime {onnxruntime.__version__} is not timed: it has {providers}."


# The table ------------------------------------------------------------------------------------------------------------


def series_of(row: Measurement, pixels: int) -> Iterator[Series]:
    """The samples of frames and streams of pictures of so many pixels."""
    error = "" if row.difference is None else f"{row.difference:.1e}"
    for figure in ("frame", "stream"):
        labels: dict[str, Label] = {"model": row.model, "on": row.on, "figure": figure}
        yield Series({**labels, "error": error, "pixels": pixels}, row.samples[figure])


def pixels_of(path: Path) -> int:
    """The pixels of a model's largest input or output of rank 4 with up to four channels, first or last; or else 0."""
    interpreter = fb.Interpreter(model_path=path, delegate="cpu")
    ends: list[dict[str, Any]] = [*interpreter.get_input_details(), *interpreter.get_output_details()]
    shapes = [list(map(int, end["shape"])) for end in ends]
    pictures = [shape for shape in shapes if len(shape) == 4 and min(shape[1], shape[3]) <= 4]
    return max((math.prod(shape) // min(shape[1], shape[3]) for shape in pictures), default=0)


def tables(measurement: Measured) -> Iterator[str]:
    """The lines of the tables in Markdown: milliseconds of a frame and of a stream's, pixels by streams, and errors."""
    medians = {(s.labels["model"], s.labels["on"], s.labels["figure"]): s.median for s in measurement.series}
    errors = {(s.labels["model"], s.labels["on"]): s.labels["error"] for s in measurement.series}
    models = list(dict.fromkeys(model for model, _, _ in medians))
    own = [f"{short} f16" for short in ("cuda", "cl", "gl")]
    on = [*own, *dict.fromkeys(str(on) for _, on, _ in medians if on not in own)]
    yield f"| model | {' | '.join(on)} | times the best peer | goal on CUDA |"
    yield f"| --- |{' ---: |' * (len(on) + 2)}"
    for model in models:
        cells = [pair(medians.get((model, each, "frame")), medians.get((model, each, "stream"))) for each in on]
        figures = [(model, each, "stream" if each == LITERT else "frame") for each in on[3:]]
        peers = [medians[each] for each in figures if each in medians]
        frame = medians.get((model, own[0], "frame"))
        times = f"{min(peers) / frame:.2f}" if peers and frame else ""
        yield f"| {model} | {' | '.join(cells)} | {times} | {GOALS.get(str(model), '')} |"
    yield from rates(measurement, on)
    yield ""
    yield f"| error of | {' | '.join(on)} |"
    yield f"| --- |{' ---: |' * len(on)}"
    for model in models:
        yield f"| {model} | {' | '.join(str(errors.get((model, each), '')) for each in on)} |"


def rates(measurement: Measured, on: Sequence[str]) -> Iterator[str]:
    """The lines of a table of megapixels per second, by streams, of models whose pixels are known."""
    streams = [each for each in measurement.series if each.labels["figure"] == "stream" and each.labels.get("pixels")]
    if streams:
        yield ""
        yield f"| megapixels per second | {' | '.join(on)} |"
        yield f"| --- |{' ---: |' * len(on)}"
    for model in dict.fromkeys(each.labels["model"] for each in streams):
        own = {s.labels["on"]: int(s.labels["pixels"]) / s.median / 1e3 for s in streams if s.labels["model"] == model}
        yield f"| {model} | {' | '.join(f'{own[each]:,.0f}' if each in own else '' for each in on)} |"


def pair(frame: float | None, stream: float | None) -> str:
    return "" if frame is None or stream is None else f"{frame:.3f} / {stream:.3f}"


def measured_all(children: Sequence[tuple[Child, int]], until: float, began: float, json_file: Path | None) -> Measured:
    """The answers of the processes, which measure one after the other."""
    series, devices = list[Series](), list[tuple[str, str]]()
    waiting = [(child, pixels) for child, pixels in children if is_ready(child, began, until)]
    for child, pixels in waiting:
        for answer in answers(child):
            if isinstance(answer, str) or answer.row.latency is None:
                print(answer if isinstance(answer, str) else f"{child.model} {child.way}: {answer.row.error}")
                continue
            series += series_of(answer.row, pixels)
            devices.append(answer.device)
            print(f"{child.model} {child.way}: {answer.row.latency.median:.3f} ms", flush=True)
        if json_file is not None:  # after each process: a lent machine's time may end
            write(json_file, measured("heavy", devices, "ms", series))
    return measured("heavy", devices, "ms", series)


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, .tflite files, or folders of them.")] = None,
    ways: Annotated[str, typer.Option(help=f"Any of {','.join(WAYS)}.")] = ",".join(WAYS),
    also: Annotated[str, typer.Option(help="Further pairs of one model and a way: MODEL:WAY,MODEL:WAY.")] = "",
    seconds: Annotated[float, typer.Option(help="Seconds until all must be ready.")] = 100.0,
    runs: Annotated[int, typer.Option(help="Frames of which medians are taken.")] = 300,
    longest: Annotated[float, typer.Option(help="The most seconds of frames, and fewer frames then.")] = 3.0,
    warm_up: Annotated[float, typer.Option(help="Seconds of frames before they are timed.")] = 1.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the samples to this file.")] = None,
    table_file: Annotated[Path | None, typer.Option("--table", help="Print the tables of such a file.")] = None,
) -> None:
    if table_file is not None:
        print("\n".join(tables(read(table_file))))
        return
    began, schedule = time.monotonic(), Schedule(50, runs, longest, warm_up_seconds=warm_up)
    further = [pair.split(":") for pair in also.split(",") if pair]
    pairs = [
        (path, way)
        for path in paths_of(models or ())
        for way in (*ways.split(","), *(way for model, way in further if model == path.stem))
    ]
    compiling = sum("compile" in way for _, way in pairs) or 1
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(max(2 * (os.cpu_count() or 1) // compiling, 2)))
    print(onnx_cuda())
    children = [(start(path.stem, way, work, path, way, schedule), pixels_of(path)) for path, way in pairs]
    print("\n".join(["", *tables(measured_all(children, began + seconds, began, json_file))]))


if __name__ == "__main__":
    typer.run(main)
