"""Kernels as machine code: compiled from text, several at once, or loaded from what an earlier process kept.

A kernel's text follows from its source, so a store knows its machine code by the source, and a start that finds all
machine code writes no text.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...kernels.codegen.cuda import CUDA
from ...kernels.codegen.one_dispatch import ProgramSource
from ...kernels.codegen.render import render_program, render_together
from ...kernels.codegen.source import KernelSource
from ..binaries import BinaryStore, Place, find_place, keep_place
from ..errors import DeviceError, KernelError
from . import nvrtc
from .api import ask, check, driver
from .context import CudaContext

log = logging.getLogger("framebind")


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
    place: Place
    key: str
    """The key of its place in a store."""


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
        for code, names in _compiled(context, missing):
            module = Module(context, code)
            kept = f"module {hashlib.sha256(code).hexdigest()}"
            if store is not None:
                store.reject(kept)  # what was kept by this name, but not found by its kernels
            for key, name in names.items():
                found[key] = Function(module, module.function(name), Place(kept, name), key)
    for function in found.values():
        offer(function, store)
    return [found[key] for key in keys]


def _kept(context: CudaContext, keys: Sequence[str], store: BinaryStore) -> dict[str, Function]:
    """The functions, by key, that the store has and whose code the driver accepts."""
    found: dict[str, Function] = {}
    modules: dict[str, Module] = {}
    for key in keys:
        place = find_place(store, key)
        code = store.find(place.module) if place else None
        if place is None or code is None:
            continue
        try:
            if place.module not in modules:
                modules[place.module] = Module(context, code)
            module = modules[place.module]
            found[key] = Function(module, module.function(place.name), place, key)
        except DeviceError as error:
            log.info(f"the driver does not take what was kept: {error}")
            store.reject(place.module)
            store.reject(key)
    return found


def _compiled(context: CudaContext, sources: Mapping[str, Source]) -> list[tuple[bytes, dict[str, str]]]:
    """Machine code in pieces, each with the names of its kernels there, by key. Raises KernelError for the first kernel
    that does not compile alone.
    """
    architecture = nvrtc.architecture(context.capability)
    shares = _shares(sources)
    rendered = [_rendered([sources[key] for key in share]) for share in shares]
    try:
        codes = nvrtc.machine_codes([text for text, _ in rendered], architecture)
    except nvrtc.CompileError as error:
        raise _first_error(context, list(sources.values()), architecture, error) from error
    names = [dict(zip(share, own, strict=True)) for share, (_, own) in zip(shares, rendered, strict=True)]
    return list(zip(codes, names, strict=True))


def _shares(sources: Mapping[str, Source]) -> list[list[str]]:
    """The keys of the sources, divided among processes. Kernels of a kind take the same time, so each gets as many.

    A program is a text of its own.
    """
    programs = [[key] for key, source in sources.items() if isinstance(source, ProgramSource)]
    keys = sorted(({*sources} - {key for (key,) in programs}), key=lambda key: (_name(sources[key]), key))
    count = nvrtc.processes(len(keys)) if keys else 0
    return [*programs, *(keys[first::count] for first in range(count))]


def _first_error(
    context: CudaContext, sources: Sequence[Source], architecture: int, found: nvrtc.CompileError
) -> KernelError:
    """The error of the first kernel that does not compile alone; of all of them if each does."""
    for source in sources:
        text, _ = _rendered([source])
        try:
            nvrtc.machine_code(text, architecture)
        except nvrtc.CompileError as error:
            return KernelError(_name(source), str(context), str(error), text)
    text, _ = _rendered(sources)
    return KernelError(", ".join(map(_name, sources)), str(context), str(found), text)


def _name(source: Source) -> str:
    return source.name if isinstance(source, KernelSource) else "program"


def _rendered(sources: Sequence[Source]) -> tuple[str, list[str]]:
    """The text of sources, and the name of each one's kernel. A program has a text of its own."""
    kernels = [source for source in sources if isinstance(source, KernelSource)]
    if kernels:
        return render_together(kernels, CUDA)
    (program,) = (source for source in sources if isinstance(source, ProgramSource))
    return render_program(program, CUDA), ["program"]


def offer(function: Function, store: BinaryStore | None) -> None:
    """Let the store keep the machine code of a kernel that is in use: its place in a module, and the module once."""
    if store is not None:
        code = function.module.code
        keep_place(store, function.key, function.place, lambda: code)


def _key(context: CudaContext, source: Source) -> str:
    """The key of a kernel in the store: everything that decides its machine code, except the driver and our own code,
    which the store is made for.
    """
    return f"sm_{context.capability} {nvrtc.OPTIONS} {source!r}"
