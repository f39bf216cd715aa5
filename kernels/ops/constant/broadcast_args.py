"""BROADCAST_ARGS: the shape to which two shapes broadcast. It is computed when the model is read, or by the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operation import Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK


def _fold(_: Any, inputs: list[np.ndarray]) -> np.ndarray:
    return np.array(np.broadcast_shapes(*(tuple(shape.reshape(-1).tolist()) for shape in inputs)), inputs[0].dtype)


def _parse(node: TfliteNode) -> Parsed:
    for tensor in node.inputs:
        if tensor is None or tensor.constant is None:
            name = "an input" if tensor is None else f"tensor '{tensor.name}'"
            raise Unsupported(f"{name}, one of its shapes, is known only while the model runs")
    raise Unsupported("its shapes do not broadcast")


TFLITE = (TfliteOp("BROADCAST_ARGS", _parse, max_version=1, inputs=2, max_rank=LARGEST_RANK, fold=_fold),)
