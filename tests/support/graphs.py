"""Small graphs of a few nodes, run on a device and compared with NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from framebind.delegate.compiler import compile_program
from framebind.delegate.lower.tuning import target_for
from framebind.delegate.plan.binding import Binding
from framebind.delegate.run.program import Program
from framebind.delegate.transform.graph import Graph, Node
from framebind.interop.device import Device
from framebind.kernels.operation import FusedOp
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.movement.concat import Concatenation
from framebind.kernels.ops.pointwise.elementwise import Elementwise
from framebind.kernels.ops.reduction.pool import Pooling
from framebind.kernels.ops.reduction.reduce import Reduction
from framebind.kernels.ops.window import VALID, Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import Dense, Picture, Storage, picture_parameters
from support.models import relative_error

Array = npt.NDArray[np.float32]
Shape = tuple[int, ...]
RNG = np.random.default_rng(11)
NO_ARRAYS: Mapping[int, Array] = MappingProxyType({})


def add(source: int, operand: int, target: int) -> Node:
    return Node("ADD", Elementwise(), (source,), (target,), (FusedOp("ADD", operand),))


def conv(source: int, target: int, weights: Array, epilogue: tuple[FusedOp, ...] = ()) -> Node:
    operation = Convolution(Window((1, 1), (1, 1), padding=VALID), weights[:, None, None, :], weights[:, 0])
    return Node("CONV_2D", operation, (source,), (target,), epilogue)


def concat(sources: tuple[int, ...], target: int, axis: int) -> Node:
    return Node("CONCATENATION", Concatenation(axis, 4), sources, (target,))


def convolved(x: Array, weights: Array) -> Array:
    return x @ weights.T + weights[:, 0]


def run(device: Device, shapes: dict[int, Shape], nodes: list[Node], outputs: tuple[int, ...], x: Array,
        storage: Storage = "f32", picture: bool = False, constants: Mapping[int, Array] = NO_ARRAYS,
        **stages: Any) -> tuple[Program, list[Array]]:  # fmt: skip
    """Tensor 0 is the input; outputs are bound to float32 buffers, or (``picture``) to rgba32f textures. ``stages``
    are stages of ``compile_program`` in place of its own.
    """
    tensors = {i: TensorInfo(f"t{i}", shape, "float32", constant=constants.get(i)) for i, shape in shapes.items()}
    program = Program(device, compile_program(Graph(tensors, nodes, (0,), outputs), device.traits, storage, **stages))
    resources: dict[int, Any] = {}
    for i in (0, *outputs):
        bhwc = tensors[i].bhwc
        if picture and i != 0:
            size = (bhwc[2], bhwc[1])
            resources[i] = device.texture(*size, "rgba32f", "out")
            parameters = picture_parameters(bhwc, size, write=True)
            program.bind(i, Binding(resources[i], Picture(bhwc, "rgba32f", "rgba"), parameters))
        else:
            resources[i] = device.buffer(Dense(bhwc).nbytes, f"t{i}")
            program.bind(i, Binding(resources[i], Dense(bhwc)))
    device.write(resources[0], x, "test")
    program.run()
    found = []
    for i in outputs:
        found.append(np.empty(shapes[i], np.float32))
        device.read(resources[i], found[-1] if not picture else found[-1][0], "test")
    return program, found


def target_of(device: Device, storage: Storage = "f32", **changes: Any) -> Target:
    """The device as a program is lowered for it, with other fields, such as ``fixed`` tiles of kernels."""
    return replace(target_for(device.traits, storage), **changes)


def check(device: Device, found: list[Array], expected: list[Array], tolerance: float = 1e-5) -> None:
    for value, reference in zip(found, expected, strict=True):
        assert value.shape == reference.shape
        assert device.traits.api == "null" or relative_error(value, reference) <= tolerance


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


MEAN = Reduction((1, 2), 4, keep=True)


def half(*shape: int) -> Array:
    """Values that 16 bits hold."""
    return normal(*shape).astype(np.float16).astype(np.float32)


def mean(source: int, target: int, max_pool_2x2: tuple[int, int] | None = None) -> Node:
    if max_pool_2x2 is None:
        return Node("MEAN", MEAN, (source,), (target,))
    return Node(
        "AVERAGE_POOL_2D", Pooling(Window(max_pool_2x2, (1, 1), padding=VALID), maximum=False), (source,), (target,)
    )


def multiply(source: int, operand: int, target: int) -> Node:
    return Node("MUL", Elementwise(), (source,), (target,), (FusedOp("MUL", operand),))


def logistic(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(0.5 * x)
