"""Choose the operator cases that ``make test`` runs on each device: tools/certify/cases/chosen.json.

    python scripts/choose_cases.py             # writes the file
    python scripts/choose_cases.py --explain   # prints why each case is chosen, and writes nothing

It is needed after a change of kernels or cases that tests/house/test_cover.py complains about.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from covers import covers
from framebind.tools.certify.cases.runs import CHOSEN


def main(
    explain: Annotated[bool, typer.Option("--explain", help="Print the reason for each case instead.")] = False,
) -> None:
    for_each = covers()
    if explain:
        for name, chosen in for_each.items():
            for run, reasons in chosen.items():
                print(f"{name}: {run}: {', '.join(map(str, reasons))}")
        return
    names = {name: sorted(str(run) for run in chosen) for name, chosen in for_each.items()}
    CHOSEN.write_text(json.dumps(names, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(", ".join(f"{len(chosen)} {name}" for name, chosen in names.items()), "->", CHOSEN.name)


if __name__ == "__main__":
    typer.run(main)
