"""The contract of memory that two processes address: slots, each for the texels of one frame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from ..gl.context import GlContext
from ..gl.khronos import GL
from ..gl.texture import GlTexture
from .messages import Description


class Slots(ABC):
    """The slots of an exported texture, in one of the processes. The context is current in all calls."""

    road = ""
    """The name of this way to share, for people, and in the description."""
    order = "the exporter's CPU waits"
    """The party that makes sure that a frame is written before it is read, in words."""

    def __init__(self, context: GlContext, description: Description) -> None:
        self.context, self.description = context, replace(description, road=self.road)

    @classmethod
    @abstractmethod
    def allocate(cls, context: GlContext, description: Description) -> Slots:
        """New slots. Raises DeviceError with the reason if the context cannot share in this way."""

    @classmethod
    @abstractmethod
    def adopt(cls, context: GlContext, description: Description, descriptors: list[int]) -> Slots:
        """The slots of another process, from its description and descriptors, which this call takes over.

        Raises BindingError if they do not fit together, and DeviceError if the driver refuses them.
        """

    @abstractmethod
    def descriptors(self) -> list[int]:
        """New file descriptors of the memory for one importer, which the caller closes."""

    @abstractmethod
    def put(self, slot: int, texture: GlTexture) -> None:
        """Write a texture's texels to a slot."""

    @abstractmethod
    def get(self, slot: int, texture: GlTexture) -> None:
        """Read a slot's texels into a texture. Another process has announced them."""

    @abstractmethod
    def release(self) -> None:
        """Free what this process holds of the memory. Any thread may call this, more than once."""

    def finish(self, number: int) -> list[int]:
        """Make sure that the frame of that number, which ``put`` wrote, can be announced: the CPU waits here, or
        importers do, for a semaphore or a fence.

        Returns the file descriptor of that fence, which the caller closes, or none.
        """
        self.context.gl.glMemoryBarrier(GL.ALL_BARRIER_BITS)
        self.context.gl.glFinish()
        return []

    def await_frame(self, number: int, seconds: float) -> bool:
        """Wait for what the exporter's ``finish`` left to importers, but its fences. Returns False if it is late."""
        return True
