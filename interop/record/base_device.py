"""The base of every API's device: the cache of kernels, the choice between one dispatch and separate ones, closing."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

from ...kernels.codegen.source import KernelSource
from ..binaries import BinaryStore
from ..contexts import BaseContext
from ..device import CommandList, Dispatches, Kernel, Step, Traits
from ..errors import BindingError, DeviceError
from .barrier import Barrier
from .checks import check_formats
from .one_dispatch import why_not_one

USERS = threading.RLock()
"""Lock of opening a device, and of closing it by one of its users: threads may share an OpenCL or a CUDA context."""
K = TypeVar("K", bound=Kernel)
"""The API's kernels."""
L = TypeVar("L", bound=CommandList)
"""The API's command lists."""
B = TypeVar("B", bound=Barrier)
"""The API's barrier."""


class BaseDevice(ABC, Generic[K, L, B]):
    """Implements the part of interop.device.Device that does not depend on the API. ``owns_context``: ``close`` closes
    the context too.
    """

    traits: Traits

    def __init__(self, context: BaseContext, barrier: B, *, owns_context: bool) -> None:
        self._base_context, self._barrier, self.owns_context = context, barrier, owns_context
        self.check = context.check
        """Raises DeviceError unless the calling thread may use the device now."""
        self._kernels: dict[KernelSource, K] = {}
        self.dispatches: Dispatches = "auto"
        self.users = 0
        """The number of users that opened it (discovery/devices.py: open_device). The last to close it closes it."""
        self.closed = False
        self.needs_entering = False
        """True if the device's own context has to be made current for its calls: see ``entered``."""

    @abstractmethod
    def _make_kernel(self, source: KernelSource) -> K:
        """A kernel that is not compiled yet."""

    @abstractmethod
    def _compile(self, kernels: Collection[Kernel], store: BinaryStore | None) -> None:
        """Compile those kernels that are not compiled yet. Raises KernelError."""

    @abstractmethod
    def _prefers_one(self, steps: Sequence[Step]) -> bool:
        """Whether "auto" records these steps as one dispatch, or a few, instead of separate ones."""

    @abstractmethod
    def _record_separately(self, steps: Sequence[Step], store: BinaryStore | None) -> L: ...
    @abstractmethod
    def _record_as_one(self, steps: Sequence[Step], groups_per_unit: int, store: BinaryStore | None) -> L: ...
    def _compile_apart(self, steps: Sequence[Step], store: BinaryStore | None) -> None:
        """Compile what ``_record_apart`` needs. Raises KernelError."""
        self._compile(dict.fromkeys(step.kernel for step in steps), store)

    def _record_apart(self, steps: Sequence[Step], store: BinaryStore | None) -> L:
        """Record steps as several dispatches, of which each has one or more; here one."""
        return self._record_separately(steps, store)

    def _record_parts(self, steps: Sequence[Step], groups_per_unit: int, store: BinaryStore | None) -> L:
        """Record steps as few dispatches where one for all takes too long to compile; here as one."""
        return self._record_as_one(steps, groups_per_unit, store)

    @abstractmethod
    def _free(self) -> None:
        """Free what the device holds besides its context."""

    def kernel(self, source: KernelSource) -> K:
        """Make the kernel of a source, or find it among those made before. It is not compiled yet."""
        kernel = self._kernels.get(source)
        if kernel is None:
            self.check()
            check_formats(source, self.traits)
            kernel = self._kernels[source] = self._make_kernel(source)
        return kernel

    def compile(
        self, steps: Sequence[Step], dispatches: Dispatches | None = None, store: BinaryStore | None = None
    ) -> None:
        """Compile the kernels of steps that ``record`` would make separate dispatches. Raises KernelError."""
        self.check()
        dispatches = dispatches or self.dispatches
        if dispatches == "separate":
            self._compile(dict.fromkeys(step.kernel for step in steps), store)
        elif self._why_separate(steps, dispatches, store):
            self._compile_apart(steps, store)

    def record(
        self,
        steps: Sequence[Step],
        dispatches: Dispatches | None = None,
        groups_per_unit: int = 0,
        store: BinaryStore | None = None,
    ) -> L:
        """Record steps as one dispatch, as parts, or as separate dispatches.

        Raises BindingError if they cannot be one dispatch, but ``dispatches`` is "one" or "parts".
        """
        self.check()
        dispatches = dispatches or self.dispatches
        reason = self._why_separate(steps, dispatches, store)
        if not reason:
            record = self._record_as_one if dispatches == "one" else self._record_parts
            return record(steps, groups_per_unit, store)
        if dispatches in ("one", "parts"):
            raise BindingError(f"these steps cannot run as one dispatch on {self._base_context}: {reason}")
        return self._record_separately(steps, store) if dispatches == "separate" else self._record_apart(steps, store)

    def _why_separate(self, steps: Sequence[Step], dispatches: Dispatches, store: BinaryStore | None) -> str:
        """The reason why each of these steps is a dispatch of its own; "" if they become one dispatch."""
        if dispatches == "separate" or (dispatches == "auto" and not self._prefers_one(steps)):
            return "separate dispatches were asked for, or are likely to be the faster ones"
        return why_not_one(steps, self.traits) or self._barrier.why_unusable(store)

    def _check_size(self, nbytes: int, label: str) -> None:
        """Raise DeviceError if a buffer is larger than kernels can address."""
        if nbytes > self.traits.max_buffer_bytes:
            raise DeviceError(
                f"'{label}' needs {nbytes} bytes, and kernels on {self.traits.name} address at most "
                f"{self.traits.max_buffer_bytes} in one buffer: use a smaller input, or f16 storage"
            )

    def entered(self) -> AbstractContextManager[None]:
        """Give a block that does nothing. A device with a context of its own makes that current instead."""
        return nullcontext()

    def close(self) -> None:
        """Let go of the device. Its last user frees the kernels, and closes the context if the device made it."""
        with USERS:
            self.users -= 1
            if self.users > 0 or self.closed:
                return
            self.closed = True
        self._free()
        self._kernels.clear()
        if self.owns_context:
            self._base_context.close()
