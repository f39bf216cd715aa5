"""Which devices there are, by the name of their backend."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from .device import Device
from .errors import DeviceError
from .gl import GlDevice
from .gl_context import GlContext
from .null import NullDevice

_gl_devices: weakref.WeakValueDictionary[GlContext, GlDevice] = weakref.WeakValueDictionary()


def open_device(backend: str) -> Device:
    """A device of that backend; call its ``close()`` once when done.

    "opengl" runs in the GL context that is current on the calling thread, or, where there is none, in a headless one
    of its own, which is current from then on and closed with the device. One device serves all who open one there.
    "null" computes nothing. Raises DeviceError for an unknown backend, or where no driver is found.
    """
    if backend not in _BACKENDS:
        raise DeviceError(f"there is no backend '{backend}': take one of {', '.join(sorted(_BACKENDS))}")
    return _BACKENDS[backend]()


def _open_gl() -> GlDevice:
    owns_context = not GlContext.is_current()
    context = GlContext.headless() if owns_context else GlContext.current()
    device = _gl_devices.get(context)
    if device is None or device.closed:
        device = _gl_devices[context] = GlDevice(context, owns_context)
    device.users += 1
    return device


_BACKENDS: dict[str, Callable[[], Device]] = {"opengl": _open_gl, "null": NullDevice}
