"""The two protocols of arrays on a GPU to the letter: fields, streams, capsules. A recording driver stands in."""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop import dlpack
from framebind.interop.cuda.compute.device import CudaDevice
from framebind.interop.dlpack import LEGACY_STREAM, host_array, is_on_host
from support.recording_driver import Capsules, Foreign, RecordingDriver

SHAPE = (1, 4, 4, 4)
NEGATIVE = (ctypes.c_int64 * 4)(64, (1 << 62) - 16, 4, 1)
"""Strides of an array whose rows run backwards, as CuPy gives them out: bytes without a sign, divided by four."""


@pytest.fixture
def device(recorder: RecordingDriver) -> CudaDevice:
    return CudaDevice(fb.cuda.CudaContext(), owns_context=True)


def tensor_in(device: CudaDevice, **given: Any) -> Capsules:
    """A DLPack tensor of SHAPE in the stand-in's memory."""
    memory = device.buffer(1024, "memory")
    values = np.ctypeslib.as_array((ctypes.c_float * 64).from_address(memory.pointer)).reshape(SHAPE)
    tensor = Capsules(values, **given)
    tensor.memory = memory  # pyright: ignore[reportAttributeAccessIssue]  # or it is freed
    return tensor


def orders(recorder: RecordingDriver) -> list[tuple[int, int]]:
    """The pairs of streams of which the second was told to wait for the first, since the calls were cleared."""
    recorded = {given[0]: given[1] for name, given in recorder.calls if name == "cuEventRecord"}
    return [(recorded[given[1]], given[0]) for name, given in recorder.calls if name == "cuStreamWaitEvent"]


# Taken ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream, asked, waits", [(0, 1, []), (1, 1, []), (2, 1, [(1, 2)]), (0xABC, 0xABC, [])])
def test_the_producer_gets_the_protocol_s_number_of_the_stream(
    recorder: RecordingDriver, stream: int, asked: int, waits: list[tuple[int, int]]
) -> None:
    """0 is no number of the protocol; PyTorch refuses 2, the stream of each thread."""
    device = CudaDevice(fb.cuda.CudaContext(stream=stream))
    tensor = tensor_in(device)
    recorder.calls.clear()
    device.borrow(tensor)
    assert tensor.asked == [{"stream": asked, "max_version": (1, 0)}] and orders(recorder) == waits


def test_a_tensor_is_what_its_fields_say(device: CudaDevice) -> None:
    plain = device.borrow(tensor_in(device))
    moved, whole = tensor_in(device, changes={"byte_offset": 32}), tensor_in(device, changes={"strides": None})
    assert device.borrow(moved).pointer == moved.array.ctypes.data + 32
    assert device.borrow(whole).layout == plain.layout


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"lanes": 4}, r"its numbers are of DLPack's type 2 \(32 bits, 4 at once\); convert it to float32"),
        ({"code": 10, "bits": 8}, r"of DLPack's type 10 \(8 bits\)"),
        ({"code": 1, "bits": 4}, r"\(4 bits\)"),
        ({"bits": 24}, r"\(24 bits\)"),
        ({"device_type": 1}, "its tensor is on DLPack's device 1 after all"),
        ({"data": None}, "has its data at 0x0, offset 0, and there is no memory"),
        ({"strides": NEGATIVE}, "its strides are .* and kernels count upwards; bind a copy"),
    ],
)
def test_fields_that_nothing_reads_are_refused(device: CudaDevice, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(fb.BindingError, match=f"^a .* cannot be bound: .*{reason}"):
        device.borrow(tensor_in(device, changes=changes))


def test_a_capsule_of_a_later_major_version_is_refused(device: CudaDevice) -> None:
    class Newer(Capsules):
        def __dlpack__(self, **given: Any) -> Any:
            capsule = super().__dlpack__(**given)
            address = dlpack._pointer_in(id(capsule), b"dltensor_versioned")
            ctypes.c_uint32.from_address(address).value = 2  # the first field is the major version
            return capsule

    values = np.zeros(SHAPE, np.float32)
    held = sys.getrefcount(values)
    with pytest.raises(fb.BindingError, match="no unused DLPack tensor of version 0 or 1"):
        device.borrow(Newer(values))
    assert sys.getrefcount(values) == held, "it is given back"


@pytest.mark.parametrize("name", ["dltensor", "dltensor_versioned"])
def test_a_capsule_that_is_taken_is_taken_by_nobody_else_until_it_is_given_back(name: str) -> None:
    class Kept:
        """An object that always returns one capsule."""

        def __init__(self, values: np.ndarray) -> None:
            version = (1, 0) if name.endswith("versioned") else None
            self.capsule = values.__dlpack__(max_version=version)

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **_: Any) -> Any:
            return self.capsule

    values = np.arange(4, dtype=np.float32)
    given = Kept(values)
    taken = host_array(given)
    assert f'"used_{name}"' in repr(given.capsule) and taken.ctypes.data == values.ctypes.data
    with pytest.raises(fb.BindingError, match="no unused DLPack tensor"):
        host_array(given)
    with pytest.raises(ValueError, match="PyCapsule_GetPointer called with incorrect name"):
        np.from_dlpack(given)
    del taken
    assert f'"{name}"' in repr(given.capsule)
    whole = weakref.ref(values)
    del values
    assert whole() is not None
    del given
    assert whole() is None, "its destructor gave the memory back"


def test_producers_fail_in_ways_of_their_own(device: CudaDevice) -> None:
    class OnMeta:
        """An array that refuses as PyTorch's tensors on "meta" do."""

        def __dlpack_device__(self) -> tuple[int, int]:
            raise ValueError("Unknown device type meta")

        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError

    for ask in (is_on_host, device.borrow):
        with pytest.raises(
            fb.BindingError, match=r"a OnMeta cannot be bound: its __dlpack_device__ says: .* type meta"
        ):
            ask(OnMeta())
    with pytest.raises(fb.BindingError, match="a Capsules cannot be bound: its __dlpack__ says: 'no such'"):
        device.borrow(tensor_in(device, fails=KeyError("no such")))


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"typestr": "nonsense"}, "its __cuda_array_interface__ says: TypeError: data type 'nonsense'"),
        ({"data": None}, "its __cuda_array_interface__ says: TypeError"),
        ({"shape": (1, 4.5)}, "its __cuda_array_interface__ says: TypeError"),
        ({"strides": (4,)}, "it has 4 dimensions and 1 strides"),
        ({"stream": "mine"}, "its __cuda_array_interface__ says: TypeError"),
        ({"stream": 0}, "it names stream 0, which may be two streams: its library must say 1"),
    ],
)
def test_an_interface_that_is_no_such_says_why(device: CudaDevice, changes: dict[str, Any], reason: str) -> None:
    memory = device.buffer(256, "memory")
    with pytest.raises(fb.BindingError, match=f"^a .* cannot be bound: {reason}"):
        device.borrow(Foreign(**{"data": (memory.pointer, False), **changes}))


@pytest.mark.parametrize("changes, first", [({"version": 2}, LEGACY_STREAM), ({"stream": 7}, 7), ({}, None)])
def test_the_producer_s_stream_is_waited_for(
    device: CudaDevice, recorder: RecordingDriver, changes: dict[str, Any], first: int | None
) -> None:
    """Interfaces before version 3 could not name the stream."""
    memory = device.buffer(256, "memory")
    recorder.calls.clear()
    device.borrow(Foreign(data=(memory.pointer, False), **changes))
    assert orders(recorder) == ([] if first is None else [(first, device.context.stream)])
    made, destroyed = (recorder.names().count(name) for name in ("cuEventCreate", "cuEventDestroy_v2"))
    assert made == destroyed


def test_an_array_lives_as_long_as_what_stands_for_it(device: CudaDevice) -> None:
    memory = device.buffer(256, "memory")
    native = Foreign(data=(memory.pointer, False))
    gone, borrowed = weakref.ref(native), device.borrow(native)
    del native
    assert gone() is not None
    borrowed.release()
    assert gone() is None


def test_an_array_ends_where_its_memory_does(device: CudaDevice) -> None:
    memory = device.buffer(256, "memory")
    with pytest.raises(fb.BindingError, match="its 256 bytes end behind the memory"):
        device.borrow(Foreign(data=(memory.pointer + 16, False)))
    with pytest.raises(fb.BindingError, match="'nothing' of 0 bytes is impossible"):
        fb.cuda.CudaArray.empty((0, 4), label="nothing")


@pytest.mark.parametrize("offset, pitch", [(0, 12), (0, 18), (2, 16)])
def test_rows_that_overlap_or_begin_at_odd_addresses_are_no_picture(
    device: CudaDevice, offset: int, pitch: int
) -> None:
    memory = device.buffer(256, "memory")
    with pytest.raises(fb.BindingError, match="cannot be a picture: they overlap, or texels do not begin at mult"):
        fb.cuda.CudaImage(memory.pointer + offset, 4, 4, "rgba8", pitch=pitch, device=0, keep=memory)


def test_memory_of_another_gpu_is_refused(device: CudaDevice, recorder: RecordingDriver) -> None:
    memory = device.buffer(256, "memory")
    recorder.memory_is_on = 1
    ours = fb.cuda.CudaArray(memory.pointer, SHAPE, np.float32, device=1, keep=memory)
    assert ours.__cuda_array_interface__["stream"] is None, "the current context's is of another GPU"
    for native in (Foreign(data=(memory.pointer, False)), ours):
        with pytest.raises(fb.BindingError, match=r"lies on CUDA device 1, and the model runs on .* 0: apply the del"):
            device.borrow(native)


# Given out ------------------------------------------------------------------------------------------------------------


def test_a_contiguous_array_names_no_strides(device: CudaDevice) -> None:
    array = device.buffer(256, "memory")
    for strides in ((256, 64, 16, 4), (0, 64, 16, 4)):  # a dimension of 1 has any
        part = fb.cuda.CudaArray(array.pointer, SHAPE, np.float32, device=0, strides=strides, keep=array)
        assert part.__cuda_array_interface__["strides"] is None


def test_the_interface_names_a_stream_behind_all_work_on_any_thread(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext() as first:
        array, seen = fb.cuda.CudaArray.from_array(np.zeros(4, np.float32)), list[int]()
        with fb.cuda.CudaContext(stream=0) as second:
            recorder.calls.clear()
            assert array.__cuda_array_interface__["stream"] == LEGACY_STREAM, "0 is not allowed"
            assert orders(recorder) == [(first.stream, second.stream)]
        thread = threading.Thread(target=lambda: seen.append(array.__cuda_array_interface__["stream"]))
        thread.start()
        thread.join()
        assert seen == [first.stream], "no context is current there"
    assert array.__cuda_array_interface__["stream"] is None, "everything is done: the context has waited"


def test_consumers_and_copies_wait_for_all_contexts(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext() as one, fb.cuda.CudaContext() as other:
        array = fb.cuda.CudaArray.from_array(np.zeros(4, np.float32))
        recorder.calls.clear()
        array.__dlpack__(stream=0xABC)
        assert {*orders(recorder)} == {(one.stream, 0xABC), (other.stream, 0xABC)}
        recorder.calls.clear()
        array.__dlpack__(stream=-1, copy=True)
        names = recorder.names()
        assert {*orders(recorder)} in ({(one.stream, other.stream)}, {(other.stream, one.stream)})
        assert names.index("cuStreamWaitEvent") < names.index("cuMemcpyDtoDAsync_v2")


def test_what_a_consumer_refuses_is_freed_and_its_error_stays(recorder: RecordingDriver) -> None:
    """NumPy deletes the capsule while its error is set."""
    with fb.cuda.CudaContext():
        for version in (None, (1, 0)):
            array = fb.cuda.CudaArray.from_array(np.zeros(4, np.float32))

            class Versions:
                def __init__(self, array: fb.cuda.CudaArray, version: Any) -> None:
                    self.array, self.version = array, version

                def __dlpack_device__(self) -> tuple[int, int]:
                    return 1, 0

                def __dlpack__(self, **_: Any) -> Any:
                    return self.array.__dlpack__(max_version=self.version)

            given = Versions(array, version)
            with pytest.raises((BufferError, RuntimeError), match=r"[Uu]nsupported device"):
                np.from_dlpack(given)
            array.release()
            del array, given
            assert not recorder.memory


def test_numbers_of_another_byte_order_are_not_given_out(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        array = fb.cuda.CudaArray.from_array(np.zeros(4, ">f4"))
        with pytest.raises(BufferError, match="numbers of the type >f4 have no DLPack type"):
            array.__dlpack__()


# Contexts -------------------------------------------------------------------------------------------------------------


def test_a_stream_waits_for_itself_by_nature(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext(stream=0) as context:
        recorder.calls.clear()
        for same in (0, 1):
            context.wait_for_stream(same)
            context.hold_stream(same)
        assert not recorder.calls


def test_what_is_no_context_says_why(recorder: RecordingDriver) -> None:
    class Newer:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 1, 7

    for given, reason in (({"device": "cuda:0"}, "'cuda:0' is not the number"), ({"stream": Newer()}, "version 1 of")):
        with pytest.raises(fb.DeviceError, match=reason):
            fb.cuda.CudaContext(**given)  # pyright: ignore[reportArgumentType]
    recorder.attributes[75] = 6
    with pytest.raises(fb.DeviceError, match=r"has compute capability 6\.0, and 7\.0 is the oldest"):
        fb.cuda.CudaContext()
    assert recorder.retained == 0


@pytest.mark.parametrize("independent, flags", [(False, 0), (True, 1)])
def test_a_new_stream_waits_for_the_legacy_one_if_it_is_not_independent(
    recorder: RecordingDriver, independent: bool, flags: int
) -> None:
    with fb.cuda.CudaContext(independent=independent):
        (made,) = [given for name, given in recorder.calls if name == "cuStreamCreate"]
        assert made[1] == flags


def test_a_context_waits_for_its_stream_before_it_ends(recorder: RecordingDriver) -> None:
    context = fb.cuda.CudaContext()
    recorder.calls.clear()
    context.close()
    ends = [name for name in recorder.names() if name in ("cuStreamSynchronize", "cuStreamDestroy_v2")]
    assert ends == ["cuStreamSynchronize", "cuStreamDestroy_v2"]


def test_a_context_whose_gpu_was_lost_is_closed_all_the_same(
    recorder: RecordingDriver, caplog: pytest.LogCaptureFixture
) -> None:
    context = fb.cuda.CudaContext()
    recorder.failing["cuStreamSynchronize"] = 719
    context.close()
    assert context.closed and recorder.retained == 0 and "what it had to do is lost: waiting for" in caplog.text


@pytest.mark.parametrize(
    "status, advice", [(2, r"; .*torch.cuda.empty_cache\(\)"), (700, "; .*start it anew"), (1, "$")]
)
def test_errors_of_the_driver_say_what_to_do(recorder: RecordingDriver, status: int, advice: str) -> None:
    with fb.cuda.CudaContext():
        recorder.failing["cuMemAlloc_v2"] = status
        with pytest.raises(fb.DeviceError, match=f"^making room for .* failed: CUDA error {status}{advice}"):
            fb.cuda.CudaArray.empty((4,))


def test_a_fence_of_a_closed_context_says_so(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext() as context:
        fence = CudaDevice(context).fence()
    with pytest.raises(fb.DeviceError, match="is closed: make a new CudaContext"):
        fence.wait()
    with pytest.raises(fb.DeviceError, match="is closed: make a new CudaContext"):
        _ = fence.done
    del fence
    assert recorder.retained == 0
    assert recorder.names().count("cuEventDestroy_v2") == recorder.names().count("cuEventCreate")


def test_an_upload_is_done_before_the_caller_changes_its_array(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        recorder.calls.clear()
        fb.cuda.CudaArray.from_array(np.zeros(4, np.float32))
        names = recorder.names()
        assert "cuStreamSynchronize" in names[names.index("cuMemcpyHtoDAsync_v2") :]


def test_an_event_that_nobody_recorded_is_refused(device: CudaDevice) -> None:
    class Event:
        cuda_event = 0  # PyTorch makes it when it is recorded

    with pytest.raises(fb.BindingError, match="a Event that nobody has recorded: record it first"):
        device.wait_for([Event()])
