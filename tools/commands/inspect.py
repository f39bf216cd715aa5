"""``python -m framebind inspect``: shows a model's tensors, operators and partitions."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.filesize import decimal
from rich.table import Table

import framebind as fb

from ...video.apis import BY_NAME
from ...video.model_file import read_model_file
from ...video.models import find_model
from ...video.tasks import tasks_for
from ..common.advice import Facts, advise, facts_of, listed
from ..common.console import counted
from ..common.flags import SHORT_NAMES, DelegateFlags, backend_option, chart_option, with_flags
from ..common.output import AsJson, add_row, make_table, print_json, print_line, print_table
from ..plots.files import save

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="A .tflite file, or the name of a known model.")]
Precision = Annotated[
    Literal["f32", "f16", "false", "true"], typer.Option(help="Storage of weights and of some intermediate tensors.")
]
GraphFile = Annotated[Path | None, chart_option("Draw the operators, the device of each, and fused groups")]
Backend = Annotated[
    str,
    backend_option(
        f"{SHORT_NAMES} or auto: the API whose commands are recorded. null needs no GPU: it compiles nothing and "
        "stands for any.",
        also="null",
    ),
]

All = Annotated[bool, typer.Option("--all", help="Show a row for each operator, of a large model too.")]
FEW = 20
"""Operators whose rows fit on a screen. Of a larger model those on the CPU are shown."""


@with_flags
def inspect(
    model: ModelName,
    backend: Backend = "null",
    precision: Precision = "f32",
    graph: GraphFile = None,
    every: All = False,
    as_json: AsJson = False,
    *,
    flags: DelegateFlags,
) -> None:
    """Show how much of a model runs on the GPU, what costs most and what to change, and why operators do not run there.

    Example: python -m framebind inspect style_transfer
    """
    path = find_model(model)
    with (
        _without_warnings(),
        BY_NAME[backend].open_context(flags.device) if backend in BY_NAME else contextlib.nullcontext(),
    ):
        content, failure = _inspected(path, flags.options_for(path, backend, precision), graph)
    if as_json:
        print_json(content)
    else:
        _print(content, every=every)
    if failure is not None:
        raise fb.ModelError(f"the model does not run: {failure}") from failure


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Log errors alone in the block: the tables contain the warnings."""
    log = logging.getLogger("framebind")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _inspected(
    path: Path, options: fb.GpuDelegateOptions, graph: Path | None
) -> tuple[dict[str, Any], Exception | None]:
    """A description of the model, and the error if it cannot be made ready to run; ``graph`` is drawn if named."""
    interpreter = fb.Interpreter(path)
    delegate = fb.GpuDelegate(options)
    interpreter.modify_graph_with_delegate(delegate)
    failure: Exception | None = None
    try:
        interpreter.allocate_tensors()
        delegate.record()
    except (fb.FramebindError, RuntimeError, ValueError) as error:  # ours, and LiteRT's two
        failure = error
    facts = None if failure else facts_of(interpreter, delegate)
    if graph is not None and facts is not None:
        _draw(path, facts, graph)
    file = read_model_file(path)
    content = {
        "model": path.name,
        "inputs": [_tensor(detail, delegate) for detail in interpreter.get_input_details()],
        "outputs": [_tensor(detail, delegate) for detail in interpreter.get_output_details()],
        "operators": [dataclasses.asdict(operator) for operator in interpreter.delegated_ops()],
        "partitions": [dataclasses.asdict(partition) for partition in delegate.partitions()],
        "steps": [dataclasses.asdict(step) for step in delegate.steps()],
        "tasks": [{"task": name, "because": fit.because} for name, fit in tasks_for(file)],
        "feedback": {file.names[output]: file.names[given] for output, given in file.feedback.items()},
        "values": {file.names[tensor]: value for tensor, value in file.values.items()},
        "advice": [] if facts is None else [dataclasses.asdict(advice) for advice in advise(facts)],
        "error": None if failure is None else str(failure),
    }
    delegate.close()
    return content, failure


def _draw(path: Path, facts: Facts, file: Path) -> None:
    from ..plots.graph import graph_chart  # packages of the extra `plot`

    shapes = {number: tensor.shape for number, tensor in facts.tensors.items()}
    save(graph_chart(path.stem, facts.operators, facts.steps, shapes, facts.inputs), file)


def _tensor(detail: dict[str, Any], delegate: fb.GpuDelegate) -> dict[str, Any]:
    """LiteRT's details of a tensor, as JSON has them, and its layout as a picture. Sizes that may change are -1."""
    quantization = detail["quantization_parameters"]
    scales = [float(scale) for scale in quantization["scales"]]
    return {
        "index": int(detail["index"]),
        "name": str(detail["name"]),
        "shape": [int(size) for size in detail["shape_signature"]] or [int(size) for size in detail["shape"]],
        "layout": delegate.layout_of(int(detail["index"])),
        "dtype": detail["dtype"].__name__,
        "scales": scales,
        "zero_points": [int(point) for point in quantization["zero_points"]],
        "quantized_dimension": int(quantization["quantized_dimension"]) if len(scales) > 1 else None,
    }


def _print(content: dict[str, Any], *, every: bool) -> None:
    """Print the answer, then the tables: ``every`` operator, or those on the CPU if there are many."""
    operators = content["operators"]
    if content["error"] is None:  # else the command ends with an error that says so
        print_line(_answer(content["model"], operators, content["partitions"]))
    if content["steps"]:
        print_line(_frame_text(content["steps"]))
    print_line(_task_text(content["tasks"]))
    if content["feedback"]:
        print_line(_feedback_text(content["feedback"]))
    for name, value in content["values"].items():
        print_line(_value_text(name, value))
    if content["advice"]:
        print_table(_advice_table(content["advice"]))
    print_table(_tensor_table(content))
    if content["partitions"]:
        print_table(_partition_table(content["partitions"]))
    if every or len(operators) <= FEW:
        print_table(_operator_table(operators))
        return
    if any(operator["runs_on"] == "cpu" for operator in operators):
        print_table(_reason_table(operators))
    print_line(f"--all shows the rows of all {len(operators)} operators.")


def _answer(model: str, operators: list[dict[str, Any]], partitions: list[dict[str, Any]]) -> str:
    """The sentence on where the operators run."""
    count, on_gpu = len(operators), sum(operator["runs_on"] == "gpu" for operator in operators)
    if not on_gpu:
        return f"{model}: none of {counted(count, 'operator')} runs on the GPU. Run the model without a delegate."
    which = f"{on_gpu} of {count}" if on_gpu < count else f"all {count}" if count > 1 else "its"
    noun, verb = "operator" if count == 1 else "operators", "runs" if on_gpu == 1 else "run"
    rest = f"; {count - on_gpu} on the CPU" if on_gpu < count else ""
    return f"{model}: {which} {noun} {verb} on the GPU, in {counted(len(partitions), 'partition')}{rest}."


def _frame_text(steps: list[dict[str, Any]]) -> str:
    nbytes, multiply_adds = (sum(step[name] for step in steps) for name in ("nbytes", "multiply_adds"))
    count = f"{multiply_adds / 1e6:,.0f} million" if multiply_adds >= 1e6 else f"{multiply_adds:,}"
    work = f", with {count} multiply-adds in convolutions and matrix products" if multiply_adds else ""
    return (
        f"A frame is {counted(len(steps), 'step')} on the GPU, which read and write {decimal(nbytes)} at least{work}."
    )


def _task_text(tasks: list[dict[str, str]]) -> str:
    """The task of videos that the model alone chooses, the reason, and the other tasks that take the model."""
    best, *others = tasks
    more = [each["task"] for each in others[:-1]]  # the last one takes any model
    return f"Its task for videos is {best['task']}, because {best['because']}" + (
        f"; --task {' or --task '.join(more)} is possible, too." if more else "."
    )


def _value_text(name: str, value: float | None) -> str:
    default = "It has no default" if value is None else f"By default it is {value:g}"
    return f"Its input '{name}' is no picture and no state. {default}; --input {name}=VALUE sets it for videos."


def _feedback_text(feedback: dict[str, str]) -> str:
    pairs = ", ".join(f"{output}:{given}" for output, given in feedback.items())
    return f"It is recurrent: its states are fed back for videos, as with --feedback {pairs.replace(' ', '')}."


def _tensor_table(content: dict[str, Any]) -> Table:
    table = make_table("Inputs and outputs", "", "tensor", "name", "shape", "layout", "type", "quantization")
    for direction in ("inputs", "outputs"):
        for tensor in content[direction]:
            shape = " x ".join("any" if size == -1 else str(size) for size in tensor["shape"])
            layout = tensor["layout"].upper() if len(tensor["shape"]) == 4 else ""
            kind = tensor["dtype"], _quantization(tensor)
            add_row(table, direction[:-1], tensor["index"], tensor["name"], shape, layout, *kind)
    return table


def _quantization(tensor: dict[str, Any]) -> str:
    scales, points = tensor["scales"], tensor["zero_points"]
    if not scales:
        return ""
    if len(scales) > 1:
        return f"{len(scales)} scales along dimension {tensor['quantized_dimension']}"
    return f"{scales[0]:.6g} * (q - {points[0]})" if points and points[0] else f"{scales[0]:.6g} * q"


def _operator_table(operators: list[dict[str, Any]]) -> Table:
    several = any(operator["subgraph"] for operator in operators)
    table = make_table(
        "Operators", *(["subgraph"] if several else []), "", "operator", "runs on", "partition", "because"
    )
    for operator in operators:
        on_gpu = operator["runs_on"] == "gpu"
        name = " ".join(filter(None, (operator["name"], operator["composite"])))
        cells = [operator["index"], name, operator["runs_on"].upper()]
        cells += [operator["partition"], ""] if on_gpu else ["", operator["reason"]]
        add_row(table, *([operator["subgraph"]] if several else []), *cells, style="" if on_gpu else "yellow")
    return table


def _reason_table(operators: list[dict[str, Any]]) -> Table:
    """The reasons for the CPU, with the operators that have each."""
    found: dict[tuple[str, str], list[int]] = {}
    for operator in operators:
        if operator["runs_on"] == "cpu":
            found.setdefault((operator["name"], operator["reason"]), []).append(operator["index"])
    table = make_table("Operators on the CPU", "operator", "count", "", "because")
    for (name, reason), numbers in found.items():
        add_row(table, name, len(numbers), listed(numbers), reason, style="yellow")
    return table


def _advice_table(advice: list[dict[str, Any]]) -> Table:
    table = make_table("What costs, and what to change", "", "where", "steps", "bytes", "change", lines=True)
    for row in advice:
        nbytes = decimal(row["nbytes"]) if row["nbytes"] else ""
        add_row(table, row["topic"], row["where"], row["steps"] or "", nbytes, row["change"])
    return table


def _partition_table(partitions: list[dict[str, Any]]) -> Table:
    table = make_table("Partitions", "", "operators", "inputs", "outputs", "dispatches", "constants", "arena")
    for partition in partitions:
        dispatches, memories = partition["dispatches"], (partition["constants_nbytes"], partition["arena_nbytes"])
        add_row(
            table,
            partition["number"],
            len(partition["operators"]),
            ", ".join(map(str, partition["inputs"])),
            ", ".join(map(str, partition["outputs"])),
            "unknown" if dispatches is None else dispatches,
            *("unknown" if nbytes is None else decimal(nbytes) for nbytes in memories),
        )
    return table
