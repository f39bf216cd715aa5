"""The protocol of a context: the part of an API's context that command lists, barriers and devices use."""

from __future__ import annotations

from typing import Protocol


class Context(Protocol):
    """A context of an API, with the queue or stream that runs everything of one device."""

    @property
    def software(self) -> bool:
        """Whether the device is the CPU."""
        ...

    @property
    def closed(self) -> bool:
        """Whether it was closed; ``check`` says so."""
        ...

    def check(self) -> None:
        """Raise DeviceError unless the calling thread may use the context now."""
        ...

    def close(self) -> None:
        """Destroy it, if it is ours. May be called more than once."""
        ...
