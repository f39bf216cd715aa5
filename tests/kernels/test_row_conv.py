"""Convolutions by rows of pixels in local memory: what the general kernel computes, for every kind of tile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from framebind.delegate.claim.claims import claim
from framebind.delegate.compiler import compile_program
from framebind.delegate.read.reader import read_model
from framebind.delegate.run.program import Program
from framebind.delegate.transform.graph import Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.row_conv import RowTile
from framebind.kernels.ops.window import VALID, Window
from framebind.kernels.views import Storage
from support.cases.operator_runs import bind
from support.graphs import Shape, normal, run, target_of
from support.model_runs import reference
from support.models import MODELS, TOLERANCE, random_inputs, relative_error

CASES: dict[str, tuple[Shape, int, Window, RowTile]] = {
    "same, split": ((2, 9, 13, 16), 8, Window((3, 3), (1, 1)), RowTile(4, 2, 4, 4)),
    "many slices": ((1, 9, 13, 32), 32, Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 1, 1), mode="reflect"),
                    RowTile(8, 1, 4, 2)),
    "stride 2": ((1, 11, 13, 7), 16, Window((3, 3), (2, 2)), RowTile(4, 1, 8, 2)),
    "dilated, valid": ((1, 17, 15, 3), 4, Window((3, 5), (1, 1), (2, 2), padding=VALID), RowTile(8, 1, 6, 1)),
    "reflecting": ((1, 14, 18, 8), 3, Window((9, 9), (1, 1), padding=VALID, extra=(4, 4, 4, 4), mode="reflect"),
                   RowTile(4, 4, 16, 1)),
    "flat": ((2, 5, 7, 24), 36, Window((1, 1), (1, 1)), RowTile(4, 2, 1, 3)),
    "flat, one part": ((1, 5, 7, 20), 60, Window((1, 1), (1, 1)), RowTile(8, 3, 1, 1)),
}  # fmt: skip


def convolution(window: Window, channels: int, out: int) -> Node:
    weights = normal(out, *window.size, channels) / 8
    return Node("CONV_2D", Convolution(window, weights, normal(out)), (0,), (1,), (FusedOp("RELU6"),))


@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize("name", CASES)
def test_every_tile_computes_what_the_general_kernel_computes(device: Device, name: str, storage: Storage) -> None:
    shape, out, window, tile = CASES[name]
    x = normal(*shape)
    shapes: dict[int, Shape] = {0: shape, 1: (shape[0], *window.output_size(*shape[1:3]), out)}
    node = convolution(window, shape[3], out)
    by_rows, in_general = (
        target_of(device, storage, group_size=64, matrix_units=False, fixed=fixed)
        for fixed in ({"conv": tile, "patch_conv": None}, {"patch_conv": None})
    )
    made, (found,) = run(device, shapes, [node], (1,), x, storage, target=by_rows)
    _, (expected,) = run(device, shapes, [node], (1,), x, storage, target=in_general)
    assert [step.kernel.source.name for step in made.record().steps] == ["row_conv"]
    assert device.traits.api == "null" or relative_error(found, expected) <= 1e-5


@pytest.mark.parametrize("gpu", ["cl:pocl"], indirect=True)
def test_a_model_keeps_its_bounds(gpu: Device, model_path: Callable[[str], Path]) -> None:
    """The model with most such convolutions, lowered as for a large GPU."""
    path = model_path("style_transfer_f16_384")
    (case,) = [case for case in MODELS if case.name == path.stem]
    subgraph = read_model(path.read_bytes()).subgraphs[0]
    claims = claim(subgraph, lambda: gpu.traits.target)
    graph = claims.graph(sorted(claims.nodes), subgraph.inputs, subgraph.outputs)
    target = target_of(gpu, "f16", matrix_units=False, invocations=1 << 18)
    program = Program(gpu, compile_program(graph, gpu.traits, "f16", target=target))
    inputs = random_inputs({i: subgraph.tensors[i].shape for i in subgraph.inputs}, case)
    buffers = {i: bind(gpu, program, i, graph.tensors[i], inputs.get(i)) for i in (*inputs, *subgraph.outputs)}
    program.run()
    assert [step.kernel.source.name for step in program.steps].count("row_conv") == 16
    for tensor, value in reference(path, inputs).items():
        found = np.empty_like(value)
        gpu.read(buffers[tensor], found, "test")
        assert relative_error(found, value) <= TOLERANCE["f16"]
    program.release()
