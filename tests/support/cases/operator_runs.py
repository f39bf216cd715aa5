"""Runs a case of a single node on a device, in f32 or with every tensor in halves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from framebind.delegate.compiler import compile_program
from framebind.delegate.lower.precision import choose_storage
from framebind.delegate.plan.binding import Binding
from framebind.delegate.run.program import Program
from framebind.delegate.transform.graph import Graph, Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.pointwise.elementwise import Elementwise
from framebind.kernels.target import Target
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import Dense, Storage
from framebind.tools.certify.cases.operator_models import Array
from framebind.tools.certify.cases.runs import all_halves
from support.cases.node_cases import NodeCase


def run(device: Device, case: NodeCase, storage: Storage, target: Target | None = None) -> Array:
    """The outputs of one node on the device for the case's inputs; both lie in float32 buffers.

    It is lowered for the ``target``, or else for the device.
    """
    program, output = program_of(device, case, storage, target)
    result = np.empty(case.expected(*case.inputs).shape, np.float32)
    program.run()
    device.read(output, result, "test")
    program.release()
    return result


def program_of(device: Device, case: NodeCase, storage: Storage, target: Target | None = None) -> tuple[Program, Any]:
    """The program of one node with everything bound, and its output's buffer. "f16" keeps all tensors in halves."""
    shapes = [tuple(x.shape) for x in case.inputs]
    destination = len(case.inputs)
    shape = case.operation.output_shapes(shapes)[0]
    assert shape == case.expected(*case.inputs).shape
    tensors = {i: TensorInfo(f"in{i}", s, "float32") for i, s in enumerate([*shapes, shape])}
    linked = [op.operand for op in case.epilogue]
    inputs = tuple(i for i in range(destination) if i not in linked)
    node = Node(case.operator, case.operation, inputs, (destination,), case.epilogue, (0,))
    nodes = [node] if storage == "f32" else through_halves(node, tensors)
    graph = Graph(tensors, nodes, tuple(range(destination)), (destination,))
    rule = choose_storage if storage == "f32" else all_halves
    program = Program(device, compile_program(graph, device.traits, storage, target=target, storage_rule=rule))
    for i, x in enumerate(case.inputs):
        bind(device, program, i, tensors[i], -x if storage == "f16" else x)
    return program, bind(device, program, destination, tensors[destination], None)


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
