"""The GL objects that the library makes in a context: their names, their deletion, and those made once per context."""

from __future__ import annotations

import ctypes
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Literal

from .api import GlApi

Kind = Literal[
    "buffer", "texture", "framebuffer", "vertex array", "sampler", "query", "program", "sync", "memory object",
    "semaphore",
]  # fmt: skip

_DELETERS: dict[str, str] = {
    "buffer": "glDeleteBuffers", "texture": "glDeleteTextures", "framebuffer": "glDeleteFramebuffers",
    "vertex array": "glDeleteVertexArrays", "sampler": "glDeleteSamplers", "query": "glDeleteQueries",
    "memory object": "glDeleteMemoryObjectsEXT", "semaphore": "glDeleteSemaphoresEXT",
}  # fmt: skip
_GENERATORS = {kind: name.replace("Delete", "Gen") for kind, name in _DELETERS.items()}


class OwnedObjects:
    """Generates the names of one context's objects, and deletes them on its thread with the context current."""

    def __init__(self, gl: GlApi, parts_kept: Sequence[object]) -> None:
        self._gl, self._parts_kept = gl, parts_kept
        self.deletions: deque[tuple[Kind, int]] = deque()
        """The objects that the next ``drain`` deletes."""
        self._made_once: dict[tuple[Kind, str], int] = {}
        self.live: Counter[str] = Counter()
        """The number of GL objects of each kind that were made and not deleted yet."""
        self.mapped: set[int] = set()
        """The buffers that are mapped, or may be: see mapping.py."""
        self.memory: dict[int, object] = {}
        """Owners of the host's memory that buffers stand on, by buffer, until it is deleted."""

    def generate(self, kind: Kind) -> int:
        """A new GL name of any kind but "program" and "sync"."""
        self.drain()
        name = ctypes.c_uint()
        getattr(self._gl, _GENERATORS[kind])(1, ctypes.byref(name))
        self.live[kind] += 1
        return name.value

    def defer_delete(self, kind: Kind, name: int) -> None:
        """Queue an object for deletion by the next ``drain``. Any thread may call this: finalizers do."""
        self.deletions.append((kind, name))

    def drain(self) -> None:
        """Delete the queued objects. Call it on the context's thread, with the context current.

        Inside a block that restores state (state.py) they stay queued: it may bind one of them again.
        """
        while self.deletions and not self._parts_kept:
            kind, name = self.deletions.popleft()
            self.live[kind] -= 1
            if kind == "buffer":
                self.mapped.discard(name)
                self.memory.pop(name, None)
            if kind == "program":
                self._gl.glDeleteProgram(name)
            elif kind == "sync":
                self._gl.glDeleteSync(name)
            else:
                getattr(self._gl, _DELETERS[kind])(1, ctypes.byref(ctypes.c_uint(name)))

    def once(self, kind: Kind, purpose: str, make: Callable[[], int]) -> int:
        """The object of that kind for ``purpose``. The first call makes it; it lives as long as the context."""
        key = kind, purpose
        if key not in self._made_once:
            self._made_once[key] = make()
        return self._made_once[key]

    def delete_all(self) -> None:
        """Delete the queued objects and those made once per context. A context of another library lives on without
        them.
        """
        for (kind, _), name in self._made_once.items():
            self.defer_delete(kind, name)
        self._made_once.clear()
        self.drain()
