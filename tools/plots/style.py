"""The look that all charts share: fonts, colours, captions."""

from __future__ import annotations

from typing import Any

import altair as alt

Chart = alt.TopLevelMixin
Part = alt.Chart | alt.LayerChart | alt.VConcatChart | alt.HConcatChart

WIDTH = 1000
"""Width of a chart's drawing area, in units of which a .png has PNG_SCALE pixels."""
FONT = "Helvetica Neue, Helvetica, Arial, sans-serif"
INK, FAINT, GRID = "#1f2933", "#6b7785", "#e4e8ec"
GPU, CPU = "#3b6fb6", "#e08a3c"
PALE_GPU = "#c9d9ee"
FLOOR = "#12263f"


def caption(text: str, *below: str, size: int = 15, offset: int = 14) -> alt.TitleParams:
    """A title with lines below it, at the left."""
    return alt.TitleParams(
        text, subtitle=list(below), anchor="start", fontSize=size, subtitleFontSize=12, color=INK, subtitleColor=FAINT,
        offset=offset, subtitlePadding=4, frame="group",
    )  # fmt: skip


def styled(*parts: Part, title: Any = alt.Undefined) -> Chart:
    """The parts below each other, as one chart in framebind's look."""
    chart: Any = alt.vconcat(*parts, spacing=44, title=title).resolve_scale(color="independent")
    return (
        chart.configure(font=FONT, background="white", padding=24)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=FAINT, titleColor=FAINT, gridColor=GRID, domainColor=GRID, tickColor=GRID, labelFontSize=11,
            titleFontSize=11, titleFontWeight="normal",
        )
        .configure_legend(labelColor=INK, titleColor=FAINT, titleFontWeight="normal", orient="top", titleFontSize=11)
    )  # fmt: skip
