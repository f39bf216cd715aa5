"""docs/operators.md is what the code says today."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from framebind.kernels.registry import OPERATORS

ROOT = Path(__file__).parents[2]


def test_the_table_of_operators_is_up_to_date() -> None:
    table = runpy.run_path(str(ROOT / "scripts" / "operators_table.py"))["table"]()
    assert (ROOT / "docs" / "operators.md").read_text(encoding="utf-8") == table, (
        "run python scripts/operators_table.py and look at the difference"
    )


def test_the_page_has_a_row_for_every_operator_and_its_reasons() -> None:
    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    rows = {
        line.split("|")[1].split()[0]: line for line in page.splitlines() if re.match(r"\| [\w.]+ .*\| yes \|", line)
    }
    assert {name for name, row in rows.items() if "| yes | yes |" in row or "| yes | no |" in row} == set(OPERATORS)
    assert "| WHERE | no | yes |" in rows["WHERE"] and "[some](" in rows["WHILE"]
    lists = {
        name: lines
        for heading, lines in re.findall(r"^### (.+)\n\n((?:- .+\n)+)", page, re.MULTILINE)
        for name in heading.split(", ")
    }
    assert set(lists) <= set(OPERATORS)
    assert "weights must have rank 2" in lists["FULLY_CONNECTED"]
    assert "does not broadcast to" in lists["BROADCAST_TO"]
