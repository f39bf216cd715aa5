"""Kernels as machine code: compiled from text, several at once, or loaded from what an earlier process kept.

A kernel's text follows from its source, so a store knows its machine code by the source, and a start that finds all
machine code writes no text.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...kernels.codegen.cuda import CUDA, together
from ...kernels.codegen.one_dispatch import ProgramSource
from ...kernels.codegen.render import render, render_program
from ...kernels.codegen.source import KernelSource
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
    key: str
    """The key of the place in a store."""


Source = KernelSource | ProgramSource
"""The source of one kernel: of a step, or of all steps in one dispatch."""


def build_together(context: CudaContext, sources: Sequence[Source], store: BinaryStore | None) -> list[Function]:
    """The kernels of these sources, loaded. Raises KernelError with log and text.

    Kernels that ``store`` does not have, or whose code the driver does not accept, are compiled together as one text.
    Most of the compiler's time for a single kernel is overhead, and it optimizes the kernels of a text on several
    threads.
    """
    keys = [_key(context, source) for source in sources]
    found = _kept(context, keys, store) if store is not None else {}
    missing = {key: source for key, source in zip(keys, sources, strict=True) if key not in found}
    if missing:
        module = Module(context, _compiled(context, list(missing.values())))
        place = f"module {hashlib.sha256(module.code).hexdigest()}"
        for number, key in enumerate(missing):
            name = f"kernel_{number}"
            found[key] = Function(module, module.function(name), f"{place} {name}", key)
    for function in found.values():
        offer(function, store)
    return [found[key] for key in keys]


def _kept(context: CudaContext, keys: Sequence[str], store: BinaryStore) -> dict[str, Function]:
    """The functions, by key, that the store has and whose code the driver accepts."""
    found: dict[str, Function] = {}
    modules: dict[str, Module] = {}
    for key in keys:
        kept = store.find(key)
        match = _PLACE.fullmatch(kept.decode("ascii", "replace")) if kept else None
        code = store.find(match[1]) if match else None
        if match is None or code is None:
            continue
        try:
            if match[1] not in modules:
                modules[match[1]] = Module(context, code)
            found[key] = Function(modules[match[1]], modules[match[1]].function(match[2]), match[0], key)
        except DeviceError as error:
            log.info(f"the driver does not take what was kept: {error}")
            store.reject(match[1])
            store.reject(key)
    return found


def _compiled(context: CudaContext, sources: Sequence[Source]) -> bytes:
    """The machine code of kernels together. Raises KernelError with the first that does not compile alone."""
    architecture = nvrtc.architecture(context.capability)
    kernels = [_text_and_name(source) for source in sources]
    try:
        return nvrtc.machine_code(together(kernels), architecture)
    except nvrtc.CompileError as all_of_them:
        for text, name in kernels:
            try:
                nvrtc.machine_code(text, architecture)
            except nvrtc.CompileError as error:
                raise KernelError(name, str(context), str(error), text) from error
        raise KernelError(kernels[0][1], str(context), str(all_of_them), together(kernels)) from all_of_them


def _text_and_name(source: Source) -> tuple[str, str]:
    """The text of a source, and the name of its kernel there."""
    if isinstance(source, KernelSource):
        return render(source, CUDA), source.name
    return render_program(source, CUDA), "program"


def offer(function: Function, store: BinaryStore | None) -> None:
    """Let the store keep the machine code of a kernel that is in use: its place in a module, and the module once."""
    if store is not None:
        place, code = function.place, function.module.code
        store.keep(function.key, place.encode)
        store.keep(place.rpartition(" ")[0], lambda: code)


def _key(context: CudaContext, source: Source) -> str:
    """The key of a kernel in the store: everything that decides its machine code, except the driver and our own code,
    which the store is made for.
    """
    return f"sm_{context.capability} {nvrtc.OPTIONS} {source!r}"
