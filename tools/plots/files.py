"""Files of charts. Nothing here imports the packages of the extra `plot` before a chart is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .style import Chart

PNG_SCALE = 2.0
"""Pixels of a .png for each unit of the chart: sharp on screens of high density, too."""


LESS_THAN = "\ue000"
"""A private character of Unicode that replaces "<" while a page is made."""


def save(chart: Chart, path: Path) -> None:
    """Write a chart. A .html file has tooltips and needs no network."""
    if path.suffix == ".html":
        path.write_text(_page(chart), encoding="utf-8")
    else:
        chart.save(path, scale_factor=PNG_SCALE if path.suffix == ".png" else 1.0)


def _page(chart: Chart) -> str:
    """The page of a chart, in which no name of a tensor or operator can end the script and begin another one.

    vl-convert writes the chart's texts into a script without escaping them.
    """
    import vl_convert

    content: Any = without_less_than(chart.to_dict())
    content["usermeta"] = {"embedOptions": {"actions": False}}
    return vl_convert.vegalite_to_html(content, bundle=True).replace(LESS_THAN, "\\u003c")


def without_less_than(content: Any) -> Any:
    """A copy of lists and dicts in which each "<" of a string is LESS_THAN."""
    if isinstance(content, str):
        return content.replace("<", LESS_THAN)
    if isinstance(content, dict):
        return {without_less_than(key): without_less_than(value) for key, value in content.items()}
    return [without_less_than(value) for value in content] if isinstance(content, list) else content
