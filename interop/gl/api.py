"""GL entry points as ctypes functions, found through the context's own get_proc_address.

PyOpenGL's own functions are not used: its wrappers cost several microseconds per call, and tracers such as apitrace do
not see the symbols that it finds with dlsym. They see the entry points that the platform hands out.
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

    ``find`` is the platform's get_proc_address: it returns the address of a name, or 0. ``version`` is for messages.
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
        """The entry point's address. Raises DeviceError, with the name and the GL version, if the driver has none."""
        address = self._find(name)
        if not address:
            raise DeviceError(f"the driver has no {name} (it offers {self.version}); update the graphics driver")
        return address

    def prebound(self, name: str) -> Callable[..., Any]:
        """The entry point without argument types, for recorded calls: not converting arguments halves a call's cost.

        Arguments must be ints of 32 bits, or ctypes objects of the right type.
        """
        if name not in self._prebound:
            self._prebound[name] = _PROTOTYPE(signature(name)[0])(self.address(name))
        return self._prebound[name]

    def integer(self, name: int) -> int:
        """The value of a GL state variable (glGetInteger64v)."""
        value = ctypes.c_int64()
        self.glGetInteger64v(name, ctypes.byref(value))
        return value.value

    def clear_errors(self) -> list[int]:
        """Remove all pending GL errors from the context and return them, oldest first."""
        errors = []
        while len(errors) < 16 and (error := self.glGetError()):
            errors.append(error)
        return errors
