"""Models compiled on the null device: their programs, and the sources of the kernels that they launch."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from framebind.delegate.claim.claims import claim
from framebind.delegate.compiler import StorageRule, compile_program
from framebind.delegate.lower.precision import choose_storage
from framebind.delegate.plan.binding import Binding
from framebind.delegate.read.reader import read_model
from framebind.delegate.run.program import Program
from framebind.interop.null.device import NullDevice
from framebind.kernels.codegen.source import KernelSource
from framebind.kernels.ops.pointwise.quantize import stored_view
from framebind.kernels.views import Dense, Storage
from framebind.tools.certify.cases.runs import Run, all_halves


def program_on_null(
    model: bytes,
    storage: Storage = "f32",
    device: NullDevice | None = None,
    storage_rule: StorageRule = choose_storage,
) -> tuple[Mapping[int, str], Program | None]:
    """The reasons of operators that stay on the CPU, by number, and the program of a model's first subgraph with plain
    buffers bound to its inputs and outputs; None if no operator runs on the device.
    """
    subgraph, device = read_model(model).subgraphs[0], device or NullDevice()
    claims = claim(subgraph, lambda: device.traits.target)
    if not claims.nodes:
        return claims.unsupported, None
    graph = claims.graph(sorted(claims.nodes), subgraph.inputs, subgraph.outputs)
    program = Program(device, compile_program(graph, device.traits, storage, storage_rule=storage_rule))
    for tensor in (*program.inputs, *program.outputs):
        info = program.graph.tensors[tensor]
        view = stored_view(info) or Dense(info.bhwc)
        program.bind(tensor, Binding(device.buffer(view.nbytes, ""), view))
    return claims.unsupported, program


@dataclass(frozen=True)
class Compiled:
    """Result of a compilation: reasons of operators that stay on the CPU, by number, and each step's kernel."""

    unsupported: Mapping[int, str]
    sources: tuple[KernelSource, ...]


def compile_on_null(model: bytes, storage: Storage = "f32", storage_rule: StorageRule = choose_storage) -> Compiled:
    """A model on the null device."""
    unsupported, program = program_on_null(model, storage, storage_rule=storage_rule)
    steps = () if program is None else program.record().steps
    return Compiled(unsupported, tuple(step.kernel.source for step in steps))


@functools.cache
def compile_run(run: Run) -> Compiled:
    """The run's model on the null device, compiled once per process."""
    return compile_on_null(run.model, "f16", all_halves) if run.half else compile_on_null(run.model)
