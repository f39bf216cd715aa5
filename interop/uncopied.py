"""Objects that hold what one process has once: a GPU's memory, a context, a device, an open file."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from .errors import DeviceError


class Uncopied:
    """Base of objects that are neither copied by ``copy`` nor sent by ``pickle``: two would release the same thing."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse, for copy, deepcopy and pickle, which all ask here. Raises DeviceError."""
        raise DeviceError(
            f"this {type(self).__name__} is not copied or pickled: it holds what this process has once (memory or a "
            "context of a GPU, a device, a file). Use the object itself, or make another one from its values"
        )
