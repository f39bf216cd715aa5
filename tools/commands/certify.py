"""``python -m framebind certify``: compares this machine's drivers with LiteRT's CPU kernels.

Modules of tools/certify are imported in functions: the cases of all operators take as long to import as all that other
commands need.
"""

from __future__ import annotations

import datetime
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import framebind as fb

from ...video.models import BUNDLED, MODELS, find_local, find_model
from ..common.console import progress_bar
from ..common.output import print_line, write_file

if TYPE_CHECKING:
    from ..certify.checks import Subject
    from ..certify.outcomes import Journal, Outcome

Devices = Annotated[
    list[str] | None,
    typer.Option("--device", help="gl, gles, cuda, cl, or cl:NAME; several times for several. By default each GPU."),
]
Everything = Annotated[bool, typer.Option("--all", help="All operator cases, which takes up to 30 minutes.")]
Minutes = Annotated[
    float | None, typer.Option(min=0.0, help="The most minutes that it may take; by default 3, or 30 with --all.")
]
Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODEL", help="Your own .tflite files: their names and messages will be in the file."),
]
Output = Annotated[Path, typer.Option(help="The JSON file; the page of text is beside it.")]
MINUTES = {False: 3.0, True: 30.0}
"""The minutes that a certification may take, without --all (False) and with it (True)."""


def certify(
    models: Models = None,
    device: Devices = None,
    everything: Everything = False,
    minutes: Minutes = None,
    output: Output = Path("certificate.json"),
) -> None:
    """Check each operator and model on this machine's devices against LiteRT's CPU kernels, and write a report.

    Exit status 1 if anything differs, fails, crashes or hangs. Ctrl-C stops it; the same command goes on from there.

    Example: python -m framebind certify

    Example: python -m framebind certify --device cl:pocl --minutes 10
    """
    from ..certify.certificate import PRIVACY, Certificate, device_result, text
    from ..certify.devices import versions
    from ..certify.outcomes import Journal

    print_line(f"{PRIVACY} It will be {output} and {output.with_suffix('.txt')}.")
    journal = Journal(output.with_suffix(".journal"))
    names, planned = _plan(journal, device, [find_model(name) for name in models or []], everything=everything)
    ends = time.monotonic() + 60 * (MINUTES[everything] if minutes is None else minutes)
    for number, name in enumerate(names):
        share = (ends - time.monotonic()) / (len(names) - number)
        _certify(name, planned, journal, time.monotonic() + share)
    devices, outcomes = journal.read()
    results = [device_result(device, outcomes.get(name, []), len(planned)) for name, device in devices.items()]
    today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
    certificate = Certificate(today, "all" if everything else "default", versions(), results)
    write_file(output, json.dumps(certificate.to_json(), indent=1) + "\n")
    page = text(certificate)
    write_file(output.with_suffix(".txt"), page)
    print_line(page)
    if len(results) == len(names) and not any(result.not_run for result in results):
        journal.path.unlink()
    if certificate.failures:
        raise typer.Exit(1)


def _plan(
    journal: Journal, devices: list[str] | None, models: list[Path], *, everything: bool
) -> tuple[list[str], list[Subject]]:
    """The devices and subjects: those of an unfinished certification with the same arguments, or new ones."""
    from ..certify.checks import Subject, subjects
    from ..certify.devices import usable_devices, versions

    names = devices or usable_devices()
    if not names:
        raise fb.DeviceError("no device here can run models; `python -m framebind doctor` says what to install")
    paths = [path for name in [*BUNDLED, *MODELS] if (path := find_local(name)) is not None] + models
    key = {"devices": names, "models": [str(path) for path in paths], "all": everything, "versions": versions()}
    kept = journal.plan()
    if kept is not None and kept.get("key") == key:
        print_line("An unfinished certification is continued.")
        return names, [Subject(**row) for row in kept["subjects"]]
    chosen = subjects(paths, everything=everything)
    journal.begin({"key": key, "subjects": [vars(subject) for subject in chosen]})
    return names, chosen


def _certify(name: str, planned: list[Subject], journal: Journal, deadline: float) -> None:
    """Run the checks of one device that are missing in the journal."""
    from ..certify.runner import run

    done = {outcome.subject for outcome in journal.read()[1].get(name, [])}
    todo = [subject for subject in planned if subject not in done]
    failed = 0
    with progress_bar(name, len(planned), len(done)) as advance:

        def report(outcome: Outcome) -> None:
            nonlocal failed
            journal.add(name, outcome)
            failed += outcome.status != "passed"
            advance(f"{failed} failed" if failed else "")

        run(name, todo, deadline, journal.add_device, report)
