"""The devices by the name of their backend, and the choice that "auto" makes."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cuda.compute.device import CudaDevice
from ..cuda.context import CudaContext, check_compiler, has_gpu
from ..cuda.user_objects import is_cuda_object
from ..device import Device
from ..errors import DeviceError
from ..gl.compute.device import GlDevice
from ..gl.context import GlContext
from ..gl.user_objects import is_gl_object
from ..record.base_device import USERS
from ..record.context import cl_contexts
from ..record.null import NullDevice

if TYPE_CHECKING:
    from ..cl.compute.device import ClDevice
    from ..cl.context import ClContext

    AnyContext = GlContext | ClContext | CudaContext
    AnyDevice = GlDevice | ClDevice | CudaDevice

log = logging.getLogger("framebind")

_devices: weakref.WeakValueDictionary[AnyContext, AnyDevice] = weakref.WeakValueDictionary()
"""The device of each context, as long as somebody uses it."""


class _Own(threading.local):
    """The devices that this thread has opened in contexts of their own, as long as somebody uses them."""

    def __init__(self) -> None:
        self.devices: weakref.WeakValueDictionary[type, AnyDevice] = weakref.WeakValueDictionary()


_own = _Own()


def open_device(backend: str) -> Device:
    """Open a device of that backend; call its ``close()`` once when done.

    All who open a device in one context share it.

    Parameters
    ----------
    backend : str
        "opengl" runs in the GL context that is current on this thread. Without one it makes a headless context, which
        is closed with the device; it is current during runs only, because a window of GLX cannot make its own context
        current, and ends the process, while one of EGL is.
        "opencl" runs in the current ClContext, or in one of its own; "cuda" in the current CudaContext, or in one of
        its own on device 0. "auto" follows the rule of ``choose_device``, and logs in one line why it did not take its
        first choice. "null" computes nothing.

    Raises
    ------
    DeviceError
        If there is no such backend, or no driver for it.
    """
    if backend not in _BACKENDS:
        raise DeviceError(f"there is no backend '{backend}': take one of {', '.join(sorted(_BACKENDS))}")
    return _BACKENDS[backend]()


def _open_in(
    api: type[GlContext] | type[ClContext] | type[CudaContext],
    make_context: Callable[[], AnyContext],
    make_device: Callable[..., AnyDevice],
) -> Device:
    """The device of the API's current context on this thread. If there is none, it gets a context of its own."""
    owns_context = not api.is_current()
    with USERS:
        device = _own.devices.get(api) if owns_context else _devices.get(api.current())
        if device is None or device.closed:
            device = _made_in_own_context(make_context, make_device) if owns_context else make_device(api.current())
            _devices[device.context] = device
            if device.needs_entering:
                _own.devices[api] = device
                device.context.release()
        device.users += 1
    return device


def _made_in_own_context(make_context: Callable[[], AnyContext], make_device: Callable[..., AnyDevice]) -> AnyDevice:
    """A device in a new context, which is closed if the device cannot be made."""
    context = make_context()
    try:
        return make_device(context, owns_context=True)
    except BaseException:
        context.close()
        raise


_open_gl = partial(_open_in, GlContext, GlContext.headless, GlDevice)
_open_cuda = partial(_open_in, CudaContext, CudaContext, CudaDevice)


def _open_cl() -> Device:
    from ..cl.compute.device import ClDevice  # only here: to import pyopencl takes time, and most programs need none
    from ..cl.context import ClContext

    return _open_in(ClContext, ClContext, ClDevice)


class ChosenDevice(NamedTuple):
    """The device that the backend "auto" takes, and why."""

    device: Device
    reason: str = ""
    """The reason why it is not the first choice; "" if it is."""
    both_work: bool = True


def choose_device() -> ChosenDevice:
    """Open the device of the backend "auto". Nothing is logged.

    1. The API whose context is current on the thread: CUDA's, then OpenCL's, because nobody makes one of these current
       without meaning it, then OpenGL's. If OpenCL or OpenGL does not work there, it takes the other one.
       A CudaContext that a device made for itself does not count.
    2. Without a current context CUDA, if there is a GPU of NVIDIA and what the backend "cuda" needs.
    3. Else a GPU before a CPU, and OpenCL before OpenGL.

    A model that has nothing on its device yet follows the first object that is bound: see ``device_of``.
    """
    if _is_users(CudaContext):
        return ChosenDevice(_open_cuda())
    cl_is_current = cl_contexts.last() is not None
    if cl_is_current or GlContext.is_current():
        return _opencl_or_opengl(gl_first=not cl_is_current, current=True)
    if not has_gpu():
        return _opencl_or_opengl(gl_first=False, current=False)
    try:
        check_compiler(0)
        return ChosenDevice(_open_cuda())
    except DeviceError as error:
        reason = str(error)
    try:
        other = _opencl_or_opengl(gl_first=False, current=False)
    except DeviceError as error:
        raise DeviceError(f"{error}; nor does CUDA: {reason}") from error
    return other._replace(reason="; ".join(filter(None, (reason, other.reason))))


def _is_users(api: type[CudaContext]) -> bool:
    """Whether a context is current that is not a device's own."""
    device = _devices.get(api.current()) if api.is_current() else None
    return api.is_current() and (device is None or not device.owns_context)


def _opencl_or_opengl(*, gl_first: bool, current: bool) -> ChosenDevice:
    """``current``: a context of the first choice is current, so a software device is accepted too."""
    # OpenCL's dispatches and kernels are the faster ones, on an H200 as on the CPU (PoCL against llvmpipe).
    first, second = (_open_gl, _open_cl) if gl_first else (_open_cl, _open_gl)
    device: Device | None = None
    try:
        device = first()
        if current or not device.traits.software:
            return ChosenDevice(device)
        reason = f"{device.traits.name} is the CPU"
    except DeviceError as error:
        reason = str(error)
    try:
        other = second()
    except DeviceError as error:
        if device is None:
            raise DeviceError(f"neither OpenGL nor OpenCL works here: {reason}; {error}") from error
        return ChosenDevice(device, str(error), both_work=False)
    if device is not None and other.traits.software:
        other.close()
        return ChosenDevice(device, f"{other.traits.name} is the CPU as well")
    if device is not None:
        device.close()
    return ChosenDevice(other, reason, both_work=device is not None)


def _open_auto() -> Device:
    device, reason, both_work = choose_device()
    if reason:
        level = logging.INFO if both_work else logging.WARNING
        log.log(level, f"backend auto: {device.traits.api} on {device.traits.name}, because {reason}")
    return device


def device_of(native: Any, device: Device) -> Device | None:
    """Open a device of the API that a user's object belongs to, if ``device`` has another API and the object's API can
    be used on this thread; else None. Objects of GL and OpenCL need a current context of theirs, CUDA's do not.
    """
    if not isinstance(device, CudaDevice) and is_cuda_object(native):
        return _open_cuda()
    if not isinstance(device, GlDevice) and is_gl_object(native) and GlContext.is_current():
        return _open_gl()
    if cl_contexts.last() is None:
        return None
    from ..cl.compute.device import ClDevice  # see _open_cl
    from ..cl.user_objects import is_cl_object

    return _open_cl() if not isinstance(device, ClDevice) and is_cl_object(native) else None


_BACKENDS: dict[str, Callable[[], Device]] = {
    "auto": _open_auto,
    "cuda": _open_cuda,
    "opencl": _open_cl,
    "opengl": _open_gl,
    "null": NullDevice,
}
