"""STABLEHLO_REDUCE_WINDOW and the older REDUCE_WINDOW: sums, products and extremes of windows in any dimension.

Semantics: tflite/kernels/stablehlo_reduce_window.cc. Each result begins with the initial value, and the values of its
window are joined to it one after the other. Padding, and the places between the values of a dilated input, have the
initial value too; negative padding crops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import QUANTIZED_DTYPES, Bounds, TensorInfo, bhwc_axis
from ..arguments import constant, index_constant, is_index, member, require_float, require_movable, require_type
from ..pointwise.integers import known_bounds, wrapped

KINDS = {"ADD": 0, "MAXIMUM": 1, "MINIMUM": 2, "MUL": 3, "LOGICAL_OR": 1, "LOGICAL_AND": 2}
"""The kernel's number of each operator that joins two values; truth values are 0 and 1."""
BODIES = {
    **{name: name for name in KINDS}, "STABLEHLO_ADD": "ADD", "STABLEHLO_MAXIMUM": "MAXIMUM",
    "STABLEHLO_MINIMUM": "MINIMUM", "STABLEHLO_MULTIPLY": "MUL", "STABLEHLO_OR": "LOGICAL_OR",
    "STABLEHLO_AND": "LOGICAL_AND",
}  # fmt: skip
FUNCTIONS = (None, "ADD", "MUL", "MINIMUM", "MAXIMUM", "LOGICAL_AND", "LOGICAL_OR")
"""The operators that REDUCE_WINDOW has by number: ReduceWindowFunction of the schema."""
LARGEST_WINDOW = 1 << 18
"""Values of a window, at most: each invocation reads all of them."""
LARGEST_SIZE = 1 << 24
"""The padded input, and each number of a window, at most: their sums fit an int of 32 bits."""


@dataclass(frozen=True)
class Axis:
    """The window along a dimension: its size, stride and dilation, the dilation of the input (``base``), padding."""

    size: int = 1
    stride: int = 1
    dilation: int = 1
    base: int = 1
    before: int = 0
    behind: int = 0

    def __post_init__(self) -> None:
        if min(self.size, self.stride, self.dilation, self.base) < 1:
            raise Unsupported(f"a window has {self}: sizes, strides and dilations must be positive")
        if max(self.size * self.dilation, self.stride, self.base, abs(self.before), abs(self.behind)) > LARGEST_SIZE:
            raise Unsupported(f"a window has {self}, of which {LARGEST_SIZE} is the largest number supported")

    def places(self, size: int) -> int:
        """The number of windows along a dimension of this size. Raises ValueError if there is none."""
        padded = (size - 1) * self.base + 1 + self.before + self.behind
        count = (padded - (self.size - 1) * self.dilation - 1) // self.stride + 1
        if count < 1 or padded > LARGEST_SIZE:
            raise ValueError(f"a window of {self} does not fit a dimension of {size}")
        return count

    def constants(self, name: str) -> dict[str, int | float]:
        """The constants by which the kernel knows it; ``name`` is the dimension's."""
        return {
            f"SIZE_{name}": self.size, f"STRIDE_{name}": self.stride, f"DILATION_{name}": self.dilation,
            f"BASE_{name}": self.base, f"PAD_{name}": self.before,
        }  # fmt: skip


@dataclass(frozen=True)
class ReduceWindow(Operation):
    """``axes`` has the window along each dimension of a TFLite shape."""

    axes: tuple[Axis, ...]
    _: KW_ONLY
    kind: str
    initial: float

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [tuple(axis.places(size) for axis, size in zip(self.axes, shapes[0], strict=True))]

    def lower(self, lowering: Lowering) -> list[Launch]:
        axes = [Axis()] * 4
        for number, axis in enumerate(self.axes):
            axes[bhwc_axis(number, len(self.axes))] = axis
        constants: dict[str, int | float] = {"KIND": KINDS[self.kind], "INITIAL": self.initial}
        constants["CHANNELS"] = int(axes[3] != Axis())
        for axis, name in zip(axes, "BHWC", strict=True):
            constants |= axis.constants(name)
        destination = lowering.outputs[0]
        count = lowering.groups_for(destination)
        return [Launch("reduce_window", {"src": lowering.inputs[0]}, {"dst": destination}, count, constants)]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        """Neighbouring dimensions whose windows have one value are merged."""
        sizes, axes = list[int](), list[Axis]()
        for size, axis in zip(shapes[0], self.axes, strict=True):
            if axes and axis == axes[-1] == Axis():
                sizes[-1] *= size
            elif size > 1 or axis != Axis():
                sizes.append(size)
                axes.append(axis)
        if len(sizes) > 4:
            raise Unsupported(f"its window divides an input of rank {len(self.axes)} into more than 4 dimensions")
        merged = replace(self, axes=tuple(axes))
        return [Collapsed(merged, (tuple(sizes),), tuple(merged.output_shapes([tuple(sizes)])))]


def _parse_stablehlo(node: TfliteNode) -> Parsed:
    options, source = node.options, _source(node)
    if options is None or node.body not in BODIES:
        joined = ", ".join(BODIES)
        raise Unsupported(f"its body is {node.body or 'no subgraph of one operator'}; it may be one of {joined}")
    rank = len(source.shape)
    lists = [
        _numbers(given, rank)
        for given in (
            options.WindowDimensionsAsNumpy(), options.WindowStridesAsNumpy(), options.WindowDilationsAsNumpy(),
            options.BaseDilationsAsNumpy(),
        )
    ]  # fmt: skip
    padding = _numbers(options.PaddingAsNumpy(), 2 * rank)
    axes = zip(*lists, padding[::2], padding[1::2], strict=True)
    return _parsed(node, [Axis(*numbers) for numbers in axes], BODIES[node.body])


def _parse(node: TfliteNode) -> Parsed:
    source = _source(node)
    kind = member(FUNCTIONS, node.options.ReduceFunction() if node.options is not None else 0, "reduce function")
    if kind is None:
        raise Unsupported("its reduce function is none of the schema's")
    lists = [
        _numbers(index_constant(node.inputs[place], what).reshape(-1), len(source.shape))
        for place, what in ((2, "window shape"), (3, "window strides"), (4, "window dilations"))
    ]
    return _parsed(node, [Axis(*numbers) for numbers in zip(*lists, strict=True)], kind)


def _source(node: TfliteNode) -> TensorInfo:
    source = node.inputs[0]
    if source is None or not source.shape:
        raise Unsupported("it needs an input of rank 1 or more")
    return source


def _numbers(given: Any, count: int) -> list[int]:
    """``count`` numbers of an option or a constant; tflite gives 0 for an option that is left out."""
    numbers = [int(number) for number in given] if isinstance(given, Iterable) else []
    if len(numbers) != count:
        raise Unsupported(f"it has {len(numbers)} numbers of a window where its input needs {count}")
    return numbers


def _parsed(node: TfliteNode, axes: Sequence[Axis], kind: str) -> Parsed:
    source, dtype = _source(node), node.outputs[0].dtype
    count = math.prod(axis.size for axis in axes)
    if count > LARGEST_WINDOW:
        raise Unsupported(f"its window has {count} values, and {LARGEST_WINDOW} at most are supported")
    initial = constant(node.inputs[1], "initial value")
    if initial.size != 1:
        raise Unsupported(f"its initial value has {initial.size} numbers, not one")
    operation = ReduceWindow(tuple(axes), kind=kind, initial=initial.reshape(-1)[0].item())
    if is_index(source, dtype) and is_index(node.inputs[1], dtype) and not kind.startswith("LOGICAL"):
        return Parsed(operation, integers=True, bounds=_bounds(known_bounds(source), operation, count, dtype))
    if kind.startswith("LOGICAL"):
        require_type({"bool"}, *node.inputs[:2], *node.outputs)
    elif source.dtype in QUANTIZED_DTYPES and kind in ("MAXIMUM", "MINIMUM"):
        require_type({source.dtype}, node.inputs[1], *node.outputs)
        require_movable([source], node.outputs)
    else:
        require_float(*node.inputs[:2], *node.outputs)
    return Parsed(replace(operation, initial=float(operation.initial)))


def _bounds(source: Bounds, operation: ReduceWindow, count: int, dtype: str) -> Bounds:
    """The bounds of a result that joins ``count`` integers to the initial one. Raises Unsupported if it is int64 and
    may need more than 32 bits.
    """
    initial = int(operation.initial)
    lowest, highest = min(source[0], initial), max(source[1], initial)
    if operation.kind == "ADD":
        return wrapped((initial + count * lowest, initial + count * highest), dtype)
    if operation.kind == "MUL":
        largest = max(abs(lowest), abs(highest)) ** min(count + 1, 64)  # what overflows so soon stays so
        return wrapped((-largest, largest), dtype)
    return wrapped((lowest, highest), dtype)


TFLITE = (
    TfliteOp("STABLEHLO_REDUCE_WINDOW", _parse_stablehlo, max_version=1, inputs=2, max_rank=6, takes_integers=True),
    TfliteOp("REDUCE_WINDOW", _parse, max_version=1, inputs=5, max_rank=6, takes_integers=True),
)
