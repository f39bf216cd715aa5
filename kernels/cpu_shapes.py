"""Output shapes of operators that only the CPU runs. Operators that follow them need these shapes to be on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .operation import TfliteNode
from .ops.window import Window
from .tensor import TensorInfo

Shape = tuple[int, ...]


def _same(node: TfliteNode, inputs: Sequence[TensorInfo]) -> Shape:
    return inputs[0].shape


def _pooled(node: TfliteNode, inputs: Sequence[TensorInfo]) -> Shape:
    batch, height, width, channels = inputs[0].shape
    options = node.options
    size, strides = (options.FilterHeight(), options.FilterWidth()), (options.StrideH(), options.StrideW())
    return (batch, *Window(size, strides, padding=options.Padding()).output_size(height, width), channels)


def _given(node: TfliteNode, inputs: Sequence[TensorInfo]) -> Shape:
    """The shape is the content of the first input, which is constant."""
    return tuple(_integers(inputs[0]))


def _segments(node: TfliteNode, inputs: Sequence[TensorInfo]) -> Shape:
    """One row for each segment; their number is constant."""
    values, ids, count = inputs
    return (_integers(count)[0], *values.shape[len(ids.shape) :])


def _filtered(node: TfliteNode, inputs: Sequence[TensorInfo]) -> Shape:
    return (inputs[0].shape[0], inputs[1].shape[0] // node.options.Rank())


def _recurrent(node: TfliteNode, inputs: Sequence[TensorInfo]) -> Shape:
    """A row of units for each row of the input."""
    return (*inputs[0].shape[:-1], inputs[1].shape[0])


def _integers(tensor: TensorInfo) -> list[int]:
    if tensor.constant is None:
        raise ValueError(f"tensor '{tensor.name}' is not constant")
    return [int(size) for size in tensor.constant.reshape(-1)]


RULES: dict[str, Callable[[TfliteNode, Sequence[TensorInfo]], Shape]] = {
    **dict.fromkeys("BUCKETIZE FAKE_QUANT MATRIX_SET_DIAG REVERSE_SEQUENCE".split(), _same),
    **dict.fromkeys("RANDOM_STANDARD_NORMAL RANDOM_UNIFORM".split(), _given),
    **dict.fromkeys("RNN UNIDIRECTIONAL_SEQUENCE_RNN".split(), _recurrent),
    **{f"UNSORTED_SEGMENT_{kind}": _segments for kind in ("MAX", "MIN", "PROD", "SUM")},
    "L2_POOL_2D": _pooled,
    "MATRIX_DIAG": lambda node, inputs: (*inputs[0].shape, inputs[0].shape[-1]),
    "SVDF": _filtered,
}
"""The rules of builtin operators with one output, by name."""


def cpu_shapes(name: str, node: TfliteNode) -> list[Shape] | None:
    """The shapes of the outputs of an operator without a kernel; None if they are not known before the model runs."""
    try:
        return [RULES[name](node, [tensor for tensor in node.inputs if tensor is not None])]
    except Exception:  # damaged option tables raise whatever flatbuffers, NumPy and arithmetic do
        return None
