"""GL objects in programs that run on OpenCL: the copies and conversions before and after a run."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from ....kernels.codegen.source import Argument, KernelSource
from ....kernels.tensor import slices
from ....kernels.views import Dense, Picture, parameter_count
from ...device import CommandList, Operand, Resource, Slot, Step
from ...errors import BindingError
from ...gl.buffer import GlBuffer
from ...gl.compute.device import GlDevice
from ...gl.context import GlContext
from ...gl.khronos import GL
from ...gl.state import copied_buffers, kept
from ...gl.texture import GlTexture
from ..context import ClContext
from ..objects import ClBuffer, ClImage, Use
from .channel import SharedBuffer
from .sharing import share


class GlPartner:
    """One GL context whose objects an OpenCL device reads and writes, by the best strategy that sharing.py finds.

    A GL object that OpenCL cannot address has a shared buffer beside it. For a texture one GL dispatch converts to it
    before a run, or from it after the run; GL copies buffers. No byte crosses the host.
    """

    def __init__(self, gl: GlContext, cl: ClContext) -> None:
        self.gl = gl
        self.channel = share(gl, cl)
        self.device = GlDevice(gl)
        self._shared: weakref.WeakValueDictionary[GlBuffer | GlTexture, Any] = weakref.WeakValueDictionary()
        self._natives: weakref.WeakKeyDictionary[ClBuffer | ClImage, GlBuffer | GlTexture] = weakref.WeakKeyDictionary()
        """The GL object of each OpenCL object. Converted textures are not listed: the conversion checks them."""
        self._beside: weakref.WeakKeyDictionary[GlBuffer, SharedBuffer] = weakref.WeakKeyDictionary()

    def borrow(self, native: Any) -> ClBuffer | ClImage | StagedTexture:
        """A GL object as a resource of the OpenCL device. Raises BindingError, DeviceError if it cannot be used."""
        resource = self.device.borrow(native)
        shared = self._shared.get(resource)
        if shared is None or shared.released:
            shared = self._shared[resource] = self._share(resource)
            if isinstance(shared, ClBuffer | ClImage):
                self._natives[shared] = resource
        return shared

    def _share(self, resource: GlBuffer | GlTexture) -> ClBuffer | ClImage | StagedTexture:
        if resource.released:
            raise BindingError(f"{resource.label} is released: bind one that is alive")
        itself = self.channel.wrap(resource) if _is_whole(resource) else None
        if itself is not None:
            # A GL object that is wrapped twice is two OpenCL objects.
            itself.partner, itself.handle = self, resource.handle
            return itself
        if isinstance(resource, GlTexture):
            return StagedTexture(self, resource)
        beside = self._beside.get(resource)
        if beside is None:
            beside = self._beside[resource] = self.channel.buffer(resource.nbytes, f"shared beside {resource.label}")
        return CopiedBuffer(self, resource, beside)

    def before_run(self, uses: Sequence[Use]) -> None:
        """Copy GL objects into their shared buffers, and let OpenCL continue when that is done."""
        self.gl.check()
        for use in uses:
            native = self._natives.get(use.resource)
            if native is not None:
                native.check_unchanged()
            if isinstance(use.resource, CopiedBuffer | PictureBuffer):
                use.resource.before_run(use)
        self.channel.to_cl(uses)

    def after_run(self, uses: Sequence[Use]) -> None:
        """Let GL continue when OpenCL is done, and copy what OpenCL wrote to the GL objects."""
        self.channel.to_gl(uses)
        for use in uses:
            if isinstance(use.resource, CopiedBuffer | PictureBuffer):
                use.resource.after_run(use)

    def close(self) -> None:
        """Delete the kernels of conversions."""
        if not self.gl.closed:
            self.device.close()


class GlPartners:
    """The partners of an OpenCL device, one for each GL context whose objects it uses."""

    def __init__(self, cl: ClContext) -> None:
        self._cl = cl
        self._partners: dict[GlContext, GlPartner] = {}

    def borrow(self, native: Any) -> ClBuffer | ClImage | StagedTexture:
        """An object of the GL context that is current: see ``GlPartner.borrow``."""
        context = GlContext.current()
        self._partners = {gl: partner for gl, partner in self._partners.items() if not gl.closed}
        if context not in self._partners:
            self._partners[context] = GlPartner(context, self._cl)
        return self._partners[context].borrow(native)

    def close(self) -> None:
        """Delete the kernels of conversions."""
        for partner in self._partners.values():
            partner.close()
        self._partners.clear()


class CopiedBuffer(SharedBuffer):
    """A user's GL buffer with a shared buffer beside it. GL copies between the two on the GPU."""

    def __init__(self, partner: GlPartner, native: GlBuffer, beside: SharedBuffer) -> None:
        super().__init__(beside.memory, native.nbytes, native.label, beside.gl)
        self.partner, self._native = partner, native
        self.handle, self.offset = native.handle, native.offset
        self.gl_objects = self.gl, native

    def before_run(self, use: Use) -> None:
        if "r" in use.access:
            _copy(self._native, self.gl, use.nbytes)

    def after_run(self, use: Use) -> None:
        if "w" in use.access:
            _copy(self.gl, self._native, use.nbytes)


def _is_whole(resource: GlBuffer | GlTexture) -> bool:
    """Whether a resource is a whole GL object. OpenCL cannot wrap a part of a GL buffer."""
    return isinstance(resource, GlTexture) or resource.is_whole


def _copy(source: GlBuffer, target: GlBuffer, nbytes: int) -> None:
    gl = source.context.gl
    with kept(source.context, copied_buffers):
        gl.glBindBuffer(GL.COPY_READ_BUFFER, source.id)
        gl.glBindBuffer(GL.COPY_WRITE_BUFFER, target.id)
        places = source.offset, target.offset
        gl.glCopyBufferSubData(GL.COPY_READ_BUFFER, GL.COPY_WRITE_BUFFER, *places, nbytes)
        gl.glBindBuffer(GL.COPY_READ_BUFFER, 0)
        gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)


class StagedTexture:
    """Implements device.StagedTexture: a GL texture that OpenCL cannot address."""

    nbytes = offset = 0
    layout = compatibility_key = None

    def __init__(self, partner: GlPartner, texture: GlTexture) -> None:
        self._partner, self._texture = partner, texture
        self.label, self.size, self.format = texture.label, texture.size, texture.format
        self.handle = texture.handle
        self.write_formats = partner.device.traits.write_formats

    @property
    def released(self) -> bool:
        return self._texture.released

    def release(self) -> None:
        """Free nothing, as the texture belongs to the user."""

    def stage(
        self, view: Picture, parameters: tuple[float, ...], *, write: bool, previous: Resource | None
    ) -> Resource:
        """Give the staging buffer, which shows this texture from now on: ``previous`` if it fits, else a new one."""
        if isinstance(previous, PictureBuffer) and previous.serves(self._partner, view, write=write):
            buffer = previous
        else:
            buffer = PictureBuffer(self._partner, view, write=write)
        buffer.show(self._texture, parameters)
        return buffer


class PictureBuffer(SharedBuffer):
    """A tensor as float32 BHWC in a shared buffer. One GL dispatch fills it from a texture, or a texture from it."""

    def __init__(self, partner: GlPartner, view: Picture, *, write: bool) -> None:
        dense = Dense(view.shape)
        shared = partner.channel.buffer(dense.nbytes, "a tensor that is a GL texture")
        super().__init__(shared.memory, shared.nbytes, shared.label, shared.gl)
        self.partner, self._view, self._write = partner, view, write
        self._commands = _conversion(partner.device, view, dense, shared.gl, write=write)

    def serves(self, partner: GlPartner, view: Picture, *, write: bool) -> bool:
        """Whether the buffer can show another texture as this view, for this partner and in this direction."""
        return (self.partner, self._view, self._write) == (partner, view, write) and not self.released

    def show(self, texture: GlTexture, parameters: tuple[float, ...]) -> None:
        """Convert this texture from now on, with these picture_parameters (kernels/views.py). Allocates nothing."""
        self._commands.set_slot("texture", texture)
        self._commands.set_parameters(0, "dst" if self._write else "src", parameters)
        self.gl_objects = self.gl, texture
        self.label, self.handle = texture.label, texture.handle

    def before_run(self, use: Use) -> None:
        if not self._write:
            self._commands.run()

    def after_run(self, use: Use) -> None:
        if self._write and "w" in use.access:
            self._commands.run()


def _conversion(device: GlDevice, picture: Picture, dense: Dense, buffer: GlBuffer, *, write: bool) -> CommandList:
    """Record the GL dispatch that converts between the texture in the slot "texture" and the buffer."""
    views = (dense, picture) if write else (picture, dense)
    texture, memory = Operand(Slot("texture")), Operand(buffer, 0, dense.nbytes)
    src, dst = (memory, texture) if write else (texture, memory)
    arguments = Argument("src", views[0], "r", "source"), Argument("dst", views[1], "w", "target")
    batch, height, width, channels = dense.shape
    group_size = device.traits.group_size
    source = KernelSource("copy", arguments, group_size, -(-batch * height * width * slices(channels) // group_size))
    parameters = {"dst" if write else "src": (0.0,) * parameter_count(picture)}
    label = "buffer to texture" if write else "texture to buffer"
    return device.record([Step(device.kernel(source), {"src": src, "dst": dst}, source.group_count, label, parameters)])
