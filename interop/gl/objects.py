"""The GL objects that can be bound to tensors: ours, and those of other libraries."""

from __future__ import annotations

from typing import Any

from ..errors import BindingError
from .buffer import GlBuffer
from .texture import GlTexture


def is_gl_object(native: Any) -> bool:
    """Whether ``as_gl_object`` takes objects of this kind."""
    return isinstance(native, GlTexture | GlBuffer) or isinstance(getattr(native, "glo", None), int)


def as_gl_object(native: Any) -> GlTexture | GlBuffer:
    """Take a GlTexture or GlBuffer as it is; wrap a moderngl texture or buffer (anything with ``glo`` and ``size``).

    A wrapped object is kept alive. Raises BindingError for everything else, also for ints: they do not say what they
    name.
    """
    if isinstance(native, GlTexture | GlBuffer):
        native.check()
        return native
    if isinstance(native, int):
        raise BindingError(
            f"{native} may name a texture or a buffer: pass GlTexture.from_id(...) or GlBuffer.from_id(...)"
        )
    id, size = getattr(native, "glo", None), getattr(native, "size", None)
    if not isinstance(id, int) or size is None:
        raise BindingError(
            f"a {type(native).__name__} is no GL object that framebind knows: wrap its GL name with "
            "GlTexture.from_id(...) or GlBuffer.from_id(...); OpenCL objects need the backend 'opencl'"
        )
    wrapped = GlTexture.from_id(id, *size) if isinstance(size, tuple) else GlBuffer.from_id(id)
    wrapped._keep = native
    return wrapped
