"""CUDA contexts: a GPU's primary context with the stream on which models run, and the one that each thread uses now."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import operator
import os
import weakref
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from ..contexts import SharedContext, cuda_contexts
from ..errors import DeviceError
from ..forks import check_process
from . import api, nvrtc
from .api import ask, check, driver
from .current import POPPED, entered, is_current, leave, push

log = logging.getLogger("framebind")

NO_TIMES, BLOCKING = 2, 1
"""CU_EVENT_DISABLE_TIMING: such an event costs less; CU_EVENT_BLOCKING_SYNC: the CPU sleeps while it waits for it."""
NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING."""
HANDLES_SUFFICE = 13000
"""The first driver that is known to launch graphs, and to record, query and await events, whatever context is current:
the handles of streams and events say which one is meant. Each call was tried in a process of its own without a current
context, on another thread and with another context (one H200, driver 580, CUDA 13.0, 2026-11-22).
"""
OLDEST_CAPABILITY = 70
"""The first compute capability whose memory model has release and acquire, which the barrier between groups needs."""


@runtime_checkable
class Stream(Protocol):
    """A stream of another library: torch, CuPy, cuda.core."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol's version, 0, and the CUstream."""
        ...


_living: weakref.WeakSet[CudaContext] = weakref.WeakSet()
_LEGACY = {0, 1}
"""Handles of the legacy default stream."""
_DEFAULT_STREAMS = {*_LEGACY, 2}
"""Handles that mean a stream of the current context."""


class CudaContext(SharedContext):
    """A GPU's primary CUDA context with a stream, on which models run with the backend "cuda".

    The primary context is the one that PyTorch, CuPy, JAX and NVDEC use: their memory is read and written in place.

    It is current on the thread that made it, until it is closed: a delegate that is applied in between runs on it. That
    does not change which context CUDA has current on the thread, but during calls. Use it as a context manager, or call
    ``close()``; nothing that runs on it can be used afterwards. A stream of yours is never destroyed.
    An object with ``__cuda_stream__`` is held until then; who owns a handle must keep the stream as long.

    Parameters
    ----------
    device : int
        The number of the GPU, as in ``torch.device("cuda", 0)``.
    stream : int or object with ``__cuda_stream__``, optional
        Your own stream: your kernels and the model's run in the order in which they are submitted. 1 is the legacy
        default stream, 2 the default stream of each thread. Without it the stream is a new one, which waits for the
        legacy default stream, and which that stream waits for.
    independent : bool
        The new stream and the legacy default stream do not wait for each other: several contexts of one GPU, on which
        sources decode and models run side by side, then do not delay one another. The planes of ``Source.frames``
        are in order all the same. A thread that reads results sleeps until they are there, as others have work for its
        core. By default it asks for them without a pause, which is sooner and takes the core.

    Attributes
    ----------
    device : int
        The number of the GPU.
    stream : int
        The CUstream on which models run.
    name : str
        The GPU's name.
    software : bool
        Always False.

    Raises
    ------
    DeviceError
        If there is no driver, no such GPU, or it is older than compute capability 7.0; if the stream is another GPU's.

    Examples
    --------
    >>> import contextlib
    >>> with contextlib.suppress(fb.DeviceError):  # there may be no GPU of NVIDIA
    ...     with fb.cuda.CudaContext():
    ...         delegate = fb.GpuDelegate("cuda")
    """

    software = False
    _current = cuda_contexts
    _none_is_current = "no CudaContext is current on this thread: make one, or use 'with fb.cuda.CudaContext():'"

    def __init__(self, device: int = 0, stream: int | Stream | None = None, *, independent: bool = False) -> None:
        check_process()
        count, device = api.device_count(), _device_number(device)
        if not 0 <= device < count:
            raise DeviceError(f"there is no CUDA device {device}: there are {count}, the first is 0")
        self.device, self.name = device, api.device_name(device)
        self.capability = api.capability(device)
        """The compute capability: 90 is 9.0."""
        if self.capability < OLDEST_CAPABILITY:
            raise DeviceError(
                f"'{self.name}' has compute capability {self.capability / 10}, and 7.0 is the oldest: use the backend "
                "'opencl' or 'opengl'"
            )
        self._driver = driver()
        what = f"making a CUDA context on '{self.name}'"
        self.handle: int = ask(self._driver.cuDevicePrimaryCtxRetain, ctypes.c_void_p, device, what=what)
        """The CUcontext."""
        self._owns_stream = stream is None
        self._given = stream  # an object with __cuda_stream__ may destroy its stream when it is gone
        try:
            new = NON_BLOCKING if independent else 0
            self.stream = self._new_stream(new) if stream is None else self._checked_stream(_handle(stream))
            self.waits = BLOCKING if independent else 0
            """The flags of events for which the CPU waits."""
            self._asleep = self.new_event(self.waits) if independent else None
        except BaseException:  # also one of the other library's own
            self._driver.cuDevicePrimaryCtxRelease_v2(device)
            raise
        self._needs_current = api.driver_number() < HANDLES_SUFFICE or self.stream in _DEFAULT_STREAMS
        super().__init__()
        _living.add(self)
        self.make_current()

    def _new_stream(self, flags: int) -> int:
        with self.entered():
            return ask(self._driver.cuStreamCreate, ctypes.c_void_p, flags, what=f"making a stream on '{self.name}'")

    def new_event(self, flags: int) -> int:
        """A new CUevent without times, and with these further flags of CUDA's."""
        with self.entered():
            what = f"making an event on '{self.name}'"
            return ask(self._driver.cuEventCreate, ctypes.c_void_p, NO_TIMES | flags, what=what)

    def _checked_stream(self, stream: int) -> int:
        with self.entered():
            found = ctypes.c_void_p()
            check(self._driver.cuStreamGetCtx(stream, ctypes.byref(found)), f"looking at the stream {stream:#x}")
        if found.value != self.handle:
            raise DeviceError(
                f"the stream {stream:#x} is not one of the primary context of '{self.name}': make it on CUDA device "
                f"{self.device}, with PyTorch, CuPy or CUDA's runtime, or leave it out"
            )
        return stream

    def by_handles(self, function: Callable[..., int]) -> Callable[..., int]:
        """A function of the driver that can take the context from its stream or event, as it has to be called.

        The context is entered only if the driver needs that (see HANDLES_SUFFICE): entering takes longer than most of
        these functions.
        """
        return functools.partial(self.call, function) if self._needs_current else function

    def call(self, function: Callable[..., int], *arguments: Any) -> int:
        """Call a function of the driver while this is CUDA's current context, and return its status."""
        cuda, left = self._driver, False
        if is_current(cuda, self.handle):
            return function(*arguments)
        try:  # as entered(), which takes longer
            push(cuda, self.handle)
            status = function(*arguments)
            cuda.cuCtxPopCurrent_v2(POPPED)
            left = True
        finally:
            if not left:
                leave(cuda, self.handle)
        return status

    def entered(self) -> contextlib.AbstractContextManager[None]:
        """Within the block it is CUDA's current context on this thread."""
        return entered(self._driver, self.handle)

    def finalize(self, owner: object, function: Callable[[Any], int], handle: Any) -> weakref.finalize[Any, Any]:
        """Call ``function(handle)`` when ``owner`` is gone, from any thread, also if this context is closed by then;
        or when what this returns is called, if that is sooner. Not in a forked process.

        Until then CUDA keeps the primary context, and with it the object of the handle.
        """
        what = f"holding {self}"
        ask(self._driver.cuDevicePrimaryCtxRetain, ctypes.c_void_p, self.device, what=what)
        made = weakref.finalize(owner, _finalize, os.getpid(), self._driver, self.handle, self.device, function, handle)
        made.atexit = False
        return made

    def wait_for_stream(self, stream: int) -> None:
        """Let what is submitted from now on begin after what was submitted to another stream of this GPU."""
        self._order(stream, self.stream)

    def hold_stream(self, stream: int) -> None:
        """Let what is submitted to another stream of this GPU from now on begin after what was submitted here."""
        self._order(self.stream, stream)

    def _order(self, first: int, then: int) -> None:
        if first == then or {first, then} <= _LEGACY:
            return
        what = f"letting the stream {then:#x} wait for {first:#x} in {self}"
        with self.entered():
            event = self.new_event(0)
            try:
                check(self._driver.cuEventRecord(event, first), what)
                check(self._driver.cuStreamWaitEvent(then, event, 0), what)
            finally:
                self._driver.cuEventDestroy_v2(event)

    def finish(self) -> None:
        """Wait until the GPU has done everything submitted to the stream."""
        self.check()
        with self.entered():
            self.sleep()
            check(self._driver.cuStreamSynchronize(self.stream), f"waiting for {self}")

    def sleep(self) -> None:
        """Sleep until the GPU has done everything submitted to the stream, if the context is independent.

        It must be entered. It comes before calls that wait, for which CUDA keeps a core busy.
        """
        if self._asleep is not None:
            what = f"waiting for {self}"
            check(self._driver.cuEventRecord(self._asleep, self.stream), what)
            check(self._driver.cuEventSynchronize(self._asleep), what)

    def _finish_and_free(self) -> None:
        self.finish()
        with self.entered():
            if self._owns_stream:
                self._driver.cuStreamDestroy_v2(self.stream)
            if self._asleep is not None:
                self._driver.cuEventDestroy_v2(self._asleep)

    def _close(self) -> None:
        super()._close()
        self._given = None
        self._driver.cuDevicePrimaryCtxRelease_v2(self.device)

    def __str__(self) -> str:
        return f"the CUDA context on '{self.name}'"


def has_gpu() -> bool:
    """Whether NVIDIA's driver is there and finds a GPU."""
    try:
        return api.device_count() > 0
    except DeviceError:
        return False


def check_compiler(device: int) -> None:
    """Raise DeviceError if models cannot run on a GPU for want of the compiler, or of one that knows the GPU."""
    nvrtc.architecture(api.capability(device))


def contexts_on(device: int) -> list[CudaContext]:
    """The contexts of this process on a GPU that are not closed."""
    return [context for context in list(_living) if context.device == device and not context.closed]


def _finalize(process: int, cuda: Any, context: int, device: int, function: Callable[[int], int], handle: int) -> None:
    if os.getpid() != process:  # forked: what is CUDA's is the parent's
        return
    with entered(cuda, context):
        status = function(handle)
    if status:
        log.warning(f"freeing {handle:#x} on CUDA device {device} failed: CUDA error {status}")
    cuda.cuDevicePrimaryCtxRelease_v2(device)


def _device_number(device: Any) -> int:
    """The number of a GPU as an int."""
    try:
        return operator.index(device)
    except TypeError:
        raise DeviceError(f"{device!r} is not the number of a CUDA device: give 0 for the first one") from None


def _handle(stream: Any) -> int:
    """The CUstream of a handle or of an object with __cuda_stream__."""
    if hasattr(type(stream), "__index__"):
        return operator.index(stream)
    if not isinstance(stream, Stream):
        raise DeviceError(
            f"a {type(stream).__name__} is no CUDA stream: give the handle as an int (torch: stream.cuda_stream, "
            "CuPy: stream.ptr), or an object with __cuda_stream__"
        )
    version, handle = stream.__cuda_stream__()
    if version != 0:
        raise DeviceError(f"the stream speaks version {version} of __cuda_stream__, and 0 is known: give its handle")
    return int(handle)
