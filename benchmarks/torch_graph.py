"""A .tflite graph as a function of PyTorch: the operators of the float models that are measured, in BHWC order.

PyTorch's convolutions take BCHW. A permuted view of a BHWC tensor is in "channels last" order, which is fastest for
them, and permutes cost nothing.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

import framebind as fb

try:
    import torch
    from torch.nn import functional
except ImportError:  # so that all modules can be imported; torch_peer.py uses this one if PyTorch is there
    torch: Any = None
    functional: Any = None

Tensor = Any
"""torch.Tensor."""
SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID
CODES = {code: name for name, code in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
OPTIONS = {code: name for name, code in vars(tflite.BuiltinOptions).items() if not name.startswith("_")}
DTYPES = {tflite.TensorType.FLOAT32: "<f4", tflite.TensorType.FLOAT16: "<f2", tflite.TensorType.INT32: "<i4"}


@dataclass(frozen=True)
class Operator:
    """An operator: its option table (bytes of a custom one), its tensors by number, and its first output's shape."""

    name: str
    options: Any
    inputs: tuple[int, ...]
    output: int
    shape: tuple[int, ...]


class TorchGraph:
    """The first subgraph of a float model, as a function of its inputs in their order; returns a tuple of outputs.

    The first axis of the inputs may be longer than the model says: a batch. Raises fb.ModelError if the model has an
    operator that is not in FUNCTIONS, or constants of other types.
    """

    def __init__(self, content: bytes, dtype: Any, device: str) -> None:
        model = tflite.Model.GetRootAs(content, 0)
        graph: Any = model.Subgraphs(0)
        self.inputs, self.outputs = (tuple(a.tolist()) for a in (graph.InputsAsNumpy(), graph.OutputsAsNumpy()))
        operators = [_operator(model, graph, number) for number in range(graph.OperatorsLength())]
        unknown = sorted({operator.name for operator in operators} - FUNCTIONS.keys())
        if unknown:
            raise fb.ModelError(f"the graph of PyTorch has no {', '.join(unknown)}")
        self._values = _constants(model, graph, dtype, device)
        self._operators = list[Operator]()
        for operator in operators:  # operators with only constant inputs, as before float16 weights, run once
            if all(number in self._values for number in operator.inputs):
                self._values[operator.output] = self._run(operator, self._values)
            else:
                self._operators.append(operator)

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Run all operators."""
        values = self._values | dict(zip(self.inputs, inputs, strict=True))
        for operator in self._operators:
            values[operator.output] = self._run(operator, values)
        return tuple(values[number] for number in self.outputs)

    @staticmethod
    def _run(operator: Operator, values: dict[int, Tensor]) -> Tensor:
        return FUNCTIONS[operator.name](operator, *(values.get(number) for number in operator.inputs))


# The file -------------------------------------------------------------------------------------------------------------


def _operator(model: Any, graph: Any, number: int) -> Operator:
    table = graph.Operators(number)
    code = model.OperatorCodes(table.OpcodeIndex())
    name = CODES[max(code.DeprecatedBuiltinCode(), code.BuiltinCode())]
    if name == "CUSTOM":
        name, options = code.CustomCode().decode(), bytes(table.CustomOptionsAsNumpy())
    else:
        options = _options(table)
    output = table.Outputs(0)
    return Operator(name, options, tuple(table.InputsAsNumpy().tolist()), output, _shape(graph.Tensors(output)))


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(tensor.ShapeAsNumpy().tolist()) if tensor.ShapeLength() else ()  # a scalar's is no array


def _options(table: Any) -> Any:
    union = table.BuiltinOptions()
    if union is None:
        return None
    options = getattr(tflite, OPTIONS[table.BuiltinOptionsType()])()
    options.Init(union.Bytes, union.Pos)
    return options


def _constants(model: Any, graph: Any, dtype: Any, device: str) -> dict[int, Tensor]:
    """Constants by the number of their tensor: floats in ``dtype`` on ``device``, integers as arrays on the CPU."""
    found: dict[int, Tensor] = {}
    for number in range(graph.TensorsLength()):
        tensor = graph.Tensors(number)
        data = model.Buffers(tensor.Buffer()).DataAsNumpy()
        if not isinstance(data, np.ndarray) or not data.size:
            continue
        if tensor.Type() not in DTYPES:
            raise fb.ModelError(f"the graph of PyTorch has no constants of type number {tensor.Type()}")
        values = data.view(DTYPES[tensor.Type()]).reshape(_shape(tensor))
        is_float = values.dtype.kind == "f"
        found[number] = torch.tensor(values).to(device, dtype) if is_float else values
    return found


# Operators ------------------------------------------------------------------------------------------------------------


def _bchw(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _bhwc(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


def _activated(x: Tensor, activation: int) -> Tensor:
    kinds = tflite.ActivationFunctionType
    if activation == kinds.NONE:
        return x
    functions: dict[int, Callable[[Tensor], Tensor]] = {
        kinds.RELU: torch.relu, kinds.RELU6: functional.relu6, kinds.TANH: torch.tanh,
    }  # fmt: skip
    return functions[activation](x)


def _padding(size: int, kernel: int, stride: int, dilation: int, scheme: int) -> tuple[int, int]:
    """Pixels before and after an axis, by TFLite's rule."""
    if scheme == VALID:
        return 0, 0
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def _padded(x: Tensor, options: Any, kernel: Sequence[int], dilation: tuple[int, int], value: float) -> Tensor:
    """A BCHW picture with the padding of a window operator around it."""
    rows = _padding(x.shape[2], kernel[0], options.StrideH(), dilation[0], options.Padding())
    columns = _padding(x.shape[3], kernel[1], options.StrideW(), dilation[1], options.Padding())
    return functional.pad(x, (*columns, *rows), value=value) if any(rows + columns) else x


def _convolution(operator: Operator, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """CONV_2D and DEPTHWISE_CONV_2D, whose weights are (1, height, width, channels)."""
    options = operator.options
    stride = options.StrideH(), options.StrideW()
    dilation = options.DilationHFactor(), options.DilationWFactor()
    is_depthwise = operator.name == "DEPTHWISE_CONV_2D"
    groups = x.shape[3] if is_depthwise else x.shape[3] // weights.shape[3]
    kernel = weights.permute(3, 0, 1, 2) if is_depthwise else weights.permute(0, 3, 1, 2)
    x, before = _bchw(x), (0, 0)
    rows, columns = (
        _padding(size, side, step, spread, options.Padding())
        for size, side, step, spread in zip(x.shape[2:], kernel.shape[2:], stride, dilation, strict=True)
    )
    if rows[0] == rows[1] and columns[0] == columns[1]:
        before = rows[0], columns[0]
    else:
        x = functional.pad(x, (*columns, *rows))
    y = functional.conv2d(x, kernel, bias, stride, before, dilation, groups)
    return _activated(_bhwc(y), options.FusedActivationFunction())


def _transpose_convolution_with_bias(operator: Operator, x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """MediaPipe's operator. Its output is ``strides`` times as large, which is all that a kernel of that size makes."""
    _, height, width = struct.unpack("<iii", operator.options[:12])
    if tuple(weights.shape[1:3]) != (height, width):
        raise fb.ModelError("the graph of PyTorch has transposed convolutions without overlap only")
    return _bhwc(functional.conv_transpose2d(_bchw(x), weights.permute(3, 0, 1, 2), bias, (height, width)))


def _pool(operator: Operator, x: Tensor) -> Tensor:
    options = operator.options
    kernel, stride = (options.FilterHeight(), options.FilterWidth()), (options.StrideH(), options.StrideW())
    x = _bchw(x)
    if operator.name == "MAX_POOL_2D":
        y = functional.max_pool2d(_padded(x, options, kernel, (1, 1), -torch.inf), kernel, stride)
    elif kernel == tuple(x.shape[2:]) and options.Padding() == VALID:
        y = x.mean((2, 3), keepdim=True)
    elif options.Padding() == VALID:
        y = functional.avg_pool2d(x, kernel, stride)
    else:
        raise fb.ModelError("the graph of PyTorch has averages without padding only")
    return _activated(_bhwc(y), options.FusedActivationFunction())


def _resize(operator: Operator, x: Tensor, _size: Any) -> Tensor:
    options, size = operator.options, operator.shape[1:3]
    if tuple(x.shape[1:3]) == size:
        return x
    if operator.name == "RESIZE_NEAREST_NEIGHBOR" and not options.AlignCorners() and not options.HalfPixelCenters():
        return _bhwc(functional.interpolate(_bchw(x), size, mode="nearest"))
    if operator.name == "RESIZE_BILINEAR" and options.AlignCorners() != options.HalfPixelCenters():
        corners = options.AlignCorners()
        return _bhwc(functional.interpolate(_bchw(x), size, mode="bilinear", align_corners=corners))
    raise fb.ModelError(f"the graph of PyTorch has no {operator.name} with these options")


def _pad(operator: Operator, x: Tensor, paddings: Any) -> Tensor:
    flat = [int(n) for pair in reversed(paddings.tolist()) for n in pair]  # the last axis first
    if operator.name == "PAD":
        return functional.pad(x, flat)
    if operator.options.Mode() != tflite.MirrorPadMode.REFLECT or any(flat[:2] + flat[6:]):
        raise fb.ModelError("the graph of PyTorch mirrors height and width, without their edge, only")
    return _bhwc(functional.pad(_bchw(x), flat[2:6], mode="reflect"))


def _arithmetic(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def run(operator: Operator, a: Tensor, b: Tensor) -> Tensor:
        return _activated(function(a, b), operator.options.FusedActivationFunction())

    return run


def _concatenated(operator: Operator, *parts: Tensor) -> Tensor:
    return _activated(torch.cat(parts, operator.options.Axis()), operator.options.FusedActivationFunction())


def _mean(operator: Operator, x: Tensor, axes: Any) -> Tensor:
    return x.mean(tuple(int(axis) for axis in axes.reshape(-1)), keepdim=operator.options.KeepDims())


def _fully_connected(operator: Operator, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    y = functional.linear(x.reshape(-1, weights.shape[1]), weights, bias)
    return _activated(y, operator.options.FusedActivationFunction())


def _depth_to_space(operator: Operator, x: Tensor) -> Tensor:
    """Channels go to blocks of pixels. TFLite's order of channels is (row, column, channel)."""
    side = operator.options.BlockSize()
    batch, height, width, channels = x.shape
    blocks = x.reshape(batch, height, width, side, side, channels // side**2)
    return blocks.permute(0, 1, 3, 2, 4, 5).reshape(batch, height * side, width * side, -1)


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "ADD": _arithmetic(lambda a, b: a + b),
    "AVERAGE_POOL_2D": _pool,
    "CONCATENATION": _concatenated,
    "CONV_2D": _convolution,
    "Convolution2DTransposeBias": _transpose_convolution_with_bias,
    "DEPTHWISE_CONV_2D": _convolution,
    "DEPTH_TO_SPACE": _depth_to_space,
    "DEQUANTIZE": lambda operator, x: x,
    "FULLY_CONNECTED": _fully_connected,
    "HARD_SWISH": lambda operator, x: functional.hardswish(x),
    "LOGISTIC": lambda operator, x: torch.sigmoid(x),
    "MAX_POOL_2D": _pool,
    "MEAN": _mean,
    "MIRROR_PAD": _pad,
    "MUL": _arithmetic(lambda a, b: a * b),
    "PAD": _pad,
    "RELU": lambda operator, x: torch.relu(x),
    "RESHAPE": lambda operator, x, *_shape: x.reshape(x.shape[0], *operator.shape[1:]),
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "RSQRT": lambda operator, x: torch.rsqrt(x),
    "SQUARED_DIFFERENCE": lambda operator, a, b: torch.square(a - b),
    "SUB": _arithmetic(lambda a, b: a - b),
}
"""Functions of an operator and its inputs, by name; constant integers are NumPy arrays, missing inputs None."""
