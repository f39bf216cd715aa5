"""Decoded frames as textures. A worker thread decodes into upload memory, and the owner of the GL context uploads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ...gl.context import GlContext
from ...gl.timer import GlTimer
from ..frame import Frame
from .dropping_queue import SLOTS, FrameQueue
from .frame_reader import Pixels
from .upload import UploadRing
from .yuv_to_rgb import Layout


class TextureFeed:
    """Uploads slots of the ring, and hands a slot back to the worker once the GPU has read it. Implements Feed.

    The frames are a ring of three: the textures and the Frame objects are used again.
    """

    def __init__(
        self,
        queue: FrameQueue[Pixels],
        context: GlContext,
        layout: Layout,
        size: tuple[int, int],
        *,
        stop: Callable[[], None],
        timer: GlTimer | None = None,
    ) -> None:
        """``stop`` stops the worker: it is called when the context is closed. ``timer`` gets a stage "upload"."""
        self._ring = UploadRing(context, *size, SLOTS, layout)
        self._queue, self._uploaded, self._timer = queue, deque[int](), timer
        self._frames = [Frame(texture) for texture in self._ring.textures]
        self._closing, self._stop = context.closing, stop
        self._closing.append(stop)
        for slot in range(SLOTS):
            queue.give(slot, self._ring.view(slot))

    def take(self, slot: int, *, mirror: bool) -> Frame:
        """Upload the slot to its texture."""
        if self._timer is not None:
            self._timer.mark("upload")
        self._ring.to_texture(slot, mirror)
        self._uploaded.append(slot)
        if len(self._uploaded) > 1:
            # The GPU read the frame before this one long ago: this does not wait.
            ready = self._uploaded.popleft()
            self._ring.wait(ready)
            self._queue.give(ready, self._ring.view(ready))
        return self._frames[slot]

    def release(self) -> None:
        """Free the ring: no thread may write to it from now on."""
        if self._stop in self._closing:
            self._closing.remove(self._stop)
        self._ring.release()
