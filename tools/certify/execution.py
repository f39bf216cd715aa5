"""Runs of a model with the GPU delegate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from ...delegate.compiler import StorageRule
from ...delegate.lower.precision import choose_storage
from .devices import Backend

Array = npt.NDArray[np.generic]


def run_on_device(
    model: bytes,
    inputs: Sequence[Sequence[Array]],
    backend: Backend,
    *,
    half: bool = False,
    storage_rule: StorageRule = choose_storage,
) -> tuple[list[list[Array]], list[str]]:
    """The outputs for each of the inputs, in the context that is current, and the reasons of operators that stay on the
    CPU.
    """
    delegate: Any = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend, is_precision_loss_allowed=half))
    delegate.engine.maker.storage_rule = storage_rule
    interpreter = fb.Interpreter(model_content=model)
    try:
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        results: list[list[Array]] = []
        for values in inputs:
            for tensor, value in zip(interpreter.inputs(), values, strict=True):
                interpreter.set_tensor(tensor, value)
            interpreter.invoke()
            results.append([interpreter.get_tensor(tensor) for tensor in interpreter.outputs()])
        return results, [f"{op.name}: {op.reason}" for op in interpreter.delegated_ops() if op.runs_on == "cpu"]
    finally:
        delegate.close()
