"""Files of charts: their formats, the packages that they need, and how they are written.

Nothing here imports the packages of the extra `plot` before a chart is made.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from .style import Chart

SUFFIXES = (".html", ".svg", ".png")
PACKAGES = {"altair": "altair", "vl_convert": "vl-convert-python"}
"""The distributions of the extra `plot`, by the name of their module."""
PNG_SCALE = 2.0
"""Pixels of a .png for each unit of the chart: sharp on screens of high density, too."""


def check_file(path: Path | None) -> Path | None:
    """The path of a chart that an option names. Raises typer.BadParameter if no chart can be written there."""
    if path is None:
        return None
    if path.suffix not in SUFFIXES:
        raise typer.BadParameter(f"'{path}' is no {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file")
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise typer.BadParameter(f"charts need packages that are not here: pip install {' '.join(missing)}")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder '{path.parent}'")
    return path


def chart_option(help: str) -> Callable[..., object]:
    """An option whose value is the file of a chart; it is checked before the command begins."""
    return typer.Option(metavar="FILE", callback=check_file, help=f"{help}: a .html, .svg or .png file.")


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
