"""Builds OpenCL programs from text, or from the binaries of earlier processes."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from ..binaries import BinaryStore
from ..errors import DeviceError
from . import ptx

log = logging.getLogger("framebind")

CL1_2 = ("-cl-std=CL1.2",)
_VOLTA, _AMPERE, _HOPPER = (7, 0), (8, 0), (9, 0)
"""Compute capabilities. Volta is the first with PTX's memory model (release and acquire). Ampere is the first whose
tensor cores multiply tf32. Only Hopper multiplies by warpgroups.
"""
MATRIX_UNITS, WARPGROUPS = "-DMATRIX_UNITS", "-DWARPGROUPS"


def compile_options(device: cl.Device) -> tuple[str, ...]:
    """Compiler options for a device.

    -DNVIDIA: it takes NVIDIA's inline PTX with the memory model of Volta. -DMATRIX_UNITS: its tensor cores multiply
    the fragments of prelude.cl. -DWARPGROUPS: they multiply by warpgroups.
    """
    capability = _compute_capability(device)
    known = (("-DNVIDIA", _VOLTA), (MATRIX_UNITS, _AMPERE))
    options = (*CL1_2, *(option for option, least in known if capability >= least))
    return (*options, WARPGROUPS) if capability == _HOPPER else options


def _compute_capability(device: cl.Device) -> tuple[int, int]:
    if "cl_nv_device_attribute_query" not in device.extensions.split():
        return 0, 0
    return int(device.compute_capability_major_nv), int(device.compute_capability_minor_nv)


def build(
    context: cl.Context, text: str, name: str, options: Sequence[str] = CL1_2, store: BinaryStore | None = None
) -> cl.Program:
    """A program of OpenCL C text, built, with a kernel called ``name``. Raises pyopencl.Error with the log.

    If ``store`` has a binary of the text, and the driver takes it, nothing is compiled.
    """
    binary = store.find(key_of(text, options)) if store is not None else None
    program = load(context, binary, name) if binary else None
    if program is None:
        if store is not None:
            store.reject(key_of(text, options))
        program = compile_text(context, text, name, options)
    offer(program, text, options, store)
    return program


def offer(program: cl.Program, text: str, options: Sequence[str], store: BinaryStore | None) -> None:
    """Let the store keep the binary of a built program."""
    if store is None:
        return
    assembler = ptx.assembler(program.devices[0])  # held until all that wait were fetched: it then serves them all
    store.keep(key_of(text, options), lambda: kept_form(program, assembler))


def kept_form(program: cl.Program, assembler: ptx.Assembler) -> bytes | None:
    """The binary that loads fastest: machine code instead of PTX, if the driver accepts it."""
    binary = program_binary(program)
    if binary is None or not ptx.is_ptx(binary) or ptx.is_revealed(binary):
        return binary
    try:
        code = assembler.machine_code(binary)
    except DeviceError as error:
        log.info(f"PTX is kept, which the next start compiles: {error}")
        return binary
    name = str(program.get_info(cl.program_info.KERNEL_NAMES)).split(";")[0]
    return binary if load(program.context, code, name) is None else code


def key_of(text: str, options: Sequence[str]) -> str:
    """The key of a binary in the store: everything that decides it, except the driver."""
    return "\n".join([*options, text])


def program_binary(program: cl.Program) -> bytes | None:
    """The driver's compiled form of a program for its one device; None if the driver gives out none."""
    try:
        found: Any = program.get_info(cl.program_info.BINARIES)
    except cl.Error as error:
        log.info(f"the OpenCL driver gives out no binary: {error}")
        return None
    return found[0] if len(found) == 1 and found[0] else None


def load(context: cl.Context, binary: bytes, name: str) -> cl.Program | None:
    """A program from a binary of ``program_binary``; None if the driver does not accept it (any more)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = cl.Program(context, context.devices, [binary])
            program.build()
        cl.Kernel(program, name)
    except cl.Error as error:
        log.info(f"the OpenCL driver does not take the binary of kernel '{name}': {error}")
        return None
    return program


def compile_text(context: cl.Context, text: str, name: str, options: Sequence[str]) -> cl.Program:
    with warnings.catch_warnings():
        # Compilers say a lot about kernels that are right; and pyopencl warns that we go around its cache.
        warnings.simplefilter("ignore")
        program = cl.Program(context, text)
        program.int_ptr  # noqa: B018 - made now, so that the driver's own cache serves it and no failure leaves a file
        program.build([*options, "-w"])  # no warnings: NVIDIA's compiler counts them on stderr
    cl.Kernel(program, name)
    return _revealed(program, name) if WARPGROUPS in options else program


def _revealed(program: cl.Program, name: str) -> cl.Program:
    """The program with the instructions that its PTX has as comments. Raises DeviceError if the driver refuses it."""
    binary = program_binary(program)
    if binary is None or not ptx.is_ptx(binary) or not ptx.hides_instructions(binary):
        return program
    loaded = load(program.context, ptx.revealed(binary), name)
    if loaded is None:
        raise DeviceError(f"OpenCL's driver does not compile the PTX of '{name}' with warpgroups: update the driver")
    return loaded
