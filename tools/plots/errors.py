"""The chart of a comparison: errors of the outputs, and of each tensor along the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from ..measure.tensors import OutputDifference, TensorError
from .style import CPU, GPU, INK, PALE_GPU, WIDTH, Chart, Part, caption, styled

LEAST = 1e-9
"""Smaller errors, and zero, are drawn at this value, because the axis is logarithmic."""
MOST = 1e3
"""Larger errors, and infinity, are drawn at this value."""
LINES = (
    (6e-8, "float32 rounds to 6e-8"),
    (4.9e-4, "float16 rounds to 5e-4"),
)
"""Relative errors of one rounding, and their names."""


def errors_chart(model: str, device: str, outputs: Sequence[OutputDifference], tensors: Sequence[TensorError]) -> Chart:
    """The chart of a model's errors."""
    title = caption(model, f"{device} against LiteRT's CPU interpreter", size=22, offset=28)
    return styled(_outputs(outputs), _tensors(tensors), title=title)


def shown(error: float) -> float:
    """An error, clipped to the axis."""
    return MOST if math.isnan(error) else min(max(error, LEAST), MOST)


def _axis(span: Sequence[float]) -> alt.Axis:
    """An axis with ticks only at powers of ten."""
    low, high = (math.log10(end) for end in span)
    return alt.Axis(format=".0e", values=[10.0**power for power in range(math.ceil(low), math.floor(high) + 1)])


def _outputs(outputs: Sequence[OutputDifference]) -> Part:
    """A bar from the mean error to the largest one of each output."""
    rows = [
        {
            "name": output.name, "average": shown(output.avg_error), "largest": shown(output.max_error),
            "text": f"{output.avg_error:.2g} to {output.max_error:.2g}",
        }
        for output in outputs
    ]  # fmt: skip
    names = alt.Axis(labelLimit=320, domain=False, ticks=False, labelPadding=6)
    base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("name:N", sort=None, title=None, axis=names))
    span = _span([shown(error) for output in outputs for error in (output.avg_error, output.max_error)])
    scale = alt.Scale(type="log", domain=span)
    across = alt.X("average:Q", scale=scale, title="absolute error", axis=_axis(span))
    end = alt.X("largest:Q", scale=scale)
    bars = base.mark_bar(height=10, cornerRadius=5, color=PALE_GPU).encode(x=across, x2="largest:Q")
    means = base.mark_point(filled=True, size=90, color=GPU, opacity=1).encode(x=across)
    most = base.mark_point(filled=True, size=90, color=INK, opacity=1).encode(x=end)
    texts = base.mark_text(align="left", dx=12, color=INK, fontSize=12).encode(x=end, text="text:N")
    chart: Any = alt.layer(bars, means, most, texts)
    title = caption("Outputs", "Blue: the mean of all elements and runs. Dark: the largest error of all.")
    return chart.properties(width=WIDTH, height=alt.Step(28), title=title)


def _span(errors: Sequence[float]) -> list[float]:
    """The powers of ten around errors, with space for a text on the right."""
    low, high = math.floor(math.log10(min(errors, default=LEAST))), math.ceil(math.log10(max(errors, default=1.0)))
    return [10.0**low, 10.0 ** max(high + 0.5, low + 2)]


def _tensors(tensors: Sequence[TensorError]) -> Part:
    """A point for each tensor, by the operator that computes it."""
    rows = [
        {**tensor._asdict(), "shown": shown(tensor.error), "where": "GPU" if tensor.on_gpu else "CPU"}
        for tensor in tensors
    ]
    top = max([1e-3, *(shown(tensor.error) for tensor in tensors)])
    span = [LEAST, 10.0 ** math.ceil(math.log10(top))]
    last = max((tensor.operator for tensor in tensors), default=1)
    across = alt.X(
        "operator:Q", title="operator", scale=alt.Scale(domain=[-1, last + 1], nice=False),
        axis=alt.Axis(grid=False, tickMinStep=1, format="d"),
    )  # fmt: skip
    scale = alt.Scale(type="log", domain=span)
    up = alt.Y("shown:Q", scale=scale, title="largest error / largest value", axis=_axis(span))
    points = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=45, opacity=1)
    points = points.encode(
        x=across, y=up,
        color=alt.Color("where:N", title=None, scale=alt.Scale(domain=["GPU", "CPU"], range=[GPU, CPU])),
        tooltip=[
            alt.Tooltip("operator:Q"), alt.Tooltip("operator_name:N", title="name"),
            alt.Tooltip("name:N", title="tensor"), alt.Tooltip("shape:N"), alt.Tooltip("error:Q", format=".3g"),
        ],
    )  # fmt: skip
    lines = [{"shown": value, "text": text, "operator": last + 1} for value, text in LINES]
    marks = alt.Chart(alt.Data(values=lines))
    rules = marks.mark_rule(strokeDash=[4, 4], color=INK, opacity=0.35).encode(y=up)
    texts = marks.mark_text(align="right", dy=-7, fontSize=11, color=INK, opacity=0.6).encode(
        x=across, y=up, text="text:N"
    )
    title = caption(
        "Every tensor, from the first operator to the last one",
        f"Each operator runs by itself on one random input. Tensors without an error are at the bottom, {LEAST:.0e}.",
    )
    chart: Any = alt.layer(rules, points, texts)
    return chart.properties(width=WIDTH, height=300, title=title)
