"""OpenCL contexts: the device and the queue on which models run, and the context that each thread uses now."""

from __future__ import annotations

import ctypes
import functools
import gc
import logging
from collections.abc import Sequence

import pyopencl as cl

from ..contexts import SharedContext, cl_contexts
from ..errors import DeviceError
from ..forks import check_process, keep_in_children, note_use
from . import gl_sharing
from .api import own_errors
from .build import build

log = logging.getLogger("framebind")
_TYPES = {"gpu": cl.device_type.GPU, "cpu": cl.device_type.CPU, "accelerator": cl.device_type.ACCELERATOR}
_OUT_OF_ORDER = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
POCL_CACHE = "PoCL has none if it cannot write its cache: name a folder in POCL_CACHE_DIR"
_INSTALL = "install an OpenCL driver (of the GPU's vendor, or the package pocl-opencl-icd for the CPU)"


class ClContext(SharedContext):
    """An OpenCL device with a context and an in-order queue, on which models run with the backend "opencl".

    Made while a GL context is current on this thread, it shares objects with that context if the drivers can. GL
    objects that are bound to a model are then read and written in place, or by way of memory that both APIs address:
    see ``sharing_report``.

    It is current on the thread that made it, until it is closed: a delegate that is applied in between runs on it. Use
    it as a context manager, or call ``close()``; nothing that runs on it can be used afterwards. A context or queue of
    yours is never released.

    Parameters
    ----------
    device : int, str or pyopencl.Device, optional
        A text in the platform's or device's name or version; a type: "gpu", "cpu", "accelerator"; the number of the
        device, GPUs counted first; or the device itself. By default the first that works, GPUs before CPUs.
    context : pyopencl.Context, optional
        Your own context; the queue is ours.
    queue : pyopencl.CommandQueue, optional
        Your own in-order queue: your kernels and the model's run in the order in which they are enqueued.
    copies_allowed : bool
        Let GL objects be copied through the CPU, counted, if there is no way to share them.

    Attributes
    ----------
    device : pyopencl.Device
        The device.
    context : pyopencl.Context
        The context on it.
    queue : pyopencl.CommandQueue
        The queue on which models run.
    name : str
        The device's name.
    software : bool
        The device is the CPU.

    Raises
    ------
    DeviceError
        If no such device works, with the reasons; if the queue runs out of order.

    Examples
    --------
    >>> with fb.cl.ClContext("pocl") as context:
    ...     context.software
    True
    """

    _current = cl_contexts
    _none_is_current = "no ClContext is current on this thread: make one, or use 'with fb.cl.ClContext():'"

    def __init__(
        self,
        device: int | str | cl.Device | None = None,
        *,
        context: cl.Context | None = None,
        queue: cl.CommandQueue | None = None,
        copies_allowed: bool = False,
    ) -> None:
        check_process()
        if queue is not None:
            if device is not None or (context is not None and context != queue.context):
                raise DeviceError("a queue has its context and device: give ClContext the queue alone")
            if queue.properties & _OUT_OF_ORDER:
                raise DeviceError(
                    "the queue runs out of order, and models need an in-order one: make it without "
                    "OUT_OF_ORDER_EXEC_MODE_ENABLE"
                )
            context, self.device = queue.context, queue.device
        else:
            self.device = _choose(_gpus_first(context.devices) if context is not None else all_devices(), device)
        self.name: str = self.device.name.strip()
        with own_errors(f"making an OpenCL context and a queue on '{self.name}'"):
            self.context: cl.Context = context or gl_sharing.make_context(self.device) or cl.Context([self.device])
            self.queue: cl.CommandQueue = queue or cl.CommandQueue(self.context, self.device)
        self.handle: int = self.context.int_ptr
        """The cl_context."""
        self.queue_handle = ctypes.c_void_p(self.queue.int_ptr)
        self.software = bool(self.device.type & cl.device_type.CPU)
        self.copies_allowed = copies_allowed
        super().__init__()
        self.make_current()

    def finish(self) -> None:
        """Wait until the device has done everything submitted to the queue."""
        self.check()
        with own_errors(f"waiting for {self}"):
            wait_for_all(self.queue)

    def _finish_and_free(self) -> None:
        with own_errors(f"waiting for {self}"):
            wait_for_all(self.queue)

    def __str__(self) -> str:
        return f"the OpenCL context on '{self.name}' ({self.device.platform.name.strip()})"


def _keep_objects() -> None:
    """Keep pyopencl's objects alive for good, but plain events, which Python's collector does not know and which hold
    no memory. NVIDIA's driver takes a release in a child for the parent's: on an H200 the parent's next kernel read
    memory that was gone, and all its contexts were lost.
    """
    for found in gc.get_objects():
        if type(found).__module__ == "pyopencl._cl":
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(found))


keep_in_children(_keep_objects)


def wait_for_all(queue: cl.CommandQueue) -> None:
    """Wait until everything submitted to an in-order queue is done."""
    # clFinish would do, but that of Mesa's rusticl (22.3) returns at once.
    cl.enqueue_marker(queue).wait()


def all_devices() -> list[cl.Device]:
    """Every device of every OpenCL platform, GPUs first, CPUs last, whether it works or not."""
    check_process()
    note_use()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:  # no driver is installed
        raise DeviceError(f"there is no OpenCL platform: {_INSTALL}") from error
    found: list[cl.Device] = []
    for platform in platforms:
        try:
            found += platform.get_devices()
        except cl.Error as error:  # a driver without its hardware
            log.info(f"the OpenCL platform {platform.name} has no device: {error}")
    return _gpus_first(found)


def driver_of(device: cl.Device) -> str:
    """The versions of a device and its driver, and the platform: the texts of rusticl do not name it."""
    return f"{device.version.strip()}, {device.platform.name.strip()}, driver {device.driver_version.strip()}"


def _gpus_first(devices: Sequence[cl.Device]) -> list[cl.Device]:
    return sorted(devices, key=lambda d: 0 if d.type & cl.device_type.GPU else 2 if d.type & cl.device_type.CPU else 1)


def _choose(devices: list[cl.Device], wanted: int | str | cl.Device | None) -> cl.Device:
    """The first of ``devices`` that is wanted and works. Raises DeviceError with what there is and what is wrong."""
    if isinstance(wanted, cl.Device):
        candidates = [wanted]
    elif isinstance(wanted, int):
        candidates = devices[wanted : wanted + 1] if wanted >= 0 else []
    elif wanted is None:
        candidates = devices
    else:
        candidates = [d for d in devices if _matches(d, wanted.lower())]
    reasons: list[str] = []
    for device in candidates:
        reason = why_unusable(device)
        if not reason:
            return device
        reasons.append(f"'{device.name.strip()}' of {device.platform.name.strip()}: {reason}")
    if reasons:
        raise DeviceError(f"no OpenCL device works; {_INSTALL}. Tried {'; '.join(reasons)}")
    if not devices:
        raise DeviceError(f"no OpenCL platform has a device: {_INSTALL}. {POCL_CACHE}")
    known = ", ".join(f"{i} '{d.name.strip()}' of {d.platform.name.strip()}" for i, d in enumerate(devices))
    raise DeviceError(f"there is no OpenCL device {wanted!r}: there are {known}")


def _matches(device: cl.Device, text: str) -> bool:
    if text in _TYPES:
        return bool(device.type & _TYPES[text])
    platform = device.platform
    return text in f"{platform.name} {platform.version} {device.name} {device.version}".lower()


@functools.cache
def why_unusable(device: cl.Device) -> str:
    """The reason why a device cannot be used, found by building a kernel of one line on it; "" if it can.

    Drivers exist that offer a device for which they cannot compile (Clover; PoCL's wheel on newer CPUs).
    """
    if not device.available or not device.compiler_available:
        return "the driver says that it is not available"
    try:
        build(cl.Context([device]), "__kernel void one_line(__global float* x) { x[0] = 1.0f; }", "one_line")
    except cl.Error as error:
        return f"it cannot build a kernel of one line: {str(error).strip().splitlines()[-1]}"
    return ""
