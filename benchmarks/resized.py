"""Rewrites a model of channels last for pictures of another size: its input, and the sizes that operators are given.

    python benchmarks/resized.py MODEL HEIGHT WIDTH RESIZED
    python benchmarks/resized.py MODEL RESIZED                   for any number of frames at once

Converters write sizes into a file: those of RESIZE_BILINEAR, TRANSPOSE_CONV, RESHAPE, and of pools over a whole
picture. They grow with the input, rounded up as strides round. LiteRT then says what shapes the tensors have. A model
with a constant for each place of a picture, such as a transformer's, cannot be resized so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import OpResolverType

import framebind as fb

Sizes = tuple[dict[int, int], dict[int, int]]
"""The new height for each old one, and the same of widths."""
CODES = {code: name for name, code in vars(schema.BuiltinOperator).items() if not name.startswith("_")}


def resized(content: bytes, height: int, width: int) -> bytes:
    """The bytes of a model whose first input is a picture of that size. Raises fb.ModelError if it does not fit."""
    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    picture = graph.tensors[graph.inputs[0]]
    sizes = _pyramid(picture.shape[1], height), _pyramid(picture.shape[2], width)
    done = set[int]()
    for operator in graph.operators:
        code = model.operatorCodes[operator.opcodeIndex]
        name = CODES[max(code.builtinCode, code.deprecatedBuiltinCode)]
        if name.startswith("RESIZE_"):
            _rewrite(model, operator.inputs[1], done, lambda size: _grown(size, sizes))
        elif name == "TRANSPOSE_CONV":
            _rewrite(model, operator.inputs[0], done, lambda shape: [shape[0], *_grown(shape[1:3], sizes), shape[3]])
        elif name == "AVERAGE_POOL_2D":
            _grow_pool(operator.builtinOptions, graph.tensors[operator.inputs[0]].shape, sizes)
        elif name == "RESHAPE" and len(operator.inputs) > 1:
            given = list(graph.tensors[operator.inputs[0]].shape)
            _rewrite(model, operator.inputs[1], done, lambda shape, given=given: _reshaped(shape, given))
            operator.builtinOptions, operator.builtinOptionsType = None, 0
    picture.shape = np.array([picture.shape[0], height, width, picture.shape[3]], np.int32)
    _set_shapes(model, sizes)
    return _packed(model)


def for_any_batch(content: bytes) -> bytes:
    """The bytes of a model whose RESHAPEs keep the first axis, so that its inputs may be resized to several frames."""
    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    done = set[int]()
    for operator in model.subgraphs[0].operators:
        code = model.operatorCodes[operator.opcodeIndex]
        if CODES[max(code.builtinCode, code.deprecatedBuiltinCode)] == "RESHAPE" and len(operator.inputs) > 1:
            _rewrite(model, operator.inputs[1], done, _free)
            operator.builtinOptions, operator.builtinOptionsType = None, 0
    return _packed(model)


def _free(shape: list[int]) -> list[int]:
    """The shape of a RESHAPE with any number of frames."""
    return [-1, *shape[1:]] if shape and shape[0] == 1 and -1 not in shape else shape


def _pyramid(old: int, new: int) -> dict[int, int]:
    """The new size for each size that strides of two make of the old one, and for twice and four times the old one."""
    found = {4 * old: 4 * new, 2 * old: 2 * new}
    while old > 1:
        found[old] = new
        old, new = -(-old // 2), -(-new // 2)
    return found


def _grown(size: Sequence[int], sizes: Sizes) -> list[int]:
    return [new.get(side, side) for side, new in zip(size, sizes, strict=True)]


def _grow_pool(options: Any, shape: Sequence[int], sizes: Sizes) -> None:
    """Let a pool over a whole picture stay one."""
    if [options.filterHeight, options.filterWidth] == list(shape[1:3]):
        options.filterHeight, options.filterWidth = _grown(shape[1:3], sizes)
        options.strideH, options.strideW = min(options.strideH, 8), min(options.strideW, 8)


def _reshaped(shape: Sequence[int], given: Sequence[int]) -> list[int]:
    """The new shape, with -1 for the axis that has the pixels: all of a picture, or those that one axis had before."""
    pixels = {math.prod(given[1:3]), given[1] if len(given) > 2 else 0, math.prod(given[:-1])} - {0, 1}
    place = next((place for place, size in enumerate(shape) if size in pixels), None)
    return [-1 if number == place else size for number, size in enumerate(shape)]


def _rewrite(model: Any, tensor: int, done: set[int], change: Any) -> None:
    """Change a constant of integers, once if several operators share it."""
    number = model.subgraphs[0].tensors[tensor].buffer
    data = model.buffers[number].data
    if data is not None and number not in done:
        done.add(number)
        values = change(np.frombuffer(bytes(data), np.int32).tolist())
        model.buffers[number].data = np.array(values, np.int32).view(np.uint8)


def _set_shapes(model: Any, sizes: Sizes) -> None:
    """Give all tensors the shapes that LiteRT finds, up to the first custom operator. From there on pictures grow."""
    graph = model.subgraphs[0]
    codes = [model.operatorCodes[operator.opcodeIndex].builtinCode for operator in graph.operators]
    custom = next((place for place, code in enumerate(codes) if CODES[code] == "CUSTOM"), len(codes))
    kept, outputs, behind = graph.operators, graph.outputs, graph.operators[custom:]
    if behind:
        graph.operators, graph.outputs = kept[:custom], behind[0].inputs[:1]
    content = _packed(model)
    graph.operators, graph.outputs = kept, outputs
    interpreter = fb.Interpreter(
        model_content=content, delegate="cpu",
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )  # fmt: skip
    interpreter.allocate_tensors()
    details: list[dict[str, Any]] = interpreter.get_tensor_details()
    shapes = {int(detail["index"]): [int(side) for side in detail["shape"]] for detail in details}
    for tensor in (tensor for operator in behind for tensor in operator.outputs):
        first, *sides, last = graph.tensors[tensor].shape
        shapes[tensor] = [first, *_grown(sides, sizes), last]
    for number, tensor in enumerate(graph.tensors):
        if number in shapes:
            tensor.shape = np.array(shapes[number], np.int32)


def _packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


if __name__ == "__main__":
    given = Path(sys.argv[1]).read_bytes()
    made = resized(given, int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 3 else for_any_batch(given)
    Path(sys.argv[-1]).write_bytes(made)
