"""Writes docs/drivers.md from the certificates in benchmarks/results/drivers, and adds new ones there.

python benchmarks/drivers.py                                    write the page
python benchmarks/drivers.py add CERTIFICATE.json --commit HASH keep what `framebind certify` wrote

A device that was certified again replaces its older result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import framebind as fb
from framebind.tools.certify.certificate import Certificate, DeviceResult, GroupResult, certificate_from

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "drivers"
PAGE = HERE.parent / "docs" / "drivers.md"
SHOWN_FAILURES = 20
TITLES = {each.short: each.title for api in fb.list_backends() for each in (api, *api.variants)}

HEADER = """# Drivers

On which drivers was framebind checked? `python -m framebind certify` compares a machine's devices with LiteRT's CPU
kernels: cases of each operator that reach every feature of its kernels, quantized operators, LSTMs, small networks for
the kernels of fused operators, random graphs, and the models on the machine. Each check runs in a process that may
crash or hang without harm.

*Nearest* is the model or operator whose worst error is the largest part of its bound.
`python benchmarks/drivers.py` writes this page from `benchmarks/results/drivers`, where each model and operator has its
errors, times and versions.

| device | by | driver | checks | passed | failed | not reached | nearest | date, commit |
| --- | --- | --- | ---: | ---: | --- | ---: | --- | --- |
"""
INVITATION = """
## Your driver

If your driver is not listed, please report it, even if everything passes:

```sh
python -m framebind certify              # 3 minutes at most; --all takes up to 30
```

The command writes `certificate.json` and a page of text, and sends nothing. The files have the date, versions, the
names of devices and drivers, and figures, but no name of a user, a host or a folder; the command says so before it
writes them. Read the text, then open an issue with both files. Your own models are checked only if you name them; then
the files have their names.

## How errors are bounded

- Operators and small networks: 1e-5 of the largest value in 32 bits; 1e-2 with tensors in 16 bits; 0 for operators that
  only move values; one step for quantized operators. These are the bounds of the tests.
- Random graphs: the difference between LiteRT's own sets of kernels, plus the effect of single operators' errors on the
  outputs, measured in LiteRT's own run. Errors and bounds are multiples of one operator's error.
- Models, with noise and with pictures (a photograph, a part of it and a drawing, black, white, a gradient): 1e-4 in 32
  bits, 1e-2 in 16 bits, four steps for quantized models, or LiteRT's own disagreement if that is larger: between its
  sets of kernels, and between runs whose weights are moved by half their last place
  ([0009](decisions/0009-white-noise.md)).
"""


@dataclass(frozen=True)
class Kept:
    """A certificate and the commit that was certified."""

    commit: str
    certificate: Certificate


def read_results(folder: Path = RESULTS) -> list[Kept]:
    """All certificates of a folder, the oldest first."""
    found: list[Kept] = []
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        commit = content.pop("commit")
        del content["command"]
        found.append(Kept(commit, certificate_from(content)))
    return sorted(found, key=lambda kept: kept.certificate.date)


def page(results: Sequence[Kept]) -> str:
    """The whole page: a row per device, then the failures of those that have some."""
    newest = {
        (result.device.gpu, result.device.driver, _api(result)): (kept, result)
        for kept in results
        for result in kept.certificate.devices
    }
    ordered = sorted(newest.values(), key=lambda pair: (pair[1].device.software, pair[1].device.gpu, _api(pair[1])))
    rows = "".join(_row(kept, result) for kept, result in ordered)
    return HEADER + rows + "".join(_failures(result) for _, result in ordered if result.messages) + INVITATION


def _api(result: DeviceResult) -> str:
    return TITLES[result.device.name.partition(":")[0]]


def _row(kept: Kept, result: DeviceResult) -> str:
    failed = ", ".join(f"{count} {status}" for status, count in result.failures.items()) or "none"
    cells = (
        result.device.gpu, _api(result), result.device.driver, f"{result.checks:,}", f"{result.passed:,}", failed,
        f"{result.not_run:,}", _nearest(result.groups), f"{kept.certificate.date}, {kept.commit}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def _nearest(groups: Sequence[GroupResult]) -> str:
    """The model or operator whose worst error is nearest to its bound, and the part of the bound that it takes."""
    bounded = [group for group in groups if group.kind in ("model", "network", "operator") and group.bound]
    if not bounded:
        return ""
    group = max(bounded, key=_closeness)
    return f"{group.name}: {_closeness(group):.0%}"


def _closeness(group: GroupResult) -> float:
    return (group.error or 0.0) / (group.bound or 1e-12)


def _failures(result: DeviceResult) -> str:
    """The first failures of a device."""
    text = f"\n## Failures of {result.device.gpu}, {_api(result)}\n\n"
    for message in result.messages[:SHOWN_FAILURES]:
        text += f"- {message['status']}: `{message['case']}` {message['reason']} {message['error']}".rstrip() + "\n"
    if len(result.messages) > SHOWN_FAILURES:
        text += f"- and {len(result.messages) - SHOWN_FAILURES} more\n"
    return text


def keep(content: dict[str, object], commit: str) -> Path:
    """Write the certificate's file and the page. Raises ValueError if it is none."""
    certificate = certificate_from(dict(content))
    gpus = sorted({result.device.gpu for result in certificate.devices}, key=len)
    machine = re.sub(r"\W+", "-", gpus[0].lower()).strip("-")[:32] if gpus else "none"
    apis = "-".join(dict.fromkeys(result.device.name.partition(":")[0] for result in certificate.devices))
    path = RESULTS / f"{machine}-{apis}-{certificate.date}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {"commit": commit, "command": command_of(certificate)}
    path.write_text(json.dumps({**known, **content}, indent=1) + "\n", encoding="utf-8")
    write_page()
    return path


def command_of(certificate: Certificate) -> str:
    """The command that certifies again, without a limit of time."""
    devices = "".join(f" --device {result.device.name}" for result in certificate.devices)
    return f"python -m framebind certify{devices}{' --all' if certificate.plan == 'all' else ''}"


def write_page() -> None:
    PAGE.write_text(page(read_results()), encoding="utf-8")


app = typer.Typer(help=__doc__)


@app.callback(invoke_without_command=True)
def write(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        write_page()


@app.command()
def add(measured: Path, commit: Annotated[str, typer.Option(help="The commit that was certified.")]) -> None:
    """Keep what `python -m framebind certify` wrote."""
    print(keep(json.loads(measured.read_text(encoding="utf-8")), commit))


if __name__ == "__main__":
    app()
