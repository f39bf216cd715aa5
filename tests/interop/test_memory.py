"""One surface for buffers and one for pictures, on every API; and the old signatures, which say what is new."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import framebind as fb
from support.recording_driver import RecordingDriver

VALUES = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
PIXELS = np.arange(60, dtype=np.uint8).reshape(5, 4, 3)
OLD = r"is deprecated since framebind 0\.2\.0 and goes away in 0\.3\.0: use "


def check_buffers(kind: type[fb.GlBuffer | fb.cl.ClBuffer | fb.cuda.CudaArray]) -> None:
    """Make, write and read a buffer, and provoke each of its errors."""
    buffer = kind.from_array(VALUES)
    assert (buffer.shape, buffer.dtype, buffer.nbytes) == ((2, 3, 4), np.int32, 96)
    assert buffer.read().dtype == np.int32 and np.array_equal(buffer.read(), VALUES)
    out = np.zeros(3, np.int32)
    assert buffer.read(out, offset=8, reason="numbers") is out and out.tolist() == [2, 3, 4]
    buffer.write([70.0], offset=4)  # eight bytes of a float64
    assert buffer.read().view(np.float64).ravel()[0] != 70 and buffer.read(np.empty(1), offset=4)[0] == 70
    empty = kind.empty((3, 5), np.float16, label="halves")
    empty.write(np.ones((3, 5), np.float16))
    assert empty.label == "halves" and empty.read().sum() == 15
    with pytest.raises(fb.BindingError, match=r"bytes 92 to 100 lie outside .*, which has 96"):
        buffer.write(np.zeros(2, np.float32), offset=92)
    with pytest.raises(fb.BindingError, match=r"bytes 8 to 104 lie outside"):
        buffer.read(offset=8)
    with pytest.raises(fb.BindingError, match="into a writable C-contiguous array only"):
        buffer.read(np.zeros((4, 4), np.int32)[:, :2])
    with pytest.raises(fb.BindingError, match="has a mask"):
        kind.from_array(np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(fb.BindingError, match="'nothing' of 0 bytes is impossible"):
        kind.empty((0, 4), label="nothing")
    buffer.release()
    with pytest.raises(fb.BindingError, match="is released: make a new one"):
        buffer.read()


def check_ring(kind: type[fb.GlBuffer | fb.cl.ClBuffer | fb.cuda.CudaArray]) -> None:
    """Take copies later than they were started, and provoke each error of a ring."""
    buffer = kind.from_array(VALUES)
    fb.transfers.reset()
    with buffer.read_ring(reason="rows") as ring:
        for number in range(3):
            while not len(ring):
                ring.push()
            buffer.write(VALUES + number + 1)
            ring.push()
            taken = ring.take()
            assert taken is not None and np.array_equal(taken, VALUES + number), "not the content of a later frame"
        out = np.zeros(2, np.int32)
        assert ring.take(out) is out and out.tolist() == [3, 4] and len(ring) == 0
        assert fb.transfers.by_reason["download", "rows"].bytes == 4 * 96
        with pytest.raises(fb.BindingError, match=r"no copy of .* is on its way: push\(\) starts one"):
            ring.take()
        ring.push()
        ring.push()
        with pytest.raises(fb.BindingError, match=r"2 copies of .* are on their way: take\(\) one first"):
            ring.push()
        with pytest.raises(fb.BindingError, match="into a writable C-contiguous array only"):
            ring.take(np.zeros((4, 4), np.int32)[:, :2])
        with pytest.raises(fb.BindingError, match=r"bytes 0 to 400 lie outside .*, which has 96"):
            ring.take(np.zeros(100, np.int32))
        with fb.transfer_guard("disallow"):
            assert ring.take(out, wait=True) is out and out.tolist() == [3, 4], "it was counted when it began"
            with pytest.raises(fb.TransferError, match=r"download of 96 bytes .* rows"):
                ring.push()
        ring.clear()
        assert len(ring) == 0
        ring.push()
        while ring.take(out, wait=False) is None:
            pass
        ring.push()
        assert repr(ring).endswith(": 1 of 2 on their way>")
    with pytest.raises(fb.BindingError, match=r"the ring of .* is released: make a new one"):
        ring.push()
    with pytest.raises(fb.BindingError, match="give at least 1 slot"):
        buffer.read_ring(0)
    ring = buffer.read_ring(1)
    buffer.release()
    with pytest.raises(fb.BindingError, match="is released: make a new one"):
        ring.push()
    ring.release()


def check_pictures(kind: type[fb.GlTexture | fb.cl.ClImage | fb.cuda.CudaImage]) -> None:
    """Make, write and read a picture, and provoke each of its errors."""
    picture = kind.from_array(PIXELS)
    assert (picture.size, picture.format) == ((4, 5), "rgba8")
    assert np.array_equal(picture.read()[..., :3], PIXELS) and picture.read()[..., 3].min() == 255
    out = np.zeros((5, 4, 4), np.uint8)
    assert picture.read(out, reason="a look") is out and np.array_equal(out, picture.read())
    picture.write(PIXELS[::-1])
    assert np.array_equal(picture.read()[..., :3], PIXELS[::-1])
    grey = kind.empty(4, 5, "r32f", label="grey")
    grey.write(np.full((5, 4), 0.5, np.float16))
    assert grey.label == "grey" and grey.read().shape == (5, 4, 1) and grey.read().max() == 0.5
    with pytest.raises(fb.BindingError, match="type float64 makes no texture: it takes HxW, "):
        kind.from_array(np.zeros((5, 4, 3)))
    with pytest.raises(fb.BindingError, match=r"takes an array .*\(5, 4, 4\) and uint8, not \(4, 4, 4\) of uint8"):
        picture.write(np.zeros((4, 4, 4), np.uint8))
    with pytest.raises(fb.BindingError, match=r"fills an array .*\(5, 4, 4\) and uint8, not \(5, 4, 4\) of float32"):
        picture.read(np.zeros((5, 4, 4), np.float32))
    with pytest.raises(fb.BindingError, match="'rgb565'"):
        kind.empty(4, 5, "rgb565")
    with pytest.raises(fb.BindingError, match="0 x 5 texels"):
        kind.empty(0, 5)
    picture.release()
    with pytest.raises(fb.BindingError, match="is released: make a new one"):
        picture.write(PIXELS)


def check_old(old: Callable[[], Any], new: str) -> Any:
    """Call something old: it works, and its one warning names the new form and this file."""
    with pytest.warns(DeprecationWarning, match=OLD + re.escape(new)) as warned:
        result = old()
    assert [warning.filename for warning in warned] == [__file__]
    return result


def test_gl(context: fb.GlContext) -> None:
    check_buffers(fb.GlBuffer)
    check_ring(fb.GlBuffer)
    check_pictures(fb.GlTexture)
    before = context.objects.live["sync"]
    ring = fb.GlBuffer(16).read_ring()
    ring.push()
    del ring
    context.objects.drain()
    assert context.objects.live["sync"] == before, "nobody released the ring"


def test_cl(cl_context: fb.cl.ClContext) -> None:
    check_buffers(fb.cl.ClBuffer)
    check_ring(fb.cl.ClBuffer)
    check_pictures(fb.cl.ClImage)


def test_cuda(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        check_buffers(fb.cuda.CudaArray)
        check_ring(fb.cuda.CudaArray)
        assert not recorder.pinned
        check_pictures(fb.cuda.CudaImage)


def test_memory_of_another_context_is_refused(cl_context: fb.cl.ClContext) -> None:
    buffer = fb.cl.ClBuffer.from_array(VALUES)
    with fb.cl.ClContext(cl_context.device), pytest.raises(fb.DeviceError, match=r"to another context than .*, which"):
        buffer.read()


def test_an_array_with_gaps_is_read_without_them(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        whole = fb.cuda.CudaArray.from_array(VALUES)
        part = fb.cuda.CudaArray(whole.pointer, (2, 3, 2), np.int32, device=0, strides=(48, 16, 4), keep=whole)
        assert np.array_equal(part.read(), VALUES[..., :2])
        assert np.array_equal(part.read(np.empty(6, np.int32)), VALUES.ravel()[:6]), "bytes in the order of memory"
        with pytest.raises(fb.BindingError, match=r"has gaps, .*: use read\(\)"):
            part.read_ring()


def test_a_copy_of_cuda_is_not_waited_for_before_it_is_taken(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext(), fb.cuda.CudaArray.from_array(VALUES).read_ring() as ring:
        recorder.calls.clear()
        ring.push()
        assert recorder.names() == ["cuMemcpyDtoHAsync_v2", "cuEventRecord"]
        recorder.done = False
        assert ring.take(wait=False) is None
        recorder.calls.clear()
        ring.take()
        assert "cuEventSynchronize" in recorder.names() and "cuStreamSynchronize" not in recorder.names()
        recorder.failing["cuMemcpyDtoHAsync_v2"] = 700
        with pytest.raises(fb.DeviceError, match=r"reading 96 bytes in .* failed: CUDA error 700"):
            ring.push()
        recorder.failing.clear()
        ring.push()
        assert len(ring) == 1


def test_old_signatures_of_gl(context: fb.GlContext) -> None:
    buffer, numbers = fb.GlBuffer(8), np.array([1, 2], np.int32)
    check_old(lambda: buffer.write(numbers, "numbers", 0), "write(array, offset=..., reason=...)")  # pyright: ignore
    assert check_old(lambda: buffer.read(np.int32, "numbers"), "read(out, ").tolist() == [1, 2]  # pyright: ignore
    assert check_old(lambda: buffer.read(dtype=np.uint16), "read(out, ").tolist() == [1, 0, 2, 0]  # pyright: ignore
    out = np.zeros(1, np.int32)
    check_old(lambda: buffer.read_into(out, "numbers", 4), "read(out, offset=..., reason=...)")
    assert out == [2]
    texture = fb.GlTexture(4, 5)
    check_old(lambda: texture.write(PIXELS, "pixels"), "write(array, reason=...)")  # pyright: ignore
    assert check_old(lambda: texture.read("pixels"), "read(out, reason=...)").shape == (5, 4, 4)  # pyright: ignore


def test_old_signatures_of_cl(cl_context: fb.cl.ClContext) -> None:
    queue, out = cl_context.queue, np.zeros((5, 4, 4), np.uint8)
    buffer, image = fb.cl.ClBuffer.from_array(np.zeros(80, np.uint8)), fb.cl.ClImage.from_array(PIXELS)
    ones = np.ones(4, np.uint8)
    check_old(lambda: buffer.write(queue, ones, "ones", 4), "write(array, offset=..., reason=...)")  # pyright: ignore
    check_old(lambda: buffer.write(queue, array=ones, reason="ones"), "write(array, ")  # pyright: ignore
    check_old(lambda: buffer.read(queue, out, "ones"), "read(out, offset=..., reason=...)")  # pyright: ignore
    assert out.ravel()[:9].tolist() == [1] * 8 + [0]
    check_old(lambda: image.write(queue, out, "pixels"), "write(array, reason=...)")  # pyright: ignore
    check_old(lambda: image.read(queue, array=out, reason="pixels"), "read(out, reason=...)")  # pyright: ignore


def test_old_signatures_of_cuda(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext() as context:
        make, new = fb.cuda.CudaArray.empty, "empty(shape, dtype) in the current context"
        array = check_old(lambda: make(context, (5, 4, 4), np.uint8, "an array"), new)  # pyright: ignore
        assert (array.shape, array.label) == ((5, 4, 4), "an array")
        assert check_old(lambda: make(context=context, shape=(3,), dtype="f4"), new).nbytes == 12  # pyright: ignore
        out = np.ones((5, 4, 4), np.uint8)
        check_old(lambda: array.write(context, out, "ones"), "write(array, offset=..., reason=...)")
        check_old(lambda: array.read(context, out, "ones", 0), "read(out, offset=..., reason=...)")
        new = "empty(width, height, format) in the current context"
        image = check_old(lambda: fb.cuda.CudaImage.empty(context, 4, 5, "rgba8"), new)  # pyright: ignore
        check_old(lambda: image.write(context, out, "pixels"), "write(array, reason=...)")
        check_old(lambda: image.read(context, out, "pixels"), "read(out, reason=...)")
