"""Checks and times stock models on the GPU: operators, partitions, steps, errors, frames; and LiteRT's GPU accelerator.

    python benchmarks/stock_models.py FOLDER --backend gl,cl,cuda --peer --json FILE
    python benchmarks/stock_models.py --table FILE

scripts/exports/make.py makes such models. The inputs are the same random numbers from 0 to 1 for all. An error is the
largest difference from LiteRT's CPU interpreter in any output, divided by the largest value of that output. A frame's
inputs and outputs stay in the GPU's memory, and it is waited for; one of LiteRT's accelerator includes writing and
reading them, since its Python binds no memory of a GPU. *Noise* is the error that LiteRT itself makes if the inputs
move by a millionth: a model that sorts, as RT-DETR does, may answer differently then.

Exit code 1 if an operator is on the CPU, if a model has more than one partition, or if an error in f32 is above both
1e-4 and the noise.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from samples import command_line, machine_and_driver, today

import framebind as fb
from framebind.tools.measure.inputs import Inputs
from framebind.tools.measure.measure import Schedule, milliseconds, warm_up
from framebind.tools.measure.peers import litert_gpu
from framebind.video.apis import APIS, BY_NAME

Array = npt.NDArray[Any]
LARGEST_ERROR = 1e-4
"""Largest error of float32 arithmetic."""
WARM_UP = 3
"""Frames at least; more until some time has passed, in which the GPU's clock rises."""


LITERT = "litert-gpu"
Values = Mapping[int, Array]
"""The values of inputs, by tensor index."""


@dataclass(frozen=True)
class Row:
    """One model on one API in one precision: ``on``. ``samples`` are in ms, or ``why_not`` says what is wrong."""

    model: str
    on: str
    operators: int = 0
    on_gpu: int = 0
    partitions: int = 0
    steps: int = 0
    error: float | None = None
    noise: float = 0.0
    samples: list[float] = field(default_factory=list[float])
    why_not: str = ""
    same_rows: int | None = None
    """Rows of a result (1, rows, values) that LiteRT has too, in any order; counted if the error is too large."""
    device: tuple[str, str] = ("", "")
    """The name and the driver of the API's device."""


def outputs_of(path: Path, values: Values) -> list[Array]:
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
    details = interpreter.get_input_details()
    return {detail["index"]: random.random(detail["shape"]).astype(detail["dtype"]) for detail in details}


def error_of(found: Sequence[Array], wanted: Sequence[Array]) -> float:
    """The largest difference of any output, divided by the output's largest value."""
    pairs = [(one.astype(np.float64), other.astype(np.float64)) for one, other in zip(found, wanted, strict=True)]
    return max(float(np.abs(one - other).max()) / (float(np.abs(other).max()) or 1.0) for one, other in pairs)


def same_rows(found: Sequence[Array], wanted: Sequence[Array]) -> int | None:
    """The number of rows of the one result (1, rows, values) that are among LiteRT's; None for other results."""
    if len(found) != 1 or found[0].ndim != 3:
        return None
    (mine,), (theirs,) = found[0], wanted[0]
    return sum(bool(np.abs(theirs - row).max(1).min() < LARGEST_ERROR) for row in mine)


def noise_of(path: Path, values: Values, wanted: Sequence[Array]) -> float:
    """LiteRT's own error on the CPU if the inputs move by a millionth."""
    random = np.random.default_rng(1)
    moved = {
        index: (value * (1 + 1e-6 * random.standard_normal(value.shape))).astype(value.dtype)
        for index, value in values.items()
    }
    return error_of(outputs_of(path, moved), wanted)


def check(path: Path, api: fb.Backend, precision: str, values: Values, wanted: Sequence[Array], runs: int) -> Row:
    """Run a model in the API's current context."""
    options = fb.GpuDelegateOptions(backend=api.name, is_precision_loss_allowed=precision == "f16")
    delegate = fb.GpuDelegate(options)
    interpreter = fb.Interpreter(model_path=path, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_allow_buffer_handle_output(True)
    for index, value in values.items():
        interpreter.set_tensor(index, value)
    interpreter.invoke()
    found = list[Array]()
    for index in interpreter.outputs():
        delegate.ensure_tensor_data_is_readable(index)
        found.append(interpreter.get_tensor(index))
    for index, value in values.items():
        delegate.bind_buffer_to_tensor(api.new_buffer(value), index)
    operators = delegate.delegated_ops()
    on_gpu = sum(each.runs_on == "gpu" for each in operators)
    times = _milliseconds(interpreter, delegate, runs) if runs else []
    partitions, steps, told = len(delegate.partitions()), len(delegate.steps()), delegate.statistics()
    delegate.close()
    error = error_of(found, wanted)
    return Row(
        path.stem, f"{api.short} {precision}", len(operators), on_gpu, partitions, steps, error, samples=times,
        same_rows=same_rows(found, wanted) if error > LARGEST_ERROR else None, device=(told.device, told.driver),
    )  # fmt: skip


def _milliseconds(interpreter: fb.Interpreter, delegate: fb.GpuDelegate, runs: int) -> list[float]:
    """The times of frames that are waited for."""

    def frame() -> None:
        interpreter.invoke()
        delegate.fence().wait()

    schedule = Schedule(WARM_UP, runs)
    warm_up(frame, schedule)
    return [milliseconds(frame) for _ in range(runs)]


def rows_of(path: Path, backends: list[str], precisions: list[str], runs: int, *, peer: bool) -> Iterator[Row]:
    """Run a model on each API in each precision, and in LiteRT's accelerator."""
    values = inputs_of(path)
    wanted = outputs_of(path, values)
    noise = noise_of(path, values, wanted)
    for api in map(BY_NAME.__getitem__, backends):
        for precision in precisions:
            try:
                with api.new_context():
                    yield replace(check(path, api, precision, values, wanted, runs), noise=noise)
            except fb.FramebindError as error:
                yield Row(path.stem, f"{api.short} {precision}", why_not=f"{type(error).__name__}: {error}")
    if peer:
        measured = litert_gpu(path, 1, Schedule(WARM_UP, runs), Inputs())
        yield Row(path.stem, LITERT, samples=measured.samples.get("frame", []), why_not=measured.error or "")


def is_right(row: Row) -> bool:
    """Whether a row has all operators in one partition, without an error that is too large."""
    if row.on == LITERT:
        return True
    whole = row.operators == row.on_gpu > 0 and row.partitions == 1
    return whole and row.error is not None and (row.on.endswith("f16") or row.error <= max(LARGEST_ERROR, row.noise))


def line_of(row: Row) -> str:
    """A row of what is printed."""
    error = "" if row.error is None else f"{row.error:.1e}"
    median = f"{statistics.median(row.samples):.3f}" if row.samples else ""
    operators = f"{row.on_gpu}/{row.operators}"
    figures = f"{operators:>9} {row.partitions:5} {row.steps:5} {error:>8} {row.noise:8.1e} {median:>8}"
    rows = "" if row.same_rows is None else f"{row.same_rows} rows are LiteRT's"
    return f"{row.model:22} {row.on:10} {figures} {row.why_not or rows}"


def table(file: Path) -> Iterator[str]:
    """The lines of a table in Markdown of what ``--json`` wrote."""
    rows = [Row(**row) for row in json.loads(file.read_text())["rows"]]
    yield "| model | operators on the GPU | steps | error f32 | f16 | CUDA | OpenCL | OpenGL | LiteRT's accelerator |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for model in dict.fromkeys(row.model for row in rows):
        of = {row.on: row for row in rows if row.model == model}
        first = next(row for on, row in of.items() if on.endswith("f32"))
        errors = [max(row.error or 0.0 for on, row in of.items() if on.endswith(end)) for end in ("f32", "f16")]
        cells = [model, f"{first.on_gpu} of {first.operators}", str(first.steps), *(f"{error:.1e}" for error in errors)]
        for on in ("cuda f16", "cl f16", "gl f16", LITERT):
            times = of[on].samples if on in of else []
            cells.append(f"{statistics.median(times):.2f}" if times else "refuses" if on == LITERT else "")
        yield f"| {' | '.join(cells)} |"


def main(
    folder: Annotated[Path | None, typer.Argument(help="A folder of .tflite files, or one file.")] = None,
    backend: Annotated[str, typer.Option(help=f"Some of {', '.join(api.short for api in APIS)}.")] = "gl,cl",
    precision: Annotated[str, typer.Option(help="f32, f16 or both with a comma.")] = "f32,f16",
    runs: Annotated[int, typer.Option(min=0, help="Timed frames.")] = 50,
    peer: Annotated[bool, typer.Option(help="Ask LiteRT's own GPU accelerator, too.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file.")] = None,
    table_file: Annotated[Path | None, typer.Option("--table", help="Print the table of such a file.")] = None,
) -> None:
    if folder is None:
        print("\n".join(table(table_file) if table_file is not None else []))
        return
    rows = list[Row]()
    print(f"{'model':22} {'on':10} {'operators':>9} parts steps {'error':>8} {'noise':>8} {'ms':>8}")
    for path in [folder] if folder.is_file() else sorted(folder.glob("*.tflite")):
        for row in rows_of(path, backend.split(","), precision.split(","), runs, peer=peer):
            rows.append(row)
            print(line_of(row), flush=True)
            if json_file is not None:  # after each row: a lent machine's time may end
                json_file.write_text(json.dumps(result(rows), indent=1))
    raise typer.Exit(0 if all(map(is_right, rows)) else 1)


def result(rows: list[Row]) -> dict[str, Any]:
    """The content of a file of benchmarks/results. The commit is set by hand: a lent machine has no repository."""
    machine, driver = machine_and_driver([row.device for row in rows])
    words = {"machine": machine, "driver": driver, "date": today(), "commit": "", "command": command_line(sys.argv)}
    return {**words, "rows": [asdict(row) for row in rows]}


if __name__ == "__main__":
    typer.run(main)
