"""``python -m framebind diff``: compares a model on the GPU with the CPU, as TFLite's inference_diff does."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

import framebind as fb

from ...video.models import find_model
from ...video.network import shapes
from ..certify.pictures import picture_inputs
from ..common.flags import GpuFlags, chart_option, with_flags
from ..common.output import AsJson, print_figures, print_json, print_line
from ..measure.inputs import gaussian_input
from ..measure.reference import check_reference, set_inputs
from ..measure.tensors import OutputDifference, TensorError, absolute_errors, tensor_errors
from ..plots.files import save

Array = npt.NDArray[Any]
Outputs = list[Array]

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A .tflite file, or a name that `models` lists.")]
Runs = Annotated[int, typer.Option("--runs", min=1, help="Number of random inputs; each is run on both.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same random inputs.")]
Tolerance = Annotated[
    float | None, typer.Option(min=0.0, help="Exit with 1 if an element of an output differs by more than this.")
]
Plot = Annotated[Path | None, chart_option("Draw the errors of the outputs, and of every tensor along the model")]


@dataclass(frozen=True)
class PictureDifference:
    """The largest absolute error of each output for a picture."""

    picture: str
    max_errors: list[float]


@dataclass(frozen=True)
class Times:
    """Mean and standard deviation of one interpreter's ``invoke``, in microseconds."""

    avg: float
    std_dev: float


@with_flags
def diff(
    model: Model,
    runs: Runs = 50,
    seed: Seed = 0,
    tolerance: Tolerance = None,
    plot: Plot = None,
    as_json: AsJson = False,
    *,
    flags: GpuFlags,
) -> None:
    """Compare a model on the GPU with LiteRT's CPU interpreter on one thread: errors of each output, latency of both.

    Inputs are random: floats of a Gaussian of mean 0 and standard deviation 1/3, cut off at -1 and 1; integers over
    their type's range likewise. A model that takes a picture is also run with pictures, whose errors are a table of
    their own: what is nearly equal in them can show what noise hides.

    Example: python -m framebind diff selfie_segmentation --backend cl --tolerance 1e-4
    """
    path = find_model(model)
    with flags.api.open_context(flags.device):
        delegate = fb.GpuDelegate(flags.options(path))
        try:
            reference, test, differences, pictures = _compare(path, delegate, runs, seed)
            device = delegate.statistics().device
        finally:
            delegate.close()
        if plot is not None:
            _plot(plot, path, device, differences, tensor_errors(path, flags.options(path), seed))
    largest = [[d.max_error, *(p.max_errors[i] for p in pictures)] for i, d in enumerate(differences)]
    exceeded = [
        d.name
        for d, errors in zip(differences, largest, strict=True)
        if tolerance is not None and not all(error <= tolerance for error in errors)
    ]
    if as_json:
        content = {"model": path.stem, "device": device, "runs": runs, "seed": seed, "tolerance": tolerance}
        content["passed"] = None if tolerance is None else not exceeded
        figures = {"reference_us": dataclasses.asdict(reference), "test_us": dataclasses.asdict(test)}
        errors = {"outputs": [*map(dataclasses.asdict, differences)], "pictures": [*map(dataclasses.asdict, pictures)]}
        print_json({**content, **figures, **errors})
    else:
        _print(path, device, runs, reference, test, differences)
        if pictures:
            rows = [[p.picture, *(f"{error:.3g}" for error in p.max_errors)] for p in pictures]
            print_figures("Largest errors for pictures", ("picture",), tuple(d.name for d in differences), rows)
        if tolerance is not None:
            print_line(_verdict(tolerance, exceeded, float(np.max(largest))))
    if exceeded:
        raise typer.Exit(1)


def _verdict(tolerance: float, exceeded: list[str], largest: float) -> str:
    """The sentence on whether all outputs are within the tolerance. NaN, or an infinity on one side, is not."""
    if exceeded:
        return f"Failed: off by more than {tolerance:g}: {', '.join(exceeded)} (largest error {largest:.3g})."
    return f"Passed: no element of an output is off by more than {tolerance:g} (largest error {largest:.3g})."


def _plot(file: Path, path: Path, device: str, outputs: list[OutputDifference], tensors: list[TensorError]) -> None:
    from ..plots.errors import errors_chart  # packages of the extra `plot`

    save(errors_chart(path.stem, device, outputs, tensors), file)


def _print(
    path: Path, device: str, runs: int, reference: Times, test: Times, differences: list[OutputDifference]
) -> None:
    """Print the result in the words of inference_diff, and the errors of each output in a table."""
    print_line(f"{path.stem}: {device} against LiteRT's CPU interpreter on one thread")
    print_line(f"Num evaluation runs: {runs}")
    for what, times in (("Reference", reference), ("Test", test)):
        print_line(f"{what} run latency: avg={times.avg:.1f}(us), std_dev={times.std_dev:.1f}(us)")
    for number, d in enumerate(differences):
        print_line(f"OutputDiff[{number}]: avg_error={d.avg_error:.6g}, std_dev={d.std_dev:.6g}")
    rows = [[d.name, f"{d.avg_error:.3g}", f"{d.max_error:.3g}", f"{d.std_dev:.3g}"] for d in differences]
    print_figures("Absolute errors", ("output",), ("avg", "max", "std"), rows)


def _compare(
    path: Path, delegate: fb.GpuDelegate, runs: int, seed: int
) -> tuple[Times, Times, list[OutputDifference], list[PictureDifference]]:
    on_cpu = fb.Interpreter(model_path=path, num_threads=1, delegate="cpu")
    inputs = on_cpu.get_input_details()
    random = np.random.default_rng(seed)
    check_reference(path, {detail["index"]: gaussian_input(detail, random) for detail in inputs})
    on_gpu = fb.Interpreter(model_path=path)
    on_gpu.modify_graph_with_delegate(delegate)
    names = [str(detail["name"]) for detail in on_cpu.get_output_details()]
    run_reference, reference_times = _runner(on_cpu)
    run_test, test_times = _runner(on_gpu)
    random = np.random.default_rng(seed)
    averages, largest = np.zeros((runs, len(names))), np.zeros(len(names))
    for run in range(runs):
        values = [gaussian_input(detail, random) for detail in inputs]
        errors = list(map(absolute_errors, run_reference(values), run_test(values)))
        averages[run] = [each.mean() for each in errors]
        largest = np.maximum(largest, [each.max() for each in errors])  # a NaN stays one
    differences = [
        OutputDifference(name, float(averages[:, i].mean()), float(averages[:, i].std()), float(largest[i]))
        for i, name in enumerate(names)
    ]
    reference, test = _times(reference_times), _times(test_times)
    others = [gaussian_input(detail, random) for detail in inputs]
    pictures = [
        PictureDifference(
            name, [float(each.max()) for each in map(absolute_errors, run_reference(values), run_test(values))]
        )
        for name, values in picture_inputs(inputs, others).items()
    ]
    return reference, test, differences, pictures


def _times(seconds: list[float]) -> Times:
    # The first run loads weights and compiles kernels.
    counted = np.array(seconds[1:] or seconds) * 1e6
    return Times(float(counted.mean()), float(counted.std()))


def _runner(interpreter: fb.Interpreter) -> tuple[Callable[[list[Array]], Outputs], list[float]]:
    """A function that runs the model on inputs, and the list to which it adds the seconds of each run."""
    interpreter.allocate_tensors()
    inputs, outputs = tuple(shapes(interpreter.get_input_details())), tuple(shapes(interpreter.get_output_details()))
    seconds: list[float] = []

    def run(values: list[Array]) -> Outputs:
        set_inputs(interpreter, dict(zip(inputs, values, strict=True)))
        started = time.perf_counter()
        interpreter.invoke()
        found = [interpreter.get_tensor(tensor) for tensor in outputs]
        seconds.append(time.perf_counter() - started)
        return found

    return run, seconds
