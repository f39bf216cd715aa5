"""Devices that are opened by two threads at once, or cannot be made; what a program or a source holds when it fails."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

import framebind as fb
from framebind.interop.frames.read.upload import UploadRing
from framebind.interop.frames.read.yuv_to_rgb import Layout
from framebind.interop.gl.compute.device import GlDevice
from framebind.interop.gl.compute.one_dispatch import GlProgram
from framebind.interop.record.one_dispatch import merge
from framebind.interop.record.shared_devices import open_in
from support.device_steps import SHAPE, chain

GlContext = fb.GlContext


class Context:
    """A context, of which one is current."""

    now: Any = None

    def __init__(self) -> None:
        self.closed, Context.now = False, self

    @staticmethod
    def is_current() -> bool:
        return Context.now is not None

    @staticmethod
    def current() -> Any:
        return Context.now

    def close(self) -> None:
        self.closed, Context.now = True, None


class Device:
    closed = needs_entering = False
    users = 0

    def __init__(self, context: Context, *, owns_context: bool = False) -> None:
        self.context = context


def opened(make_device: Any) -> Any:
    api: Any = Context
    return open_in(api, api, make_device)


def test_two_threads_that_open_one_context_share_its_device() -> None:
    held, second_came, found = Context(), threading.Event(), list[Any]()

    def make(context: Context) -> Device:
        if threading.current_thread() is first:
            second_came.wait(0.2)  # it comes only if nobody keeps it away
        else:
            second_came.set()
        return Device(context)

    first, second = (threading.Thread(target=lambda: found.append(opened(make))) for _ in range(2))
    first.start()
    second.start()
    first.join()
    second.join()
    held.close()
    assert found[0] is found[1] and found[0].users == 2


def test_a_device_that_cannot_be_made_leaves_no_context() -> None:
    made = list[Context]()

    def fails(context: Context, *, owns_context: bool) -> Device:
        made.append(context)
        raise fb.DeviceError("it has no kernels")

    with pytest.raises(fb.DeviceError, match="it has no kernels"):
        opened(fails)
    assert made[0].closed and not Context.is_current()


def programs(context: GlContext) -> list[int]:
    context.objects.drain()
    return [name for name in range(1, 300) if context.gl.glIsProgram(name)]


@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
def test_a_program_that_is_given_up_while_it_is_linked_is_deleted(gpu: GlDevice) -> None:
    steps, _ = chain(gpu, SHAPE)
    before = programs(gpu.context)
    made = GlProgram(gpu.context, gpu._barrier, merge(steps, gpu.traits.local_bytes))
    made.begin(None)
    made.release()
    assert programs(gpu.context) == before


def test_an_upload_ring_that_cannot_be_made_leaves_no_object(context: GlContext) -> None:
    gc.collect()
    context.objects.drain()
    before = dict(context.objects.live)
    broken = Layout("broken", (8, 8, 3), (8, 8), 0x8051, 0x1907, "vec3 fetch(ivec2 at) { return nothing; }")
    with pytest.raises(fb.KernelError, match="broken to rgba"):
        UploadRing(context, 8, 8, layout=broken)
    gc.collect()
    context.objects.drain()
    assert +context.objects.live == +type(context.objects.live)(before)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("a" * 5000, "'a+' cannot be opened: File name too long"),
        ("", "there is no file or folder ''"),
        ("a\0b", "there is no file or folder 'a\0b'"),
        ("synthetic:" + "a" * 5000, "cannot be read: File name too long"),
        (-1, "there is no camera -1: cameras are numbered from 0"),
        ("99999999999999", "there is no camera 99999999999999: cameras are numbered from 0"),
    ],
)
def test_a_source_that_cannot_be_is_an_error_of_ours(source: str | int, said: str) -> None:
    with pytest.raises(fb.SourceError, match=said):
        fb.open_source(source)
