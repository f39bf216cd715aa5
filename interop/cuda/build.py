"""Kernels as machine code: compiled from text, several at once, or loaded from what an earlier process kept."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...kernels.codegen.cuda import together
from ..binaries import BinaryStore
from ..errors import DeviceError, KernelError
from . import nvrtc
from .api import ask, check, driver
from .context import CudaContext

log = logging.getLogger("framebind")

_PLACE = re.compile(r"(module [0-9a-f]{64}) (kernel_[0-9]{1,6})")


class Module:
    """Machine code, loaded into a context. Unloaded when nobody holds it."""

    def __init__(self, context: CudaContext, code: bytes) -> None:
        self.code = code
        self._what = f"loading {len(code)} bytes of machine code in {context}"
        self._context = context
        with context.entered():
            self._handle: int = ask(driver().cuModuleLoadData, ctypes.c_void_p, code, what=self._what)
            context.finalize(self, driver().cuModuleUnload, self._handle)

    def function(self, name: str) -> int:
        """The CUfunction of a kernel. Raises DeviceError if there is none."""
        function = ctypes.c_void_p()
        with self._context.entered():
            status = driver().cuModuleGetFunction(ctypes.byref(function), self._handle, name.encode())
        check(status, f"{self._what}, kernel '{name}',")
        return function.value or 0


@dataclass(frozen=True)
class Function:
    """A kernel in a module, which it keeps loaded."""

    module: Module
    handle: int
    """The CUfunction."""
    place: str
    """The key of the module's machine code in a store, and the kernel's name there."""


def build_together(
    context: CudaContext, kernels: Sequence[tuple[str, str]], store: BinaryStore | None
) -> list[Function]:
    """Texts of kernels, each with the name of its kernel, as loaded functions. Raises KernelError with log and text.

    Kernels that ``store`` does not have, or whose code the driver does not accept, are compiled together as one text.
    Most of the compiler's time for a single kernel is overhead, and it optimizes the kernels of a text on several
    threads.
    """
    found = _kept(context, kernels, store) if store is not None else {}
    missing = [kernel for kernel in dict(kernels).items() if kernel[0] not in found]
    if missing:
        module = Module(context, _compiled(context, missing))
        key = f"module {hashlib.sha256(module.code).hexdigest()}"
        for number, (text, _) in enumerate(missing):
            name = f"kernel_{number}"
            found[text] = Function(module, module.function(name), f"{key} {name}")
    for text, _ in kernels:
        offer(context, found[text], text, store)
    return [found[text] for text, _ in kernels]


def _kept(context: CudaContext, kernels: Sequence[tuple[str, str]], store: BinaryStore) -> dict[str, Function]:
    """The functions of the texts that the store has and whose code the driver accepts."""
    found: dict[str, Function] = {}
    modules: dict[str, Module] = {}
    for text, _ in kernels:
        kept = store.find(_key(context, text))
        match = _PLACE.fullmatch(kept.decode("ascii", "replace")) if kept else None
        code = store.find(match[1]) if match else None
        if match is None or code is None:
            continue
        try:
            if match[1] not in modules:
                modules[match[1]] = Module(context, code)
            found[text] = Function(modules[match[1]], modules[match[1]].function(match[2]), match[0])
        except DeviceError as error:
            log.info(f"the driver does not take what was kept: {error}")
            store.reject(match[1])
            store.reject(_key(context, text))
    return found


def _compiled(context: CudaContext, kernels: Sequence[tuple[str, str]]) -> bytes:
    """The machine code of kernels together. Raises KernelError with the first that does not compile alone."""
    architecture = nvrtc.architecture(context.capability)
    try:
        return nvrtc.machine_code(together(kernels), architecture)
    except nvrtc.CompileError as all_of_them:
        for text, name in kernels:
            try:
                nvrtc.machine_code(text, architecture)
            except nvrtc.CompileError as error:
                raise KernelError(name, str(context), str(error), text) from error
        raise KernelError(kernels[0][1], str(context), str(all_of_them), together(kernels)) from all_of_them


def offer(context: CudaContext, function: Function, text: str, store: BinaryStore | None) -> None:
    """Let the store keep the machine code of a kernel: its place in a module, and each module once."""
    if store is not None:
        key, code = function.place.rpartition(" ")[0], function.module.code
        store.keep(_key(context, text), lambda: function.place.encode())
        store.keep(key, lambda: code)


def _key(context: CudaContext, text: str) -> str:
    """The key of machine code in the store: everything that decides it, except the driver."""
    return "\n".join([f"sm_{context.capability}", *nvrtc.OPTIONS, text])
