"""Kernels of machine code on a GPU: compiled from text, or kept by an earlier process."""

from __future__ import annotations

import ctypes
import logging

from ..binaries import BinaryStore
from ..errors import DeviceError, KernelError
from . import nvrtc
from .api import ask, check, driver
from .context import CudaContext

log = logging.getLogger("framebind")


class Module:
    """Machine code of a text, loaded into a context, and its function ``name``. Unloaded when nobody holds it."""

    def __init__(self, context: CudaContext, code: bytes, name: str) -> None:
        self.code = code
        with context.entered():
            what = f"loading kernel '{name}' in {context}"
            self._handle: int = ask(driver().cuModuleLoadData, ctypes.c_void_p, code, what=what)
            context.finalize(self, driver().cuModuleUnload, self._handle)
            function = ctypes.c_void_p()
            check(driver().cuModuleGetFunction(ctypes.byref(function), self._handle, name.encode()), what)
            self.function: int = function.value or 0
            """The CUfunction."""


def compiled(context: CudaContext, text: str, name: str, store: BinaryStore | None) -> bytes:
    """The machine code of a text for the GPU: the store's, or compiled now. Raises KernelError with log and text."""
    kept = store.find(_key(context, text)) if store is not None else None
    if kept:
        return kept
    try:
        return nvrtc.machine_code(text, nvrtc.architecture(context.capability))
    except nvrtc.CompileError as error:
        raise KernelError(name, str(context), str(error), text) from error


def build(context: CudaContext, text: str, name: str, store: BinaryStore | None) -> Module:
    """A text as a loaded kernel called ``name``. Raises KernelError, or DeviceError if the GPU does not take it.

    If ``store`` has the machine code of the text, and the driver takes it, nothing is compiled.
    """
    code = compiled(context, text, name, store)
    try:
        module = Module(context, code, name)
    except DeviceError as error:
        if store is None or store.find(_key(context, text)) is None:
            raise
        log.info(f"the driver does not take what was kept: {error}")
        store.reject(_key(context, text))
        module = Module(context, compiled(context, text, name, None), name)
    offer(context, module, text, store)
    return module


def offer(context: CudaContext, module: Module, text: str, store: BinaryStore | None) -> None:
    """Let the store keep the machine code of a module."""
    if store is not None:
        store.keep(_key(context, text), lambda: module.code)


def _key(context: CudaContext, text: str) -> str:
    """Key of machine code in the store: all that decides it besides the driver."""
    return "\n".join([f"sm_{context.capability}", *nvrtc.OPTIONS, text])
