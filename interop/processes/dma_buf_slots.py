"""Slots in textures of GL that EGL exports as DMA-BUFs, which GL of the other processes imports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..errors import BindingError, DeviceError
from ..gl.context import GlContext
from ..gl.dma_buf import DmaBuf, current_display, export_dma_buf, find_egl
from ..gl.egl import Egl
from ..gl.fences import FENCE_EXTENSION, export_fence
from ..gl.khronos import GL
from ..gl.texture import GlTexture
from .messages import Description, close_all, duplicates
from .slots import Slots

_Layout = tuple[str, tuple[tuple[int, int, int], ...], int]
"""Format, planes and modifier as a Description has them."""


class DmaBufSlots(Slots):
    """Textures that two processes have in common. The exporter's own are exported by ``egl``; an importer has none.

    If the exporter's EGL has fences that other processes can wait for, not its CPU waits but that of each importer, so
    that no driver of theirs has to respect the fence.
    """

    road = "DMA-BUF"

    def __init__(
        self,
        context: GlContext,
        description: Description,
        textures: list[GlTexture],
        descriptors: list[int],
        egl: Egl | None = None,
    ) -> None:
        super().__init__(context, description)
        self._textures, self._descriptors, self._fences = textures, descriptors, None
        if egl is not None:
            display, extensions = current_display(context, egl)
            if FENCE_EXTENSION in extensions:
                self._fences, self.order = (display, egl), "importers wait for fences"

    @classmethod
    def allocate(cls, context: GlContext, description: Description, egl: Egl | None = None) -> DmaBufSlots:
        """New slots, exported by EGL (a test passes another one)."""
        egl = egl or find_egl(context)
        size, format = (description.width, description.height), description.format
        textures, descriptors, layouts = list[GlTexture](), list[int](), set[_Layout]()
        try:
            for slot in range(description.slots):
                textures.append(GlTexture(*size, format, label=f"slot {slot} of a shared texture"))
                exported = export_dma_buf(context, textures[-1].id, egl)
                descriptors += exported.descriptors
                layouts.add(_layout(exported))
            if len(layouts) != 1:
                raise DeviceError("EGL exports textures of one kind with different layouts")
        except DeviceError:
            close_all(descriptors)
            for texture in textures:
                texture.release()
            raise
        fourcc, planes, modifier = layouts.pop()
        description = replace(description, fourcc=fourcc, planes=planes, modifier=modifier)
        return cls(context, description, textures, descriptors, egl)

    @classmethod
    def adopt(
        cls,
        context: GlContext,
        description: Description,
        descriptors: list[int],
        import_texture: Callable[..., GlTexture] = GlTexture.from_dmabuf,
    ) -> DmaBufSlots:
        """The slots of another process, imported by EGL (a test passes another function)."""
        size, textures = (description.width, description.height), list[GlTexture]()
        modifier = None if description.modifier < 0 else description.modifier
        try:
            for mine in _by_slot(description, descriptors):
                planes = [(mine[place], offset, pitch) for place, offset, pitch in description.planes]
                textures.append(import_texture(*size, description.fourcc, planes, modifier=modifier))
                if textures[-1].format != description.format:
                    raise BindingError(f"the exporter's DMA-BUFs are {textures[-1].format}, not {description.format}")
        except (BindingError, DeviceError):
            for texture in textures:
                texture.release()
            raise
        finally:
            close_all(descriptors)  # EGL has its own
        return cls(context, description, textures, [])

    def descriptors(self) -> list[int]:
        return duplicates(self._descriptors)

    def put(self, slot: int, texture: GlTexture) -> None:
        self._textures[slot].copy_from(texture)

    def get(self, slot: int, texture: GlTexture) -> None:
        texture.copy_from(self._textures[slot])

    def finish(self, number: int) -> list[int]:
        if self._fences is None:
            return super().finish(number)
        self.context.gl.glMemoryBarrier(GL.ALL_BARRIER_BITS)
        return [export_fence(self.context, *self._fences)]

    def release(self) -> None:
        descriptors, self._descriptors = self._descriptors, []
        close_all(descriptors)
        for texture in self._textures:
            texture.release()


def _layout(dma_buf: DmaBuf) -> _Layout:
    places = {descriptor: place for place, descriptor in enumerate(dma_buf.descriptors)}
    planes = tuple((places[descriptor], offset, pitch) for descriptor, offset, pitch in dma_buf.planes)
    return dma_buf.fourcc, planes, -1 if dma_buf.modifier is None else dma_buf.modifier


def _by_slot(description: Description, descriptors: list[int]) -> list[list[int]]:
    """The descriptors of each slot. Raises BindingError if they are not as many as described.

    Whether their memory suffices is for the driver to check: it may be another size than the picture (virtio-gpu).
    """
    places = {place for place, _, _ in description.planes}
    count = len(places)
    if not places or places != set(range(count)) or len(descriptors) != count * description.slots:
        raise BindingError(f"the exporter sent {len(descriptors)} file descriptors, not those of its DMA-BUFs")
    return [descriptors[n * count : (n + 1) * count] for n in range(description.slots)]
