"""docs/operators.md is what the code says today."""

from __future__ import annotations

import runpy
from pathlib import Path

from framebind.kernels.registry import OPERATORS

ROOT = Path(__file__).parents[2]


def test_the_table_of_operators_is_up_to_date() -> None:
    table = runpy.run_path(str(ROOT / "scripts" / "operators_table.py"))["table"]()
    assert (ROOT / "docs" / "operators.md").read_text(encoding="utf-8") == table, (
        "run python scripts/operators_table.py and look at the difference"
    )


def test_the_table_has_a_row_for_every_operator() -> None:
    lines = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8").splitlines()
    rows = {line.split("|")[1].split()[0]: line for line in lines if line.startswith("| ") and "---" not in line}
    assert set(rows) - {"operator"} == set(OPERATORS)
    assert "weights must have rank 2" in rows["FULLY_CONNECTED"]
    assert "does not broadcast to" in rows["BROADCAST_TO"]
