"""Opens the device of a backend, of an object, or of the choice that "auto" makes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..backends import AUTO, Backend, backend_named, by_preference
from ..device import Device
from ..errors import DeviceError

log = logging.getLogger("framebind")


def open_device(backend: str) -> Device:
    """Open a device of that backend; call its ``close()`` once when done.

    All who open a device in one context share it.

    Parameters
    ----------
    backend : str
        The name or short name of a backend. It runs in the context of its API that is current on this thread, or else
        in one of its own, which is closed with the device. A GL context of its own is current during runs only,
        because a window of GLX cannot make its own context current, and ends the process, while one of EGL is.
        "auto" follows the rule of ``choose_device``, and logs in one line why it did not take its first choice.

    Raises
    ------
    DeviceError
        If there is no such backend, or no driver for it.
    """
    return _open_auto() if backend == AUTO else backend_named(backend).open()


class ChosenDevice(NamedTuple):
    """The device that the backend "auto" takes, and why."""

    device: Device
    reason: str = ""
    """The reason why the device is not the first choice; "" if it is."""
    all_work: bool = True
    """Whether each API that was tried has a device."""


def choose_device() -> ChosenDevice:
    """Open the device of the backend "auto". Nothing is logged.

    1. The API whose context is current on the thread, even if its device is the CPU. If there are several, the one of
       the largest rank: CUDA before OpenCL before OpenGL, because nobody makes one of the first two current without
       meaning it. A context that a device made for itself does not count.
    2. Without one, or if that API does not work, a GPU before a CPU, and the API of the largest rank first. An API
       whose hardware is missing is not tried.

    A model that has nothing on its device yet follows the first object that is bound: see ``device_of``.
    """
    candidates = by_preference()
    current = [backend for backend in candidates if backend.is_current()][:1]
    others = [backend for backend in candidates if backend not in current and backend.is_present()]
    return _first_gpu(current, others)


def _first_gpu(current: Sequence[Backend], others: Sequence[Backend]) -> ChosenDevice:
    """The first device that is a GPU, or in a context of a user's; else the first one that works."""
    reasons, tried = list[str](), [*current, *others]
    first: Device | None = None
    failures = 0
    for backend in tried:
        try:
            device = backend.open()
        except DeviceError as error:
            reasons.append(str(error))
            failures += 1
            continue
        if backend in current or not device.traits.software:
            if first is not None:
                first.close()
            return ChosenDevice(device, "; ".join(reasons), not failures)
        reasons.append(f"{device.traits.name} is the CPU{' as well' if first else ''}")
        if first is None:
            first = device
        else:
            device.close()
    if first is None:
        titles = " nor ".join(backend.title for backend in reversed(tried))
        raise DeviceError(f"neither {titles} works here: {'; '.join(reasons)}")
    reasons.remove(f"{first.traits.name} is the CPU")
    return ChosenDevice(first, "; ".join(reasons), not failures)


def _open_auto() -> Device:
    device, reason, all_work = choose_device()
    if reason:
        level = logging.INFO if all_work else logging.WARNING
        log.log(level, f"backend auto: {device.traits.api} on {device.traits.name}, because {reason}")
    return device


def device_of(native: Any, device: Device) -> Device | None:
    """Open a device of the API that a user's object belongs to, if ``device`` has another API and the object's API can
    be used on this thread; else None. Objects of GL and OpenCL need a current context of theirs, CUDA's do not.
    """
    for backend in by_preference():
        is_usable = not backend.needs_context or backend.is_current()
        if device.traits.api not in backend.titles and is_usable and backend.owns(native):
            return backend.open()
    return None
