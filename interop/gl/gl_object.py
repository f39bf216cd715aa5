"""The base of textures and buffers: a context, a GL name, and the deletion of objects that we made."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from ..errors import BindingError
from ..memory.base import BaseMemory
from .context import GlContext
from .khronos import GL
from .owned_objects import Kind

COPY_BARRIERS = GL.BUFFER_UPDATE_BARRIER_BIT | GL.FRAMEBUFFER_BARRIER_BIT | GL.CLIENT_MAPPED_BUFFER_BARRIER_BIT
"""Bits of the glMemoryBarrier before a copy of an object's content, which kernels may have written."""


class GlObject(BaseMemory[GlContext]):
    """A GL object that we made, or one of another library that we use. A ``with`` block releases it at its end.

    Attributes
    ----------
    context : GlContext
        The context that it lives in.
    id : int
        Its GL name.
    label : str
        Its description in error messages.
    handle : Hashable
        Its identity: two live objects with equal handles are the same memory (see interop/device.py: Resource).
    """

    def _adopt(self, context: GlContext, kind: Kind, id: int, label: str) -> None:
        self.context, self.id, self.label = context, id, label
        self.handle: Hashable = (context, kind, id)
        self._let_go = False
        self._finalizers: list[weakref.finalize[..., Any]] = []
        self.is_owned = False
        """True if we made the object, so that nobody else changes or deletes it."""
        self.owner_released: Callable[[], bool] | None = None
        """A function that tells whether the wrapped object of another library was released. It also keeps that object
        alive.
        """

    def _own(self, kind: Kind, name: int) -> None:
        """Delete the GL object ``name`` when this object is released or collected, on the context's own thread."""
        finalizer = weakref.finalize(self, self.context.objects.defer_delete, kind, name)
        finalizer.atexit = False
        self._finalizers.append(finalizer)
        self.is_owned = True

    @functools.cached_property
    def compatibility_key(self) -> Hashable:
        """Key that is equal for objects that may replace one another in a slot without checks.

        None if another library made the object, because that may have changed it.
        """
        if not self.is_owned:
            return None
        return type(self), self.context, self.format, self.size, self.nbytes

    @property
    def released(self) -> bool:
        """Whether the object was released, also by its owner, or its context closed."""
        owner_released = self.owner_released
        return self._let_go or self.context.closed or (owner_released is not None and owner_released())

    def release(self) -> None:
        """Delete it if we made it, else let go of it. Any thread may call this, more than once."""
        self._let_go = True
        for finalizer in self._finalizers:
            finalizer()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}: {self._content()}{', released' if self.released else ''}>"

    def _content(self) -> str:
        """The object's size in words, for people."""
        raise NotImplementedError

    def _check_usable(self) -> None:
        if self.released:
            raise BindingError(f"{self.label} is released: make a new one")
        self.context.check()
