"""The CUDA device against a recording driver: launches, lifetimes, streams, errors. Nothing is computed here."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop.cuda import nvrtc
from framebind.interop.cuda.compute.device import CudaDevice
from framebind.interop.cuda.compute.graph import MOST_EXECUTABLES, KernelNode, launches_before
from framebind.interop.cuda.compute.recording import CudaKernel
from framebind.interop.cuda.objects import CudaImage
from framebind.interop.device import Operand, Slot, Step
from framebind.kernels.codegen.source import Argument, KernelSource
from framebind.kernels.views import Dense, Picture, Sliced, picture_parameters
from support.recording_driver import CONTEXT, MACHINE_CODE, OTHER_STREAM, Foreign, RecordingDriver, forget_libraries

SHAPE = (1, 4, 4, 4)
LAUNCHES = {"cuLaunchKernel", "cuLaunchCooperativeKernel", "cuGraphLaunch"}


@pytest.fixture
def device(recorder: RecordingDriver) -> CudaDevice:
    return CudaDevice(fb.cuda.CudaContext(), owns_context=True)


def copy_source(**views: Any) -> KernelSource:
    arguments = (Argument("src", views["src"], "r", "source"), Argument("dst", views["dst"], "w", "arena"))
    return KernelSource("copy", arguments, 64, 1)


def copy_step(device: CudaDevice, source: Any, target: Any, source_view: Any = None, **parameters: Any) -> Step:
    views = {"src": source_view or Dense(SHAPE), "dst": Sliced(SHAPE)}
    kernel = device.kernel(copy_source(**views))
    operands = {"src": Operand(source, 0, views["src"].nbytes), "dst": Operand(target, 0, views["dst"].nbytes)}
    return Step(kernel, operands, 1, "copy", parameters)


def launches(recorder: RecordingDriver) -> list[tuple[Any, ...]]:
    return [arguments for name, arguments in recorder.calls if name in LAUNCHES]


def parameter(launch: tuple[Any, ...], number: int, kind: Any = ctypes.c_uint64) -> Any:
    """A kernel parameter as the driver would read it now."""
    addresses = launch[9] if len(launch) > 9 else launch[-1]
    return kind.from_address(addresses[number]).value


def test_a_run_launches_each_step_with_its_memory(device: CudaDevice, recorder: RecordingDriver) -> None:
    source, target = device.buffer(256, "source"), device.buffer(256, "target")
    commands = device.record([copy_step(device, source, target)])
    recorder.calls.clear()
    commands.run()
    (launch,) = launches(recorder)
    assert launch[1:8] == (1, 1, 1, 64, 1, 1, 0) and launch[8] == device.context.stream
    assert (parameter(launch, 0), parameter(launch, 1)) == (source.pointer, target.pointer)
    assert recorder.names() == ENTERED
    assert not recorder.current, "the user's context is current again"


ENTERED = ["cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuLaunchKernel", "cuCtxPopCurrent_v2"]


def test_a_run_in_the_primary_context_of_the_thread_is_one_more_call(
    device: CudaDevice, recorder: RecordingDriver
) -> None:
    commands = device.record([copy_step(device, device.buffer(256, "a"), device.buffer(256, "b"))])
    recorder.current.append(CONTEXT)  # as PyTorch leaves it
    recorder.calls.clear()
    commands.run()
    assert recorder.names() == ["cuCtxGetCurrent", "cuLaunchKernel"]


def test_a_slot_takes_another_array_without_a_call(device: CudaDevice, recorder: RecordingDriver) -> None:
    commands = device.record([copy_step(device, Slot("frame"), device.buffer(256, "target"))])
    for array in (device.buffer(256, "one"), device.buffer(256, "two")):
        recorder.calls.clear()
        commands.set_slot("frame", array)
        assert not recorder.calls
        commands.run()
        assert parameter(launches(recorder)[0], 0) == array.pointer


def test_a_picture_passes_its_pitch_and_parameters(device: CudaDevice, recorder: RecordingDriver) -> None:
    view = Picture((1, 4, 4, 4), "rgba8", "rgba")
    values = picture_parameters(view.shape, (4, 4))
    picture = device.texture(4, 4, "rgba8", "picture")
    commands = device.record([copy_step(device, picture, device.buffer(256, "target"), view, src=values)])
    commands.run()
    (launch,) = launches(recorder)
    # The arena's pointer, the picture's two words, an offset, four float4.
    words = (ctypes.c_uint64 * 2).from_address(launch[9][1])
    assert list(words) == [picture.pointer, picture.pitch] and picture.pitch == 64
    assert list((ctypes.c_float * 4).from_address(launch[9][3])) == pytest.approx(values[:4])
    assert list((ctypes.c_float * 4).from_address(launch[9][6])) == pytest.approx(values[12:])
    commands.set_parameters(0, "src", tuple(2 * v for v in values))
    assert list((ctypes.c_float * 4).from_address(launch[9][6])) == pytest.approx([2 * v for v in values[12:]])


def test_steps_are_one_cooperative_launch(device: CudaDevice, recorder: RecordingDriver) -> None:
    a, b = device.buffer(256, "a"), device.buffer(256, "b")
    sliced = Sliced(SHAPE)
    commands = device.record([copy_step(device, a, b, sliced), copy_step(device, b, a, sliced)], "one")
    recorder.calls.clear()
    commands.run()
    assert recorder.names()[2:3] == ["cuLaunchCooperativeKernel"]
    assert (commands.dispatches, commands.barriers) == (1, 1)
    (launch,) = launches(recorder)
    assert len(launch) == 10 and launch[1] == 1, "no more groups than the largest step has"
    recorder.attributes[16] = 0  # units
    with pytest.raises(fb.BindingError, match="no work-group of these 2 steps fits on a compute unit of 'Recorder'"):
        crowded = CudaDevice(fb.cuda.CudaContext())
        a, b = crowded.buffer(256, "a"), crowded.buffer(256, "b")
        crowded.record([copy_step(crowded, a, b, sliced), copy_step(crowded, b, a, sliced)], "one")


@pytest.mark.parametrize("major, units", [(7, False), (8, True)])
def test_tensor_cores_multiply_floats_since_ampere(recorder: RecordingDriver, major: int, units: bool) -> None:
    recorder.attributes[75], recorder.attributes[76] = major, 5
    assert CudaDevice(fb.cuda.CudaContext()).traits.matrix_units == units


@pytest.mark.parametrize("capability, nbytes", [((9, 0), 232448), ((8, 0), 0)])
def test_warpgroups_multiply_on_hopper_alone(
    recorder: RecordingDriver, capability: tuple[int, int], nbytes: int
) -> None:
    recorder.attributes[75], recorder.attributes[76] = capability
    assert CudaDevice(fb.cuda.CudaContext()).traits.warpgroup_bytes == nbytes


def test_a_launch_gives_a_kernel_the_local_memory_that_it_cannot_declare(
    device: CudaDevice, recorder: RecordingDriver
) -> None:
    source, target = device.buffer(256, "source"), device.buffer(256, "target")
    step = copy_step(device, source, target)
    sizes = {"small": 3072, "large": 3073}
    steps = [
        replace(step, kernel=device.kernel(replace(step.kernel.source, shared=(("float4", name, count),))))
        for name, count in sizes.items()
    ]
    device.record(steps)
    nodes = [arguments[4]._obj for name, arguments in recorder.calls if name == "cuGraphAddKernelNode"]
    allowed = [arguments for name, arguments in recorder.calls if name == "cuFuncSetAttribute"]
    assert [node.local_bytes for node in nodes] == [0, 49168]
    assert [arguments[1:] for arguments in allowed] == [(8, 49168)]


def two_steps(device: CudaDevice) -> list[Step]:
    view = Picture((1, 4, 4, 4), "rgba8", "rgba")
    values = picture_parameters(view.shape, (4, 4))
    between = device.buffer(256, "between")
    return [
        copy_step(device, Slot("frame"), between, view, src=values),
        copy_step(device, between, device.buffer(256, "target"), Sliced(SHAPE)),
    ]


def updated(recorder: RecordingDriver) -> list[KernelNode]:
    """The nodes whose parameters were given to the driver anew."""
    return [arguments[2]._obj for name, arguments in recorder.calls if name == "cuGraphExecKernelNodeSetParams"]


def test_separate_launches_are_a_graph_in_their_order(device: CudaDevice, recorder: RecordingDriver) -> None:
    commands = device.record(two_steps(device))
    added = [arguments for name, arguments in recorder.calls if name == "cuGraphAddKernelNode"]
    assert [arguments[3] for arguments in added] == [0, 0]
    ((_, first, second, edge, count),) = [a for name, a in recorder.calls if name == "cuGraphAddDependencies_v2"]
    assert [*first, *second, count] == [*(each[0]._obj.value for each in added), 1]
    assert bytes(edge) == bytes([1, 0, 1, 0, 0, 0, 0, 0]), "the second starts before the end of the first"
    nodes = [arguments[4]._obj for arguments in added]
    assert [(tuple(node.grid), tuple(node.group), node.local_bytes) for node in nodes] == [
        ((1, 1, 1), (64, 1, 1), 0)
    ] * 2
    commands.set_slot("frame", device.texture(4, 4, "rgba8", "picture"))
    commands.run()
    recorder.calls.clear()
    commands.run()
    assert [name for name in recorder.names() if not name.startswith("cuCtx")] == ["cuGraphLaunch"]
    assert launches(recorder)[0][1] == device.context.stream
    assert (commands.dispatches, commands.calls_per_run, len(commands.timings())) == (2, 1, 2)


def test_launches_of_an_older_gpu_start_after_the_end_of_those_before_them(recorder: RecordingDriver) -> None:
    recorder.attributes[75] = 8
    device = CudaDevice(fb.cuda.CudaContext(), owns_context=True)
    device.record(two_steps(device))
    added = [arguments for name, arguments in recorder.calls if name == "cuGraphAddKernelNode"]
    assert [list(arguments[2]) for arguments in added] == [[], [added[0][0]._obj.value]]
    assert "cuGraphAddDependencies_v2" not in recorder.names()


def test_copies_of_frames_run_side_by_side(device: CudaDevice, recorder: RecordingDriver) -> None:
    batch, target = device.buffer(1024, "batch"), device.buffer(1024, "target")
    view, whole = Sliced(SHAPE), replace(Sliced(SHAPE), shape=(4, *SHAPE[1:]))
    frames = [copy_step(device, Slot(f"frame {i}"), batch, view) for i in range(4)]
    parts = [Operand(batch, 256 * i, 256) for i in range(4)]
    copies = [replace(s, operands={**s.operands, "dst": part}) for s, part in zip(frames, parts, strict=True)]
    steps = [*copies, copy_step(device, batch, target, whole), copy_step(device, target, batch, whole)]
    assert launches_before(steps) == [[], [], [], [], [0, 1, 2, 3], [4]]
    assert launches_before([copies[0], steps[4], *copies]) == [[], [0], [1], [1], [1], [1]]
    assert launches_before(copies[:2]) == [[], []]
    recorder.calls.clear()
    device.record(steps, "separate")
    early = [arguments for name, arguments in recorder.calls if name == "cuGraphAddDependencies_v2"]
    assert [(len(first), len(second), count) for _, first, second, _, count in early] == [(4, 4, 4), (1, 1, 1)]


def test_what_changes_in_a_graph_is_given_to_it_once(device: CudaDevice, recorder: RecordingDriver) -> None:
    commands = device.record(two_steps(device))
    for number in range(2):
        recorder.calls.clear()
        picture = device.texture(4, 4, "rgba8", f"picture {number}")
        commands.set_slot("frame", picture)
        values = picture_parameters((1, 4, 4, 4), (4, 4), std=(number + 2.0,))
        commands.set_parameters(0, "src", values)
        commands.run()
        commands.run()
        (node,) = updated(recorder)
        assert recorder.names().count("cuGraphLaunch") == 2
        addresses = (ctypes.c_void_p * 7).from_address(node.parameters)
        assert ctypes.c_uint64.from_address(addresses[1]).value == picture.pointer
        assert list((ctypes.c_float * 16).from_address(addresses[3])) == pytest.approx(values)
    recorder.calls.clear()
    commands.set_parameters(0, "src", picture_parameters((1, 4, 4, 4), (4, 4), std=(9.0,)))
    commands.run()
    assert len(updated(recorder)) == 1, "another crop of the same picture"
    recorder.failing["cuGraphExecKernelNodeSetParams"] = 1
    commands.set_slot("frame", device.texture(4, 4, "rgba8", "picture"))
    with pytest.raises(fb.DeviceError, match="running on the CUDA context on 'Recorder' failed: CUDA error 1"):
        commands.run()
    del recorder.failing["cuGraphExecKernelNodeSetParams"]
    recorder.calls.clear()
    commands.run()
    assert len(updated(recorder)) == 1, "it is tried again, and never run with the old picture"
    commands.release()
    del commands
    gc.collect()
    assert {"cuGraphDestroy", "cuGraphExecDestroy"} <= set(recorder.names())


def test_a_ring_of_objects_has_a_graph_for_each(device: CudaDevice, recorder: RecordingDriver) -> None:
    commands = device.record(two_steps(device))
    pictures = [device.texture(4, 4, "rgba8", f"picture {number}") for number in range(MOST_EXECUTABLES + 1)]

    def launched(ring: Sequence[CudaImage]) -> list[int]:
        """The graphs that two rounds of a ring launch."""
        recorder.calls.clear()
        for picture in (*ring, *ring):
            commands.set_slot("frame", picture)
            commands.run()
        return [arguments[0] for name, arguments in recorder.calls if name == "cuGraphLaunch"]

    first = launched(pictures[:-1])
    assert first[:MOST_EXECUTABLES] == first[MOST_EXECUTABLES:] and len(set(first)) == MOST_EXECUTABLES
    assert len(updated(recorder)) == MOST_EXECUTABLES, "each was given its picture once"
    assert launched(pictures[:-1]) == first and not updated(recorder)
    longer = launched(pictures)
    assert set(longer) == set(first) and len(updated(recorder)) > 1, "there are no more of them in a longer ring"


def test_content_comes_back_and_is_counted(device: CudaDevice) -> None:
    values = np.arange(64, dtype=np.float32)
    buffer = device.buffer(values.nbytes, "values")
    found = np.ones_like(values)
    device.read(buffer, found, "test")
    assert not found.any(), "a buffer begins as zeros"
    device.write(buffer, values, "test")
    device.read(buffer, found, "test")
    np.testing.assert_array_equal(found, values)
    pixels = np.arange(5 * 7 * 4, dtype=np.uint8).reshape(5, 7, 4)
    picture, back = fb.cuda.CudaImage.from_array(pixels), np.zeros_like(pixels)
    device.read(picture, back, "test")
    np.testing.assert_array_equal(back, pixels)
    rows = 5 * picture.pitch  # each row is filled up
    assert (fb.transfers.calls, fb.transfers.bytes) == (5, 3 * values.nbytes + 2 * rows)


def test_results_of_an_independent_context_are_waited_for_asleep(recorder: RecordingDriver) -> None:
    """Eight sessions of a GPU that asked for theirs without a pause kept one core busy for half of the time."""
    waits = ["cuEventSynchronize", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"]
    for independent in (False, True):
        with fb.cuda.CudaContext(independent=independent):
            values = fb.cuda.CudaArray.from_array(np.zeros(4, np.float32))
            recorder.calls.clear()
            values.read()
            assert [name for name in recorder.names() if name in waits] == waits[not independent :]
            assert "cuEventCreate" not in recorder.names(), "none is made for a read"


def test_memory_is_freed_once_also_after_its_context(recorder: RecordingDriver) -> None:
    context = fb.cuda.CudaContext()
    one, two = (fb.cuda.CudaArray.from_array(np.ones(4, np.float32)) for _ in range(2))
    assert len(recorder.memory) == 2
    one.release()
    one.release()
    assert len(recorder.memory) == 1 and one.released
    context.close()
    del two
    gc.collect()
    assert not recorder.memory and recorder.retained == 0
    assert recorder.names().count("cuStreamDestroy_v2") == 1


def test_a_device_gives_everything_back(recorder: RecordingDriver) -> None:
    device = CudaDevice(fb.cuda.CudaContext(), owns_context=True)
    device.users = 1
    commands = device.record([copy_step(device, device.buffer(256, "a"), device.buffer(256, "b"))])
    device.fence().wait()
    commands.release()
    device.close()
    del commands, device
    gc.collect()
    assert not recorder.memory and recorder.retained == 0
    assert recorder.names().count("cuModuleUnload") == 1 and recorder.names().count("cuEventDestroy_v2") == 1


def test_what_a_context_keeps_is_freed_before_its_memory_goes(recorder: RecordingDriver) -> None:
    retained: list[int] = []
    context = fb.cuda.CudaContext()
    context.closing.append(lambda: retained.append(recorder.retained))
    context.close()
    context.close()
    assert retained == [1] and recorder.retained == 0


def test_a_stream_of_the_user_is_used_and_never_destroyed(recorder: RecordingDriver) -> None:
    class Stream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 0xABC

    for given in (0xABC, Stream()):
        with fb.cuda.CudaContext(stream=given) as context:
            assert context.stream == 0xABC
    assert "cuStreamDestroy_v2" not in recorder.names() and "cuStreamCreate" not in recorder.names()
    with pytest.raises(fb.DeviceError, match="not one of the primary context"):
        fb.cuda.CudaContext(stream=OTHER_STREAM)
    with pytest.raises(fb.DeviceError, match="is no CUDA stream"):
        fb.cuda.CudaContext(stream="mine")  # pyright: ignore[reportArgumentType]

    class Closed:
        def __cuda_stream__(self) -> tuple[int, int]:
            raise ValueError("this stream is closed")

    with pytest.raises(ValueError, match="this stream is closed"):
        fb.cuda.CudaContext(stream=Closed())
    assert recorder.retained == 0


def test_an_object_whose_stream_is_used_lives_until_the_context_is_closed(recorder: RecordingDriver) -> None:
    class Stream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 0xABC

    given = Stream()
    gone, context = weakref.ref(given), fb.cuda.CudaContext(stream=given)
    del given
    assert gone() is not None, "its end would be the end of the stream"
    context.close()
    assert gone() is None


def test_a_fence_asks_and_events_are_used_again(device: CudaDevice, recorder: RecordingDriver) -> None:
    recorder.done = False
    fence = device.fence()
    assert not fence.done
    recorder.done = True
    assert fence.done
    handle = fence.handle
    del fence
    assert device.fence().handle == handle
    recorder.failing["cuEventSynchronize"] = 719
    with pytest.raises(fb.DeviceError, match="waiting for the CUDA context on 'Recorder' failed: CUDA error 719"):
        device.fence().wait()


def test_a_fence_that_outlives_its_device_gives_all_events_back(recorder: RecordingDriver) -> None:
    device, other = CudaDevice(fb.cuda.CudaContext(), owns_context=True), fb.cuda.CudaContext()
    fences = [device.fence() for _ in range(2)]
    fences.pop()
    device.close()
    del device
    gc.collect()
    assert "cuEventDestroy_v2" not in recorder.names() and recorder.retained > 1
    fences.clear()
    assert recorder.names().count("cuEventDestroy_v2") == 2
    gc.collect()
    assert recorder.retained == 1, "of the other context"
    other.close()


def test_waits_for_events_of_other_libraries(device: CudaDevice, recorder: RecordingDriver) -> None:
    class TorchEvent:
        cuda_event = 0x77

    device.wait_for([TorchEvent(), device.event()])
    waits = [arguments for name, arguments in recorder.calls if name == "cuStreamWaitEvent"]
    assert waits[0][:2] == (device.context.stream, 0x77) and len(waits) == 2
    with pytest.raises(fb.BindingError, match="takes events of CUDA"):
        device.wait_for(["event"])


def test_an_array_of_another_library_is_bound_in_place(device: CudaDevice, recorder: RecordingDriver) -> None:
    memory = device.buffer(512, "memory")
    borrowed = device.borrow(Foreign(data=(memory.pointer + 256, False)))
    assert (borrowed.pointer, borrowed.offset, borrowed.handle) == (memory.pointer + 256, 256, memory.handle)
    allocated = len(recorder.memory)
    borrowed.release()
    assert len(recorder.memory) == allocated, "borrowed memory is not freed"
    strides = (256, 64, 16, 4)
    assert device.borrow(Foreign(data=(memory.pointer, False), strides=strides)).nbytes == 256
    recorder.calls.clear()
    device.borrow(Foreign(data=(memory.pointer, False), stream=2))
    assert "cuStreamWaitEvent" in recorder.names(), "the producer's stream is waited for"


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"strides": (256, 64, -16, 4)}, "its strides are .* and kernels count upwards; bind a copy"),
        ({"strides": (256, 64, 17, 4)}, "must be multiples of the 4 bytes of a number"),
        ({"shape": (1, 99, 4, 4)}, "end behind the memory"),
        ({"strides": (256, 128, 16, 4)}, "its 448 bytes end behind the memory"),
        ({"data": (0x10, False)}, "is no memory of CUDA, or was freed"),
        ({"data": (0x11, False)}, "begins at 0x11"),
        ({"shape": (0,)}, "it is empty"),
        ({"mask": object()}, "it has a mask"),
    ],
)
def test_an_array_that_cannot_be_bound_says_why(device: CudaDevice, changes: dict[str, Any], reason: str) -> None:
    memory = device.buffer(256, "memory")
    with pytest.raises(fb.BindingError, match=reason):
        device.borrow(Foreign(**{"data": (memory.pointer, False), **changes}))


def test_arrays_that_do_not_fit_a_step_are_refused(device: CudaDevice, recorder: RecordingDriver) -> None:
    memory = device.buffer(512, "memory")
    commands = device.record([copy_step(device, Slot("frame"), Slot("result"))])
    odd = device.borrow(Foreign(data=(memory.pointer + 4, False)))
    commands.set_slot("frame", odd)  # Dense is read float by float
    with pytest.raises(fb.BindingError, match="multiple of 16 bytes"):
        commands.set_slot("result", odd)
    with pytest.raises(fb.BindingError, match="is read-only"):
        commands.set_slot("result", device.borrow(Foreign(data=(memory.pointer, True))))
    with pytest.raises(fb.BindingError, match="lie outside"):
        commands.set_slot("result", device.buffer(16, "small"))
    with pytest.raises(fb.BindingError, match="nothing is bound to 'result'"):
        commands.run()
    target = device.buffer(256, "target")
    commands.set_slot("result", target)
    commands.run()
    recorder.memory_is_on = 1
    with pytest.raises(fb.BindingError, match="does not belong to the CUDA context on 'Recorder'"):
        commands.set_slot("result", fb.cuda.CudaArray(memory.pointer, (64,), np.float32, device=1, keep=memory))
    target.release()
    with pytest.raises(fb.BindingError, match="is released"):
        commands.run()
    arena = device.buffer(256, "arena")
    fixed = device.record([copy_step(device, memory, arena)])
    arena.release()
    with pytest.raises(fb.BindingError, match="'arena' is released: record the steps again with another one"):
        fixed.run()


def test_without_driver_compiler_or_device_one_sentence_says_so(
    recorder: RecordingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(fb.DeviceError, match="there is no CUDA device 1: there are 1"):
        fb.cuda.CudaContext(1)
    recorder.failing["cuInit"] = 100
    forget_libraries()
    with pytest.raises(fb.DeviceError, match="CUDA does not start: CUDA error 100"):
        fb.cuda.CudaContext()
    (none,) = [d for d in fb.CompatibilityList().devices if d.api == "CUDA"]
    assert (none.name, none.unusable) == ("none", "CUDA does not start: CUDA error 100")
    recorder.missing.add("cuGraphInstantiateWithFlags")
    forget_libraries()
    with pytest.raises(fb.DeviceError, match="too old, and has no cuGraphInstantiateWithFlags: install one for CUDA"):
        fb.cuda.CudaContext()

    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    forget_libraries()
    with pytest.raises(fb.DeviceError, match="install NVIDIA's driver"):
        fb.cuda.CudaContext()
    with pytest.raises(fb.DeviceError, match="NVIDIA's compiler NVRTC, which is not there: pip install nvidia"):
        nvrtc.version()


def test_a_text_that_does_not_compile_comes_with_the_log(device: CudaDevice, recorder: RecordingDriver) -> None:
    recorder.failing["nvrtcCompileProgram"] = 6
    with pytest.raises(fb.KernelError, match="what the compiler says"):
        device.record([copy_step(device, device.buffer(256, "a"), device.buffer(256, "b"))])
    assert "nvrtcDestroyProgram" in recorder.names()


def test_the_newest_architecture_that_the_gpu_runs_is_taken(recorder: RecordingDriver) -> None:
    assert [nvrtc.architecture(capability) for capability in (75, 86, 90)] == [75, 80, 90]
    with pytest.raises(fb.DeviceError, match=r"compiles for compute capabilities 7\.5 to 9\.0, and the GPU has 10\.0"):
        nvrtc.architecture(100)


def test_what_is_installed_is_found(recorder: RecordingDriver) -> None:
    (found,) = [api for api in fb.installed_apis() if api.api == "CUDA"]
    assert (found.devices, found.problem) == (1, "")


def test_a_compiler_that_is_found_without_a_path_is_taken_by_its_name(
    recorder: RecordingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVIDIA's package does not know the path of every library that is loaded already."""

    def found(name: str) -> SimpleNamespace:
        return SimpleNamespace(abs_path=None)

    pathfinder = SimpleNamespace(load_nvidia_dynamic_lib=found, DynamicLibNotFoundError=RuntimeError)
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(pathfinder=pathfinder))
    forget_libraries()
    assert nvrtc.version() == (13, 0)


class Store:
    """A store in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.find = self.kept.get

    def reject(self, key: str) -> None:
        self.kept.pop(key, None)

    def keep(self, key: str, binary: Any) -> None:
        self.kept[key] = binary()


def record_copies(device: CudaDevice, store: Any, *views: Any, kernel: str = "copy") -> None:
    """Record a step for each view of what is copied, on another device of the same context, which has no kernels."""
    other = CudaDevice(device.context)
    steps = [copy_step(other, other.buffer(256, "a"), other.buffer(256, "b"), view) for view in views]
    steps = [replace(step, kernel=other.kernel(replace(step.kernel.source, name=kernel))) for step in steps]
    other.record(steps, store=store)


def test_machine_code_is_kept_and_used_again(device: CudaDevice, recorder: RecordingDriver) -> None:
    store = Store()
    kept = store.kept

    def compiled(*views: Any) -> int:
        """The number of calls of the compiler if a device that has nothing yet records a step for each view."""
        recorder.calls.clear()
        record_copies(device, store, *views)
        assert recorder.names().count("cuModuleGetFunction") == len(views)
        return recorder.names().count("nvrtcCompileProgram")

    both = Dense(SHAPE), Sliced(SHAPE)
    assert compiled(*both) == 1, "both are compiled at once"
    (module,) = [key for key in kept if key.startswith("module ")]
    assert kept[module] == MACHINE_CODE and len(kept) == 3
    assert sorted(kept[key].decode() for key in kept if key != module) == [f"{module} kernel_{n}" for n in (0, 1)]
    assert compiled(*both) == 0 and recorder.names().count("cuModuleLoadData") == 1
    kept[module] = recorder.refused = b"of another driver"
    assert compiled(*both) == 1 and kept[module] == MACHINE_CODE
    assert compiled(Dense(SHAPE)) == 0, "a kernel is found in a module of several"
    for key in kept:
        if key != module:
            kept[key] = b"module of nothing\xff"
    assert compiled(*both) == 1, "what is kept is not trusted"


def test_kernels_that_differ_only_in_strides_are_one_function(device: CudaDevice, recorder: RecordingDriver) -> None:
    target, strides = device.buffer(1024, "target"), (1, 3, 2)
    views = [Sliced(SHAPE, pixel_stride=stride) for stride in strides]
    steps = [copy_step(device, device.buffer(1024, "source"), target, view) for view in views]
    device.compile(steps, "separate")
    assert recorder.names().count("cuModuleGetFunction") == 1
    for step, stride in zip(steps, strides, strict=True):
        recorder.calls.clear()
        device.record([step]).run()
        (launch,) = launches(recorder)
        assert [parameter(launch, number, ctypes.c_int) for number in (2, 3, 4)] == [0, 0, stride]


def test_no_text_is_written_for_machine_code_that_is_kept(device: CudaDevice) -> None:
    """No kernel "nowhere" has a text, so that whatever asks for it fails."""
    store = Store()
    record_copies(device, store, Dense(SHAPE))
    store.kept.update({key.replace("'copy'", "'nowhere'"): place for key, place in store.kept.items()})
    record_copies(device, store, Dense(SHAPE), kernel="nowhere")
    with pytest.raises(KeyError, match="nowhere"):
        record_copies(device, store, Sliced(SHAPE), kernel="nowhere")


def test_a_kernel_of_another_device_is_refused(device: CudaDevice) -> None:
    other = CudaDevice(fb.cuda.CudaContext())
    assert isinstance(other.kernel(copy_source(src=Dense(SHAPE), dst=Sliced(SHAPE))), CudaKernel)
    with pytest.raises(fb.BindingError, match="compiled for another device"):
        device.record([copy_step(other, device.buffer(256, "a"), device.buffer(256, "b"))])
