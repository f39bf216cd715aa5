"""Hazards between steps: what shares memory waits, and channels beside one another do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framebind.interop.device import Operand, Step
from framebind.interop.null.device import NullDevice
from framebind.interop.record.hazards import hazards
from framebind.kernels.views import SLICE_BYTES, Sliced, Storage
from support.device_steps import copy_source, step

WHOLE = Sliced((1, 2, 2, 16))
"""A tensor of four slices."""


def writers(*starts: int, channels: int = 8, stride: int = 4, storage: Storage = "f32") -> list[Step]:
    """Steps that write ``channels`` of the whole tensor from these slices on."""
    device = NullDevice()
    source, target = device.buffer(4096, "source"), device.buffer(4096, "target")
    view = Sliced((1, 2, 2, channels), storage, stride)
    kernel = copy_source(device, replace(WHOLE, shape=view.shape), view)
    places = [Operand(target, start * SLICE_BYTES[storage], view.nbytes) for start in starts]
    return [step(device, kernel, Operand(source, 0, 2048), place) for place in places]


@pytest.mark.parametrize("storage", ["f32", "f16"])
def test_parts_of_a_concatenation_do_not_wait(storage: Storage) -> None:
    assert hazards(writers(0, 2, storage=storage)) == []
    assert hazards(writers(2, 0, 2, storage=storage)) == [2]


def test_parts_with_a_slice_in_common_wait() -> None:
    assert hazards(writers(0, 1)) == [1]
    assert hazards(writers(3, 0)) == [1], "it goes on in the next pixel"


def test_parts_of_other_strides_wait() -> None:
    one, other = writers(0), writers(2, stride=5)
    shared = replace(other[0], operands={**other[0].operands, "dst": replace(one[0].operands["dst"], offset=32)})
    assert hazards([*one, shared]) == [1]


def test_a_reader_of_all_waits_for_each_part() -> None:
    parts = writers(0, 2)
    target = parts[0].operands["dst"].resource
    device = NullDevice()
    reader = step(
        device, copy_source(device, WHOLE, WHOLE), Operand(target, 0, WHOLE.nbytes), Operand(target, 2048, 64)
    )
    assert hazards([*parts, reader]) == [2]
