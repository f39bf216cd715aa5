"""Small steps in a row as one launch on CUDA, against a recording driver: units, nodes, parameters."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop.cuda.compute.device import CudaDevice
from framebind.interop.cuda.compute.graph import KernelNode, launches_before
from framebind.interop.cuda.compute.small_steps import MOST, MOST_BYTES, MOST_GROUPS, units_of
from framebind.interop.device import Operand, Slot, Step
from framebind.interop.record.one_dispatch import merge
from framebind.kernels.codegen.cuda import CUDA
from framebind.kernels.codegen.render import render_program
from framebind.kernels.codegen.source import Argument, KernelSource
from framebind.kernels.views import Sliced
from support.recording_driver import RecordingDriver

VIEW = Sliced((1, 4, 4, 4))


@pytest.fixture
def device(recorder: RecordingDriver) -> CudaDevice:
    return CudaDevice(fb.cuda.CudaContext(), owns_context=True)


def rows_of_steps(device: CudaDevice, *groups: int, first: Any = None, size: int = 64) -> list[Step]:
    """A step for each number of work-groups, which reads what the one before wrote; the first reads ``first``."""
    found, before = list[Step](), first or device.buffer(256, "first")
    for number, count in enumerate(groups):
        after = device.buffer(256, f"written by {number}")
        arguments = Argument("src", VIEW, "r", "source"), Argument("dst", VIEW, "w", "arena")
        kernel = device.kernel(KernelSource("copy", arguments, size, 1))
        operands = {"src": Operand(before, 0, 256), "dst": Operand(after, 0, 256)}
        found.append(Step(kernel, operands, count, f"step {number}"))
        before = after
    return found


def nodes(recorder: RecordingDriver) -> list[KernelNode]:
    added = [arguments for name, arguments in recorder.calls if name == "cuGraphAddKernelNode"]
    return [arguments[-1]._obj for arguments in added]


def test_rows_of_small_steps_are_units(device: CudaDevice) -> None:
    def sizes(*groups: int) -> list[int]:
        return [len(unit) for unit in units_of(rows_of_steps(device, *groups), device.traits)]

    large = MOST_GROUPS + 1
    assert sizes(1, 1, 1) == [3]
    assert sizes(1, 1) == [1, 1], "two launches are not worth a text of their own"
    assert sizes(large, 1, MOST_GROUPS, 1, large, 1, 1) == [1, 3, 1, 1, 1]
    assert sizes(*[1] * (MOST + 1)) == [MOST // 2, MOST // 2 + 1]
    large_operand = Operand(Slot("weights"), 0, MOST_BYTES)
    wide = [replace(each, operands={**each.operands, "src": large_operand}) for each in rows_of_steps(device, 1, 1, 1)]
    assert len(units_of([*wide, *rows_of_steps(device, 1)], device.traits)) == 4, "one unit reads them slowly"
    mixed = [*rows_of_steps(device, 1, 1, 1), *rows_of_steps(device, 1, 1, 1, 1, size=128)]
    assert [len(unit) for unit in units_of(mixed, device.traits)] == [3, 4], "their work-groups have other sizes"


def test_a_unit_is_one_launch_of_one_group(device: CudaDevice, recorder: RecordingDriver) -> None:
    steps = rows_of_steps(device, 9, 1, 2, 1, 9, first=Slot("frame"))
    units = units_of(steps, device.traits)
    assert launches_before(steps, units) == [[], [0], [1]]
    recorder.calls.clear()
    commands = device.record(steps)
    made = nodes(recorder)
    assert [node.grid[0] for node in made] == [9, 1, 9] and commands.dispatches == 3
    assert "cuLaunchCooperativeKernel" not in recorder.names()
    apart = device.record(steps, "separate")
    assert apart.dispatches == 5
    commands.set_slot("frame", device.buffer(256, "picture"))
    recorder.calls.clear()
    commands.run()
    assert recorder.names().count("cuGraphLaunch") == 1


def test_a_slot_inside_a_unit_is_given_to_its_launch(device: CudaDevice, recorder: RecordingDriver) -> None:
    steps = rows_of_steps(device, 1, 1, 1, 9)
    steps[1] = replace(steps[1], operands={**steps[1].operands, "src": Operand(Slot("frame"), 0, 256)})
    commands = device.record(steps)
    for label in ("one", "two"):
        array = device.buffer(256, label)
        commands.set_slot("frame", array)
        recorder.calls.clear()
        commands.run()
        (update,) = [arguments for name, arguments in recorder.calls if name == "cuGraphExecKernelNodeSetParams"]
        node = update[-1]._obj
        count = len(steps[0].operands) + 3
        addresses = (ctypes.c_void_p * count).from_address(node.parameters)
        places = [ctypes.c_uint64.from_address(address).value for address in addresses[:4]]
        assert array.pointer in places


def test_the_table_of_a_unit_waits_between_its_steps(device: CudaDevice, recorder: RecordingDriver) -> None:
    commands = device.record(rows_of_steps(device, 1, 3, 1, 9))
    recording = commands._recording
    (uploaded,) = [each for each in recording.kept if getattr(each, "label", "") == "steps of a program"]
    rows = np.empty((3, uploaded.nbytes // 12), np.int32)
    uploaded.read(rows)
    assert rows[:, 1:4].tolist() == [[1, 0, 0], [3, 0, 1], [1, 0, 1]]


def test_the_program_waits_for_the_launch_before(device: CudaDevice) -> None:
    text = render_program(merge(rows_of_steps(device, 1, 1, 1), 49152).source, CUDA)
    entry = text[text.index("void __launch_bounds__") :]
    assert entry.index("await_inputs();") < entry.index("for (int i = 0; i < rows; i++)")
    assert text.index("void await_inputs() { AWAIT_INPUTS; }") < text.index("#undef AWAIT_INPUTS")
