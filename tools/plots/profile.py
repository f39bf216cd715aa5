"""The chart of a benchmark: GPU and CPU, each step's time with its lower bound, memory over the model's steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import altair as alt

import framebind as fb

from ..common.console import counted
from .style import CPU, FAINT, FLOOR, GPU, INK, PALE_GPU, WIDTH, Chart, Part, caption, styled

LONGEST = 20
"""Number of steps that are drawn with their names: those that take longest."""
KINDS = {
    "elementwise": ("copy", "choose", "quantize"),
    "moves": (
        "concat", "gather", "gather_nd", "max_indices", "one_hot", "pad", "resampler", "reshape", "scatter",
        "strided_copy", "unpool", "update_slice", "warp_affine",
    ),
}  # fmt: skip
"""Names of kernels by the kind of their work."""
CONVOLUTIONS, OTHERS = "convolutions", "reductions and others"
COLORS = {CONVOLUTIONS: GPU, "elementwise": "#8a63b8", "moves": "#d1495b", OTHERS: "#3f9a8a"}

NAMES = alt.Axis(labelLimit=320, domain=False, ticks=False, labelPadding=6)
"""The axis of rows with names."""
FEW = alt.Axis(tickCount=8)
"""An axis with few ticks."""


class Timed(NamedTuple):
    """The latency of one row of a benchmark: milliseconds per frame. ``on`` says where."""

    on: str
    median: float
    p95: float
    is_gpu: bool


class Profile(NamedTuple):
    """A profiled run on a GPU: times, costs and memory as fb.GpuDelegate's ``profile``, ``steps`` and ``memory``."""

    on: str
    times: Sequence[fb.StepTime]
    costs: Sequence[fb.StepCost]
    memory: Sequence[fb.TensorMemory]


class Peaks(NamedTuple):
    """The most bytes and multiply-adds that a GPU does per nanosecond; 0 if not known."""

    nbytes: float
    multiply_adds: float

    def floor(self, cost: fb.StepCost) -> float:
        """The least time of a step in nanoseconds."""
        moving = cost.nbytes / self.nbytes if self.nbytes else 0.0
        return max(moving, cost.multiply_adds / self.multiply_adds if self.multiply_adds else 0.0)


def best_of(profile: Profile) -> Peaks:
    """The highest rates of any step of this run."""
    pairs = [(cost, max(time.nanoseconds, 1)) for cost, time in zip(profile.costs, profile.times, strict=True)]
    return Peaks(
        max((cost.nbytes / took for cost, took in pairs), default=0.0),
        max((cost.multiply_adds / took for cost, took in pairs), default=0.0),
    )


class Benchmark(NamedTuple):
    """The rows of a benchmark that belong to one model. ``device`` names its GPU."""

    model: str
    device: str
    timed: Sequence[Timed]
    profiles: Sequence[Profile]


def benchmark_chart(benchmarks: Sequence[Benchmark]) -> Chart:
    """The chart of a benchmark: its models below each other."""
    return styled(*map(_benchmark, benchmarks))


def _benchmark(benchmark: Benchmark) -> Part:
    parts: list[Part] = [_latencies(benchmark.timed)]
    for profile in benchmark.profiles:
        parts += [_steps(profile), _longest(profile), _memory(profile)]
    chart: Any = alt.vconcat(*parts, spacing=44, title=caption(benchmark.model, benchmark.device, size=22, offset=28))
    return chart.resolve_scale(color="independent")


def kind_of(cost: fb.StepCost) -> str:
    """The kind of a step's work, for its colour."""
    if cost.multiply_adds:
        return CONVOLUTIONS
    return next((kind for kind, kernels in KINDS.items() if cost.kernel in kernels), OTHERS)


def _latencies(timed: Sequence[Timed]) -> Part:
    """A bar for each row: its median, with a line up to the 95th percentile."""
    rows = [
        {**row._asdict(), "where": "GPU" if row.is_gpu else "CPU", "text": f"{row.median:,.3f} ms"} for row in timed
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("on:N", sort=None, title=None, axis=NAMES))
    colors = alt.Scale(domain=["GPU", "CPU"], range=[GPU, CPU])
    bars = base.mark_bar(height=18, cornerRadiusEnd=3).encode(
        x=alt.X("median:Q", title="milliseconds: the median, and a line to the 95th percentile", axis=FEW),
        color=alt.Color("where:N", scale=colors, legend=None),
        tooltip=[alt.Tooltip("on:N"), alt.Tooltip("median:Q", format=",.3f"), alt.Tooltip("p95:Q", format=",.3f")],
    )
    lines = base.mark_rule(color=INK, strokeWidth=1.5).encode(x="median:Q", x2="p95:Q")
    texts = base.mark_text(align="left", dx=8, color=INK, fontSize=12).encode(x="p95:Q", text="text:N")
    chart: Any = alt.layer(bars, lines, texts)
    return chart.properties(width=WIDTH, height=alt.Step(30), title=caption("Time per frame"))


def _rows(profile: Profile) -> Iterator[dict[str, Any]]:
    """A row of data for each step: times in microseconds."""
    peaks = best_of(profile)
    for number, (cost, time) in enumerate(zip(profile.costs, profile.times, strict=True)):
        floor = peaks.floor(cost)
        yield {
            "step": number, "end": number + 1, "name": cost.label.split(" ", 1)[-1], "kernel": cost.kernel,
            "kind": kind_of(cost), "us": time.nanoseconds / 1e3, "floor": floor / 1e3, "nbytes": cost.nbytes,
            "madds": cost.multiply_adds, "times": time.nanoseconds / max(floor, 1e-9),
        }  # fmt: skip


def _tooltips() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("step:Q", title="step"),
        alt.Tooltip("name:N", title="operators"),
        alt.Tooltip("kernel:N"),
        alt.Tooltip("us:Q", title="microseconds", format=",.2f"),
        alt.Tooltip("floor:Q", title="floor", format=",.2f"),
        alt.Tooltip("times:Q", title="times its floor", format=",.1f"),
        alt.Tooltip("nbytes:Q", title="bytes", format=",d"),
        alt.Tooltip("madds:Q", title="multiply-adds", format=",d"),
    ]


def _color(*, shown: bool = True) -> alt.Color:
    return alt.Color(
        "kind:N", title=None, scale=alt.Scale(domain=list(COLORS), range=list(COLORS.values())),
        legend=alt.Legend(symbolType="square", labelFontSize=12) if shown else None,
    )  # fmt: skip


def _steps_axis(count: int) -> alt.X:
    return alt.X(
        "step:Q", scale=alt.Scale(domain=[0, max(count, 1)], nice=False), title="step",
        axis=alt.Axis(grid=False, tickMinStep=1, format="d"),
    )  # fmt: skip


def _steps(profile: Profile) -> Part:
    """A bar for each step in order, and a line for its floor."""
    rows = list(_rows(profile))
    base = alt.Chart(alt.Data(values=rows)).encode(x=_steps_axis(len(rows)), x2="end:Q")
    bars = base.mark_bar(stroke="white", strokeWidth=0.5).encode(
        y=alt.Y("us:Q", title="microseconds"), y2=alt.datum(0), color=_color(), tooltip=_tooltips()
    )
    floors = base.mark_rule(color=FLOOR, strokeWidth=2).encode(y="floor:Q")
    total, floor = (sum(row[name] for row in rows) / 1e3 for name in ("us", "floor"))
    title = caption(
        f"Steps on {profile.on}",
        f"{counted(len(rows), 'step')}, {total:,.3f} ms one by one; dark lines are floors, {floor:,.3f} ms in all: the "
        "time in which the step would move its bytes and multiply and add,",
        "if it were as fast at each as the fastest step of this run.",
    )
    chart: Any = alt.layer(bars, floors)
    return chart.properties(width=WIDTH, height=240, title=title)


def _longest(profile: Profile) -> Part:
    """The longest steps by name, with their floors."""
    every = list(_rows(profile))
    rows = sorted(every, key=lambda row: -row["us"])[:LONGEST]
    total = sum(row["us"] for row in every) or 1.0
    for row in rows:
        row["label"] = f"{row['step']}: {_short(row['name'])}"
        row["text"] = f"{row['us']:,.1f}, {100 * row['us'] / total:.0f}%, {row['kernel']}"
    base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("label:N", sort=None, title=None, axis=NAMES))
    bars = base.mark_bar(height=13, cornerRadiusEnd=2).encode(
        x=alt.X("us:Q", title="microseconds", axis=FEW), color=_color(shown=False), tooltip=_tooltips()
    )
    floors = base.mark_tick(color=FLOOR, thickness=2.5, size=15).encode(x="floor:Q")
    texts = base.mark_text(align="left", dx=7, color=FAINT, fontSize=11).encode(x="us:Q", text="text:N")
    chart: Any = alt.layer(bars, floors, texts)
    what = f"The {len(rows)} longest of {len(every)} steps" if len(rows) < len(every) else "The same, longest first"
    return chart.properties(width=WIDTH, height=alt.Step(19), title=caption(what))


def _short(name: str, most: int = 44) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _memory(profile: Profile) -> Part:
    """A rectangle for each intermediate tensor: the steps while it lives, the place where it lies."""
    first = {cost.partition: number for number, cost in reversed(list(enumerate(profile.costs)))}
    rows = [
        {
            "step": first[use.partition] + use.first_step, "end": first[use.partition] + use.last_step + 1,
            "low": use.offset / 1e6, "high": (use.offset + use.nbytes) / 1e6, "nbytes": use.nbytes,
            "tensor": "a part of an operator" if use.tensor is None else f"tensor {use.tensor}",
        }
        for use in profile.memory
    ]  # fmt: skip
    marks = alt.Chart(alt.Data(values=rows)).mark_rect(stroke=GPU, strokeWidth=0.8, color=PALE_GPU)
    chart = marks.encode(
        x=_steps_axis(len(profile.costs)),
        x2="end:Q",
        y=alt.Y("low:Q", title="megabytes"),
        y2="high:Q",
        tooltip=[
            alt.Tooltip("tensor:N"),
            alt.Tooltip("nbytes:Q", title="bytes", format=",d"),
            alt.Tooltip("step:Q", title="from step"),
            alt.Tooltip("end:Q", title="until"),
        ],
    )
    size, apart = max((row["high"] for row in rows), default=0.0), sum(use.nbytes for use in profile.memory) / 1e6
    below = f"{counted(len(rows), 'tensor')} in {size:,.3g} MB; each in memory of its own: {apart:,.3g} MB."
    return chart.properties(width=WIDTH, height=220, title=caption(f"Intermediate tensors on {profile.on}", below))
