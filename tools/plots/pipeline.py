"""The chart of processed videos: work and waits of each thread and the GPU per frame, and CPU time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from ..common.console import counted
from .style import FAINT, INK, WIDTH, Chart, Part, caption, styled

TRACKS = {
    "decoder": "decoder's thread",
    "thread": "thread with the GPU's context",
    "GPU": "GPU",
    "painter": "painter's thread",
    "encoder": "encoder's thread",
}
"""Tracks in the order of a frame's way."""
COLORS = {
    "decode": "#e08a3c", "upload": "#3f9a8a", "model": "#3b6fb6", "draw": "#8a63b8", "read back": "#d1495b",
    "encode": "#b58900", "other": "#9aa5b1",
}  # fmt: skip
WAITING = "waiting"
KINDS = {**COLORS, WAITING: "#e9edf1"}
"""Colours of stages, and of all waits."""
CPU = "cpu"
NAMES = alt.Axis(labelLimit=320, domain=False, ticks=False, labelPadding=6)
NOT_SHOWN = 0.004
"""Share of the width below which a part is not drawn."""
NAMED = 0.06
"""Share of the width from which a part has its name in it."""


def pipeline_chart(task: str, done: Sequence[dict[str, Any]], times: Mapping[str, dict[str, float]]) -> Chart:
    """The chart of the results of videos that have frames, and of the sums of their ``times``, by track and stage."""
    frames = sum(result["frames"] for result in done)
    tracks = {track: times[track] for track in TRACKS if track in times}
    seconds = max(sum(each for name, each in parts.items() if name != CPU) for parts in tracks.values())
    cpu = sum(result["cpu_seconds"] for result in done)
    title = caption(
        f"{task}: {counted(frames, 'frame')} of {counted(len(done), 'video')}",
        f"{1e3 * seconds / frames:,.2f} ms per frame and session, {frames / seconds:,.1f} frames/s; "
        f"{1e3 * cpu / frames:,.2f} CPU seconds per 1,000 frames",
        size=22, offset=28,
    )  # fmt: skip
    return styled(_rows(tracks, frames, seconds), _cpu(tracks, frames, cpu), title=title)


def _parts(tracks: dict[str, dict[str, float]], frames: int, seconds: float) -> Iterator[dict[str, Any]]:
    """A row of data per stage of a track: where it begins and ends, in ms per frame."""
    for track, parts in tracks.items():
        at = 0.0
        for name, each in parts.items():
            if name == CPU or each < NOT_SHOWN * seconds:
                continue
            length = 1e3 * each / frames
            kind = name if name in COLORS else WAITING
            named = each > NAMED * seconds
            yield {
                "track": TRACKS[track], "stage": name, "begin": at, "end": at + length, "middle": at + length / 2,
                "ms": length, "kind": kind, "ink": FAINT if kind == WAITING else "white",
                "name": name if named else "", "figure": f"{length:,.2f} ms" if named else "",
            }  # fmt: skip
            at += length


def _rows(tracks: dict[str, dict[str, float]], frames: int, seconds: float) -> Part:
    """A bar for each track, divided into stages and waits."""
    base = alt.Chart(alt.Data(values=list(_parts(tracks, frames, seconds)))).encode(
        y=alt.Y("track:N", sort=list(TRACKS.values()), title=None, axis=NAMES),
        tooltip=["track:N", "stage:N", alt.Tooltip("ms:Q", format=",.3f")],
    )
    bars = base.mark_bar(height=44, stroke="white", strokeWidth=1.5).encode(
        x=alt.X("begin:Q", title="milliseconds per frame", axis=alt.Axis(tickCount=8)), x2="end:Q",
        color=alt.Color(
            "kind:N", title=None, scale=alt.Scale(domain=list(KINDS), range=list(KINDS.values())),
            legend=alt.Legend(symbolType="square", labelFontSize=12),
        ),
    )  # fmt: skip
    names = base.mark_text(dy=-7, fontSize=13).encode(x="middle:Q", text="name:N", color=alt.Color("ink:N", scale=None))
    figures = base.mark_text(dy=9, fontSize=11).encode(
        x="middle:Q", text="figure:N", color=alt.Color("ink:N", scale=None)
    )
    chart: Any = alt.layer(bars, alt.layer(names, figures)).resolve_scale(color="independent")
    title = caption(
        "Time per frame", "The rows work side by side. Pale parts wait: the row that waits least sets the pace."
    )
    return chart.properties(width=WIDTH, height=alt.Step(58), title=title)


def _cpu(tracks: dict[str, dict[str, float]], frames: int, cpu: float) -> Part:
    """A bar for the CPU time of each thread."""
    own = {TRACKS[track]: parts[CPU] for track, parts in tracks.items() if CPU in parts}
    own["the codecs' and drivers' own threads, and the start"] = max(cpu - sum(own.values()), 0.0)
    rows = [
        {"thread": name, "seconds": 1e3 * each / frames, "text": f"{1e3 * each / frames:,.2f}"}
        for name, each in own.items()
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("thread:N", sort=None, title=None, axis=NAMES))
    bars = base.mark_bar(height=16, cornerRadiusEnd=3, color=COLORS["other"]).encode(
        x=alt.X("seconds:Q", title="CPU seconds per 1,000 frames", axis=alt.Axis(tickCount=8))
    )
    texts = base.mark_text(align="left", dx=6, color=INK, fontSize=12).encode(x="seconds:Q", text="text:N")
    chart: Any = alt.layer(bars, texts)
    return chart.properties(width=WIDTH, height=alt.Step(28), title=caption("CPU time"))
