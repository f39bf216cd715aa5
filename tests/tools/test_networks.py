"""Small networks of ``framebind certify``: what LiteRT computes, and every kernel that no operator alone reaches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice
from framebind.kernels.codegen.texts import kernel_files
from framebind.kernels.views import Storage
from framebind.tools.certify.cases.network_models import NETWORKS
from framebind.tools.certify.cases.runs import kept_cover
from framebind.tools.certify.checks import Subject
from framebind.tools.certify.worker import outcome_of
from null_programs import compile_run, program_on_null
from support.model_runs import backend_of

WITHOUT_LITERT = {"max_indices", "resampler", "unpool", "warp_affine"}
"""The kernels of MediaPipe's custom operators, which LiteRT's Python package does not compute."""


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_that_of_litert(gpu: Device, name: str, half: bool) -> None:
    outcome = outcome_of(Subject("network", name, half), backend_of(gpu))
    assert outcome.status == "passed", outcome


def test_a_certification_runs_every_kernel() -> None:
    """An operator or a network runs it: without matrix units, by floats or halves, with them, or with warpgroups'."""
    ran = {source.name for run in kept_cover("signatures") for source in compile_run(run).sources}
    units = {"matrix_units": True}
    hopper = {**units, "warpgroup_bytes": 227 << 10, "early_launches": True}
    targets: list[tuple[Storage, dict[str, Any]]] = [("f32", {}), ("f16", {}), ("f16", units), ("f16", hopper)]
    for storage, traits in targets:
        for make in NETWORKS.values():
            ran |= kernels_of(make()[0], storage, traits)
    assert ran | WITHOUT_LITERT == set(kernel_files())


def kernels_of(model: bytes, storage: Storage, traits: dict[str, Any]) -> set[str]:
    """The kernels of a network's steps on a large device with these traits."""
    device = NullDevice(group_size=256, invocations=132 * 2048)
    device.traits = replace(device.traits, local_bytes=48 << 10, **traits)
    _, program = program_on_null(model, storage, device)
    assert program is not None
    sources = [step.kernel.source for step in program.record().steps]
    found = {source.name for source in sources} | {each.prologue.name for each in sources if each.prologue is not None}
    return found | {"partial_sums" for each in sources if each.partial_sums is not None}
