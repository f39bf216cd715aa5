"""Opens devices: all who open one in a context share it, and a device without a context gets one of its own."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from ..device import Device
from .base_device import USERS

_devices: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
"""The device of each context, as long as somebody uses it."""


class _Own(threading.local):
    """The devices that this thread has opened in contexts of their own, as long as somebody uses them."""

    def __init__(self) -> None:
        self.devices: weakref.WeakValueDictionary[type, Any] = weakref.WeakValueDictionary()


_own = _Own()


def open_in(api: type[Any], make_context: Callable[[], Any], make_device: Callable[..., Any]) -> Device:
    """Open the device of the API's current context on this thread. If there is none, it gets a context of its own.

    Parameters
    ----------
    api : type
        The class of the API's contexts.
    make_context : callable
        Opens a context for the device alone, which is closed with it.
    make_device : callable
        Makes the device of a context.
    """
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


def is_users(api: type[Any]) -> bool:
    """Whether a context of a user's is current, not one that a device made for itself."""
    device = _devices.get(api.current()) if api.is_current() else None
    return api.is_current() and (device is None or not device.owns_context)


def _made_in_own_context(make_context: Callable[[], Any], make_device: Callable[..., Any]) -> Any:
    """A device in a new context, which is closed if the device cannot be made."""
    context = make_context()
    try:
        return make_device(context, owns_context=True)
    except BaseException:
        context.close()
        raise
