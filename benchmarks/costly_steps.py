"""Prints the steps that hold a frame's time on a GPU, each beside the least time that the machine's limits allow.

    python benchmarks/costly_steps.py [MODEL ...] --backend cuda --longest 8 [--json FILE]
    python benchmarks/costly_steps.py --table FILE [--summary]

Each step runs as a dispatch of its own, and the GPU's clock times it: medians of ``--runs`` runs, after half a second
of frames. *MB* and *M multiply-adds* are what it moves and computes at least (fb.StepCost), *least* the longer of the
two times at an NVIDIA H200's limits, and *%* that time as a share of the measured one. A launch of its own costs a step
1 to 2 us, so the shares of short steps are small. Convolutions and products of matrices are held to the limit of matrix
units in float16, depthwise convolutions, which those cannot compute, to that of float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from batch import bind_all
from names import FLOAT
from roofline import BYTES_PER_US, MULTIPLY_ADDS_PER_US, paths_of
from samples import Label, Measured, Series, measured, read, write

import framebind as fb
from framebind.tools.measure.measure import Schedule, milliseconds, warm_up
from framebind.video.apis import BY_NAME

MATRIX_MULTIPLY_ADDS_PER_US = 494.5e6
"""Multiply-adds of an H200's matrix units in float16, by its data sheet: 989 TFLOPS."""
KEPT = 40
"""Steps of a model whose times are kept in a file: those that take longest. Of the others the sum by kernel is kept."""
Labels = dict[str, Label]
Profile = tuple[list[Series], tuple[str, str]]
"""Series of samples; the device's name and its driver."""


def least_us(kernel: str, nbytes: int, multiply_adds: int) -> float:
    """The least time of a step in microseconds."""
    rate = MULTIPLY_ADDS_PER_US if "depthwise" in kernel else MATRIX_MULTIPLY_ADDS_PER_US
    return max(nbytes / BYTES_PER_US, multiply_adds / rate)


def profiled(path: Path, api: fb.Backend, precision: str, schedule: Schedule) -> Profile:
    """The frame, then each step that takes long and the others by kernel, in microseconds; and the device."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(api.name, is_precision_loss_allowed=precision == "f16"))
    interpreter = fb.Interpreter(model_path=path, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    bind_all(interpreter, delegate, api, 1, "one")

    def frame() -> None:
        interpreter.invoke()
        delegate.fence().wait()

    warm_up(frame, schedule)
    frames = [1e3 * milliseconds(frame) for _ in range(schedule.runs)]
    delegate.profile()  # which compiles each step by itself
    warm_up(frame, schedule)
    times = np.array([[step.nanoseconds for step in delegate.profile()] for _ in range(schedule.runs)]).T / 1e3
    costs, figures = delegate.steps(), delegate.statistics()
    delegate.close()
    of: Labels = {"model": path.stem, "on": f"{api.short} {precision}"}
    order = sorted(range(len(costs)), key=lambda number: -float(np.median(times[number])))
    found = [Series({**of, "figure": "frame", "steps": len(costs)}, frames)]
    for number in order[:KEPT]:
        cost = costs[number]
        labels: Labels = {"figure": "step", "step": cost.label, "kernel": cost.kernel}
        work: Labels = {"bytes": cost.nbytes, "multiply_adds": cost.multiply_adds}
        found.append(Series({**of, **labels, **work}, times[number].tolist()))
    for kernel in sorted({costs[number].kernel for number in order[KEPT:]}):
        rest = [number for number in order[KEPT:] if costs[number].kernel == kernel]
        nbytes, adds = sum(costs[n].nbytes for n in rest), sum(costs[n].multiply_adds for n in rest)
        least = round(1e3 * sum(least_us(kernel, costs[n].nbytes, costs[n].multiply_adds) for n in rest))
        labels = {"figure": "rest", "count": len(rest), "kernel": kernel}
        work = {"bytes": nbytes, "multiply_adds": adds, "least_ns": least}
        found.append(Series({**of, **labels, **work}, times[rest].sum(0).tolist()))
    return found, (figures.device, figures.driver)


def tables(measurement: Measured, longest: int) -> Iterator[str]:
    """The lines of a table in Markdown for each model."""
    for of in dict.fromkeys((each.labels["model"], each.labels["on"]) for each in measurement.series):
        frame, *steps = [each for each in measurement.series if (each.labels["model"], each.labels["on"]) == of]
        yield from table(" on ".join(map(str, of)), frame, steps, longest)


def summary(measurement: Measured) -> Iterator[str]:
    """The lines of a table in Markdown with a row for each model: the frame, its steps, and the kernels they run."""
    yield "| model | frame us | steps | one by one us | at the limits us | kernels that hold the time, in % |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for of in dict.fromkeys((each.labels["model"], each.labels["on"]) for each in measurement.series):
        frame, *steps = [each for each in measurement.series if (each.labels["model"], each.labels["on"]) == of]
        whole, least = sum(step.median for step in steps), sum(map(least_of, steps))
        shares = {kernel: sum(step.median for step in some) / whole for kernel, some in by_kernel(steps)}
        words = [f"{kernel} {100 * share:.0f}" for kernel, share in list(shares.items())[:4]]
        figures = [f"{frame.median:.0f}", str(frame.labels["steps"]), f"{whole:.0f}", f"{least:.0f}"]
        yield f"| {of[0]} | {' | '.join(figures)} | {', '.join(words)} |"


def by_kernel(steps: Sequence[Series]) -> list[tuple[Label, list[Series]]]:
    """The steps of each kernel; first those that take longest together."""
    kernels: dict[Label, list[Series]] = {}
    for step in steps:
        kernels.setdefault(step.labels["kernel"], []).append(step)
    return sorted(kernels.items(), key=lambda item: -sum(step.median for step in item[1]))


def table(title: str, frame: Series, steps: Sequence[Series], longest: int) -> Iterator[str]:
    """The lines of one model's table: its longest steps, then all steps by kernel."""
    whole, least = sum(step.median for step in steps), sum(map(least_of, steps))
    yield f"{title}: a frame takes {frame.median:.0f} us; {frame.labels['steps']} steps one by one {whole:.0f} us, "
    yield f"at the machine's limits {least:.0f} us"
    yield ""
    yield "| step | kernel | us | % of all | MB | M multiply-adds | least us | % of the limit |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for step in steps[:longest]:
        if "step" in step.labels:
            yield row(str(step.labels["step"]), str(step.labels["kernel"]), [step], whole)
    for kernel, some in by_kernel(steps):
        count = sum(int(step.labels.get("count", 1)) for step in some)
        yield row(f"all {count}", str(kernel), some, whole)
    yield ""


def least_of(step: Series) -> float:
    """The least time of a step, or of the sum of many, in microseconds."""
    if "least_ns" in step.labels:
        return int(step.labels["least_ns"]) / 1e3
    return least_us(str(step.labels["kernel"]), int(step.labels["bytes"]), int(step.labels["multiply_adds"]))


def row(name: str, kernel: str, steps: Sequence[Series], whole: float) -> str:
    took, least = sum(step.median for step in steps), sum(map(least_of, steps))
    nbytes, adds = (sum(int(step.labels[key]) for step in steps) for key in ("bytes", "multiply_adds"))
    figures = [f"{took:.1f}", f"{100 * took / whole:.1f}", f"{nbytes / 1e6:.2f}", f"{adds / 1e6:,.0f}"]
    return f"| {name} | {kernel} | {' | '.join(figures)} | {least:.1f} | {100 * least / took:.0f} |"


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, .tflite files, or folders of them.")] = None,
    backend: Annotated[str, typer.Option(help=f"Any of {','.join(BY_NAME)}.")] = "cuda",
    precision: Annotated[str, typer.Option(help="f32 or f16.")] = "f16",
    runs: Annotated[int, typer.Option(min=1, help="Runs of which medians are taken.")] = 20,
    longest: Annotated[int, typer.Option(min=1, max=KEPT, help="Steps in a table.")] = 8,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the samples to this file.")] = None,
    table_file: Annotated[Path | None, typer.Option("--table", help="Print the tables of such a file.")] = None,
    short: Annotated[bool, typer.Option("--summary", help="Print only a row for each model.")] = False,
) -> None:
    if table_file is not None:
        print("\n".join(summary(read(table_file)) if short else tables(read(table_file), longest)))
        return
    found, devices = list[Series](), list[tuple[str, str]]()
    for path in paths_of(models or FLOAT):
        for api in map(BY_NAME.__getitem__, backend.split(",")):
            with api.new_context():
                series, device = profiled(path, api, precision, Schedule(runs=runs, warm_up_seconds=0.5))
            found += series
            devices.append(device)
            one = measured("steps", [device], "us", series)
            print("\n".join(summary(one) if short else tables(one, longest)), flush=True)
            if json_file is not None:  # after each model: a lent machine's time may end
                write(json_file, measured("steps", devices, "us", found))


if __name__ == "__main__":
    typer.run(main)
