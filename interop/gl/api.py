"""The GL entry points that the library uses, as ctypes functions found through the context's own get_proc_address.

Not PyOpenGL's: its wrappers cost several microseconds a call, and the symbols it finds with dlsym are not seen by
tracers, while entry points that the platform hands out are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ..errors import DeviceError
from .khronos import signature

_PROTOTYPE = getattr(ctypes, "WINFUNCTYPE", ctypes.CFUNCTYPE)


class GlApi:
    """One context's entry points as attributes (``api.glFinish()``), looked up when first used.

    ``find`` is the platform's get_proc_address: a name to an address, 0 where there is none. ``version`` is for
    messages.
    """

    def __init__(self, find: Callable[[str], int]) -> None:
        self._find = find
        self._prebound: dict[str, Callable[..., Any]] = {}
        self.version = "an unknown GL version"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("gl"):
            raise AttributeError(name)
        result, *arguments = signature(name)
        function = _PROTOTYPE(result, *arguments)(self.address(name))
        setattr(self, name, function)
        return function

    def address(self, name: str) -> int:
        """Where the entry point is. Raises DeviceError, naming it and the GL version, where the driver has none."""
        address = self._find(name)
        if not address:
            raise DeviceError(f"the driver has no {name} (it offers {self.version}); update the graphics driver")
        return address

    def prebound(self, name: str) -> Callable[..., Any]:
        """The entry point for calls recorded ahead: arguments are not converted, which halves the cost of a call.

        They must be ints of 32 bits, or ctypes objects of the right type.
        """
        if name not in self._prebound:
            self._prebound[name] = _PROTOTYPE(signature(name)[0])(self.address(name))
        return self._prebound[name]

    def integer(self, name: int) -> int:
        """glGetInteger64v."""
        value = ctypes.c_int64()
        self.glGetInteger64v(name, ctypes.byref(value))
        return value.value

    def clear_errors(self) -> list[int]:
        """Take all pending GL errors out of the context, oldest first."""
        errors = []
        while len(errors) < 16 and (error := self.glGetError()):
            errors.append(error)
        return errors
