"""The operator cases that a device runs in a session, chosen by cover.

A device's runs are chosen for what it can show. Desktop GL runs the cases that reach every feature of every operator,
in f32 and in halves. OpenCL gets the same text with other words for access: it runs a case of every kernel signature.
GL ES and Mesa's OpenCL run one of every kernel and kind of views. The choice is the same in each process and session.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import pytest

from framebind.certify.cases.compiled import Run
from framebind.certify.cases.cover import all_runs, covers
from support.environment import CL_DEVICES, GL_DEVICES
from support.tiers import Tier

ROOT = Path(__file__).parents[3]
DEVICES = tuple(dict.fromkeys([*GL_DEVICES, *CL_DEVICES, "cl:rusticl"]))
"""The devices that run operator cases."""
COVERS = {"gl": "features", "gles": "outlines", "cl:rusticl": "outlines"}
"""By device: the cover that ``make test`` runs there. Other devices, OpenCL's, run "signatures"."""


def chosen_runs(tier: Tier, device: str, cache: pytest.Cache | None) -> list[Run]:
    """The runs of a device in a session of this tier: for "quick" the first case of each operator, for "default" those
    of the device's cover. Covers are kept in pytest's cache until the code changes.
    """
    if tier == "all":
        return all_runs()
    if tier == "quick":
        return list({run.case.operator: run for run in reversed(all_runs())}.values()) if device == "gl" else []
    return _kept(COVERS.get(device, "signatures"), cache)


def _kept(name: str, cache: pytest.Cache | None) -> list[Run]:
    runs = {str(run): run for run in all_runs()}
    kept = {} if cache is None else cache.get("framebind/covers", {})
    if kept.get("digest") != _digest():
        kept = {"digest": _digest()} | {other: [str(run) for run in chosen] for other, chosen in covers().items()}
        if cache is not None:
            cache.set("framebind/covers", kept)
    return [runs[label] for label in kept[name]]


@functools.cache
def _digest() -> str:
    """The hash of all that decides a kernel's source, and of the cases."""
    digest = hashlib.sha256()
    for folder in ("kernels", "interop/record", "delegate", "certify", "tests/support"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".kern", ".txt") or path.name.startswith(("prelude.", "barrier.")):
                digest.update(f"{path.relative_to(ROOT)} {path.stat().st_size} ".encode() + path.read_bytes())
    return digest.hexdigest()
