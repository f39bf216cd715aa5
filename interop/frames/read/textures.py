"""Decoded frames as textures. A worker thread decodes into upload memory, and the owner of the GL context uploads."""

from __future__ import annotations

from collections import deque

from ...gl.texture import GlTexture
from .handover import SLOTS, Handover
from .readers import Frame
from .upload import UploadRing


class TextureFeed:
    """Uploads slots of the ring, and hands a slot back to the worker once the GPU has read it."""

    def __init__(self, ring: UploadRing, handover: Handover[Frame]) -> None:
        self._ring, self._handover, self._uploaded = ring, handover, deque[int]()
        self.texture: GlTexture | None = None
        """The last frame."""
        for slot in range(SLOTS):
            handover.give(slot, ring.view(slot))

    def upload(self, slot: int, mirror: bool) -> GlTexture:
        """Make ``texture`` the frame in the slot, and return it."""
        self.texture = self._ring.to_texture(slot, mirror)
        self._uploaded.append(slot)
        if len(self._uploaded) > 1:
            # The GPU read the frame before this one long ago: this does not wait.
            ready = self._uploaded.popleft()
            self._ring.wait(ready)
            self._handover.give(ready, self._ring.view(ready))
        return self.texture

    def release(self) -> None:
        """Free the ring: no thread may write to it from now on."""
        self._ring.release()
