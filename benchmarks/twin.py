"""Rewrites a model of channels first (NCHW) as its twin, whose picture inputs have channels last.

    python benchmarks/twin.py MODEL TWIN

PyTorch's exporters put a TRANSPOSE behind each picture input. The twin begins behind it, with the same operators and
weights. An input that another operator reads too keeps its layout; outputs keep theirs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

TO_CHANNELS_LAST = [0, 2, 3, 1]


def channels_last(content: bytes) -> bytes:
    """The twin of a model, as bytes of a .tflite file, without signatures."""
    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    for tensor in graph.inputs:
        readers = [operator for operator in graph.operators if tensor in operator.inputs]
        if not readers or not all(_moves_channels_last(model, each) for each in readers):
            continue
        first, *others = [each.outputs[0] for each in readers]
        graph.inputs = [first if each == tensor else each for each in graph.inputs]
        graph.operators = [each for each in graph.operators if each not in readers]
        for operator in graph.operators:
            operator.inputs = [first if each in others else each for each in operator.inputs]
    model.signatureDefs = None
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _moves_channels_last(model: Any, operator: Any) -> bool:
    if model.operatorCodes[operator.opcodeIndex].builtinCode != schema.BuiltinOperator.TRANSPOSE:
        return False
    order = model.buffers[model.subgraphs[0].tensors[operator.inputs[1]].buffer].data
    return order is not None and list(memoryview(bytes(order)).cast("i")) == TO_CHANNELS_LAST


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(channels_last(Path(sys.argv[1]).read_bytes()))
