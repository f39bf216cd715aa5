"""The picture of a model's graph: a row for each operator, coloured by where it runs; fused groups and partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
from rich.filesize import decimal

import framebind as fb

from ..common.console import counted
from .style import CPU, FAINT, GPU, INK, Chart, Part, caption, styled

ROW, BAR = 22, 16
"""Heights of a row and of an operator in it."""
LANE = 9
"""Width of a lane of lines that skip rows."""
NAME, SHAPE, STEP = 300, 150, 330
"""Widths of the columns: an operator's box, the shape of its result, and the step that computes it."""
PLACES = {"GPU": GPU, "GPU, without a step: its neighbours do it": "#9dbbe0", "CPU": CPU}
"""Colours by the place where an operator runs."""


class Group(NamedTuple):
    """Operators that are computed together, in one step or in several that only they need."""

    label: str
    kernels: str
    nbytes: int
    multiply_adds: int


class Row(NamedTuple):
    """An operator in the picture; ``group`` is None on the CPU, and without a step."""

    operator: fb.DelegatedOp
    group: Group | None
    shape: str


class Edge(NamedTuple):
    """A tensor from one row to a later one; ``lane`` counts from the operators to the left, 0 for the next row."""

    source: int
    target: int
    lane: int


def graph_chart(
    model: str,
    operators: Sequence[fb.DelegatedOp],
    steps: Sequence[fb.StepCost],
    shapes: Mapping[int, Sequence[int]],
    inputs: Sequence[int],
) -> Chart:
    """The picture of a model's main subgraph.

    ``operators`` and ``steps`` are its own, ``shapes`` those of its tensors. Operators that no input reaches compute
    constants, and are left out.
    """
    live = live_operators(operators, inputs)
    rows = rows_of(live, steps, shapes)
    edges = edges_of([row.operator for row in rows])
    on_gpu = sum(operator.runs_on == "gpu" for operator in live)
    left_out = len(operators) - len(live)
    on_cpu, launched = len(live) - on_gpu, counted(len(steps), "step")
    lines = [f"{counted(len(live), 'operator')}: {on_gpu} on the GPU, as {launched}, {on_cpu} on the CPU."]
    if left_out:
        lines.append(f"{left_out} more compute constants and are not shown.")
    title = caption(model, *lines, size=22, offset=20)
    return styled(_picture(rows, edges), title=title)


def live_operators(operators: Sequence[fb.DelegatedOp], inputs: Sequence[int]) -> list[fb.DelegatedOp]:
    """The operators that an input reaches, or that have no input at all."""
    reached, found = set(inputs), list[fb.DelegatedOp]()
    for operator in operators:
        if not operator.inputs or reached & set(operator.inputs):
            reached |= set(operator.outputs)
            found.append(operator)
    return found or list(operators)


def rows_of(
    operators: Sequence[fb.DelegatedOp], steps: Sequence[fb.StepCost], shapes: Mapping[int, Sequence[int]]
) -> list[Row]:
    """The operators, those of one step below each other, else in the model's order."""
    groups = groups_of(steps)
    first: dict[str, int] = {}
    for operator in operators:
        if operator.index in groups:
            first.setdefault(groups[operator.index].label, operator.index)

    def place(operator: fb.DelegatedOp) -> tuple[int, int]:
        group = groups.get(operator.index)
        return (operator.index if group is None else first[group.label]), operator.index

    def text(operator: fb.DelegatedOp) -> str:
        shape = shapes.get(operator.outputs[0], ()) if operator.outputs else ()
        return " x ".join(map(str, shape))

    return [Row(operator, groups.get(operator.index), text(operator)) for operator in sorted(operators, key=place)]


def groups_of(steps: Sequence[fb.StepCost]) -> dict[int, Group]:
    """The group of each operator that a step computes."""
    last = {operator: step for step in steps for operator in step.operators}
    found: dict[int, Group] = {}
    for operator, end in last.items():
        parts = [step for step in steps if step.operators and set(step.operators) <= set(end.operators)]
        kernels = " + ".join(dict.fromkeys(step.kernel for step in parts))
        nbytes, multiply_adds = sum(step.nbytes for step in parts), sum(step.multiply_adds for step in parts)
        found[operator] = Group(f"{end.partition}: {end.label}", kernels, nbytes, multiply_adds)
    return found


def edges_of(operators: Sequence[fb.DelegatedOp]) -> list[Edge]:
    """The tensors between operators. One that skips rows has a lane, for all its readers; lanes are used again."""
    writers = {tensor: row for row, operator in enumerate(operators) for tensor in operator.outputs}
    pairs = {(writers[i], row) for row, operator in enumerate(operators) for i in operator.inputs if i in writers}
    ordered = sorted(pair if pair[0] < pair[1] else pair[::-1] for pair in pairs if pair[0] != pair[1])
    furthest = {source: target for source, target in ordered if target > source + 1}
    ends: list[int] = []
    lanes: dict[int, int] = {}
    for source, target in furthest.items():
        lane = next((number for number, end in enumerate(ends) if end <= source), len(ends))
        ends[lane : lane + 1] = [target]
        lanes[source] = lane + 1
    return [Edge(source, target, lanes[source] if target > source + 1 else 0) for source, target in ordered]


# Drawing --------------------------------------------------------------------------------------------------------------


class Canvas(NamedTuple):
    """The area of the picture in its own units; operators begin at ``left``."""

    width: int
    height: int
    left: int

    def x(self, field: str = "x") -> alt.X:
        """The x encoding of a field, from left to right, without an axis."""
        return alt.X(f"{field}:Q", scale=alt.Scale(domain=[0, self.width], nice=False, zero=False), axis=None)

    def y(self, field: str = "y") -> alt.Y:
        """The y encoding of a field, from top to bottom."""
        return alt.Y(f"{field}:Q", scale=alt.Scale(domain=[self.height, 0], nice=False, zero=False), axis=None)


def _picture(rows: Sequence[Row], edges: Sequence[Edge]) -> Part:
    left = 16 + LANE * max((edge.lane for edge in edges), default=0)
    canvas = Canvas(left + NAME + SHAPE + STEP, ROW * max(len(rows), 1), left)
    layers = [
        _partitions(rows, canvas), _groups(rows, canvas), _lines(edges, canvas), *_boxes(rows, canvas),
        _texts(rows, canvas),
    ]  # fmt: skip
    chart: Any = alt.layer(*layers)
    return chart.properties(width=canvas.width, height=canvas.height)


def _data(rows: Iterator[dict[str, Any]]) -> alt.Chart:
    return alt.Chart(alt.Data(values=list(rows)))


def _runs(keys: Sequence[object]) -> Iterator[tuple[int, int]]:
    """The first and the last row of each run of equal keys; None belongs to no run."""
    first = 0
    for row in range(1, len(keys) + 1):
        if row == len(keys) or keys[row] != keys[first]:
            if keys[first] is not None:
                yield first, row - 1
            first = row


def _partitions(rows: Sequence[Row], canvas: Canvas) -> Part:
    """A pale background behind the operators of each part of the model that runs on the GPU."""
    parts = [row.operator.partition for row in rows]
    grounds = (
        {"x": 0, "x2": canvas.width, "y": ROW * first, "y2": ROW * (last + 1), "part": f"partition {parts[first]}"}
        for first, last in _runs(parts)
    )
    marks = _data(grounds).mark_rect(color="#f2f6fb", cornerRadius=6)
    return marks.encode(x=canvas.x(), x2="x2:Q", y=canvas.y(), y2="y2:Q", tooltip="part:N")


def _groups(rows: Sequence[Row], canvas: Canvas) -> Part:
    """A frame around the operators of each step that computes several."""
    keys = [None if row.group is None else row.group.label for row in rows]
    frames = (
        {"x": canvas.left - 3, "x2": canvas.left + NAME + 3, "y": ROW * first + 1, "y2": ROW * (last + 1) - 1}
        for first, last in _runs(keys)
        if last > first
    )
    marks = _data(frames).mark_rect(color="white", stroke=GPU, strokeWidth=1.2, cornerRadius=5)
    return marks.encode(x=canvas.x(), x2="x2:Q", y=canvas.y(), y2="y2:Q")


def _lines(edges: Sequence[Edge], canvas: Canvas) -> Part:
    """A line for each tensor: down to the next row, or along its lane at the left."""

    def points() -> Iterator[dict[str, Any]]:
        for number, edge in enumerate(edges):
            top, bottom = ROW * edge.source + ROW / 2, ROW * edge.target + ROW / 2
            if not edge.lane:
                course = [(canvas.left + 14, top), (canvas.left + 14, bottom)]
            else:
                lane = canvas.left - 4 - LANE * edge.lane
                course = [
                    (canvas.left, top + 4),
                    (lane, top + 4 + LANE),
                    (lane, bottom - 4 - LANE),
                    (canvas.left, bottom - 4),
                ]
            for order, (across, down) in enumerate(course):
                yield {"x": across, "y": down, "edge": number, "order": order}

    marks = _data(points()).mark_line(color="#8fa1b5", strokeWidth=1.4, strokeJoin="round")
    return marks.encode(x=canvas.x(), y=canvas.y(), detail="edge:N", order="order:Q")


def _place(row: Row) -> str:
    own, none, cpu = PLACES
    return cpu if row.operator.runs_on == "cpu" else none if row.group is None else own


def _boxes(rows: Sequence[Row], canvas: Canvas) -> list[Part]:
    """A box for each operator, with its number and name."""
    margin = (ROW - BAR) / 2

    def boxes() -> Iterator[dict[str, Any]]:
        for number, row in enumerate(rows):
            operator, group = row.operator, row.group
            yield {
                "x": canvas.left, "x2": canvas.left + NAME,
                "y": ROW * number + margin, "y2": ROW * (number + 1) - margin,
                "tx": canvas.left + 8, "ty": ROW * number + ROW / 2, "text": f"{operator.index}   {operator.name}",
                "place": _place(row), "operator": f"{operator.index} {operator.name}", "shape": row.shape,
                "step": group.label if group else "", "kernel": group.kernels if group else "",
                "reason": operator.reason,
            }  # fmt: skip

    marks = _data(boxes())
    color = alt.Color(
        "place:N", title=None, scale=alt.Scale(domain=list(PLACES), range=list(PLACES.values())),
        legend=alt.Legend(symbolType="square", labelLimit=320, labelFontSize=12),
    )  # fmt: skip
    tooltip = ["operator:N", "shape:N", "step:N", "kernel:N", "reason:N"]
    filled = marks.mark_rect(cornerRadius=3).encode(
        x=canvas.x(), x2="x2:Q", y=canvas.y(), y2="y2:Q", color=color, tooltip=tooltip
    )
    named = marks.mark_text(align="left", color="white", fontSize=11, limit=NAME - 12).encode(
        x=canvas.x("tx"), y=canvas.y("ty"), text="text:N", tooltip=tooltip
    )
    return [filled, named]


def amount(count: int) -> str:
    """A count in thousands or millions, with three digits."""
    return f"{count / 1e6:,.3g} million" if count >= 1e5 else f"{count:,}"


def _texts(rows: Sequence[Row], canvas: Canvas) -> Part:
    """The shapes; the kernel and bytes of each step, beside its last operator; why an operator is on the CPU."""

    def texts() -> Iterator[dict[str, Any]]:
        for number, row in enumerate(rows):
            down = ROW * number + ROW / 2
            yield {"x": canvas.left + NAME + 16, "y": down, "text": row.shape, "tone": INK}
            group, behind = row.group, rows[number + 1].group if number + 1 < len(rows) else None
            if group is not None and (behind is None or behind.label != group.label):
                madds = f", {amount(group.multiply_adds)} multiply-adds" if group.multiply_adds else ""
                text = f"{group.kernels}, {decimal(group.nbytes)}{madds}"
                yield {"x": canvas.left + NAME + SHAPE, "y": down, "text": text, "tone": FAINT}
            elif row.operator.runs_on == "cpu":
                yield {"x": canvas.left + NAME + SHAPE, "y": down, "text": row.operator.reason, "tone": "#b35c12"}

    marks = _data(texts()).mark_text(align="left", fontSize=11, limit=STEP)
    return marks.encode(
        x=canvas.x(), y=canvas.y(), text="text:N", color=alt.Color("tone:N", scale=None), tooltip="text:N"
    )
