"""A .tflite graph as a function of PyTorch: the operators of the float models that are measured, in TFLite's order.

PyTorch's convolutions take BCHW. A permuted view of a BHWC tensor is in "channels last" order, which is fastest for
them, and permutes cost nothing. Tensors that say how an operator works, such as axes and shapes, are read on the CPU
when the graph is built: a CUDA graph may not wait for them.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
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
SECOND_OPTIONS = {code: name for name, code in vars(tflite.BuiltinOptions2).items() if not name.startswith("_")}
DTYPES = {
    tflite.TensorType.FLOAT32: "<f4", tflite.TensorType.FLOAT16: "<f2", tflite.TensorType.INT32: "<i4",
    tflite.TensorType.BOOL: "?",
}  # fmt: skip
ON_CPU = {
    "MEAN": (1,), "MIRROR_PAD": (1,), "PAD": (1,), "PADV2": (1, 2), "REDUCE_MAX": (1,), "SLICE": (1, 2), "SPLIT": (0,),
    "STABLEHLO_REDUCE_WINDOW": (1,), "STRIDED_SLICE": (1, 2, 3), "SUM": (1,), "TILE": (1,), "TOPK_V2": (1,),
    "TRANSPOSE": (1,),
}  # fmt: skip
"""The inputs of operators, by their places, that are read on the CPU: arrays of NumPy."""


@dataclass(frozen=True)
class Operator:
    """An operator: its option table (bytes of a custom one), its tensors by number, and its first output.

    ``shape`` and ``dtype`` are that output's, ``given`` the shape of its first input.
    """

    name: str
    options: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    given: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: Any

    def batched(self, x: Tensor) -> tuple[int, ...]:
        """The shape of the output for these elements, which may be those of several frames."""
        return (self.shape[0] * x.numel() // math.prod(self.shape), *self.shape[1:]) if self.shape else ()


class TorchGraph:
    """The first subgraph of a float model, as a function of its inputs in their order; returns a tuple of outputs.

    The first axis of the inputs may be longer than the model says: a batch, in models that keep it the first axis.
    ``shapes`` are those of tensors by their numbers, if the model was resized. Raises fb.ModelError if the model has an
    operator that is not in FUNCTIONS, or constants of other types.
    """

    def __init__(
        self, content: bytes, dtype: Any, device: str, shapes: Mapping[int, tuple[int, ...]] | None = None
    ) -> None:
        model = tflite.Model.GetRootAs(content, 0)
        graph: Any = model.Subgraphs(0)
        sizes = dict(enumerate(_shape(graph.Tensors(number)) for number in range(graph.TensorsLength())))
        sizes |= shapes or {}
        self.inputs, self.outputs = (tuple(a.tolist()) for a in (graph.InputsAsNumpy(), graph.OutputsAsNumpy()))
        operators = [_operator(model, graph, number, sizes, dtype) for number in range(graph.OperatorsLength())]
        unknown = sorted({operator.name for operator in operators} - FUNCTIONS.keys())
        if unknown:
            raise fb.ModelError(f"the graph of PyTorch has no {', '.join(unknown)}")
        self._arrays = _constants(model, graph)
        self._values = {number: _tensor(array, dtype, device) for number, array in self._arrays.items()}
        self._operators = list[Operator]()
        for operator in operators:  # operators with only constant inputs, as before float16 weights, run once
            if all(number in self._values for number in operator.inputs):
                self._run(operator, self._values)
                self._arrays |= {number: self._values[number].cpu().numpy() for number in operator.outputs}
            else:
                self._operators.append(operator)

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Run all operators."""
        values = self._values | dict(zip(self.inputs, inputs, strict=True))
        for operator in self._operators:
            self._run(operator, values)
        return tuple(values[number] for number in self.outputs)

    def _run(self, operator: Operator, values: dict[int, Tensor]) -> None:
        """Run an operator, and add its outputs to the values."""
        on_cpu = ON_CPU.get(operator.name, ())
        missing = [number for place, number in enumerate(operator.inputs) if place in on_cpu and number >= 0
                   and number not in self._arrays]  # fmt: skip
        if missing:
            raise fb.ModelError(f"the graph of PyTorch has {operator.name} of constant parameters only")
        given = [
            (self._arrays if place in on_cpu else values).get(number) for place, number in enumerate(operator.inputs)
        ]
        found = FUNCTIONS[operator.name](operator, *given)
        values.update(zip(operator.outputs, found if isinstance(found, tuple) else (found,), strict=True))


# The file -------------------------------------------------------------------------------------------------------------


def _operator(model: Any, graph: Any, number: int, shapes: Mapping[int, tuple[int, ...]], dtype: Any) -> Operator:
    table = graph.Operators(number)
    code = model.OperatorCodes(table.OpcodeIndex())
    name = CODES[max(code.DeprecatedBuiltinCode(), code.BuiltinCode())]
    if name == "CUSTOM":
        name, options = code.CustomCode().decode(), bytes(table.CustomOptionsAsNumpy())
    else:
        options = _options(table)
    inputs, outputs = (tuple(each.tolist()) for each in (table.InputsAsNumpy(), table.OutputsAsNumpy()))
    types = {tflite.TensorType.INT32: torch.int32, tflite.TensorType.BOOL: torch.bool}
    made = types.get(graph.Tensors(outputs[0]).Type(), dtype)
    return Operator(name, options, inputs, outputs, shapes.get(inputs[0], ()), shapes[outputs[0]], made)


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(tensor.ShapeAsNumpy().tolist()) if tensor.ShapeLength() else ()  # a scalar's is no array


def _options(table: Any) -> Any:
    union, name = table.BuiltinOptions(), OPTIONS[table.BuiltinOptionsType()]
    if union is None:
        union, name = table.BuiltinOptions2(), SECOND_OPTIONS[table.BuiltinOptions2Type()]
    if union is None:
        return None
    options = getattr(tflite, name)()
    options.Init(union.Bytes, union.Pos)
    return options


def _constants(model: Any, graph: Any) -> dict[int, npt.NDArray[Any]]:
    """Constants by the number of their tensor."""
    found: dict[int, npt.NDArray[Any]] = {}
    for number in range(graph.TensorsLength()):
        tensor = graph.Tensors(number)
        data = model.Buffers(tensor.Buffer()).DataAsNumpy()
        if not isinstance(data, np.ndarray) or not data.size:
            continue
        if tensor.Type() not in DTYPES:
            raise fb.ModelError(f"the graph of PyTorch has no constants of type number {tensor.Type()}")
        found[number] = data.view(DTYPES[tensor.Type()]).reshape(_shape(tensor))
    return found


def _tensor(array: npt.NDArray[Any], dtype: Any, device: str) -> Tensor:
    """A constant on the device, floats in ``dtype``."""
    made = torch.tensor(array)
    return made.to(device, dtype if made.is_floating_point() else made.dtype)


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
        kinds.RELU_N1_TO_1: lambda x: x.clamp(-1, 1),
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


def _transpose_convolution(
    operator: Operator, _shape: Tensor, weights: Tensor, x: Tensor, bias: Tensor | None = None
) -> Tensor:
    """TRANSPOSE_CONV. TFLite pads more behind than before; PyTorch pads both alike, so a row and a column are cut."""
    options, size = operator.options, operator.shape[1:3]
    stride = options.StrideH(), options.StrideW()
    cuts = [
        max((given - 1) * step + kernel - made, 0) // 2
        for given, step, kernel, made in zip(x.shape[1:3], stride, weights.shape[1:3], size, strict=True)
    ]
    y = functional.conv_transpose2d(_bchw(x), weights.permute(3, 0, 1, 2), bias, stride, cuts)
    if y.shape[2] < size[0] or y.shape[3] < size[1]:
        raise fb.ModelError("the graph of PyTorch has transposed convolutions that reach all pixels only")
    return _activated(_bhwc(y)[:, : size[0], : size[1]], options.FusedActivationFunction())


def _window_sums(operator: Operator, x: Tensor, start: Any) -> Tensor:
    """STABLEHLO_REDUCE_WINDOW, whose body is taken for a sum: the comparison with LiteRT would find another one."""
    options = operator.options
    sizes, strides = options.WindowDimensionsAsNumpy().tolist(), options.WindowStridesAsNumpy().tolist()
    if np.any(options.PaddingAsNumpy()) or start or sizes[::3] != [1, 1] or strides[::3] != [1, 1]:
        raise fb.ModelError("the graph of PyTorch sums windows of height and width, without padding, only")
    return _bhwc(functional.avg_pool2d(_bchw(x), sizes[1:3], strides[1:3], divisor_override=1))


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


def _resize(operator: Operator, x: Tensor, _size: Tensor) -> Tensor:
    options, size = operator.options, operator.shape[1:3]
    if tuple(x.shape[1:3]) == size:
        return x
    if operator.name == "RESIZE_NEAREST_NEIGHBOR" and not options.AlignCorners():
        mode = "nearest-exact" if options.HalfPixelCenters() else "nearest"
        return _bhwc(functional.interpolate(_bchw(x), size, mode=mode))
    if operator.name == "RESIZE_BILINEAR" and options.AlignCorners() != options.HalfPixelCenters():
        corners = options.AlignCorners()
        return _bhwc(functional.interpolate(_bchw(x), size, mode="bilinear", align_corners=corners))
    raise fb.ModelError(f"the graph of PyTorch has no {operator.name} with these options")


def _pad(operator: Operator, x: Tensor, paddings: Any, value: Any = 0) -> Tensor:
    flat = [int(n) for pair in reversed(paddings.tolist()) for n in pair]  # the last axis first
    if operator.name != "MIRROR_PAD":
        return functional.pad(x, flat, value=float(value))
    if operator.options.Mode() != tflite.MirrorPadMode.REFLECT or any(flat[:2] + flat[6:]):
        raise fb.ModelError("the graph of PyTorch mirrors height and width, without their edge, only")
    return _bhwc(functional.pad(_bchw(x), flat[2:6], mode="reflect"))


def _arithmetic(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def run(operator: Operator, a: Tensor, b: Tensor) -> Tensor:
        return _activated(function(a, b), operator.options.FusedActivationFunction())

    return run


def _concatenated(operator: Operator, *parts: Tensor) -> Tensor:
    return _activated(torch.cat(parts, operator.options.Axis()), operator.options.FusedActivationFunction())


def _reduced(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(operator: Operator, x: Tensor, axes: Any) -> Tensor:
        return function(x, tuple(int(axis) for axis in axes.reshape(-1)), keepdim=operator.options.KeepDims())

    return run


def _fully_connected(operator: Operator, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    y = functional.linear(x.reshape(-1, weights.shape[1]), weights, bias)
    return _activated(y.reshape(operator.batched(y)), operator.options.FusedActivationFunction())


def _product(operator: Operator, a: Tensor, b: Tensor) -> Tensor:
    """BATCH_MATMUL."""
    options = operator.options
    return torch.matmul(a.mT if options.AdjX() else a, b.mT if options.AdjY() else b)


def _slice(operator: Operator, x: Tensor, begin: Any, size: Any) -> Tensor:
    """SLICE; an axis that it does not cut stays whole, also if it is that of a larger batch."""
    cuts = [
        slice(None) if not first and made == whole else slice(int(first), int(first) + made)
        for first, made, whole in zip(begin, operator.shape, operator.given, strict=True)
    ]
    return x[tuple(cuts)]


def _strided_slice(operator: Operator, x: Tensor, begin: Any, end: Any, strides: Any) -> Tensor:
    options = operator.options
    if options.EllipsisMask() or options.NewAxisMask() or options.Offset() or min(strides) < 0:
        raise fb.ModelError("the graph of PyTorch has STRIDED_SLICE with positive strides of all axes only")
    index: list[int | slice] = []
    for axis, (first, last, step) in enumerate(zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)):
        bit = 1 << axis
        if options.ShrinkAxisMask() & bit:
            index.append(first)
        else:
            index.append(
                slice(None if options.BeginMask() & bit else first, None if options.EndMask() & bit else last, step)
            )
    return x[tuple(index)]


def _split(operator: Operator, axis: Any, x: Tensor) -> tuple[Tensor, ...]:
    return x.chunk(len(operator.outputs), int(axis))


def _gathered(_operator: Operator, x: Tensor, places: Tensor) -> Tensor:
    """GATHER_ND."""
    return x[tuple(place.long() for place in places.unbind(-1))]


def _largest(_operator: Operator, x: Tensor, count: Any) -> tuple[Tensor, Tensor]:
    values, places = torch.topk(x, int(count))
    return values, places.to(torch.int32)


def _depth_to_space(operator: Operator, x: Tensor) -> Tensor:
    """Channels go to blocks of pixels. TFLite's order of channels is (row, column, channel)."""
    side = operator.options.BlockSize()
    batch, height, width, channels = x.shape
    blocks = x.reshape(batch, height, width, side, side, channels // side**2)
    return blocks.permute(0, 1, 3, 2, 4, 5).reshape(batch, height * side, width * side, -1)


def _of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An operator without options."""
    return lambda operator, *given: function(*given)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ADD": _arithmetic(lambda a, b: a + b),
    "AVERAGE_POOL_2D": _pool,
    "BATCH_MATMUL": _product,
    "BROADCAST_TO": lambda operator, x, _shape: x.expand(operator.shape),
    "CAST": lambda operator, x: x.to(operator.dtype),
    "CONCATENATION": _concatenated,
    "CONV_2D": _convolution,
    "COS": _of(torch.cos),
    "Convolution2DTransposeBias": _transpose_convolution_with_bias,
    "DEPTHWISE_CONV_2D": _convolution,
    "DEPTH_TO_SPACE": _depth_to_space,
    "DEQUANTIZE": _of(lambda x: x),
    "DIV": _arithmetic(lambda a, b: a / b),
    "FLOOR": _of(torch.floor),
    "FLOOR_DIV": _of(torch.floor_divide),
    "FLOOR_MOD": _of(torch.remainder),
    "FULLY_CONNECTED": _fully_connected,
    "GATHER_ND": _gathered,
    "GELU": lambda operator, x: functional.gelu(x, approximate="tanh" if operator.options.Approximate() else "none"),
    "GREATER_EQUAL": _of(torch.ge),
    "HARD_SWISH": _of(functional.hardswish),
    "L2_NORMALIZATION": _of(lambda x: functional.normalize(x, dim=-1, eps=1e-6)),
    "LESS": _of(torch.lt),
    "LOG": _of(torch.log),
    "LOGICAL_AND": _of(torch.logical_and),
    "LOGISTIC": _of(torch.sigmoid),
    "MAXIMUM": _of(torch.maximum),
    "MAX_POOL_2D": _pool,
    "MEAN": _reduced(torch.mean),
    "MIRROR_PAD": _pad,
    "MUL": _arithmetic(lambda a, b: a * b),
    "NEG": _of(torch.neg),
    "NOT_EQUAL": _of(torch.ne),
    "PAD": _pad,
    "PADV2": _pad,
    "POW": _of(torch.pow),
    "REDUCE_MAX": _reduced(torch.amax),
    "RELU": _of(torch.relu),
    "RELU_0_TO_1": _of(lambda x: x.clamp(0, 1)),
    "RESHAPE": lambda operator, x, *_shape: x.reshape(operator.batched(x)),
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "RSQRT": _of(torch.rsqrt),
    "SELECT": _of(torch.where),
    "SELECT_V2": _of(torch.where),
    "SIGN": _of(torch.sign),
    "SIN": _of(torch.sin),
    "SLICE": _slice,
    "SOFTMAX": lambda operator, x: torch.softmax(x * operator.options.Beta(), -1),
    "SPLIT": _split,
    "SQUARED_DIFFERENCE": _of(lambda a, b: torch.square(a - b)),
    "STABLEHLO_REDUCE_WINDOW": _window_sums,
    "STRIDED_SLICE": _strided_slice,
    "SUB": _arithmetic(lambda a, b: a - b),
    "SUM": _reduced(torch.sum),
    "TANH": _of(torch.tanh),
    "TILE": lambda operator, x, counts: x.tile(tuple(counts.tolist())),
    "TOPK_V2": _largest,
    "TRANSPOSE": lambda operator, x, axes: x.permute(tuple(axes.tolist())),
    "TRANSPOSE_CONV": _transpose_convolution,
}
"""Functions of an operator and its inputs, by name; missing inputs are None, those ON_CPU arrays of NumPy."""
