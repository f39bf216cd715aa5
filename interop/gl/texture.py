"""GL textures, made by us or wrapped, and the samplers that they are read with."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from numbers import Integral

import numpy as np
import numpy.typing as npt

from ..errors import BindingError, DeviceError
from ..memory.pictures import BasePicture
from ..transfers import transfers
from . import dma_buf
from . import query as gl_query
from .context import GlContext
from .gl_object import COPY_BARRIERS, GlObject
from .khronos import GL, gl_name
from .query import FORMATS, checked
from .state import copied_pixels, framebuffers, kept, pixel_reads, pixel_uploads, prepare_to_copy, restored
from .state import texture as bound_texture

_UNPACK_PLAIN = (
    (GL.UNPACK_ROW_LENGTH, 0), (GL.UNPACK_SKIP_ROWS, 0), (GL.UNPACK_SKIP_PIXELS, 0), (GL.UNPACK_ALIGNMENT, 1),
)  # fmt: skip
_PACK_PLAIN = (
    (GL.PACK_ROW_LENGTH, 0), (GL.PACK_SKIP_ROWS, 0), (GL.PACK_SKIP_PIXELS, 0), (GL.PACK_ALIGNMENT, 1),
)  # fmt: skip


class GlTexture(GlObject, BasePicture[GlContext]):
    """A 2-D GL texture. Row 0 is the top of the picture.

    The constructor makes one in the current context; ``from_array`` takes size and format from an array; ``from_id``
    wraps a texture that somebody else made. It is deleted when it is released or collected.

    In a context of framebind's own, calls leave changed: the texture bound to GL_TEXTURE_2D on the active unit, the
    buffers bound for pixel transfers (0), and pixel storage (its defaults). They put framebuffer bindings back. In
    somebody else's context all GL state is afterwards as it was.

    Parameters
    ----------
    width, height : int
        Size in texels.
    format : {"rgba8", "rgba16f", "rgba32f", "r8", "r32f"}
        Channels and type of a texel.
    data : numpy.ndarray, optional
        Content, as ``write`` takes it. Without it the content is undefined.
    label : str, optional
        Description for error messages.

    Attributes
    ----------
    id : int
        GL name.
    size : (int, int)
        Width and height in texels.
    format : str
        One of the five formats; of a wrapped texture also any other of floats or normalized integers, such as "rgb8",
        "rgb16f", "rgb565" or "srgb8_alpha8", which models and fragment programs read, and which are neither written
        nor copied.
    context : GlContext
        The context that it lives in.

    Raises
    ------
    BindingError
        If the format is unknown or the size impossible.
    DeviceError
        If no context is current on this thread, or GPU memory runs out.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     texture = fb.GlTexture(4, 2, "r32f", np.arange(8, dtype=np.float32).reshape(2, 4))
    ...     texture.size, texture.read()[1, :, 0]
    ((4, 2), array([4., 5., 6., 7.], dtype=float32))
    """

    bound_nbytes = 0

    def __init__(
        self, width: int, height: int, format: str = "rgba8", data: np.ndarray | None = None, *, label: str = ""
    ) -> None:
        context = GlContext.current()
        if format not in FORMATS:
            raise BindingError(f"there is no texture format '{format}': take one of {', '.join(FORMATS)}")
        limit = context.gl.integer(GL.MAX_TEXTURE_SIZE)
        if not (isinstance(width, Integral) and isinstance(height, Integral)):
            raise BindingError(f"a texture of {width} x {height} texels is impossible: both are whole numbers")
        if not (0 < width <= limit and 0 < height <= limit):
            gl_query.raise_if_lost(context, context.gl.clear_errors())
            raise BindingError(f"a texture of {width} x {height} texels is impossible here: each side is 1 to {limit}")
        id = context.objects.generate("texture")
        label = label or f"GL texture {id} ({width}x{height} {format})"
        self._adopt_texture(context, id, (width, height), format, label)
        self._own("texture", id)
        with kept(context, bound_texture), checked(context, f"making {label}"):
            context.gl.glBindTexture(GL.TEXTURE_2D, id)
            context.gl.glTexStorage2D(GL.TEXTURE_2D, 1, FORMATS[format].internal, width, height)
        if data is not None:
            self.write(data)

    def _adopt_texture(self, context: GlContext, id: int, size: tuple[int, int], format: str, label: str) -> None:
        self._adopt(context, "texture", id, label)
        self.size, self.format = size, format
        self._framebuffer = 0

    def _content(self) -> str:
        return f"{self.size[0]}x{self.size[1]} {self.format}"

    @classmethod
    def _made(cls, width: int, height: int, format: str, label: str) -> GlTexture:
        return cls(width, height, format, label=label)

    @staticmethod
    def from_id(id: int, width: int | None = None, height: int | None = None, format: str | None = None) -> GlTexture:
        """Wrap a 2-D texture that somebody else made. It is never deleted by us.

        Parameters
        ----------
        id : int
            Its GL name in the current context.
        width, height, format : optional
            Size in texels and format. GL is asked for them in any case; if they are given they must agree.

        Raises
        ------
        BindingError
            If the name is no 2-D texture, has another base level than 0, no storage or none of the formats, or is not
            as given.
        """
        context, id = GlContext.current(), gl_query.gl_name_of(id)
        size, found = gl_query.texture(context, id)
        given = (size[0] if width is None else width, size[1] if height is None else height)
        if given != size or (format or found) != found:
            wanted = f"{given[0]}x{given[1]} {format or found}"
            raise BindingError(f"GL texture {id} is {size[0]}x{size[1]} {found}, not {wanted}")
        texture = GlTexture.__new__(GlTexture)
        texture._adopt_texture(context, id, size, found, f"foreign GL texture {id} ({size[0]}x{size[1]} {found})")
        return texture

    @staticmethod
    def from_dmabuf(
        width: int,
        height: int,
        fourcc: str,
        planes: Sequence[tuple[int, int, int]],
        *,
        modifier: int | None = None,
    ) -> GlTexture:
        """Make a texture of a DMA-BUF: memory of V4L2, libcamera, VA-API, GStreamer or another process. Linux only.

        The texture is read and written in place. Nothing orders its use: wait until the producer is done with it, and
        let it have the memory again after the GPU's work.

        Parameters
        ----------
        width, height : int
            Size in texels.
        fourcc : str
            The format as drm_fourcc.h has it: "AB24" (bytes R, G, B, A), "R8  ", "GR88", "AR24" (B, G, R, A) and
            others that the driver takes. Take the planes of NV12 one by one, as "R8  " and, of half the size, "GR88",
            and give both to ``YuvPicture``.
        planes : sequence of (int, int, int)
            For each plane its file descriptor, its first byte and the bytes from row to row. The descriptors stay the
            caller's, which may close them after the call.
        modifier : int, optional
            The layout of the memory, from the producer. Without it the driver takes its own default, mostly linear.

        Raises
        ------
        BindingError
            If these numbers describe no picture, or the texture has a format that framebind does not know.
        DeviceError
            If the context is not EGL's, lacks EGL_EXT_image_dma_buf_import or GL_EXT_EGL_image_storage, or the driver
            refuses the memory.
        """
        context = GlContext.current()
        id = context.objects.generate("texture")
        texture = GlTexture.__new__(GlTexture)
        label = f"GL texture {id} (DMA-BUF {width}x{height} '{fourcc}')"
        texture._adopt_texture(context, id, (width, height), "", label)
        texture._own("texture", id)
        try:
            egl = dma_buf.find_egl(context)
            dma_buf.import_dma_buf(context, id, (width, height), fourcc, planes, modifier, egl)
            texture.size, texture.format = gl_query.texture(context, id)
        except BaseException:
            texture.release()
            raise
        return texture

    def check(self, *, write: bool = False) -> None:
        """Check that the texture can be used here.

        Parameters
        ----------
        write : bool
            Also check that kernels can write it.

        Raises
        ------
        BindingError
            If it is released, if its owner deleted or changed it, or if it cannot be written.
        DeviceError
            On another thread, or with another context current.
        """
        self._check_usable()
        if not self.is_owned:
            self.check_unchanged()
        if write and not self.is_owned:
            gl_query.check_image(self.context, self.id, self.size, self.label)

    def check_exists(self) -> None:
        """Raise BindingError if its owner deleted it. Asks GL if it is not ours."""
        if not self.is_owned and not self.context.gl.glIsTexture(self.id):
            raise gl_query.no_texture(self.context, self.id)

    def check_unchanged(self) -> None:
        """Raise BindingError if its owner deleted it or gave it another size or format. Asks GL if it is not ours."""
        if self.is_owned or gl_query.is_still_texture(self.context, self.id, self.size, self.format):
            return
        gl_query.texture(self.context, self.id)
        raise BindingError(f"{self.label} has another size or format by now: wrap it anew with GlTexture.from_id")

    def _current_context(self) -> GlContext:
        self.check()
        self._check_copied()
        return self.context

    def _channel_type(self) -> npt.DTypeLike:
        self._check_copied()
        return FORMATS[self.format].dtype

    def _copy_in(self, context: GlContext, texels: np.ndarray, reason: str) -> None:
        gl, pixels = context.gl, FORMATS[self.format]
        transfers.count("upload", texels.nbytes, reason)
        with kept(self.context, bound_texture, pixel_uploads):
            gl.glBindBuffer(GL.PIXEL_UNPACK_BUFFER, 0)
            for name, value in _UNPACK_PLAIN:
                gl.glPixelStorei(name, value)
            if not self.context.is_es:
                gl.glPixelStorei(GL.UNPACK_SWAP_BYTES, 0)
            gl.glBindTexture(GL.TEXTURE_2D, self.id)
            gl.glTexSubImage2D(
                GL.TEXTURE_2D, 0, 0, 0, *self.size, pixels.external, pixels.type, texels.ctypes.data_as(ctypes.c_void_p)
            )
            gl.glPixelStorei(GL.UNPACK_ALIGNMENT, 4)

    def _check_copied(self) -> None:
        if self.format not in FORMATS:
            raise BindingError(
                f"{self.label} is not copied: models read {self.format} in place, and framebind copies "
                f"{', '.join(FORMATS)} only"
            )

    def _copy_out(self, context: GlContext, texels: np.ndarray, reason: str) -> None:
        gl, pixels = context.gl, FORMATS[self.format]
        external, gl_type, dtype, given = pixels.external, pixels.type, pixels.dtype, texels
        if self.context.is_es:
            # The only layouts that every OpenGL ES driver can give; both hold every value of our formats exactly.
            external, channels = GL.RGBA, 4
            gl_type, dtype = (GL.UNSIGNED_BYTE, np.uint8) if dtype is np.uint8 else (GL.FLOAT, np.float32)
            given = np.empty((self.size[1], self.size[0], channels), dtype)
        transfers.count("download", given.nbytes, reason)
        gl.glMemoryBarrier(COPY_BARRIERS)
        with restored(self.context, framebuffers), kept(self.context, pixel_reads):
            gl.glBindFramebuffer(GL.FRAMEBUFFER, self.framebuffer())
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, 0)
            for name, value in _PACK_PLAIN:
                gl.glPixelStorei(name, value)
            if not self.context.is_es:
                gl.glPixelStorei(GL.PACK_SWAP_BYTES, 0)
            gl.glReadPixels(0, 0, *self.size, external, gl_type, given.ctypes.data_as(ctypes.c_void_p))
            gl.glPixelStorei(GL.PACK_ALIGNMENT, 4)
        gl_query.raise_if_reset(self.context)
        if given is not texels:
            texels[...] = given[:, :, : pixels.channels]

    def copy_from(self, other: GlTexture) -> None:
        """Replace the whole content by that of another texture, on the GPU.

        In a context of framebind's own it leaves the scissor test and the discarding of primitives off.

        Parameters
        ----------
        other : GlTexture
            A texture of the same size and format.

        Raises
        ------
        BindingError
            If its size or format is another one, or if it is this one.

        Examples
        --------
        >>> with fb.GlContext.headless():
        ...     first = fb.GlTexture.from_array(np.full((2, 2, 3), 55, np.uint8))
        ...     second = fb.GlTexture(2, 2)
        ...     second.copy_from(first)
        ...     second.read()[0, 0]
        array([ 55,  55,  55, 255], dtype=uint8)
        """
        self.check()
        other.check()
        self._check_copied()
        if (other.size, other.format) != (self.size, self.format) or other.handle == self.handle:
            raise BindingError(f"{self.label} takes the content of another {self._content()}, not of {other.label}")
        context, gl, (width, height) = self.context, self.context.gl, self.size
        source, target = other.framebuffer(), self.framebuffer()
        gl.glMemoryBarrier(GL.FRAMEBUFFER_BARRIER_BIT)
        with restored(context, framebuffers), kept(context, copied_pixels):
            gl.glBindFramebuffer(GL.READ_FRAMEBUFFER, source)
            gl.glBindFramebuffer(GL.DRAW_FRAMEBUFFER, target)
            prepare_to_copy(context)
            gl.glBlitFramebuffer(0, 0, width, height, 0, 0, width, height, GL.COLOR_BUFFER_BIT, GL.NEAREST)

    def framebuffer(self) -> int:
        """The GL name of a framebuffer that draws to this texture. It is made at the first call and kept."""
        if not self._framebuffer:
            gl = self.context.gl
            framebuffer = self.context.objects.generate("framebuffer")
            self._own_framebuffer(framebuffer)
            with restored(self.context, framebuffers):
                gl.glBindFramebuffer(GL.FRAMEBUFFER, framebuffer)
                gl.glFramebufferTexture2D(GL.FRAMEBUFFER, GL.COLOR_ATTACHMENT0, GL.TEXTURE_2D, self.id, 0)
                status = gl.glCheckFramebufferStatus(GL.FRAMEBUFFER)
            if status != GL.FRAMEBUFFER_COMPLETE:
                raise DeviceError(f"{self.context} can neither draw to {self.label} nor read it ({gl_name(status)})")
            self._framebuffer = framebuffer
        return self._framebuffer

    def _own_framebuffer(self, framebuffer: int) -> None:
        # Not one of _finalizers: these tell whether the texture itself is ours.
        finalizer = weakref.finalize(self, self.context.objects.defer_delete, "framebuffer", framebuffer)
        finalizer.atexit = False
        self._framebuffer_finalizer = finalizer

    def release(self) -> None:
        """Delete it if we made it, else let go of it. Any thread may call this, more than once."""
        if self._framebuffer:
            self._framebuffer_finalizer()
        super().release()


def nearest_sampler(context: GlContext) -> int:
    """A sampler without filtering or mipmaps, clamped to the edge, whatever the texture's own parameters are."""
    return context.objects.once("sampler", "nearest", lambda: _make_sampler(context, GL.NEAREST))


def linear_sampler(context: GlContext) -> int:
    """A sampler with bilinear filtering and without mipmaps, clamped to the edge."""
    return context.objects.once("sampler", "linear", lambda: _make_sampler(context, GL.LINEAR))


def _make_sampler(context: GlContext, filtering: int) -> int:
    sampler = context.objects.generate("sampler")
    for parameter in (GL.TEXTURE_MAG_FILTER, GL.TEXTURE_MIN_FILTER):
        context.gl.glSamplerParameteri(sampler, parameter, filtering)
    for parameter in (GL.TEXTURE_WRAP_S, GL.TEXTURE_WRAP_T):
        context.gl.glSamplerParameteri(sampler, parameter, GL.CLAMP_TO_EDGE)
    return sampler
