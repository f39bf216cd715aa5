"""The process that reads another process's texture."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Iterator

from ..errors import BindingError, DeviceError, SourceError
from ..gl.context import GlContext
from ..gl.fences import make_fence, wait_and_delete
from ..gl.texel_copies import texel_nbytes
from ..gl.texture import GlTexture
from ..uncopied import Uncopied
from .device_slots import DeviceSlots
from .dma_buf_slots import DmaBufSlots
from .host_slots import CopiedSlots, PinnedSlots
from .messages import (
    FENCE_SECONDS,
    NO_DESCRIPTORS,
    Description,
    FrameMessage,
    Peer,
    PeerGoneError,
    await_fences,
    close_all,
    connect,
    wait_for_any,
)
from .slots import Slots

log = logging.getLogger("framebind.processes")

_LOOK_SECONDS = 0.1
"""Seconds after which a wait for a GPU looks whether its process still lives."""

ROADS: tuple[type[Slots], ...] = (DeviceSlots, DmaBufSlots, PinnedSlots, CopiedSlots)


class ImportedTexture(Uncopied):
    """The frames of a texture that another process exports; ``fb.import_texture`` makes one.

    Iterate over it, or call ``next``. All calls are made on the thread of the context in which it was made, with the
    context current. A ``with`` block closes it at its end.

    Attributes
    ----------
    texture : GlTexture
        The texture that each frame is copied to on the GPU. It belongs to this process, and keeps the newest frame.
    road : str
        How the frames are shared: see ``ExportedTexture.road``.
    number : int
        The newest frame's number, from 0; -1 before the first. Frames before the import are left out.
    ended : bool
        Whether the exporter closed the texture.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> def read(address):  # in another process, or, as here, on another thread
    ...     with fb.GlContext.headless(), fb.import_texture(address) as imported:
    ...         return [texture.size for texture in imported]
    >>> with fb.GlContext.headless(), ThreadPoolExecutor() as pool:
    ...     with fb.export_texture(fb.GlTexture(64, 48)) as exported:
    ...         sizes = pool.submit(read, exported.address)
    ...         while not exported.publish():
    ...             pass
    ...     sizes.result()
    [(64, 48)]
    """

    def __init__(self, context: GlContext, peer: Peer, slots: Slots) -> None:
        description = slots.description
        self.texture = GlTexture(description.width, description.height, description.format)
        self.road, self.number, self.ended = slots.road, -1, False
        self._context, self._peer, self._slots = context, peer, slots
        self._reading = list[tuple[FrameMessage, int | None]]()
        """The frame that is being copied to the texture, and a fence behind the copy, if there is one yet; or none."""
        self._finalizer = weakref.finalize(self, _close, context, peer, slots, self._reading)

    def next(self, timeout: float | None = None) -> GlTexture | None:
        """Wait for the next frame, and give the texture with it.

        The GPU copies it; the CPU does not wait for that here. The exporter may reuse the frame's memory from the next
        call on.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most; without it, until a frame comes or the exporter ends.

        Returns
        -------
        GlTexture or None
            ``texture``; None if no frame came in time, or none will come (``ended``).

        Raises
        ------
        SourceError
            If the exporting process ended without closing the texture. The newest frame stays in ``texture``.
        BindingError
            If this is closed.
        """
        if not self._finalizer.alive:
            raise BindingError("the imported texture is closed: import it anew")
        self._context.check()
        self._give_back()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.ended:
            try:
                message = self._peer.receive()
            except BlockingIOError:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and (left <= 0 or not wait_for_any([self._peer], left)):
                    return None
                if left is None:
                    wait_for_any([self._peer], None)
            except PeerGoneError:
                raise self._gone() from None
            else:
                if message is None:
                    self.ended = True
                else:
                    return self._take(message)
        return None

    def _take(self, message: FrameMessage) -> GlTexture:
        if message.slot >= self._slots.description.slots:
            close_all(message.fences)
            raise BindingError(f"process {self._peer.pid} tells of slot {message.slot}, which its texture has not")
        self._reading[:] = [(message, None)]  # the exporter gets it back, also if what follows fails
        if message.lost_fence:
            raise DeviceError(f"{NO_DESCRIPTORS}: frame {message.number} of process {self._peer.pid} is left out")
        self._await(message)
        self._slots.get(message.slot, self.texture)
        self._reading[:] = [(message, make_fence(self._context))]
        self.number = message.number
        return self.texture

    def _await(self, message: FrameMessage) -> None:
        """Wait until the exporter's GPU has written a frame. Raises SourceError if it does not, or is gone."""
        end, is_written, has_ended = time.monotonic() + FENCE_SECONDS, await_fences(message.fences), False
        while not (is_written and self._slots.await_frame(message.number, _LOOK_SECONDS)):
            if has_ended:  # and was still writing after its end
                raise self._gone()
            has_ended = self._peer.has_ended()
            if not is_written or time.monotonic() > end:
                raise SourceError(
                    f"the GPU of process {self._peer.pid} did not write frame {message.number} of its texture within "
                    f"{FENCE_SECONDS:g} s: import the texture anew"
                )

    def _give_back(self) -> None:
        """Let the exporter write the slot again whose frame was copied."""
        if not self._reading:
            return
        message, fence = self._reading.pop()
        if fence is not None:
            wait_and_delete(self._context, fence)
        try:
            self._peer.send(message)
        except PeerGoneError:  # frames that it has sent may still be read
            log.debug("process %d ended before it got slot %d back", self._peer.pid, message.slot)

    def _gone(self) -> SourceError:
        return SourceError(
            f"process {self._peer.pid}, which exported the texture, ended after frame {self.number} without closing "
            "it: import the texture of its successor"
        )

    def __iter__(self) -> Iterator[GlTexture]:
        """The texture with each further frame, until the exporter closes it. Raises as ``next`` does."""
        while (texture := self.next()) is not None:
            yield texture

    def close(self) -> None:
        """Stop reading. ``texture`` lives on. May be called more than once."""
        self._finalizer()

    def __enter__(self) -> ImportedTexture:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "ended" if self.ended else f"frame {self.number}"
        return f"<ImportedTexture: {self.texture.label} of process {self._peer.pid} by {self.road}; {state}>"


def import_texture(address: str, *, timeout: float = 5.0) -> ImportedTexture:
    """Read a texture that another process exports, in the current GL context. Linux only.

    Several processes may read one texture. The exporter notices a new one at its next ``publish``, so that this call
    waits for that.

    Parameters
    ----------
    address : str
        ``ExportedTexture.address`` of the other process, which belongs to the same user.
    timeout : float
        Seconds to wait at most for the exporter's next ``publish``.

    Raises
    ------
    SourceError
        If no process exports under this address, or it does not answer in time.
    BindingError
        If the texture lies on another GPU, or is shared in a way that this version does not know.
    DeviceError
        If no GL context is current, or the driver refuses the memory.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     fb.import_texture("framebind-texture-1-0")
    Traceback (most recent call last):
    framebind.interop.errors.SourceError: no process exports a texture as 'framebind-texture-1-0' (any longer): ...
    """
    context = GlContext.current()
    peer = connect(address)
    try:
        if not wait_for_any([peer], timeout):
            raise SourceError(
                f"process {peer.pid} did not publish a frame within {timeout} s: it calls publish() for each frame"
            )
        slots = _adopt(context, *_described(peer))
        try:
            return ImportedTexture(context, peer, slots)
        except BaseException:
            slots.release()
            raise
    except BaseException:
        peer.close()
        raise


def _described(peer: Peer) -> tuple[Description, list[int]]:
    try:
        return peer.receive_description()
    except PeerGoneError:
        raise SourceError(f"process {peer.pid} ended before it gave its texture") from None


def _adopt(context: GlContext, description: Description, descriptors: list[int]) -> Slots:
    """The slots that another process describes. Nothing that it says is believed unchecked."""
    roads = {road.road: road for road in ROADS}
    try:
        road = roads.get(description.road)
        if road is None:
            raise BindingError(f"this version of framebind shares no textures by '{description.road}'")
        needed = description.width * description.height * texel_nbytes(context, description.format)
        if not 0 < needed <= description.slot_nbytes:
            raise BindingError(f"the exporter's slots of {description.slot_nbytes} bytes do not hold {needed}")
    except (BindingError, DeviceError):
        close_all(descriptors)
        raise
    return road.adopt(context, description, descriptors)


def _close(context: GlContext, peer: Peer, slots: Slots, reading: list[tuple[FrameMessage, int | None]]) -> None:
    peer.close()
    slots.release()
    for _, fence in reading:
        if fence is not None:
            context.objects.defer_delete("sync", fence)
    reading.clear()
