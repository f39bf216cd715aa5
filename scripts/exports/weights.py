"""Takes the weights out of .tflite files, and puts random ones in: large networks travel as small files.

    python scripts/exports/weights.py strip FOLDER SMALL [BYTES]
    python scripts/exports/weights.py fill SMALL FOLDER

A stripped file has an empty buffer in place of each large constant of floats, and in NAME.json the number, mean and
standard deviation of its values, and their type. The weights of models that make.py made are random anyway.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

SMALLEST = 4096
"""Bytes of the smallest constant that is taken out, if BYTES says nothing else: tables of places shall stay."""
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
        else:
            strip(path, made / path.name, *map(int, sys.argv[4:]))


if __name__ == "__main__":
    main()
