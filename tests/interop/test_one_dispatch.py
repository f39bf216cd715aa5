"""All steps of a program in one dispatch: the same bits as separate dispatches, and what happens when it fails."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.compiler import compile_program
from framebind.delegate.plan.binding import Binding
from framebind.delegate.read.reader import read_model
from framebind.delegate.run.program import Program
from framebind.interop.cl.compute.commands import ClCommandList
from framebind.interop.cl.compute.device import ClDevice
from framebind.interop.cl.compute.parts import is_large, parts_of
from framebind.interop.device import Device, Operand, Slot
from framebind.interop.gl.compute.device import GlDevice
from framebind.interop.null.device import NullDevice
from framebind.interop.record.barrier import BaseBarrier
from framebind.interop.record.base_device import BaseDevice
from framebind.interop.record.one_dispatch import (
    FEWEST_STEPS,
    MOST_INVOCATIONS,
    even_parts,
    merge,
    prefers_one,
    table,
    waiting_table,
    wanted_groups,
)
from framebind.kernels.codegen.cuda import CUDA
from framebind.kernels.codegen.glsl import UNIFORMS
from framebind.kernels.codegen.opencl import OPENCL
from framebind.kernels.codegen.texts import kernel_files, tile_function
from framebind.kernels.views import Dense, Picture, picture_parameters
from support.device_steps import SHAPE, bound, chain, content, copy_source, random, step, texture, whole
from support.models import MODELS

FindModel = Callable[[str], Path]
QUANTIZED = (
    "posenet_mobilenet_v1_100_257x257_multi_kpt_stripped_integer_quant",
    "style_predict_quantized_256",
    "style_transfer_quantized_384",
)
NAMES = [*(case.name for case in MODELS), *QUANTIZED]
ON_LLVMPIPE = ("face_detection_front",)
"""The smallest: it takes half a minute on two cores, hand_landmark_lite more than one (it agreed, tried by hand)."""
on_pocl = pytest.mark.parametrize("gpu", ["cl:pocl"], indirect=True)


def bound_to_noise(device: Device, path: Path) -> tuple[Program, dict[int, Binding]]:
    """The model's program with every input and output bound to a buffer, inputs filled with noise."""
    subgraph = read_model(path.read_bytes()).subgraphs[0]
    claims = claim(subgraph, lambda: device.traits.target)
    graph = claims.graph(sorted(claims.nodes), subgraph.inputs, subgraph.outputs)
    program, bindings = Program(device, compile_program(graph, device.traits, "f32")), dict[int, Binding]()
    for tensor in (*program.inputs, *program.outputs):
        view = Dense(graph.tensors[tensor].bhwc)
        bindings[tensor] = Binding(device.buffer(math.ceil(view.nbytes / 16) * 16, f"tensor {tensor}"), view)
        program.bind(tensor, bindings[tensor])
        if tensor in program.inputs:
            device.write(bindings[tensor].resource, random(view.shape, tensor), "noise")
    return program, bindings


def outputs(device: Device, program: Program, bindings: dict[int, Binding]) -> list[np.ndarray]:
    """The outputs as they are now, which are then filled with NaN."""
    found: list[np.ndarray] = []
    for tensor in program.outputs:
        resource = bindings[tensor].resource
        bits = np.empty(bindings[tensor].view.nbytes // 4, np.uint32)
        device.read(resource, bits, "comparison")
        device.write(resource, np.full(bits.size, np.nan, np.float32), "poison")
        found.append(bits)
    return found


@pytest.fixture
def unoptimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenCL compiles as fast as it can: a program of all steps takes PoCL a minute otherwise."""
    monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable")


@on_pocl
@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("name", NAMES)
def test_a_model_computes_the_same_bits_in_one_dispatch(gpu: Device, model_path: FindModel, name: str) -> None:
    check_one_dispatch(gpu, model_path(name))


@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
@pytest.mark.parametrize("name", ON_LLVMPIPE)
def test_on_gl_too(gpu: Device, model_path: FindModel, name: str) -> None:
    check_one_dispatch(gpu, model_path(name))


def check_one_dispatch(gpu: Device, path: Path) -> None:
    """Separate dispatches and one compute the same bits, also over a poisoned arena."""
    program, bindings = bound_to_noise(gpu, path)
    program.run()
    expected = outputs(gpu, program, bindings)
    one = gpu.record(program.record().steps, "one")
    for tensor in bindings:
        one.set_slot(f"tensor_{tensor}", bindings[tensor].resource)
    assert one.dispatches == 1 < len(program.steps)
    assert not isinstance(one, ClCommandList) or one.calls_per_run == 2
    assert 0 < one.barriers < len(program.steps) and len(one.timings()) == 1
    arena = program._arena
    assert arena is not None
    gpu.write(arena, np.full(arena.nbytes // 4, np.nan, np.float32), "poison")
    outputs(gpu, program, bindings)
    one.run()
    for actual, wanted in zip(outputs(gpu, program, bindings), expected, strict=True):
        assert np.isfinite(wanted.view(np.float32)).all() and np.array_equal(actual, wanted)
    program.release()


def test_slots_change_between_runs(gpu: Device) -> None:
    steps, arena = chain(gpu, SHAPE)
    one = gpu.record(steps, "one")
    for seed in range(3):
        x = random(SHAPE, seed)
        target = bound(gpu, one, x)
        gpu.write(arena, np.full(arena.nbytes // 4, np.nan, np.float32), "poison")
        fb.transfers.reset()
        one.run()
        gpu.fence().wait()
        assert fb.transfers.bytes_except("flag of the barrier between work-groups") == 0
        np.testing.assert_array_equal(content(gpu, target), x)


def test_pictures_and_their_parameters_change_between_runs(gpu: Device) -> None:
    shape = (1, 4, 5, 3)
    source = copy_source(gpu, Picture(shape, "rgba32f", "rgb", "bilinear"), Dense(shape))
    frames = [random((8, 10, 4), seed) for seed in range(2)]
    given = [picture_parameters(shape, (10, 8), std=(std,)) for std in (1.0, 0.25)]
    buffers = [gpu.buffer(Dense(shape).nbytes, f"out {i}") for i in range(2)]
    steps = [
        step(gpu, source, Operand(Slot("frame")), whole(buffers[0]), "left", src=given[0]),
        step(gpu, source, Operand(Slot("frame")), whole(buffers[1]), "right", src=given[1]),
    ]
    lists = [gpu.record(steps, dispatches) for dispatches in ("separate", "one")]
    for frame in frames:
        resource = texture(gpu, frame)
        for parameters in reversed(given):
            found: list[list[np.ndarray]] = []
            for list_ in lists:
                list_.set_slot("frame", resource)
                list_.set_parameters(1, "src", parameters)
                list_.run()
                found.append([content(gpu, buffer, shape) for buffer in buffers])
            np.testing.assert_array_equal(found[0], found[1])
            assert (found[0][0] == found[0][1]).all() == (parameters is given[0])


@pytest.mark.parametrize("gpu", ["gl", "gles"], indirect=True)
def test_steps_in_parts_compute_the_same_on_gl(gpu: Device) -> None:
    assert isinstance(gpu, GlDevice)
    shape = (1, 4, 5, 3)
    source = copy_source(gpu, Picture(shape, "rgba32f", "rgb"), Dense(shape))
    given = [picture_parameters(shape, (5, 4), std=(std,)) for std in (1.0, 0.25)]
    buffers = [gpu.buffer(Dense(shape).nbytes, f"out {i}") for i in range(3)]
    steps = [
        step(gpu, source, Operand(Slot("frame")), whole(buffers[0]), "first", src=given[0]),
        step(gpu, copy_source(gpu, Dense(shape), Dense(shape)), whole(buffers[0]), whole(buffers[1]), "second"),
        step(gpu, source, Operand(Slot("frame")), whole(buffers[2]), "third", src=given[0]),
    ]
    parts = gpu._record_few(steps, 2, 0, None)
    assert (parts.dispatches, parts.barriers) == (2, 1), "one step, then two of which none waits for another"
    frame = random((4, 5, 4))
    parts.set_slot("frame", texture(gpu, frame))
    parts.set_parameters(2, "src", given[1])
    parts.run()
    for buffer, scale in zip(buffers, (1, 1, 4), strict=True):
        np.testing.assert_array_equal(content(gpu, buffer, shape), frame[None, :, :, :3] * scale)
    assert [label.split(" on ")[0] for label, _ in parts.timings()] == ["1 steps", "2 steps"]


def test_parts_differ_by_one_step_at_most(gpu: Device) -> None:
    steps = chain(gpu, SHAPE)[0] * 5
    assert [len(part) for part in even_parts(steps[:21], 10)] == [7, 7, 7]
    assert [len(part) for part in even_parts(steps[:13], 4)] == [3, 3, 3, 4]
    assert [step for part in even_parts(steps, 8) for step in part] == steps
    assert gpu.record(steps, "parts").dispatches == (3 if isinstance(gpu, GlDevice) else 1)


def test_large_steps_are_apart_on_opencl() -> None:
    def sizes(large: str) -> list[int]:
        return [len(part) for part in parts_of([letter == "L" for letter in large])]

    assert sizes("sss") == [3] and sizes("ssLL") == [1, 1, 1, 1], "two small ones are not worth a text"
    assert sizes("sssLssss") == [3, 1, 4] and sizes("s" * 25 + "L") == [8, 8, 9, 1]
    steps, _ = chain(NullDevice(), SHAPE)
    assert not is_large(steps[0], 1) and is_large(replace(steps[0], group_count=10**4), 1)


@on_pocl
def test_steps_in_parts_compute_the_same_on_opencl(gpu: Device) -> None:
    """A step that samples a picture, copies of it one after the other, and a last step that samples it again."""
    assert isinstance(gpu, ClDevice)
    shape = (1, 4, 5, 3)
    source = copy_source(gpu, Picture(shape, "rgba32f", "rgb"), Dense(shape))
    copy = copy_source(gpu, Dense(shape), Dense(shape))
    given = [picture_parameters(shape, (5, 4), std=(std,)) for std in (1.0, 0.25)]
    buffers = [gpu.buffer(Dense(shape).nbytes, f"out {i}") for i in range(6)]
    pairs = itertools.pairwise(map(whole, buffers[:-1]))
    steps = [
        step(gpu, source, Operand(Slot("frame")), whole(buffers[0]), "first", src=given[0]),
        *(step(gpu, copy, before, after) for before, after in pairs),
        step(gpu, source, Operand(Slot("frame")), whole(buffers[-1]), "last", src=given[0]),
    ]
    parts = gpu._record_few(steps, [range(1), range(1, 6)], None)
    assert (parts.dispatches, parts.calls_per_run) == (2, 3)
    assert parts.barriers == 3, "the end of a dispatch is one more, and the last step waits for nothing"
    frame = random((4, 5, 4))
    parts.set_slot("frame", texture(gpu, frame))
    parts.set_parameters(5, "src", given[1])
    parts.run()
    for buffer, scale in zip(buffers, (1, 1, 1, 1, 1, 4), strict=True):
        np.testing.assert_array_equal(content(gpu, buffer, shape), frame[None, :, :, :3] * scale)
    assert [label.split(" on ")[0] for label, _ in parts.timings()] == ["first", "5 steps"]


def test_after_a_failure_steps_run_separately_with_what_was_bound(gpu: Device) -> None:
    assert isinstance(gpu, BaseDevice)
    if not isinstance(gpu._barrier, BaseBarrier):
        pytest.skip("a cooperative launch cannot fail")
    shape = (1, 4, 5, 3)
    source = copy_source(gpu, Picture(shape, "rgba32f", "rgb"), Dense(shape))
    first, now = (picture_parameters(shape, (5, 4), std=(std,)) for std in (1.0, 0.25))
    buffers = [gpu.buffer(Dense(shape).nbytes, f"out {i}") for i in range(2)]
    steps = [
        step(gpu, source, Operand(Slot("frame")), whole(buffer), "copy", src=parameters)
        for buffer, parameters in zip(buffers, (first, first), strict=True)
    ]
    one, frame = gpu.record(steps, "one"), random((4, 5, 4))
    one.set_slot("frame", texture(gpu, frame))
    one.set_parameters(1, "src", now)
    gpu._barrier.watch.failed = True
    try:
        one.run()
    finally:
        gpu._barrier.watch.failed = False
    assert one.dispatches == 2
    np.testing.assert_array_equal(content(gpu, buffers[0], shape), frame[None, :, :, :3])
    np.testing.assert_array_equal(content(gpu, buffers[1], shape), frame[None, :, :, :3] * 4)
    one.set_parameters(1, "src", first)
    one.run()
    np.testing.assert_array_equal(content(gpu, buffers[1], shape), frame[None, :, :, :3])


def test_what_cannot_be_one_dispatch_is_refused_with_a_reason(gpu: Device) -> None:
    with pytest.raises(fb.BindingError, match=r"cannot run as one dispatch .*there are no steps"):
        gpu.record([], "one")
    shape = (1, 4, 4, 4)
    picture, dense = Picture(shape, "rgba32f", "rgba"), Dense(shape)
    source, target = gpu.buffer(dense.nbytes, "source"), gpu.buffer(dense.nbytes, "target")
    between = gpu.texture(4, 4, "rgba32f", "between")
    write, read = (picture_parameters(shape, (4, 4), write=writes) for writes in (True, False))
    steps = [
        step(gpu, copy_source(gpu, dense, picture), whole(source), Operand(between), dst=write),
        step(gpu, copy_source(gpu, picture, dense), Operand(between), whole(target), src=read),
    ]
    with pytest.raises(fb.BindingError, match="a texture that one step writes is sampled by another"):
        gpu.record(steps, "one")
    gpu.record(steps).run()


def test_software_devices_choose_separate_dispatches(gpu: Device) -> None:
    if not gpu.traits.software:
        pytest.skip("this device is a GPU")
    steps, _ = chain(gpu, SHAPE)
    assert gpu.dispatches == "auto"
    separate = gpu.record(steps * 3)
    bound(gpu, separate, random(SHAPE))
    assert len(separate.timings()) == 15
    gpu.dispatches = "one"
    try:
        list_ = gpu.record(steps)
        bound(gpu, list_, random(SHAPE))
        assert len(list_.timings()) == 1
    finally:
        gpu.dispatches = "auto"


def test_the_rule_takes_many_small_steps_on_a_gpu(gpu: Device) -> None:
    steps = chain(gpu, SHAPE)[0] * 2
    assert prefers_one(steps, software=False, units=1)
    assert not prefers_one(steps, software=True, units=1), "a CPU runs the groups in turn"
    assert not prefers_one(steps[: FEWEST_STEPS - 1], software=False, units=1), "too few to matter"
    large = [replace(step, group_count=MOST_INVOCATIONS * 4) for step in steps]
    assert not prefers_one(large, software=False, units=4) and prefers_one(large, software=False, units=4096)


@on_pocl
def test_a_barrier_that_waits_in_vain_ends_and_is_noticed(gpu: Device) -> None:
    assert isinstance(gpu, ClDevice)
    device = ClDevice(gpu.context)
    device._barrier.max_spins = 1000
    steps, _ = chain(device, SHAPE)
    x = random(SHAPE)
    one = device.record(steps, "one")
    assert isinstance(one, ClCommandList)
    target = bound(device, one, x)
    ((_, (kernel, _, _)),) = one._recording.dispatches
    kernel.set_arg(kernel.num_args - 2, np.int32(2))  # groups: one more than there are
    for look in (lambda: device.fence().wait(), device.finish, lambda: content(device, target)):
        device._barrier.watch.failed = False
        one.run()
        with pytest.raises(fb.DeviceError, match=r"gave up .* did not run at the same time"):
            look()
        look()  # the error is raised once
    one.run()
    assert one.calls_per_run > 2, "it runs as separate dispatches now"
    np.testing.assert_array_equal(content(device, target), x)


@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
def test_a_barrier_that_waits_in_vain_ends_on_gl_too(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(gpu, GlDevice)
    steps, _ = chain(gpu, SHAPE)
    x, barrier = random(SHAPE), gpu._barrier
    with monkeypatch.context() as patch:
        patch.setattr(barrier, "max_spins", 1000)
        one = gpu.record(steps, "one")
    monkeypatch.setattr(barrier.watch, "_quickest", 0.0)  # a GPU's run of MAX_SPINS polls does not end so soon
    monkeypatch.setattr(barrier.watch, "failed", False)
    target, gl = bound(gpu, one, x), gpu.context.gl
    ((_, (program,)),) = [call for call in one._recording.calls if call[0] is gl.prebound("glUseProgram")]
    gl.glUseProgram(program)
    gl.glUniform1i(UNIFORMS.index("groups"), 2)  # one more than there are
    one.run()
    with pytest.raises(fb.DeviceError, match=r"gave up .* did not run at the same time"):
        gpu.fence().wait()
    one.run()
    assert one.dispatches == len(steps), "it runs as separate dispatches now"
    np.testing.assert_array_equal(content(gpu, target), x)


def test_rows_say_where_to_wait_and_begin_independent_steps_side_by_side(gpu: Device) -> None:
    dense = Dense(SHAPE)
    buffers = [gpu.buffer(dense.nbytes, name) for name in "abcd"]
    source = copy_source(gpu, dense, dense)
    pairs = [(0, 1), (0, 2), (1, 3)]  # the last one reads what the first wrote
    steps = [step(gpu, source, whole(buffers[a]), whole(buffers[b])) for a, b in pairs]
    merged = merge(steps, gpu.traits.local_bytes)
    rows = table(steps, merged, groups=8)
    assert rows[:, 3].tolist() == [0, 0, 1]
    assert rows[:, 1].tolist() == [s.group_count for s in steps]
    assert rows[:, 2].tolist() == [0, steps[0].group_count % 8, 0]
    assert (waiting_table(merged)[:, 3] == 1).all() and waiting_table(merged).shape == rows.shape
    assert wanted_groups(steps, units=4) == min(steps[0].group_count, 4 * math.ceil(steps[0].group_count / 2))


def test_steps_with_one_kernel_share_its_text(gpu: Device) -> None:
    steps, _ = chain(gpu, SHAPE)
    merged = merge(steps, gpu.traits.local_bytes)
    assert merged.numbers == [0, 1, 1, 1, 2] and len(merged.source.kernels) == 3


def test_no_kernel_uses_a_name_of_the_barrier() -> None:
    """A kernel's local arrays are macros in a program, which would replace the names of parameters."""
    own = {"waits", *(name for dialect in (OPENCL, CUDA) for _, name in dialect.barrier)}
    assert len(own) == 5
    for name in kernel_files():
        text = tile_function(name)
        code = re.sub(r"//.*", "", text.helpers + text.body)
        assert not own & set(re.findall(r"\w+", code)), name
