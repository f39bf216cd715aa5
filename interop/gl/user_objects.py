"""The GL objects that can be bound to tensors: ours, and those of other libraries."""

from __future__ import annotations

import sys
from typing import Any

from ..backends import advice_on_others
from ..errors import BindingError
from .buffer import GlBuffer
from .texture import GlTexture

_WRAP = "GlTexture.from_id(...) or GlBuffer.from_id(...)"


def is_gl_object(native: Any) -> bool:
    """Whether an object is GL's, so that ``as_gl_object`` takes it or says why not."""
    return isinstance(native, GlTexture | GlBuffer) or isinstance(getattr(native, "glo", None), int)


def as_gl_object(native: Any) -> GlTexture | GlBuffer:
    """Take a GlTexture or GlBuffer as it is; wrap a moderngl Texture or Buffer, which is kept alive.

    Raises BindingError for everything else. GL names of different kinds are the same numbers, so that only the type
    tells what an object is: an int does not, nor does another library's object that has a name.
    """
    if isinstance(native, GlTexture | GlBuffer):
        native.check()
        return native
    if isinstance(native, int):
        raise BindingError(f"{native} may name a texture or a buffer: pass {_WRAP}")
    moderngl: Any = sys.modules.get("moderngl")  # whoever has an object of it has imported it
    if moderngl is not None and isinstance(native, moderngl.Texture | moderngl.Buffer):
        return _wrapped(native, is_texture=isinstance(native, moderngl.Texture))
    if moderngl is not None and isinstance(native, moderngl.Framebuffer):
        raise BindingError("a moderngl Framebuffer holds no pixels: bind one of its color_attachments, a Texture")
    raise BindingError(
        f"a {type(native).__name__} is no GL object that framebind knows: wrap its GL name with {_WRAP}; "
        f"{advice_on_others('opengl')}"
    )


def _wrapped(native: Any, *, is_texture: bool) -> GlTexture | GlBuffer:
    """A moderngl Texture or Buffer, which counts as released as soon as its owner releases it."""
    if _is_released(native):
        raise BindingError(f"the moderngl {type(native).__name__} is released: bind one that is alive")
    wrapped = GlTexture.from_id(native.glo, *native.size) if is_texture else GlBuffer.from_id(native.glo)
    wrapped.owner_released = lambda: _is_released(native)
    return wrapped


def _is_released(native: Any) -> bool:
    return type(native.mglo).__name__ == "InvalidObject"
