"""Cases of single operators with NumPy references, and a function that runs one on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from framebind.delegate.lower.launches import Lowered
from framebind.delegate.plan.binding import Binding
from framebind.delegate.run.program import Program
from framebind.delegate.transform.graph import Graph, Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp, Operation
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.convolution.transpose_conv import TransposeConvolution
from framebind.kernels.ops.pointwise.elementwise import Elementwise
from framebind.kernels.ops.window import SAME, VALID, Window
from framebind.kernels.tensor import TensorId, TensorInfo
from framebind.kernels.views import Dense, Storage
from support.cases.references import Array, convolve, depthwise, transpose_convolve, values


@dataclass(frozen=True)
class Case:
    """An operator with operation, its inputs, and what NumPy says comes out (float64 inside)."""

    label: str
    operator: str
    operation: Operation
    inputs: tuple[Array, ...]
    expected: Callable[..., npt.NDArray[np.floating]]
    epilogue: tuple[FusedOp, ...] = ()


def convolution_cases() -> list[Case]:
    cases = []
    for label, shape, out, window in [
        ("1x1", (1, 4, 5, 5), 13, Window((1, 1), (1, 1))),
        ("3x3 same stride 2", (1, 9, 8, 3), 6, Window((3, 3), (2, 2))),
        ("3x3 valid dilated", (2, 9, 9, 4), 3, Window((3, 3), (1, 1), (2, 2), VALID)),
        ("5x3 same", (1, 7, 6, 1), 4, Window((5, 3), (1, 2))),
        (
            "reflecting border",
            (1, 6, 7, 5),
            5,
            Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 1, 1), mode="reflect"),
        ),
        ("nothing to reflect", (1, 4, 5, 5), 13, Window((1, 1), (1, 1), mode="reflect")),
        ("merged zero border", (1, 6, 7, 3), 5, Window((3, 3), (2, 2), padding=VALID, extra=(1, 0, 0, 1))),
        ("blocks of pixels", (1, 96, 97, 3), 32, Window((3, 3), (1, 1))),
    ]:
        operation = Convolution(window, values(out, *window.size, shape[3]), values(out) if out % 2 else None)
        cases.append(Case(label, "CONV_2D", operation, (values(*shape),), convolve(operation)))
    for label, channels, multiplier, window in [
        ("3x3", 5, 1, Window((3, 3), (1, 1))),
        ("5x5 stride 2", 13, 1, Window((5, 5), (2, 2))),
        ("dilated", 8, 1, Window((3, 3), (1, 1), (4, 4))),
        ("multiplier 3", 5, 3, Window((3, 3), (2, 1), padding=VALID)),
        ("one to eight channels", 1, 8, Window((3, 3), (1, 1))),
        ("reflecting border", 4, 1, Window((3, 3), (1, 1), padding=VALID, extra=(1, 1, 1, 1), mode="reflect")),
    ]:
        weights = values(1, *window.size, channels * multiplier)
        operation = Depthwise(window, multiplier, weights, values(channels * multiplier))
        cases.append(Case(label, "DEPTHWISE_CONV_2D", operation, (values(2, 9, 10, channels),), depthwise(operation)))
    for label, kernel, strides, padding in [("2x2", 2, 2, SAME), ("3x3", 3, 2, SAME), ("4x4 valid", 4, 3, VALID)]:
        operation = TransposeConvolution((strides, strides), padding, None, values(3, kernel, kernel, 5), values(3))
        cases.append(
            Case(label, "Convolution2DTransposeBias", operation, (values(1, 4, 5, 5),), transpose_convolve(operation))
        )
    sized = TransposeConvolution((2, 2), SAME, (7, 9), values(6, 3, 3, 2), None)
    cases.append(Case("given size", "TRANSPOSE_CONV", sized, (values(2, 4, 5, 2),), transpose_convolve(sized)))
    return cases


def run(device: Device, case: Case, storage: Storage) -> Array:
    """Run one node on the device, inputs and output bound to float32 buffers."""
    shapes = [tuple(x.shape) for x in case.inputs]
    target = len(case.inputs)
    expected = case.expected(*case.inputs)
    shape = case.operation.output_shapes(shapes)[0]
    assert shape == expected.shape
    tensors = {i: TensorInfo(f"in{i}", s, "float32") for i, s in enumerate([*shapes, shape])}
    linked = [op.operand for op in case.epilogue]
    inputs = tuple(i for i in range(target) if i not in linked)
    node = Node(case.operator, case.operation, inputs, (target,), case.epilogue, (0,))
    nodes = [node] if storage == "f32" else through_halves(node, tensors)
    program = Program(device, Graph(tensors, nodes, tuple(range(target)), (target,)), storage)
    for i, x in enumerate(case.inputs):
        bind(device, program, i, tensors[i], -x if storage == "f16" else x)
    result = np.empty(shape, np.float32)
    out = bind(device, program, target, tensors[target], None)
    program.run()
    device.read(out, result, "test")
    program.release()
    return result


def all_halves(lowered: Lowered, storage: Storage) -> dict[TensorId, Storage]:
    """Halves for every tensor but scratch, where precision.py would keep most of a single operator's in f32."""
    return {tensor: "f16" if isinstance(tensor, int) else "f32" for tensor in lowered.shapes}


def through_halves(node: Node, tensors: dict[int, TensorInfo]) -> list[Node]:
    """The node reading negated copies of its inputs, so that they are in the arena, which the test keeps in halves."""
    copies: dict[int, int] = {}
    for i in node.operands:
        copies.setdefault(i, 100 + i)
        tensors[100 + i] = tensors[i]
    negated = [Node("NEG", Elementwise(), (i,), (copy,), (FusedOp("NEG"),)) for i, copy in copies.items()]
    epilogue = tuple(op if op.operand is None else replace(op, operand=copies[op.operand]) for op in node.epilogue)
    return [*negated, replace(node, inputs=tuple(copies[i] for i in node.inputs), epilogue=epilogue)]


def bind(device: Device, program: Program, tensor: int, info: TensorInfo, content: Array | None) -> Any:
    view = Dense(info.bhwc)
    resource = device.buffer(view.nbytes, info.name)
    if content is not None:
        device.write(resource, content, "test")
    program.bind(tensor, Binding(resource, view))
    return resource
