"""GL objects in programs on OpenCL: each strategy if a pair of devices offers it, byte-exact, and without copies.

Every test runs with every strategy; it skips, with the reasons of all pairs of devices, if none offers it.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl
import pytest

import framebind as fb
from framebind.delegate.plan.binding import Binding, TextureMapping
from framebind.delegate.run.bindings import make_binding
from framebind.interop.cl.compute.device import ClDevice
from framebind.interop.cl.context import all_devices
from framebind.interop.cl.objects import Use
from framebind.interop.cl.sharing import sharing as share
from framebind.interop.cl.sharing.channel import Channel
from framebind.interop.cl.sharing.external_memory import ExternalMemory, OrderedExternalMemory
from framebind.interop.cl.sharing.gl_objects import GlObjects
from framebind.interop.cl.sharing.host_copies import Copies
from framebind.interop.cl.sharing.host_memory import HostMemory
from framebind.interop.device import Operand, Slot
from framebind.kernels.tensor import Shape, TensorInfo
from framebind.kernels.views import Dense
from support import tiny_models, traced_pipeline
from support.device_steps import copy_source, step, whole
from support.environment import absent, photograph_path
from support.soak import MIB, objects, resident

FindModel = Callable[[str], Path]
Array = npt.NDArray[Any]
ZERO_COPY: dict[str, type[Channel]] = {
    "share:objects": GlObjects,
    "share:semaphores": OrderedExternalMemory,
    "share:external": ExternalMemory,
    "share:host": HostMemory,
}
SHAPE: Shape = (1, 7, 5, 3)


class Pair:
    """A GL and a CL context, both current, that share by one strategy only; and the CL device."""

    def __init__(self, gl: fb.GlContext, cl: fb.cl.ClContext, strategies: Sequence[type[Channel]]) -> None:
        self.gl, self.cl, self.device = gl, cl, ClDevice(cl)
        self.first = share.share(gl, cl, strategies) if strategies else None
        """The channel of these strategies, which is in use as long as this holds it, or the device does."""

    @property
    def channel(self) -> Channel:
        return share.share(self.gl, self.cl)

    def close(self) -> None:
        self.device.close()
        self.cl.close()
        self.gl.close()


def open_pair(name: str, es: bool = False, strategies: Sequence[type[Channel]] = (), **given: Any) -> Pair:
    """The first OpenCL device that shares with a headless GL context by that strategy, and by no better one.

    "any" shares by the first of the ``strategies`` that works, or, without any, by the product's choice.
    """
    gl, reasons = fb.GlContext.headless(es=es), []
    for device in all_devices():
        try:
            cl = fb.cl.ClContext(device, **given)
        except fb.DeviceError as error:
            reasons.append(str(error))
            continue
        reason = ZERO_COPY[name].why_not(gl, cl) if name in ZERO_COPY else None
        if reason is None:
            return Pair(gl, cl, (ZERO_COPY[name],) if name in ZERO_COPY else strategies)
        reasons.append(reason)
        cl.close()
    gl.close()
    absent(name, "; ".join(reasons) or "there is no OpenCL device")
    raise AssertionError


@pytest.fixture(params=ZERO_COPY)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A pair of contexts that share by this strategy, and by no better one. The test leaves no GL error."""
    pair = open_pair(request.param)
    yield pair
    if not pair.gl.closed:
        pair.gl.make_current()
        assert [hex(error) for error in pair.gl.gl.clear_errors()] == [], "the test left GL errors"
    pair.close()


@pytest.fixture
def copying() -> Iterator[Pair]:
    """A pair that may only copy."""
    pair = open_pair("any", strategies=(Copies,), copies_allowed=True)
    yield pair
    pair.close()


def random_bytes(count: int, seed: int = 0) -> Array:
    # As float32 bit patterns that a copy in floats keeps: no signalling NaNs.
    return np.random.default_rng(seed).normal(size=count // 4).astype(np.float32)


def copy_between(device: ClDevice, src: Any, dst: Any, shape: Shape = SHAPE) -> None:
    """One CL kernel from one buffer to the other, in slots as a delegate has them."""
    dense = Dense(shape)
    source = copy_source(device, dense, dense)
    a, b = Operand(Slot("a"), 0, dense.nbytes), Operand(Slot("b"), 0, dense.nbytes)
    commands = device.record([step(device, source, a, b)])
    commands.set_slot("a", src)
    commands.set_slot("b", dst)
    commands.run()


# Bytes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", [Dense(SHAPE).nbytes, Dense(SHAPE).nbytes + 64])
def test_what_gl_wrote_cl_reads_and_the_other_way(pair: Pair, nbytes: int) -> None:
    count = Dense(SHAPE).nbytes
    content = random_bytes(nbytes)
    source, target = fb.GlBuffer(nbytes, content), fb.GlBuffer(nbytes, np.full(nbytes, 7, np.uint8))
    ours, seen = pair.device.buffer(count, "OpenCL's own"), np.empty(count // 4, np.float32)
    copy_between(pair.device, pair.device.borrow(source), ours)
    pair.device.read(ours, seen, "test")
    assert seen.tobytes() == content.tobytes()[:count]
    copy_between(pair.device, ours, pair.device.borrow(target))
    found = target.read(np.empty(target.nbytes, np.uint8))
    assert found.tobytes() == content.tobytes()[:count] + b"\7" * (nbytes - count)


def test_each_run_sees_what_gl_wrote_last(pair: Pair) -> None:
    count = Dense(SHAPE).nbytes
    source, target = fb.GlBuffer(count), fb.GlBuffer(count)
    a, b = pair.device.borrow(source), pair.device.borrow(target)
    for seed in range(20):
        content = random_bytes(count, seed)
        source.write(content)
        copy_between(pair.device, a, b)
        assert target.read().tobytes() == content.tobytes(), f"run {seed}"


def test_reading_and_writing_a_gl_buffer_through_the_cl_device(pair: Pair) -> None:
    buffer = fb.GlBuffer(64)
    shared, content, seen = pair.device.borrow(buffer), random_bytes(64), np.empty(16, np.float32)
    pair.device.write(shared, content, "test")
    assert buffer.read().tobytes() == content.tobytes()
    buffer.write(content[::-1])
    pair.device.read(shared, seen, "test")
    assert seen.tobytes() == content[::-1].tobytes()


def test_memory_that_both_address_begins_as_zeros(pair: Pair) -> None:
    shared, seen = pair.channel.buffer(1000, "new"), np.ones(1000, np.uint8)
    uses = [Use(shared, "r", 1000)]
    pair.channel.to_cl(uses)
    shared.read(seen)
    pair.channel.to_gl(uses)
    assert not seen.any()


@pytest.mark.parametrize("es", [False, True], ids=["gl", "gles"])
def test_host_memory_has_one_address_on_both_sides(es: bool) -> None:
    pair = open_pair("share:host", es)
    shared = pair.channel.buffer(4096, "shared")
    gl, mapped = pair.gl.gl, ctypes.c_void_p()
    signature = ctypes.CFUNCTYPE(None, ctypes.c_uint, ctypes.c_uint, ctypes.POINTER(ctypes.c_void_p))
    gl.glBindBuffer(0x8F36, shared.gl.id)
    signature(gl.address("glGetBufferPointerv"))(0x8F36, 0x88BD, ctypes.byref(mapped))  # GL_BUFFER_MAP_POINTER
    gl.glBindBuffer(0x8F36, 0)
    array, _ = pyopencl.enqueue_map_buffer(
        pair.cl.queue, shared.memory, pyopencl.map_flags.READ, 0, (4096,), np.uint8, is_blocking=True
    )
    assert mapped.value is not None
    assert array.ctypes.data == mapped.value
    array.base.release(pair.cl.queue)
    pair.close()


# Textures and models --------------------------------------------------------------------------------------------------


def bind(pair: Pair, texture: fb.GlTexture, write: bool, previous: Any = None, **mapping: Any) -> Any:
    channels = 1 if texture.format.startswith("r3") else 3
    tensor = TensorInfo("picture", (1, 6, 8, channels), "float32")
    given = TextureMapping(**mapping)
    return make_binding(pair.device, texture, tensor, 0, write=write, mapping=given, previous=previous)


def run_copy(pair: Pair, frame: Binding, result: Binding) -> None:
    kernel = copy_source(pair.device, frame.view, result.view)
    given = {n: b.parameters for n, b in (("src", frame), ("dst", result)) if b.parameters}
    a, b = (Operand(x.resource, 0, x.view.nbytes) for x in (frame, result))
    pair.device.record([step(pair.device, kernel, a, b, "copy", **given)]).run()


@pytest.mark.parametrize("format", ["rgba8", "rgba16f", "rgba32f", "r32f"])
def test_a_texture_in_and_a_texture_out(pair: Pair, format: str) -> None:
    channels = 4 if format.startswith("rgba") else 1
    dtype = {"rgba8": np.uint8, "rgba16f": np.float16}.get(format, np.float32)
    rng = np.random.default_rng(1)
    texels = (rng.integers(0, 256, (6, 8, channels)) / (1 if dtype is np.uint8 else 256)).astype(dtype)
    if channels == 4:
        texels[..., 3] = 255 if dtype is np.uint8 else 1
    source, target = fb.GlTexture(8, 6, format, texels), fb.GlTexture(8, 6, format)
    frame, result = bind(pair, source, False, mean=0.5, std=0.25), bind(pair, target, True, mean=0.5, std=0.25)
    fb.transfers.reset()
    with fb.transfer_guard("disallow"):
        run_copy(pair, frame, result)
    assert np.array_equal(target.read(), texels)
    assert fb.transfers.bytes_except("texture readback") == 0


def test_beyond_a_texture_is_its_padding(pair: Pair) -> None:
    white, target = fb.GlTexture(4, 2, "rgba8", np.full((2, 4, 4), 255, np.uint8)), fb.GlTexture(8, 6, "rgba32f")
    frame, result = bind(pair, white, False, crop=(-2, -2, 8, 6), pad=(0.25,)), bind(pair, target, True)
    run_copy(pair, frame, result)
    expected = np.full((6, 8, 3), 0.25, np.float32)
    expected[2:4, 2:6] = 1
    np.testing.assert_array_equal(target.read()[..., :3], expected)


def test_another_texture_or_crop_allocates_nothing(pair: Pair) -> None:
    ring = [fb.GlTexture(32, 24, "rgba8") for _ in range(3)]
    binding = None
    for texture in ring:
        binding = bind(pair, texture, False, binding, crop=(0, 0, 8, 6))
    before = objects(pair.gl)
    for number in range(30):
        crop = (number % 7, 0, 8, 6)
        again = bind(pair, ring[number % 3], False, binding, crop=crop)
        assert binding is not None
        assert again.view == binding.view
        binding = again
    assert objects(pair.gl) == before


def test_a_video_goes_through_a_model_on_opencl_without_copies(
    pair: Pair, model_path: FindModel, caplog: pytest.LogCaptureFixture
) -> None:
    model, frames = model_path("face_detection_front"), 10
    drawn: list[Array] = []
    for backend in ("opengl", "opencl"):
        pipeline = traced_pipeline.make_pipeline(model, fb.GpuDelegateOptions(backend=backend))
        for number, frame in enumerate(traced_pipeline.camera(pair.gl, photograph_path(), frames)):
            if number == 1:
                fb.transfers.reset()
            guard = "allow" if number == 0 else "disallow"  # the constants of the model go up in the first run
            with fb.transfer_guard(guard, exempt=("camera frame",)):
                pipeline.draw(frame)
        assert fb.transfers.bytes > 0, "the camera's own upload is not counted"
        assert fb.transfers.bytes_except("camera frame") == 0
        drawn.append(pipeline.picture.read().astype(int))
        device = pipeline.delegate.engine.device
        assert device is not None
        assert device.traits.api == backend
        pipeline.delegate.close()
    report = fb.cl.sharing_report(pair.gl, pair.cl)
    assert report.strategy == type(pair.channel).name
    assert drawn[0].std() > 20, "no picture was drawn"
    assert np.abs(drawn[0] - drawn[1]).max() <= 1


def test_models_on_gl_textures_agree_with_the_cpu(
    pair: Pair, model_path: FindModel, photograph: Callable[..., Array]
) -> None:
    path, picture = model_path("selfie_segmentation"), photograph("astronaut", 256, 256)
    cpu = fb.Interpreter(model_path=path)
    cpu.allocate_tensors()
    (image,), (mask,) = cpu.inputs(), cpu.outputs()
    cpu.set_tensor(image, picture[None].astype(np.float32) / 255)
    cpu.invoke()
    expected = cpu.get_tensor(mask)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opencl"))
    interpreter = fb.Interpreter(model_path=path)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    result = fb.GlTexture(256, 256, "r32f")
    delegate.bind_buffer_to_tensor(fb.GlTexture.from_array(picture), image)
    delegate.bind_buffer_to_tensor(result, mask)
    interpreter.invoke()
    error = np.abs(result.read()[None] - expected).max()
    assert error <= 1e-4 * np.abs(expected).max()
    interpreter.ensure_tensor_data_is_readable(mask)
    # A GPU's texture units may flush denormals, which a sigmoid makes.
    np.testing.assert_allclose(interpreter.get_tensor(mask)[0], result.read(), rtol=0, atol=np.finfo(np.float32).tiny)
    delegate.close()


@pytest.mark.parametrize("kind", ["texture", "buffer"])
def test_one_gl_object_that_is_wrapped_twice_cannot_be_input_and_output(pair: Pair, kind: str) -> None:
    def made(value: float) -> Any:
        values = np.full((8, 8, 4), value, np.float32)
        return fb.GlTexture.from_array(values) if kind == "texture" else fb.GlBuffer(values.nbytes, values)

    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opencl"))
    interpreter = fb.Interpreter(model_content=tiny_models.chain("NEG", shape=(1, 8, 8, 4)))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    one, other = made(1.0), made(0.0)
    for tensor in (interpreter.inputs()[0], interpreter.outputs()[0]):
        delegate.bind_buffer_to_tensor(type(one).from_id(one.id), tensor)
    with pytest.raises(fb.BindingError, match="and to tensor 0: bind another object"):
        interpreter.invoke()
    delegate.bind_buffer_to_tensor(type(one).from_id(other.id), interpreter.outputs()[0])
    interpreter.invoke()
    np.testing.assert_array_equal(other.read().view(np.float32).ravel(), np.full(256, -1, np.float32))
    delegate.close()


def test_a_profile_hands_over_too(pair: Pair) -> None:
    """The profile reads what GL has drawn since the last frame, and GL sees what it wrote."""
    model = tiny_models.chain("NEG", shape=(1, 8, 8, 3))
    source, result = fb.GlTexture.from_array(np.zeros((8, 8, 4), np.uint8)), fb.GlTexture(8, 8, "rgba32f")
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opencl"))
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    delegate.bind_buffer_to_tensor(source, interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(result, interpreter.outputs()[0])
    interpreter.invoke()
    source.write(np.full((8, 8, 4), 255, np.uint8))
    assert delegate.profile()
    np.testing.assert_allclose(result.read()[..., :3], -1, atol=1e-6)
    delegate.close()


# Lifetimes ------------------------------------------------------------------------------------------------------------


def test_a_hundred_thousand_hand_overs_leak_nothing(pair: Pair) -> None:
    buffer = fb.GlBuffer(4096)
    shared = pair.device.borrow(buffer)
    uses, partner = [Use(shared, "rw", 4096)], shared.partner

    def hand_over(times: int) -> None:
        for _ in range(times):
            partner.before_run(uses)
            partner.after_run(uses)
        pair.gl.finish()
        pair.cl.finish()

    hand_over(1000)
    before, memory, references = objects(pair.gl), resident(), shared.memory.reference_count
    waits = pair.channel.host_waits
    hand_over(99_000)
    assert objects(pair.gl) == before
    assert shared.memory.reference_count == references
    assert resident() - memory < 2 * MIB  # 21 bytes a hand-over
    assert pair.channel.host_waits - waits in (0, 99_000 * 2), "all are waited for, or none"


def test_sharing_and_letting_go_leaks_nothing(pair: Pair) -> None:
    def cycle() -> None:
        texture, buffer = fb.GlTexture(64, 64, "rgba8"), fb.GlBuffer(1 << 16)
        binding = bind(pair, texture, False)
        copy_between(pair.device, pair.device.borrow(buffer), pair.device.buffer(1 << 16, "own"))
        assert not binding.resource.released

    for _ in range(20):
        cycle()
    before, memory = objects(pair.gl), resident()
    for _ in range(200):
        cycle()
    assert objects(pair.gl) == before
    assert resident() - memory < 4 * MIB  # one shared buffer of the 200 is 64 KiB


def test_released_objects_are_refused_and_others_still_run(pair: Pair) -> None:
    count = Dense(SHAPE).nbytes
    source, other = fb.GlBuffer(count, random_bytes(count)), fb.GlBuffer(count, random_bytes(count, 1))
    ours, dense = pair.device.buffer(count, "own"), Dense(SHAPE)
    device = pair.device
    commands = device.record(
        [step(device, copy_source(device, dense, dense), Operand(Slot("a"), 0, count), whole(ours))]
    )
    commands.set_slot("a", device.borrow(source))
    commands.run()
    source.release()
    with pytest.raises(fb.BindingError, match="released"):
        commands.run()
    with pytest.raises(fb.BindingError, match="released"):
        device.borrow(source)
    commands.set_slot("a", device.borrow(other))
    commands.run()
    seen = np.empty(count // 4, np.float32)
    device.read(ours, seen, "test")
    assert seen.tobytes() == random_bytes(count, 1).tobytes()


def test_a_run_without_the_gl_context_is_refused(pair: Pair) -> None:
    count = Dense(SHAPE).nbytes
    a, b = pair.device.borrow(fb.GlBuffer(count)), pair.device.buffer(count, "own")
    copy_between(pair.device, a, b)
    pair.gl.release()
    with pytest.raises(fb.DeviceError, match="not current"):
        copy_between(pair.device, a, b)
    pair.gl.make_current()
    copy_between(pair.device, a, b)


THINGS = ("texture", "buffer", "bindings", "commands", "device", "cl", "gl")
FREEING = """
import itertools, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/.."]
import test_share as t
for order in itertools.islice(itertools.permutations(t.THINGS), int(sys.argv[3]), None, int(sys.argv[4])):
    t.free(sys.argv[2], order)
print("freed")
"""


def free(name: str, order: tuple[str, ...]) -> None:
    """Make one of everything, run, and free it all in that order, running again after each."""
    pair = open_pair(name)
    device, count = pair.device, 6 * 8 * 3 * 4
    things: dict[str, Any] = {"texture": fb.GlTexture(8, 6, "rgba8"), "buffer": fb.GlBuffer(count)}
    binding, shared = bind(pair, things["texture"], False), device.borrow(things["buffer"])
    given = {"src": binding.parameters} if binding.parameters else {}
    source = copy_source(device, binding.view, Dense((1, 6, 8, 3)))
    first = Operand(binding.resource, 0, binding.view.nbytes)
    commands = device.record([step(device, source, first, whole(shared), "copy", **given)])
    commands.run()
    pair.first = None
    things |= {"bindings": binding.resource, "commands": commands, "device": device, "cl": pair.cl, "gl": pair.gl}
    for thing in order:
        free_one = getattr(things[thing], "close", None) or things[thing].release
        free_one()
        gc.collect()
        try:
            commands.run()
        except fb.FramebindError:
            continue
    pair.close()


@pytest.mark.parametrize("name", ZERO_COPY)
def test_objects_freed_in_any_order_do_not_crash(name: str, request: pytest.FixtureRequest) -> None:
    open_pair(name).close()  # skips if there is none
    here, step = str(Path(__file__).parent), "61" if request.config.getoption("--tier") == "all" else "431"
    done = subprocess.run(
        [sys.executable, "-c", FREEING, here, name, "0", step], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("freed\n")


# What is said ---------------------------------------------------------------------------------------------------------


def test_the_report_names_the_strategy_and_why_not_the_better_ones(caplog: pytest.LogCaptureFixture) -> None:
    pair = open_pair("any")
    report = fb.cl.sharing_report()
    names = [strategy.name for strategy in share.STRATEGIES]
    better = names[: names.index(report.strategy)] if report.strategy else names
    assert list(report.refused) == better
    assert all(report.refused.values())
    assert all(text in str(report) for text in (*report.refused.values(), report.strategy or "nothing", "0 times"))
    if report.strategy:
        with caplog.at_level(logging.INFO, "framebind"):
            pair.device.borrow(fb.GlBuffer(64))
        assert report.strategy in caplog.text
        assert all(reason in caplog.text for reason in report.refused.values())
    pair.close()


class NoHostMemory(HostMemory):
    @staticmethod
    def why_not(gl: fb.GlContext, cl: fb.cl.ClContext) -> str | None:
        return "no, says the test"


def test_where_nothing_is_shared_the_error_says_what_to_do() -> None:
    pair = open_pair("any")
    with pytest.raises(fb.BindingError, match=r"no, says the test.*backend 'opengl'.*copies_allowed=True"):
        share.share(pair.gl, pair.cl, (NoHostMemory, Copies))
    report = share.report_sharing(pair.gl, pair.cl, (NoHostMemory, Copies))
    assert report.strategy is None
    assert "nothing" in str(report)
    pair.close()


def test_copies_are_loud_and_counted(copying: Pair, caplog: pytest.LogCaptureFixture) -> None:
    count, content = Dense(SHAPE).nbytes, random_bytes(Dense(SHAPE).nbytes)
    source, target = fb.GlBuffer(count, content), fb.GlBuffer(count)
    warnings = [record.getMessage() for record in caplog.get_records("setup") if record.levelno == logging.WARNING]
    assert any("copies through the CPU" in text for text in warnings)
    a, b = copying.device.borrow(source), copying.device.borrow(target)
    fb.transfers.reset()
    copy_between(copying.device, a, b)
    assert (fb.transfers.calls, fb.transfers.bytes) == (4, 4 * count), str(fb.transfers)
    assert target.read().tobytes() == content.tobytes()
    with fb.transfer_guard("disallow"), pytest.raises(fb.TransferError, match="no shared memory"):
        copy_between(copying.device, a, b)


def test_objects_of_another_gl_context_are_refused(pair: Pair) -> None:
    buffer = fb.GlBuffer(64)
    with fb.GlContext.headless(), pytest.raises(fb.FramebindError):
        pair.device.borrow(buffer)
    pair.gl.make_current()
    pair.device.borrow(buffer)
