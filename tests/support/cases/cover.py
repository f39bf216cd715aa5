"""The operator cases that a device runs in a session, chosen by cover.

A device's runs are chosen for what it can show. Desktop GL runs the cases that reach every fact of the kernels, by any
operator, and every option of each operator. GL ES and OpenCL get the same text with other words for access: they run
one of every kernel and kind of view.
"""

from __future__ import annotations

from pathlib import Path

from framebind.tools.certify.cases.runs import Run, all_runs, first_runs, kept_cover
from support.environment import CL_DEVICES, CUDA_DEVICES, GL_DEVICES
from support.tiers import Tier

ROOT = Path(__file__).parents[3]
DEVICES = tuple(dict.fromkeys([*GL_DEVICES, *CL_DEVICES, "cl:rusticl", *CUDA_DEVICES]))
"""The devices that run operator cases."""
COVERS = {"gl": "facts"}
"""The cover that ``make test`` runs, by device. Others run "outlines"."""


def chosen_runs(tier: Tier, device: str) -> list[Run]:
    """The runs of a device in a session of this tier.

    They are the first case of each operator for "quick", and those of the device's cover for "default".
    """
    if tier == "all":
        return all_runs()
    if tier == "quick":
        return first_runs(all_runs()) if device == "gl" else []
    return kept_cover(COVERS.get(device, "outlines"))
