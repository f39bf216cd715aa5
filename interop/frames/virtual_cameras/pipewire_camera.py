"""A camera of PipeWire: a node "Video/Source" of this user's daemon, which any program of the user may open."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import threading
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...errors import SourceError
from ...gl.texture import GlTexture
from ...processes.dma_buf_slots import DmaBufSlots
from ...uncopied import Uncopied
from . import libpipewire as pw
from . import pods
from .buffer_users import BufferUsers
from .camera import FrameLayout, PixelFormat, matrix_of, padded
from .own_buffers import OwnBuffers

log = logging.getLogger("framebind.camera")

_FORMATS: tuple[PixelFormat, ...] = ("nv12", "yuy2")
"""The offered formats, the preferred one first."""
_RETRY_SECONDS, _KEPT_SECONDS = 0.5, 2.0
"""Seconds before another attempt to reach the daemon, and of frames that are lost in a row before buffers are taken
from programs that keep them.
"""


class _Lock:
    """The lock of a loop of PipeWire. A Ctrl-C that comes while it is waited for leaves it free: ``close`` needs it."""

    def __init__(self, library: Any, loop: int) -> None:
        self._library, self._loop = library, loop

    def __enter__(self) -> None:
        try:
            self._library.pw_thread_loop_lock(self._loop)
        except BaseException:  # Python raises it when the call has ended, and the lock is taken
            self._library.pw_thread_loop_unlock(self._loop)
            raise

    def __exit__(self, *exception: object) -> None:
        self._library.pw_thread_loop_unlock(self._loop)


class PipewireCamera(Uncopied):
    """A camera of PipeWire with a name that people see. Implements VirtualCamera.

    PipeWire's own thread calls this one's callbacks, with the loop's lock held; all other calls take that lock. If the
    daemon goes away, one sentence is logged, and the camera comes back when a daemon does.

    Raises SourceError if libpipewire or the daemon is missing.
    """

    def __init__(self, name: str, size: tuple[int, int], fps: float, slots: DmaBufSlots | None = None) -> None:
        """``size`` is (width, height) of the pictures, ``fps`` their usual number per second.

        ``slots`` are textures of RGBA8, which are the camera's from now on: programs may take them as DMA-BUFs.
        """
        self._library, self._name, self._size = pw.load_pipewire(), name, size
        self._rate = Fraction(fps).limit_denominator(1001).as_integer_ratio()
        self._offers = [pods.offered_format(padded(size), self._rate, matrix_of(size), _FORMATS)]
        self.layout = FrameLayout(_FORMATS[0], size)
        self._own, self._is_textured = OwnBuffers(slots) if slots is not None else None, False
        if self._own is not None:
            self._offers.insert(0, pods.offered_dma_buf(size, self._rate, self._own.modifier))
        self._users = BufferUsers(name, round(_KEPT_SECONDS * fps))
        self._watched, self._stream = threading.Event(), 0
        self._sequence, self._last_time, self._retry = 0, 0, cast("threading.Timer | None", None)
        self._is_closed = self._is_lost = False
        self._events = pw.StreamEvents(
            state_changed=pw.StateChanged(self._state_changed), param_changed=pw.ParamChanged(self._param_changed),
            add_buffer=pw.OfBuffer(self._add_buffer), remove_buffer=pw.OfBuffer(self._remove_buffer),
        )  # fmt: skip
        self._loop = self._library.pw_thread_loop_new(b"framebind", None)
        if not self._loop or self._library.pw_thread_loop_start(self._loop) < 0:
            if self._own is not None:
                self._own.close()
            raise SourceError(f"the camera '{name}' gets no thread of PipeWire's: are too many files open?")
        self._lock = _Lock(self._library, self._loop)
        with self._lock:
            error = self._connect()
        if error:
            self.close()
            raise SourceError(
                f"the camera '{name}' needs PipeWire, and no daemon answers ({os.strerror(error)}): start it, "
                "for instance by 'systemctl --user start pipewire'"
            )

    @property
    def is_watched(self) -> bool:
        """Whether a program takes its frames now."""
        return self._watched.is_set()

    @property
    def node(self) -> int | None:
        """PipeWire's number of the camera, by which tools link it; None while there is no daemon."""
        with self._lock:
            number = self._library.pw_stream_get_node_id(self._stream) if self._stream else pw.ANY_NODE
        return None if number == pw.ANY_NODE else number

    def wait(self, seconds: float) -> bool:
        """Wait until a program takes its frames, at most so long. Returns whether one does."""
        return self._watched.wait(seconds)

    def offer_no_textures(self) -> None:
        """Offer memory of the host only, as pictures turn out to be no textures. Who took a texture is cut off."""
        if self._own is None:
            return
        with self._lock:
            self._disconnect()
            own, self._own, self._is_textured = self._own, None, False
            del self._offers[0]
            if self._connect():
                self._retry_later()
        own.close()

    @property
    def takes_textures(self) -> bool:
        """Whether the programs that watch have agreed on DMA-BUFs."""
        return self._is_textured

    def show(self, texture: GlTexture, captured: float) -> bool:
        """Hand over a texture, by a copy on the GPU, if this ``takes_textures``. Returns whether it does."""
        if not self._is_textured:
            return False
        with self._lock:
            buffer = self._free_buffer() if self._own is not None and self._is_textured else None
            if buffer is None or self._own is None:
                return True
            spa = buffer.contents.buffer.contents
            try:
                self._own.copy(texture, buffer)
            finally:
                self._hand_over(buffer, spa, captured)
        return True

    @contextlib.contextmanager
    def frame(self, captured: float) -> Iterator[npt.NDArray[np.uint8] | None]:
        """Give the memory of the next frame, which the watching programs have mapped, too; hand it over at the end.

        None if all buffers are with programs, as those of one that stalls.
        """
        with self._lock:  # a program that leaves takes its buffers along: not before this frame is in one
            buffer = None if self._is_textured else self._free_buffer()
            if buffer is None:
                yield None
                return
            spa, layout = buffer.contents.buffer.contents, self.layout
            chunk = spa.datas[0].chunk.contents
            chunk.offset, chunk.size, chunk.stride, chunk.flags = 0, 0, layout.stride, 0
            try:
                memory = (ctypes.c_ubyte * layout.nbytes).from_address(spa.datas[0].data)
                yield np.ctypeslib.as_array(memory).reshape(layout.shape)
                chunk.size = layout.nbytes
            finally:  # an empty frame, if the block failed
                self._hand_over(buffer, spa, captured)

    def _hand_over(self, buffer: Any, spa: Any, captured: float) -> None:
        self._stamp(spa, captured)
        self._users.show(buffer)
        self._library.pw_stream_queue_buffer(self._stream, buffer)
        self._library.pw_stream_trigger_process(self._stream)

    def _free_buffer(self) -> Any:
        """A buffer (POINTER(Buffer)) that no program holds, or one that was kept for too long, or None."""
        if not self._watched.is_set():
            return None
        buffer = self._users.free_buffer(lambda: self._library.pw_stream_dequeue_buffer(self._stream))
        if buffer is None:
            return None
        data = buffer.contents.buffer.contents.datas[0]
        if not self._is_textured and (not data.data or data.maxsize < self.layout.nbytes):
            raise SourceError(f"PipeWire gave the camera '{self._name}' no memory for frames of {self.layout}")
        return buffer

    def _stamp(self, buffer: Any, captured: float) -> None:
        """Write a frame's time (CLOCK_MONOTONIC, which is perf_counter's on Linux) and number into its header."""
        self._last_time = max(int(captured * 1e9), self._last_time + 1)
        header = pw.header_of(buffer, pods.META_HEADER)
        if header is not None:
            header.flags, header.offset, header.dts_offset = 0, 0, 0
            header.pts, header.seq = self._last_time, self._sequence
        self._sequence += 1

    def close(self) -> None:
        """Remove the camera. May be called more than once."""
        if self._is_closed:
            return
        with self._lock:
            self._is_closed, retry = True, self._retry
            self._disconnect()
        if retry is not None:
            retry.cancel()
            retry.join()  # it may wait for the lock
        self._library.pw_thread_loop_stop(self._loop)
        self._library.pw_thread_loop_destroy(self._loop)
        if self._own is not None:
            self._own.close()

    def _connect(self) -> int:
        """Make the node. Returns 0 or an error number."""
        library, name = self._library, self._name
        values = {
            "media.class": "Video/Source", "media.role": "Camera", "node.name": f"framebind.{name}",
            "node.description": name, "node.nick": name,
        }  # fmt: skip
        loop = library.pw_thread_loop_get_loop(self._loop)
        properties = pw.properties(library, values)
        self._stream = library.pw_stream_new_simple(loop, name.encode(), properties, self._events, None) or 0
        if not self._stream:
            return errno.ENOMEM
        flags = pw.DRIVER | (pw.MAP_BUFFERS if self._own is None else pw.ALLOC_BUFFERS)
        offers = pw.pods(*self._offers), len(self._offers)
        error = library.pw_stream_connect(self._stream, pw.OUTPUT, pw.ANY_NODE, flags, *offers)
        if error < 0:
            self._disconnect()
        return max(-error, 0)

    def _disconnect(self) -> None:
        self._watched.clear()
        if self._stream:
            stream, self._stream = self._stream, 0
            self._library.pw_stream_destroy(stream)
        self._users.clear()

    def _reconnect(self) -> None:
        """Make the node anew, or try again later."""
        with self._lock:
            self._retry = None
            if self._is_closed:
                return
            self._disconnect()
            if self._connect():
                self._retry_later()

    def _retry_later(self) -> None:
        if self._retry is not None:
            return
        self._retry = threading.Timer(_RETRY_SECONDS, self._reconnect)
        self._retry.daemon = True
        self._retry.start()

    # Callbacks --------------------------------------------------------------------------------------------------------

    def _state_changed(self, _: int, before: int, state: int, error: bytes | None) -> None:
        """Note whether a program takes frames, and whether the daemon is there."""
        if not self._stream or self._is_closed:
            return
        if state == pw.STREAMING:
            self._users.forget()
            self._watched.set()
        else:
            self._watched.clear()
        if state in (pw.ERROR, pw.UNCONNECTED):
            if not self._is_lost:
                reason = f" ({error.decode(errors='replace')})" if error else ""
                log.warning("PipeWire lost the camera '%s'%s: it comes back when PipeWire does", self._name, reason)
            self._is_lost = True
            self._retry_later()
        elif state == pw.PAUSED:
            self._is_lost = False

    def _param_changed(self, _: int, param: int, pod: int | None) -> None:
        """Take the format that a program chose, and ask for buffers of it."""
        if param != pods.PARAM_FORMAT or not pod:
            return
        name = pods.chosen_format(pw.pod_bytes(pod))
        if name is None:
            return
        self._is_textured = name == "rgba"
        if self._is_textured and self._own is not None:
            wanted = self._own.asked()
        else:
            self.layout = FrameLayout(cast("PixelFormat", name), self._size)
            kinds = pods.MEM_PTR | pods.MEM_FD if self._own is None else pods.MEM_FD
            wanted = pods.buffers(self.layout.nbytes, self.layout.stride, kinds)
        self._library.pw_stream_update_params(self._stream, pw.pods(wanted, pods.header()), 2)

    def _add_buffer(self, _: int, buffer: Any) -> None:
        """Note a new buffer, and give it its memory, if that is not PipeWire's affair."""
        self._users.add(buffer)
        if self._own is not None:
            self._own.add(buffer, None if self._is_textured else self.layout)

    def _remove_buffer(self, _: int, buffer: Any) -> None:
        self._users.remove(buffer)
        if self._own is not None:
            self._own.remove(buffer)

    def __repr__(self) -> str:
        return f"<PipewireCamera: '{self._name}', {self._size[0]}x{self._size[1]}>"
