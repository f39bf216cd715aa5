"""The operator cases that a device runs in a session, chosen by cover.

A device's runs are chosen for what it can show. Desktop GL runs the cases that reach every feature of every operator,
in f32 and in halves. GL ES and OpenCL get the same text with other words for access: they run one of every kernel and
kind of views.
"""

from __future__ import annotations

from pathlib import Path

from framebind.delegate.certify.cases.compiled import Run
from framebind.delegate.certify.cases.cover import all_runs, kept_cover
from support.environment import CL_DEVICES, GL_DEVICES
from support.tiers import Tier

ROOT = Path(__file__).parents[3]
DEVICES = tuple(dict.fromkeys([*GL_DEVICES, *CL_DEVICES, "cl:rusticl"]))
"""The devices that run operator cases."""
COVERS = {"gl": "features"}
"""By device: the cover that ``make test`` runs there. Others run "outlines"."""


def chosen_runs(tier: Tier, device: str) -> list[Run]:
    """The runs of a device in a session of this tier: for "quick" the first case of each operator, for "default" those
    of the device's cover.
    """
    if tier == "all":
        return all_runs()
    if tier == "quick":
        return list({run.case.operator: run for run in reversed(all_runs())}.values()) if device == "gl" else []
    return kept_cover(COVERS.get(device, "outlines"))
