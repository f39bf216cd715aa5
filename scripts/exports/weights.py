"""Takes the weights out of .tflite files, and puts random ones in: large networks travel as small files.

    python scripts/exports/weights.py strip FOLDER SMALL [BYTES]
    python scripts/exports/weights.py fill SMALL FOLDER
    python scripts/exports/weights.py liven FOLDER LIVELY

A stripped file has an empty buffer in place of each large constant of floats, and in NAME.json the number, mean and
standard deviation of its values, and their type. The weights of models that make.py made are random anyway.

The outputs of a deep network with random weights may be almost constant, so that no error shows. A lively one has
weights that keep the spread of values from layer to layer: He et al., "Delving Deep into Rectifiers" (2015).
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

SMALLEST = 4096
"""Bytes of the smallest constant that is taken out, if BYTES says nothing else: tables of places shall stay."""
OPERATORS = {
    getattr(schema.BuiltinOperator, name): name
    for name in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
}
"""The operators whose second input are weights, by code."""
FLOATS = {schema.TensorType.FLOAT32: "float32", schema.TensorType.FLOAT16: "float16"}


def strip(source: Path, target: Path, smallest: int = SMALLEST) -> None:
    """Write a model without its constants of ``smallest`` bytes or more, and their statistics beside it."""
    model: Any = schema.ModelT.InitFromPackedBuf(source.read_bytes(), 0)
    floats = {
        tensor.buffer: FLOATS[tensor.type]
        for graph in model.subgraphs
        for tensor in graph.tensors
        if tensor.type in FLOATS
    }
    known: dict[int, tuple[int, float, float, str]] = {}
    for number, dtype in sorted(floats.items()):
        data = model.buffers[number].data
        if data is not None and len(data) >= smallest:
            values = np.frombuffer(bytes(data), dtype).astype(np.float64)
            known[number] = len(values), float(values.mean()), float(values.std()), dtype
            model.buffers[number].data = None
    target.write_bytes(_packed(model))
    target.with_suffix(".json").write_text(json.dumps(known))


def fill(source: Path, target: Path) -> None:
    """Write a model with random constants of the statistics beside it."""
    model: Any = schema.ModelT.InitFromPackedBuf(source.read_bytes(), 0)
    for number, (count, mean, deviation, dtype) in json.loads(source.with_suffix(".json").read_text()).items():
        values = np.random.default_rng(int(number)).normal(mean, deviation, count).astype(dtype)
        model.buffers[int(number)].data = values.view(np.uint8)
    target.write_bytes(_packed(model))


def liven(source: Path, target: Path) -> None:
    """Write a model whose convolutions and matrix products have weights of variance 2 / (values of a sum)."""
    model: Any = schema.ModelT.InitFromPackedBuf(source.read_bytes(), 0)
    graph = model.subgraphs[0]
    producers = {tensor: operator for operator in graph.operators for tensor in operator.outputs}
    for operator in graph.operators:
        code = model.operatorCodes[operator.opcodeIndex]
        name = OPERATORS.get(max(code.builtinCode, code.deprecatedBuiltinCode))
        if name is None:
            continue
        weights = operator.inputs[1]
        if weights in producers:  # a DEQUANTIZE of halves
            weights = producers[weights].inputs[0]
        tensor = graph.tensors[weights]
        buffer = model.buffers[tensor.buffer]
        if buffer.data is not None and tensor.type in FLOATS:
            count = math.prod(tensor.shape[1:3] if name == "DEPTHWISE_CONV_2D" else tensor.shape[1:])
            random = np.random.default_rng(tensor.buffer)
            values = random.normal(0.0, math.sqrt(2 / count), math.prod(tensor.shape)).astype(FLOATS[tensor.type])
            buffer.data = values.view(np.uint8)
    target.write_bytes(_packed(model))


def _packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def main() -> None:
    """Do what the command line says to each file of a folder."""
    given, made = Path(sys.argv[2]), Path(sys.argv[3])
    made.mkdir(parents=True, exist_ok=True)
    for path in sorted(given.glob("*.tflite")):
        if sys.argv[1] == "fill":
            fill(path, made / path.name)
        elif sys.argv[1] == "liven":
            liven(path, made / path.name)
        else:
            strip(path, made / path.name, *map(int, sys.argv[4:]))


if __name__ == "__main__":
    main()
