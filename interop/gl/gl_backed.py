"""The base of memory of OpenCL or CUDA that stands for GL objects."""

from __future__ import annotations

from collections.abc import Sequence

from .gl_object import GlObject


class GlBacked:
    """Base of memory of another API whose content is that of GL objects, which it keeps alive.

    It goes before the API's own class.
    """

    gl_objects: Sequence[GlObject] = ()
    """The GL objects without which the memory is useless."""

    @property
    def released(self) -> bool:
        """True once this memory or one of its GL objects was released."""
        return self._is_released or any(each.released for each in self.gl_objects)

    @released.setter
    def released(self, value: bool) -> None:
        self._is_released = value
