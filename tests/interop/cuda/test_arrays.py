"""CUDA arrays taken from and given to other libraries, against a recording driver: pointers, streams, lifetimes."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop import dlpack
from framebind.interop.cuda.compute.device import CudaDevice
from support.recording_driver import Capsules, RecordingDriver
from support.tiny_models import chain

SHAPE = (1, 4, 4, 4)


@pytest.fixture
def device(recorder: RecordingDriver) -> CudaDevice:
    return CudaDevice(fb.cuda.CudaContext(), owns_context=True)


def numbers_at(array: Any) -> np.ndarray:
    """The memory of an array of the stand-in, which is the CPU's."""
    return np.ctypeslib.as_array((ctypes.c_float * 64).from_address(array.pointer)).reshape(SHAPE)


# Taken ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refuses", [(), ("max_version",)])
def test_a_dlpack_tensor_is_bound_in_place_and_kept_alive(
    device: CudaDevice, recorder: RecordingDriver, refuses: tuple[str, ...]
) -> None:
    memory = device.buffer(512, "memory")
    values = numbers_at(memory)
    tensor = Capsules(values, *refuses)
    held = sys.getrefcount(values)
    borrowed = device.borrow(tensor)
    assert borrowed.pointer == memory.pointer and borrowed.nbytes == 256
    assert tensor.asked[-1]["stream"] == device.context.stream, "the producer lets this stream wait"
    assert "cuStreamWaitEvent" not in recorder.names()
    assert sys.getrefcount(values) > held
    borrowed.release()
    gc.collect()
    assert sys.getrefcount(values) == held


@pytest.mark.parametrize("refusal", [TypeError, NotImplementedError])
def test_a_producer_without_streams_orders_before_the_legacy_stream(
    refusal: type[Exception], device: CudaDevice, recorder: RecordingDriver
) -> None:
    """Old ones do not know the keyword; PyAV's frames of NVDEC say that it is not implemented."""
    memory = device.buffer(512, "memory")
    tensor = Capsules(numbers_at(memory), "max_version", "stream", refusal=refusal)
    recorder.calls.clear()
    device.borrow(tensor)
    assert tensor.asked[-1] == {}
    assert ("cuEventRecord", dlpack.LEGACY_STREAM) in [(name, given[-1]) for name, given in recorder.calls]
    (waits,) = [given for name, given in recorder.calls if name == "cuStreamWaitEvent"]
    assert waits[0] == device.context.stream


def test_what_the_layout_says_is_what_the_tensor_is(device: CudaDevice) -> None:
    memory = device.buffer(512, "memory")
    values = numbers_at(memory)
    seen = device.borrow(Capsules(values.transpose(0, 3, 1, 2)[:, :2]))
    assert isinstance(seen, fb.cuda.CudaArray) and seen.layout is not None
    assert (seen.layout.shape, seen.layout.strides[1:], seen.nbytes) == ((1, 2, 4, 4), (1, 16, 4), 4 * 62)
    values.flags.writeable = False
    assert device.borrow(Capsules(values)).read_only


@pytest.mark.parametrize(
    "tensor, reason",
    [
        (Capsules(np.zeros(SHAPE, np.float32)), "is no memory of CUDA, or was freed"),
        (
            Capsules(np.zeros(SHAPE, np.float32), place=(2, 1)),
            "lies on CUDA device 1, and the model runs on device 0: ",
        ),
        (Capsules(np.zeros(SHAPE), fails=RuntimeError("requires grad")), "its __dlpack__ says: requires grad"),
        (Capsules(np.zeros(SHAPE), fails=BufferError("no stream")), "its __dlpack__ says: no stream"),
        (Capsules(np.zeros(SHAPE), fails=TypeError("odd")), "its __dlpack__ says: odd"),
        (np.zeros(SHAPE, np.float32), "nothing that CUDA reads"),
    ],
)
def test_a_tensor_that_cannot_be_taken_says_why(device: CudaDevice, tensor: Any, reason: str) -> None:
    with pytest.raises(fb.BindingError, match=reason):
        device.borrow(tensor)
    assert device.borrow(device.buffer(16, "another")).nbytes == 16


def test_numbers_unknown_to_numpy_and_used_capsules_are_refused(device: CudaDevice) -> None:
    class Bfloat(Capsules):
        def __dlpack__(self, **given: Any) -> Any:
            capsule = super().__dlpack__()
            tensor, _ = dlpack._unpacked(capsule, "it")
            tensor.code = 4
            return capsule

    with pytest.raises(
        fb.BindingError, match=r"its numbers are bfloat16 \(16 bits\); convert it to float32 or float16"
    ):
        device.borrow(Bfloat(np.zeros(SHAPE, np.float16)))

    class Used(Capsules):
        def __dlpack__(self, **given: Any) -> Any:
            return np.zeros(1)

    with pytest.raises(fb.BindingError, match=r"no unused DLPack tensor of version 0 or 1"):
        device.borrow(Used(np.zeros(SHAPE, np.float32)))


# Given out -----------------------------------------------------------------------------------------------------------


class AsCpu:
    """An array of the stand-in, which NumPy takes because its capsule says that it is the CPU's."""

    def __init__(self, array: Any, **given: Any) -> None:
        self.capsule = array.__dlpack__(**given)
        tensor, _ = dlpack._unpacked(self.capsule, "it")
        tensor.device_type = 1

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **given: Any) -> Any:
        return self.capsule


def name_of(capsule: Any) -> str:
    return repr(capsule).split('"')[1]


@pytest.mark.parametrize("version, name", [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 1), "dltensor_versioned")])
def test_the_memory_lives_as_long_as_somebody_has_it(recorder: RecordingDriver, version: Any, name: str) -> None:
    with fb.cuda.CudaContext():
        values = np.arange(64, dtype=np.float32).reshape(SHAPE)
        array = fb.cuda.CudaArray.from_array(values)
        assert array.__dlpack_device__() == (2, 0)
        given = AsCpu(array, max_version=version)
        assert name_of(given.capsule) == name
        taken = np.from_dlpack(given)
        assert name_of(given.capsule) == f"used_{name}", "a consumer says so"
        assert taken.ctypes.data == array.pointer
        array.release()
        del array, given
        gc.collect()
        np.testing.assert_array_equal(taken, values)
        assert len(recorder.memory) == 1, "the consumer holds it"
        del taken
        gc.collect()
        assert not recorder.memory
        unused = fb.cuda.CudaArray.from_array(values).__dlpack__(max_version=version)
        assert len(recorder.memory) == 1, "a capsule that nobody took holds it too"
        del unused
        gc.collect()
        assert not recorder.memory


def test_strides_flags_and_copies_are_given_out(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext() as context:
        whole = fb.cuda.CudaArray.from_array(np.arange(64, dtype=np.float32).reshape(SHAPE))
        part = fb.cuda.CudaArray(
            whole.pointer + 4, (4, 4, 2), np.float32, device=0, strides=(64, 16, 4), keep=whole, read_only=True
        )
        taken = np.from_dlpack(AsCpu(part, max_version=(1, 0)))
        assert taken.strides == (64, 16, 4) and not taken.flags.writeable
        described = part.__cuda_array_interface__
        assert described["strides"] == (64, 16, 4) and described["data"] == (part.pointer, True)
        assert described["stream"] == context.stream
        with pytest.raises(BufferError, match="is read-only, which a DLPack tensor without a version cannot say"):
            part.__dlpack__()
        recorder.calls.clear()
        copied = part.__dlpack__(copy=True, max_version=(1, 0))
        assert "cuMemcpyDtoDAsync_v2" in recorder.names() and fb.transfers.bytes == 256, "not by the CPU"
        tensor, read_only = dlpack._unpacked(copied, "it")
        assert tensor.data != part.pointer and not read_only and tuple(tensor.strides[:3]) == (16, 4, 1)
        del taken, copied


@pytest.mark.parametrize("stream, waits", [(None, 1), (1, 1), (2, 2), (0x5EED0, 0x5EED0), (-1, 0)])
def test_the_consumer_s_stream_waits_for_ours(recorder: RecordingDriver, stream: Any, waits: int) -> None:
    with fb.cuda.CudaContext() as context:
        array = fb.cuda.CudaArray.from_array(np.zeros(4, np.float32))
        recorder.calls.clear()
        array.__dlpack__(stream=stream)
        ordered = [(name, given) for name, given in recorder.calls if name in ("cuEventRecord", "cuStreamWaitEvent")]
        if waits:
            assert [name for name, _ in ordered] == ["cuEventRecord", "cuStreamWaitEvent"]
            assert (ordered[0][1][1], ordered[1][1][0]) == (context.stream, waits)
        else:
            assert not ordered


def test_what_is_not_given_out_says_why(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        array = fb.cuda.CudaArray.from_array(np.zeros(4, np.float32))
        with pytest.raises(BufferError, match="stream 0 may be two streams"):
            array.__dlpack__(stream=0)
        with pytest.raises(BufferError, match="not given out on DLPack's device"):
            array.__dlpack__(dl_device=(1, 0))
        with pytest.raises(BufferError, match=r"numbers of the type datetime64\[s\] have no DLPack type"):
            fb.cuda.CudaArray(array.pointer, (2,), "M8[s]", device=0, keep=array).__dlpack__()
        array.release()
        with pytest.raises(BufferError, match="is released"):
            array.__dlpack__()


# Bound to a model ----------------------------------------------------------------------------------------------------


def ready() -> tuple[fb.Interpreter, fb.GpuDelegate]:
    delegate = fb.GpuDelegate("cuda")
    interpreter = fb.Interpreter(model_content=chain("TANH", shape=SHAPE), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    delegate.set_allow_buffer_handle_output(True)
    return interpreter, delegate


def test_memory_that_its_owner_frees_is_not_run_on(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        interpreter, delegate = ready()
        good = fb.cuda.CudaArray.from_array(np.zeros(SHAPE, np.float32))
        delegate.bind_buffer_to_tensor(good, 0)
        delegate.bind_buffer_to_tensor(fb.cuda.CudaArray.from_array(np.zeros(SHAPE, np.float32)), 1)
        interpreter.invoke()
        owned = fb.cuda.CudaArray.empty(SHAPE)
        delegate.bind_buffer_to_tensor(fb.cuda.CudaArray(owned.pointer, SHAPE, np.float32, device=0), 0)
        interpreter.invoke()
        owned.release()
        gc.collect()
        recorder.calls.clear()
        with pytest.raises(fb.BindingError, match="was freed by its owner: bind memory that lives"):
            interpreter.invoke()
        assert not [name for name in recorder.names() if "Launch" in name], "nothing ran"
        delegate.bind_buffer_to_tensor(good, 0)
        interpreter.invoke()
        delegate.close()


def test_a_result_is_read_from_where_it_was_written(recorder: RecordingDriver) -> None:
    """An output that is exchanged is another one from the next run on; one that is released is refused at once."""
    with fb.cuda.CudaContext():
        interpreter, delegate = ready()
        before, after, gone = (fb.cuda.CudaArray.from_array(np.zeros(SHAPE, np.float32)) for _ in range(3))
        gone.release()
        delegate.bind_buffer_to_tensor(before, 1)
        interpreter.invoke()
        with pytest.raises(fb.BindingError, match="it is released; bind one that is alive"):
            delegate.bind_buffer_to_tensor(gone, 1)
        delegate.bind_buffer_to_tensor(after, 1)
        for array in (before, after):
            recorder.calls.clear()
            delegate.ensure_tensor_data_is_readable(1)
            assert [given[1] for name, given in recorder.calls if name == "cuMemcpyDtoHAsync_v2"] == [array.pointer]
            interpreter.invoke()
        delegate.close()


def test_refused_arrays_leave_what_was_bound(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        interpreter, delegate = ready()
        inside, outside = (fb.cuda.CudaArray.from_array(np.zeros(SHAPE, np.float32)) for _ in range(2))
        delegate.bind_buffer_to_tensor(inside, 0)
        delegate.bind_buffer_to_tensor(outside, 1)
        interpreter.invoke()
        place: dict[str, Any] = {"device": 0, "keep": outside}
        wrong = [
            (fb.cuda.CudaArray(outside.pointer, SHAPE, np.float32, read_only=True, **place), "it is read-only"),
            (
                fb.cuda.CudaArray(outside.pointer, SHAPE, np.float32, strides=(0, 0, 16, 4), **place),
                "elements share memory",
            ),
            (fb.cuda.CudaArray(outside.pointer, SHAPE, np.int32, **place), "its numbers are int32"),
            (fb.cuda.CudaArray(outside.pointer, (1, 4, 4, 3), np.float32, **place), r"its shape is \(1, 4, 4, 3\)"),
        ]
        for array, reason in wrong:
            with pytest.raises(fb.BindingError, match=f"^tensor 1 .* cannot be bound .*{reason}"):
                delegate.bind_buffer_to_tensor(array, 1)
            recorder.calls.clear()
            interpreter.invoke()
            launch = next(given for name, given in recorder.calls if "Launch" in name)
            pointers = [ctypes.c_uint64.from_address(launch[9][number]).value for number in (0, 1)]
            assert sorted(pointers) == sorted([inside.pointer, outside.pointer])
        with pytest.raises(fb.BindingError, match="is memory of CUDA device 0, not 1"):
            fb.cuda.CudaArray(outside.pointer, SHAPE, np.float32, device=1)
        delegate.close()


def test_an_input_is_no_output_whichever_was_bound_last(recorder: RecordingDriver) -> None:
    """Each frame of a batch is refused."""
    with fb.cuda.CudaContext():
        interpreter, delegate = ready()
        first, second = (fb.cuda.CudaArray.from_array(np.zeros((2, *SHAPE[1:]), np.float32)) for _ in range(2))

        def frame(array: fb.cuda.CudaArray, number: int) -> fb.cuda.CudaArray:
            return fb.cuda.CudaArray(array.pointer + 256 * number, SHAPE, np.float32, device=0, keep=array)

        delegate.bind_buffer_to_tensor(frame(second, 1), 1)
        for source, is_free in ((first, True), (second, False), (first, True)):
            delegate.bind_buffer_to_tensor(frame(source, 1), 0)
            if is_free:
                interpreter.invoke()
            else:
                with pytest.raises(fb.BindingError, match="bind another object to one of them"):
                    interpreter.invoke()
        interpreter.resize_tensor_input(0, (2, *SHAPE[1:]))
        interpreter.allocate_tensors()
        delegate.bind_buffer_to_tensor(second, 1)
        for source, is_free in ((first, True), (second, False), (first, True)):
            delegate.bind_buffer_to_tensor([frame(first, 0), frame(source, 1)], 0)
            if is_free:
                interpreter.invoke()
            else:
                with pytest.raises(fb.BindingError, match="bind another object to one of them"):
                    interpreter.invoke()
        delegate.close()


def test_parts_of_one_array_are_an_input_and_an_output_if_they_share_no_element(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        interpreter, delegate = ready()
        whole = fb.cuda.CudaArray.from_array(np.zeros((4, 8, 4), np.float32))

        def part(first: int) -> fb.cuda.CudaArray:
            """Four of the eight columns."""
            pointer = whole.pointer + first * 16
            return fb.cuda.CudaArray(pointer, (4, 4, 4), np.float32, device=0, strides=(128, 16, 4), keep=whole)

        delegate.bind_buffer_to_tensor(part(0), 0)
        delegate.bind_buffer_to_tensor(part(4), 1)
        interpreter.invoke()
        delegate.bind_buffer_to_tensor(part(3), 1)
        with pytest.raises(fb.BindingError, match="bind another object to one of them"):
            interpreter.invoke()
        delegate.close()
