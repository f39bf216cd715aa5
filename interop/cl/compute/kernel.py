"""Kernels of separate dispatches, which are compiled together as one text, or loaded from what an earlier process kept.

NVIDIA's compiler takes 32 ms for any text, and as long again for the whole prelude (H200, 2026-11-26: ten copies took
719 ms one by one, and 153 ms together). A kernel's text follows from its source, so a store knows its binary by the
source, and a start that finds all binaries writes no text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyopencl as cl

from ....kernels.codegen.opencl import OPENCL
from ....kernels.codegen.render import render_together
from ....kernels.codegen.source import KernelSource
from ....kernels.codegen.strides import sharing_kernels, stride_values
from ...binaries import BinaryStore, Place, find_place, keep_place
from ...errors import KernelError
from .. import ptx
from ..build import compile_options, compile_text, kept_form, key_of, load
from ..context import ClContext


@dataclass(frozen=True)
class Built:
    """A kernel in a built program, its place in a store and the key of that place."""

    program: cl.Program
    place: Place
    key: str


class ClKernel:
    """A kernel's program, built when it is first recorded by itself: steps that are one dispatch never need it.

    Each step gets a kernel object of its own, which keeps its arguments between runs.
    """

    def __init__(self, context: ClContext, source: KernelSource) -> None:
        self.context, self.source = context, source
        self.built: Built | None = None
        self.strides: tuple[int, ...] = ()
        """The arguments by which it differs from other kernels of the same program."""


def build_kernels(context: ClContext, kernels: Sequence[ClKernel], store: BinaryStore | None) -> None:
    """Build those kernels that are not, all at once, and offer all to the store.

    Raises KernelError with log and text.
    """
    missing = [kernel for kernel in dict.fromkeys(kernels) if kernel.built is None]
    sources = sharing_kernels([kernel.source for kernel in missing])
    built = _build_together(context, sources, store)
    for kernel, source, each in zip(missing, sources, built, strict=True):
        kernel.built, kernel.strides = each, stride_values(source, kernel.source)
    for kernel in dict.fromkeys(kernels):
        if kernel.built is not None:
            _offer(kernel.built, store)


def _build_together(context: ClContext, sources: Sequence[KernelSource], store: BinaryStore | None) -> list[Built]:
    """The kernels of these sources. Raises KernelError with log and text.

    Kernels that ``store`` does not have, or whose binary the driver does not accept, are compiled as one text.
    """
    options = compile_options(context.device)
    keys = ["\n".join([*options, repr(source)]) for source in sources]
    found = _kept(context, keys, store) if store is not None else {}
    missing = {key: source for key, source in zip(keys, sources, strict=True) if key not in found}
    if missing:
        text, names = render_together(list(missing.values()), OPENCL)
        module = f"module {hashlib.sha256(key_of(text, options).encode()).hexdigest()}"
        program = _built(context, list(missing.values()), text, options)
        if store is not None:
            store.reject(module)  # what was kept by this name, but not found by its kernels
        found |= {key: Built(program, Place(module, name), key) for key, name in zip(missing, names, strict=True)}
    return [found[key] for key in keys]


def _built(context: ClContext, sources: Sequence[KernelSource], text: str, options: Sequence[str]) -> cl.Program:
    """The program of these sources' text. Raises KernelError with the first that does not compile alone."""
    try:
        return compile_text(context.context, text, "kernel_0", options)
    except cl.Error as all_of_them:
        for source in sources:
            alone, _ = render_together([source], OPENCL)
            try:
                compile_text(context.context, alone, "kernel_0", options)
            except cl.Error as error:
                raise KernelError(source.name, str(context), str(error), alone) from error
        names = ", ".join(dict.fromkeys(source.name for source in sources))
        raise KernelError(names, str(context), str(all_of_them), text) from all_of_them


def _kept(context: ClContext, keys: Sequence[str], store: BinaryStore) -> dict[str, Built]:
    """The kernels, by key, that the store has and whose binary the driver accepts."""
    found: dict[str, Built] = {}
    programs: dict[str, cl.Program | None] = {}
    for key in keys:
        place = find_place(store, key)
        if place is None:
            continue
        if place.module not in programs:
            binary = store.find(place.module)
            programs[place.module] = load(context.context, binary, place.name) if binary else None
        program = programs[place.module]
        if program is not None:
            found[key] = Built(program, place, key)
        else:
            store.reject(place.module)
            store.reject(key)
    return found


def _offer(built: Built, store: BinaryStore | None) -> None:
    """Let the store keep the place of a kernel that is in use, and the binary of its program once."""
    if store is not None:
        assembler = ptx.assembler(built.program.devices[0])  # held until all that wait were fetched
        keep_place(store, built.key, built.place, lambda: kept_form(built.program, assembler))
