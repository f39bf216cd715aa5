"""The process that draws: its frames, and the processes that read them."""

from __future__ import annotations

import logging
import mmap
import socket
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import BindingError, DeviceError, counted
from ..gl.context import GlContext
from ..gl.texel_copies import texel_nbytes
from ..gl.texture import GlTexture
from ..uncopied import Uncopied
from .device_slots import DeviceSlots
from .dma_buf_slots import DmaBufSlots
from .host_slots import CopiedSlots, PinnedSlots
from .messages import (
    MAX_SLOTS,
    Description,
    FrameMessage,
    Peer,
    PeerGoneError,
    check_platform,
    close_all,
    listen,
    wait_for_any,
)
from .slots import Slots

log = logging.getLogger("framebind.processes")

ROADS: tuple[type[Slots], ...] = (DeviceSlots, DmaBufSlots, PinnedSlots)
"""The ways to share a texture, best first, without copies through the CPU."""


@dataclass
class _Importer:
    """A process that reads the frames, and the slots that it has not read yet."""

    peer: Peer
    unread: set[int] = field(default_factory=lambda: set[int]())


class ExportedTexture(Uncopied):
    """A texture whose content other processes read; ``fb.export_texture`` makes one.

    All calls are made on the thread of the texture's context, with the context current. A ``with`` block closes it at
    its end.

    Attributes
    ----------
    texture : GlTexture
        The texture: draw into it, then call ``publish``.
    address : str
        What the other process passes to ``fb.import_texture``. Processes of the same user on the same machine can.
    road : str
        How the frames are shared: "the GPU's memory", "DMA-BUF", "pinned host memory", or "copies through the CPU".
    order : str
        How it is made sure that a frame is written before it is read: "importers wait for a semaphore" or "for fences"
        of the exporter's GPU, or "the exporter's CPU waits", with the reason if the road has a better way.
    why_not_better : dict of str
        For each better road, the reason why it does not work here.

    Examples
    --------
    >>> with fb.GlContext.headless(), fb.export_texture(fb.GlTexture(64, 48)) as exported:
    ...     exported.importers
    0
    """

    def __init__(self, texture: GlTexture, slots: Slots, why_not_better: dict[str, str]) -> None:
        self.texture, self.road, self.order, self.why_not_better = texture, slots.road, slots.order, why_not_better
        self._slots, self._importers, self._number = slots, list[_Importer](), 0
        try:
            self._socket, self.address = listen()
        except BaseException:
            slots.release()
            raise
        self._finalizer = weakref.finalize(self, _close, self._socket, slots, self._importers)

    @property
    def importers(self) -> int:
        """The number of processes that read the texture now."""
        self._look()
        return len(self._importers)

    def publish(self, timeout: float = 0.0) -> bool:
        """Give the texture's present content to all processes that read it, as one frame. They get every frame.

        The GPU copies it to the shared memory. The CPU waits for that, unless importers can: see ``order``. No work is
        done while no process reads it. A process that ends is noticed here, and logged.

        Parameters
        ----------
        timeout : float
            Seconds to wait at most while all slots hold frames that some process has not read.

        Returns
        -------
        bool
            True if the frame was given to somebody. False if nobody reads, or if no slot became free in time: a process
            that reads too slowly then misses this frame, and so do the others.

        Raises
        ------
        BindingError
            If the export is closed, or the texture released.
        DeviceError
            On another thread, or with another context current.
        """
        if not self._finalizer.alive:
            raise BindingError(f"the export of {self.texture.label} is closed: export the texture anew")
        self.texture.check()
        self._look()
        slot = self._free_slot(timeout)
        if slot is None or not self._importers:
            return False
        self._slots.put(slot, self.texture)
        fences = self._slots.finish(self._number)
        try:
            for importer in list(self._importers):
                self._tell(importer, slot, fences)
        finally:
            close_all(fences)
        self._number += 1
        return bool(self._importers)

    def _tell(self, importer: _Importer, slot: int, fences: list[int]) -> None:
        try:
            importer.peer.send(FrameMessage(self._number, slot), fences)
        except PeerGoneError:
            self._drop(importer)
        else:
            importer.unread.add(slot)

    def _free_slot(self, timeout: float) -> int | None:
        deadline = time.monotonic() + timeout
        while True:
            used = set[int]().union(*(importer.unread for importer in self._importers))
            free = [slot for slot in range(self._slots.description.slots) if slot not in used]
            if free:
                return free[0]
            left = deadline - time.monotonic()
            if left <= 0 or not wait_for_any([importer.peer for importer in self._importers], left):
                return None
            self._look()

    def _look(self) -> None:
        """Take new importers, and what the others have read."""
        while self._finalizer.alive:
            try:
                connection, _ = self._socket.accept()
            except BlockingIOError:
                break
            except OSError as error:  # no descriptor is left: it waits
                log.warning("a process that wants to read %s has to wait: %s", self.texture.label, error.strerror)
                break
            self._accept(connection)
        for importer in list(self._importers):
            try:
                while True:
                    message = importer.peer.receive()
                    if message is None or message.slot not in importer.unread:
                        raise PeerGoneError  # it gives back what it does not have: it would without end
                    importer.unread.remove(message.slot)
            except BlockingIOError:
                pass
            except PeerGoneError:
                self._drop(importer)

    def _accept(self, connection: socket.socket) -> None:
        try:
            peer = Peer(connection)
        except (DeviceError, OSError) as error:
            connection.close()
            log.warning("a process that wanted to read %s was refused: %s", self.texture.label, error)
            return
        try:
            descriptors = self._slots.descriptors()
        except (DeviceError, OSError) as error:
            peer.close()
            log.warning("process %d cannot read %s: %s", peer.pid, self.texture.label, error)
            return
        try:
            peer.describe(self._slots.description, descriptors)
        except PeerGoneError:
            peer.close()
        else:
            self._importers.append(_Importer(peer))
        finally:
            close_all(descriptors)

    def _drop(self, importer: _Importer) -> None:
        """Forget a process that ended, with the frames that it did not read."""
        self._importers.remove(importer)
        importer.peer.close()
        log.info(
            "process %d reads %s no longer; %s still do", importer.peer.pid, self.texture.label, len(self._importers)
        )

    def close(self) -> None:
        """Stop to share the texture, which lives on. Importers get the frames that they have not read yet, then an end.

        May be called more than once.
        """
        if self._importers and not self.texture.context.closed:
            self.texture.context.gl.glFinish()  # the work of a process that ends may be lost
        for importer in self._importers:
            importer.peer.end()
        self._finalizer()

    def __enter__(self) -> ExportedTexture:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        readers = counted(len(self._importers), "process reads it", "processes read it")
        return f"<ExportedTexture: {self.texture.label} by {self.road}; {readers}>"


def export_texture(texture: GlTexture, *, slots: int = 3, copies_allowed: bool = False) -> ExportedTexture:
    """Share a texture's content with other processes on this machine, frame by frame. Linux only.

    The best road that both the driver and the system offer is taken: memory of the GPU that both processes import
    (GL_EXT_memory_object_fd and Vulkan, or DMA-BUFs by EGL_MESA_image_dma_buf_export), or memory of the host that GL
    reads and writes in place (GL_AMD_pinned_memory, as on llvmpipe). Nothing crosses between CPU and GPU.

    Parameters
    ----------
    texture : GlTexture
        A texture of the current context, in a format that framebind makes (of OpenGL ES: rgba8 or rgba32f).
    slots : int
        The number of frames that may be on their way, 1 to 16.
    copies_allowed : bool
        Whether copies through the CPU are made if no road works. They are counted in ``fb.transfers`` as "shared
        texture", one download here and one upload in each importing process.

    Raises
    ------
    BindingError
        If the texture's format or the number of slots is impossible.
    DeviceError
        If no road works, with the reasons, or on another system than Linux.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     with fb.export_texture(fb.GlTexture(64, 64)) as exported:
    ...         exported.publish()  # nobody reads it yet
    False
    """
    return export_by(ROADS, texture, slots, copies_allowed=copies_allowed)


def export_by(roads: Sequence[type[Slots]], texture: GlTexture, slots: int, *, copies_allowed: bool) -> ExportedTexture:
    """Share a texture as ``export_texture`` does, by one of these roads."""
    check_platform()
    texture.check()
    if not 1 <= slots <= MAX_SLOTS:
        raise BindingError(f"a texture is exported with 1 to {MAX_SLOTS} slots, not {slots}")
    context, (width, height) = texture.context, texture.size
    nbytes = width * height * texel_nbytes(context, texture.format)
    whole = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    wanted = Description("", width, height, texture.format, slots, whole, whole, "")
    made, reasons = _allocate(roads, context, wanted, copies_allowed=copies_allowed)
    return ExportedTexture(texture, made, reasons)


def _allocate(
    roads: Sequence[type[Slots]], context: GlContext, wanted: Description, *, copies_allowed: bool
) -> tuple[Slots, dict[str, str]]:
    """Slots of the best road that works, and the reasons against the better ones."""
    reasons = dict[str, str]()
    for road in roads:
        try:
            return road.allocate(context, wanted), reasons
        except DeviceError as error:
            reasons[road.road] = str(error)
    if not copies_allowed:
        told = "; ".join(f"{road}: {reason}" for road, reason in reasons.items())
        raise DeviceError(f"no memory can be shared with another process ({told}). copies_allowed=True lets it copy")
    log.warning("a texture is shared by %s: %s", CopiedSlots.road, reasons)
    return CopiedSlots.allocate(context, wanted), reasons


def _close(listening: socket.socket, slots: Slots, importers: list[_Importer]) -> None:
    listening.close()
    for importer in importers:
        importer.peer.close()
    importers.clear()
    slots.release()
