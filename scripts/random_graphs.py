"""Random graphs against LiteRT's kernels: ``python scripts/random_graphs.py --seed 0 --count 1000 --device gl``.

A graph that fails (a wrong result, an exception, a crash, a hang, an operator that is left to the CPU) is shrunk and
kept in ``--keep`` as a model, with its recipe beside it; the exit status is then 1. The device "null" computes nothing:
it shows that every operator is claimed and lowered.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from pathlib import Path

from framebind.tools.certify.checks import Subject
from framebind.tools.certify.graphs.comparison import case_of
from framebind.tools.certify.graphs.recipe import Recipe, recipe_from, to_text
from framebind.tools.certify.outcomes import Outcome
from framebind.tools.certify.runner import Worker, start
from null_programs import program_on_null
from shrink import shrink


class Checker:
    """Outcomes of recipes on a device, in a process of their own that is made anew after a crash."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._worker: Worker | None = None

    def outcome(self, recipe: Recipe) -> Outcome:
        subject = Subject("graph", to_text(recipe), recipe.half)
        if self._device == "null":
            return _on_null(subject, recipe)
        self._worker = self._worker or start(self._device, lambda _: None)
        outcome = self._worker.outcome(subject)
        self._worker = None if outcome.status in ("hung", "crashed") else self._worker
        return outcome

    def close(self) -> None:
        if self._worker is not None:
            self._worker.end()


def _on_null(subject: Subject, recipe: Recipe) -> Outcome:
    try:
        reasons, program = program_on_null(case_of(recipe).model, "f16" if recipe.half else "f32")
        if program is not None:
            program.record()
    except Exception as error:  # any is a fault
        return Outcome(subject, "error", reason=f"{type(error).__name__}: {error}")
    left = next(iter(reasons.values()), "")
    return Outcome(subject, "left to the CPU" if reasons else "passed", reason=left, on_cpu=len(reasons))


def keep(folder: Path, recipe: Recipe, outcome: Outcome) -> Path:
    """Write the model and the recipe of a failure."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"graph-{recipe.seed}.tflite"
    path.write_bytes(case_of(recipe).model)
    path.with_suffix(".json").write_text(to_text(recipe) + "\n")
    print(f"{path}: {outcome.status}: {outcome.reason} (error {outcome.error}, bound {outcome.bound}): {recipe}")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description="Random graphs against LiteRT's kernels.")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--device", default="gl", help="null, gl, gles, cl, or cl:NAME")
    parser.add_argument("--keep", type=Path, default=Path("failures"), help="a folder for the graphs that fail")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    checker, counts = Checker(arguments.device), Counter[str]()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        recipe = recipe_from(str(seed))
        outcome = checker.outcome(recipe)
        counts[outcome.status] += 1
        if outcome.status != "passed":
            status = outcome.status
            least = shrink(recipe, lambda candidate, status=status: checker.outcome(candidate).status == status)
            keep(arguments.keep, least, checker.outcome(least))
    checker.close()
    for status, count in counts.most_common():
        print(f"{count:8d} {status}")
    return int(set(counts) != {"passed"})


if __name__ == "__main__":
    sys.exit(main())
