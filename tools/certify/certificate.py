"""Certificate: the results of a certification by device and operator, as JSON for docs/drivers.md and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .devices import Device
from .outcomes import FAILURES, Outcome, without_folders, worst

FORMAT = 1
MAX_FAILURES = 100
"""Failures of a device that are kept one by one; the counts have all of them."""
PRIVACY = (
    "The file has: the date; versions of Python, the system and packages; each device and driver as it names itself; "
    "and for each operator and model the number of checks, the worst error, its time, and messages of failures. It has "
    "no name of a user, a host or a folder. Nothing is sent anywhere."
)
"""The contents of a certificate that describe the machine, for people who share one."""


@dataclass(frozen=True)
class GroupResult:
    """The checks of an operator, a quantized operator (errors are in steps), a network or a model on a device.

    ``error``, ``bound`` and ``case`` are those of the check nearest to its bound; ``seconds`` is the time of all first
    runs with compilation; ``failures`` counts by status.
    """

    kind: str
    name: str
    checks: int
    passed: int
    error: float | None
    bound: float | None
    case: str
    seconds: float
    failures: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceResult:
    """All checks of a device. ``not_run`` subjects were planned and not reached in the time given."""

    device: Device
    checks: int
    passed: int
    not_run: int
    seconds: float
    failures: dict[str, int]
    groups: list[GroupResult]
    messages: list[dict[str, str]]


@dataclass(frozen=True)
class Certificate:
    """A certification. ``date`` is YYYY-MM-DD; ``plan`` is "default" or "all"."""

    date: str
    plan: str
    versions: dict[str, str]
    devices: list[DeviceResult]
    format: int = FORMAT

    @property
    def failures(self) -> int:
        """The number of checks that did not pass."""
        return sum(result.checks - result.passed for result in self.devices)

    def to_json(self) -> dict[str, Any]:
        """The certificate as JSON's types."""
        return asdict(self)


def certificate_from(content: dict[str, Any]) -> Certificate:
    """The certificate that ``Certificate.to_json`` returned. Raises ValueError for another format."""
    if content.get("format") != FORMAT:
        raise ValueError(f"format {content.get('format')} of a certificate is unknown; this version reads {FORMAT}")
    fields: dict[str, Any] = content | {"devices": [_device_result_from(row) for row in content["devices"]]}
    return Certificate(**fields)


def _device_result_from(row: dict[str, Any]) -> DeviceResult:
    groups = [GroupResult(**group) for group in row["groups"]]
    fields: dict[str, Any] = row | {"device": Device(**row["device"]), "groups": groups}
    return DeviceResult(**fields)


def device_result(device: Device, outcomes: Sequence[Outcome], planned: int) -> DeviceResult:
    """The summary of a device's outcomes; ``planned`` is the number of checks that there would be."""
    by_group: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        kind = "operator" if outcome.subject.kind == "lstm" else outcome.subject.kind
        by_group.setdefault((kind, outcome.subject.group), []).append(outcome)
    groups = [_group(kind, name, found) for (kind, name), found in sorted(by_group.items())]
    failed = [outcome for outcome in outcomes if outcome.status != "passed"]
    messages = [
        {
            "case": _label(outcome),
            "status": outcome.status,
            "reason": without_folders(outcome.reason),
            "error": _number(outcome.error),
        }
        for outcome in failed[:MAX_FAILURES]
    ]
    passed, seconds = len(outcomes) - len(failed), round(sum(outcome.seconds for outcome in outcomes), 1)
    not_run = planned - len(outcomes)
    return DeviceResult(device, len(outcomes), passed, not_run, seconds, _counts(failed), groups, messages)


def _group(kind: str, name: str, outcomes: Sequence[Outcome]) -> GroupResult:
    failed = [outcome for outcome in outcomes if outcome.status != "passed"]
    most = worst(outcomes)
    return GroupResult(
        kind, name, len(outcomes), len(outcomes) - len(failed),
        None if most is None else most.error, None if most is None else most.bound,
        "" if most is None else _label(most), round(sum(outcome.seconds for outcome in outcomes), 3), _counts(failed),
    )  # fmt: skip


def _counts(failed: Sequence[Outcome]) -> dict[str, int]:
    counts = {status: sum(outcome.status == status for outcome in failed) for status in FAILURES}
    return {status: count for status, count in counts.items() if count}


def _label(outcome: Outcome) -> str:
    half = outcome.subject.half and outcome.subject.kind in ("model", "network")
    return f"{outcome.subject.label} f16" if half else outcome.subject.label


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def text(certificate: Certificate) -> str:
    """The page that a person reads: a paragraph per device, and every failure."""
    lines = [f"framebind certify, {certificate.date}", ""]
    lines += [f"{name} {number}" for name, number in certificate.versions.items()]
    for result in certificate.devices:
        device = result.device
        counted = ", ".join(f"{count} {status}" for status, count in result.failures.items()) or "none failed"
        lines += ["", f"{device.name}: {device.gpu}", f"  driver: {device.driver}"]
        lines += [f"  {result.passed} of {result.checks} checks passed ({counted}) in {result.seconds:.0f} s"]
        if result.not_run:
            lines += [f"  not reached in the time: {result.not_run}; run it again to go on, or give --minutes"]
        compared = [group for group in result.groups if group.kind in ("operator", "network", "model")]
        ordered = sorted(compared, key=lambda g: -((g.error or 0.0) / (g.bound or 1e-12)))
        lines += ["  nearest to their bounds:"]
        lines += [f"    {g.name}: error {_number(g.error)}, bound {_number(g.bound)} ({g.case})" for g in ordered[:5]]
        for message in result.messages:
            lines.append(f"  {message['status'].upper()} {message['case']}: {message['reason']} {message['error']}")
    return "\n".join(lines) + "\n"
