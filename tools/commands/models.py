"""``python -m framebind models``: lists and fetches models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import framebind as fb

from ...video.models import BUNDLED, MODELS, find_local, find_model, model_folders
from ..common.output import AsJson, add_row, make_table, print_json, print_line, print_table

Action = Annotated[Literal["list", "fetch", "path"], typer.Argument(help="What to do.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Names of models, for fetch and path.")]


def models(action: Action = "list", names: Names = None, as_json: AsJson = False) -> None:
    """List the models that have a name here, fetch some from their address, or print the paths of their files.

    Example: python -m framebind models fetch selfie_segmentation

    Example: python -m framebind benchmark $(python -m framebind models path selfie_segmentation)
    """
    if action == "list":
        if names:
            raise typer.BadParameter("list takes no names", param_hint="NAME")
        _list(as_json=as_json)
        return
    if not names:
        raise typer.BadParameter(f"which models? {action} takes their names", param_hint="NAME")
    files = {name: str(find_model(name) if action == "fetch" else _path(name)) for name in names}
    if as_json:
        print_json(files)
    else:
        for file in files.values():
            print_line(file)


def _path(name: str) -> Path:
    """The file of a model; raises ModelError if it is not on this machine."""
    path = find_local(name)
    if path is None:
        hint = f": python -m framebind models fetch {name}" if name in MODELS else ", and none has an address here"
        raise fb.ModelError(f"model '{name}' is in no folder of models{hint}")
    return path


def _list(*, as_json: bool) -> None:
    others = {path.stem for folder in model_folders() if folder.is_dir() for path in folder.glob("*.tflite")}
    rows: list[dict[str, str | None]] = []
    for name in dict.fromkeys([*BUNDLED, *MODELS, *sorted(others)]):
        known, file = MODELS.get(name), find_local(name)
        what = known.what if known else "paints in one style" if name in BUNDLED else ""
        row = {"name": name, "what": what, "file": str(file) if file else None}
        rows.append({**row, "address": known.address if known else None, "sha256": known.sha256 if known else None})
    if as_json:
        print_json(rows)
        return
    table = make_table("Models", "name", "finds or makes", "file")
    table.columns[0].width = max(map(len, [*BUNDLED, *MODELS]))  # names are there to be copied
    for row in rows:
        place = "in the package" if row["name"] in BUNDLED else "here" if row["file"] else "to be fetched"
        add_row(table, row["name"], row["what"], place)
    print_table(table)
