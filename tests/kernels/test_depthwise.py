"""Depthwise convolutions whose windows are divided among invocations, against NumPy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution import depthwise
from framebind.kernels.ops.convolution.depthwise import choose_parts
from framebind.kernels.target import Target
from support.cases.node_cases import NodeCase, convolution_cases
from support.cases.operator_runs import run
from support.models import relative_error

CASES = [case for case in convolution_cases() if case.operator == "DEPTHWISE_CONV_2D"]


@pytest.mark.parametrize("parts", [2, 4, 16])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_divided_windows_agree(device: Device, case: NodeCase, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depthwise, "choose_parts", lambda *_: parts)
    linked = replace(case, epilogue=(FusedOp("RELU"),))
    result = run(device, linked, "f32")
    if device.traits.api != "null":
        assert relative_error(result, case.expected(*case.inputs).clip(0)) <= 1e-5


def test_few_results_have_their_windows_divided_into_short_shares() -> None:
    device = Target(256, 132 * 2048)
    assert choose_parts(7 * 7 * 168, 25, device) == 4  # six or seven taps each
    assert choose_parts(7 * 7 * 168, 9, device) == 2
    assert choose_parts(16 * 16 * 84, 25, device) == 1  # twelve or thirteen each would be slower than all
    assert choose_parts(33 * 33 * 120, 9, device) == 1  # there are enough
    assert choose_parts(1, 9, replace(device, group_size=2)) == 2
    assert choose_parts(1, 9, replace(device, group_size=1)) == 1
    assert choose_parts(1, 9, Target(64, 1)) == 1
