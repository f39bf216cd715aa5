"""Hashes of the kernel texts of all operator cases and models, to compare before and after a change.

    python scripts/kernel_texts.py before.json
    python scripts/kernel_texts.py after.json --against before.json

Each case is compiled on the null device, which renders every dialect and computes nothing. This takes a minute and
needs no driver. ``--against`` prints the cases whose steps differ or that are missing, and fails if there are any; new
cases are counted. ``--texts FOLDER`` also writes every distinct text to a file that is named by its hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

os.environ.setdefault("EGL_PLATFORM", "surfaceless")
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from framebind.interop.backends import dialects  # noqa: E402
from framebind.interop.null.device import NullDevice  # noqa: E402
from framebind.interop.record.one_dispatch import merge  # noqa: E402
from framebind.kernels.codegen.render import render_program  # noqa: E402
from framebind.kernels.views import Storage  # noqa: E402
from framebind.tools.certify.cases.operator_cases import CASES  # noqa: E402
from framebind.tools.certify.cases.operator_models import case_model, output_shapes  # noqa: E402
from null_programs import program_on_null  # noqa: E402

KINDS = ("plain", "large", "matrix units")
"""The devices: one of few invocations, one of an H200's size, and the same with matrix units."""
Step = tuple[str | int, ...]
"""The label, the number of work-groups, and the hash of the text in each dialect."""


def device_of(kind: str) -> NullDevice:
    device = NullDevice() if kind == "plain" else NullDevice(group_size=128, invocations=270336)
    if kind == "matrix units":
        device.traits = replace(device.traits, matrix_units=True)
    return device


def steps_of(model: bytes, kind: str, storage: Storage, texts: dict[str, str]) -> tuple[list[Step], list[Step]]:
    """The steps of a model's first subgraph with plain buffers bound, and the one step of the program of them all.

    Adds their texts to ``texts`` by hash.
    """

    def digest(text: str) -> str:
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        texts[key] = text
        return key

    device = device_of(kind)
    _, program = program_on_null(model, storage, device)
    if program is None:
        return [], []
    recorded = program.record().steps
    kernels = [device.kernels[step.kernel.source] for step in recorded]
    steps = [
        (step.label, step.group_count, *(digest(kernel.texts[name]) for name in dialects()))
        for step, kernel in zip(recorded, kernels, strict=True)
    ]
    source = merge(recorded, device.traits.local_bytes).source
    program_texts = [digest(render_program(source, dialect)) for dialect in dialects().values()]
    return steps, [("all steps as one dispatch", len(steps), *program_texts)]


def all_steps(texts: dict[str, str]) -> Iterator[tuple[str, list[Step]]]:
    for case in CASES:
        yield str(case), steps_of(case_model(case, output_shapes(case)), "plain", "f32", texts)[0]
    folder = Path(os.environ.get("FRAMEBIND_MODELS", ROOT.parent / "shared" / "models"))
    for path in sorted(folder.glob("*.tflite")):
        for kind in KINDS:
            for storage in ("f32", "f16"):
                separate, one = steps_of(path.read_bytes(), kind, storage, texts)
                yield f"{path.stem} {kind} {storage}", separate
                yield f"{path.stem} {kind} {storage}, one dispatch", one


def main(
    output: Annotated[Path, typer.Argument(help="the JSON file to write")],
    against: Annotated[Path | None, typer.Option(help="the JSON file of an earlier run to compare with")] = None,
    texts: Annotated[Path | None, typer.Option(help="a folder for the texts themselves")] = None,
) -> None:
    found: dict[str, str] = {}
    steps = {case: [list(step) for step in rows] for case, rows in all_steps(found)}
    output.write_text(json.dumps(steps))
    if texts is not None:
        texts.mkdir(parents=True, exist_ok=True)
        for key, text in found.items():
            (texts / key).write_text(text)
    print(f"{len(steps)} cases, {len(found)} texts")
    if against is not None:
        before = json.loads(against.read_text())
        different = [case for case in before if before[case] != steps.get(case)]
        new = len(steps.keys() - before.keys())
        print(*different[:20], f"{len(different)} cases differ, {new} are new", sep="\n")
        raise typer.Exit(bool(different))


if __name__ == "__main__":
    typer.run(main)
