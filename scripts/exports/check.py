"""Checks .tflite exports on the GPU: operators, partitions, steps, errors and times; and LiteRT's own GPU accelerator.

    python scripts/exports/check.py FOLDER --backend gl,cl,cuda [--json FILE] [--runs 100]

Each model's inputs are the same random numbers from 0 to 1 for all. The error is the largest difference from LiteRT's
CPU interpreter in any output, divided by the largest value of that output. A time is the median of runs whose inputs
and outputs stay in the GPU's memory, in milliseconds, each waited for. Exit code 1 if an operator is on the CPU, if a
model has more than one partition, or if an error in f32 is above 1e-4.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

import framebind as fb
from framebind.tools.measure.inputs import Inputs
from framebind.tools.measure.measure import Schedule
from framebind.tools.measure.peers import litert_gpu
from framebind.video.apis import APIS, BY_NAME

Array = npt.NDArray[Any]
LARGEST_ERROR = 1e-4
"""Largest error of float32 arithmetic."""
WARM_UP = 3


@dataclass(frozen=True)
class Row:
    """One model on one API in one precision. ``error`` is relative, ``milliseconds`` None without a figure."""

    model: str
    on: str
    operators: int
    on_gpu: int
    partitions: int
    steps: int
    error: float | None
    milliseconds: float | None
    problem: str = ""


def outputs_of(path: Path, values: dict[int, Array]) -> list[Array]:
    """LiteRT's results on the CPU."""
    interpreter = fb.Interpreter(model_path=path, delegate="cpu")
    interpreter.allocate_tensors()
    for index, value in values.items():
        interpreter.set_tensor(index, value)
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(index)) for index in interpreter.outputs()]


def inputs_of(path: Path) -> dict[int, Array]:
    """Random values of each input, by tensor index."""
    interpreter, random = fb.Interpreter(model_path=path, delegate="cpu"), np.random.default_rng(0)
    details: list[dict[str, Any]] = interpreter.get_input_details()
    return {detail["index"]: random.random(detail["shape"]).astype(detail["dtype"]) for detail in details}


def check(path: Path, api: fb.Backend, precision: str, values: dict[int, Array], wanted: list[Array], runs: int) -> Row:
    """Run a model in the API's current context."""
    options = fb.GpuDelegateOptions(backend=api.name, is_precision_loss_allowed=precision == "f16")
    delegate = fb.GpuDelegate(options)
    interpreter = fb.Interpreter(model_path=path, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_allow_buffer_handle_output(True)
    for index, value in values.items():
        interpreter.set_tensor(index, value)
    interpreter.invoke()
    errors = []
    for index, reference in zip(interpreter.outputs(), wanted, strict=True):
        delegate.ensure_tensor_data_is_readable(index)
        found, largest = interpreter.get_tensor(index).astype(np.float64), float(np.abs(reference).max())
        errors.append(float(np.abs(found - reference).max()) / (largest or 1.0))
    for index, value in values.items():
        delegate.bind_buffer_to_tensor(api.new_buffer(value), index)
    operators = delegate.delegated_ops()
    on_gpu = sum(each.runs_on == "gpu" for each in operators)
    times = [_milliseconds(interpreter, delegate) for _ in range(runs + WARM_UP)][WARM_UP:]
    median, parts, steps = (
        statistics.median(times) if times else None,
        len(delegate.partitions()),
        len(delegate.steps()),
    )
    delegate.close()
    return Row(path.stem, f"{api.short} {precision}", len(operators), on_gpu, parts, steps, max(errors), median)


def _milliseconds(interpreter: fb.Interpreter, delegate: fb.GpuDelegate) -> float:
    begin = time.perf_counter()
    interpreter.invoke()
    delegate.fence().wait()
    return (time.perf_counter() - begin) * 1e3


def rows_of(path: Path, backends: list[str], precisions: list[str], runs: int, *, peer: bool) -> list[Row]:
    """Run a model on each API in each precision, and in LiteRT's accelerator."""
    values, rows = inputs_of(path), list[Row]()
    wanted = outputs_of(path, values)
    for api in map(BY_NAME.__getitem__, backends):
        for precision in precisions:
            try:
                with api.new_context():
                    rows.append(check(path, api, precision, values, wanted, runs))
            except fb.FramebindError as error:
                problem = f"{type(error).__name__}: {error}"
                rows.append(Row(path.stem, f"{api.short} {precision}", 0, 0, 0, 0, None, None, problem))
    if peer:
        measured = litert_gpu(path, 1, Schedule(WARM_UP, runs), Inputs())
        found = measured.latency.median if measured.latency is not None else None
        rows.append(Row(path.stem, "litert-gpu", 0, 0, 0, 0, None, found, measured.error or ""))
    return rows


def is_right(row: Row) -> bool:
    """Whether a row has all operators in one partition, without an error that is too large."""
    if row.on == "litert-gpu":
        return True
    whole = row.operators == row.on_gpu > 0 and row.partitions == 1
    return whole and row.error is not None and (not row.on.endswith("f32") or row.error <= LARGEST_ERROR)


def main(
    folder: Annotated[Path, typer.Argument(help="A folder of .tflite files, or one file.")],
    backend: Annotated[str, typer.Option(help=f"Some of {', '.join(api.short for api in APIS)}.")] = "gl,cl",
    precision: Annotated[str, typer.Option(help="f32, f16 or both with a comma.")] = "f32,f16",
    runs: Annotated[int, typer.Option(min=0, help="Timed runs.")] = 20,
    peer: Annotated[bool, typer.Option(help="Ask LiteRT's own GPU accelerator, too.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file.")] = None,
) -> None:
    rows = list[Row]()
    print(f"{'model':24} {'on':10} {'operators':>9} {'parts':>5} {'steps':>5} {'error':>8} {'ms':>9}")
    for path in [folder] if folder.is_file() else sorted(folder.glob("*.tflite")):
        for row in rows_of(path, backend.split(","), precision.split(","), runs, peer=peer):
            rows.append(row)
            told = "" if row.error is None else f"{row.error:.1e}"
            time_told = "" if row.milliseconds is None else f"{row.milliseconds:.3f}"
            parts = f"{f'{row.on_gpu}/{row.operators}':>9} {row.partitions:5} {row.steps:5}"
            print(f"{row.model:24} {row.on:10} {parts} {told:>8} {time_told:>9} {row.problem}", flush=True)
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    raise typer.Exit(0 if all(map(is_right, rows)) else 1)


if __name__ == "__main__":
    typer.run(main)
