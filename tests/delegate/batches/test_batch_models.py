"""The six float models with several frames at once, against LiteRT's CPU interpreter, which is resized the same way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt

import framebind as fb
from framebind.interop.device import Device
from framebind.video.apis import APIS
from support.model_runs import backend_of
from support.models import MODELS, TOLERANCE, Photograph, RealModel, random_inputs, relative_error, sample_bilinear

PHOTOGRAPHS = ("astronaut", "coffee", "chelsea")
N = len(PHOTOGRAPHS)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@pytest.mark.parametrize("storage", ["f32", "f16"])
def test_frames_are_those_of_litert(
    gpu: Device, model_path: Callable[[str], Path], photograph: Photograph, model: RealModel, storage: str
) -> None:
    """Within the bound of a single frame. Inputs are bound one by one, and outputs too if their batch is N."""
    path = model_path(model.name)
    (api,) = [api for api in APIS if api.name == backend_of(gpu)]
    options = fb.GpuDelegateOptions(backend=api.name, is_precision_loss_allowed=storage == "f16")
    delegate, cpu = fb.GpuDelegate(options), LiteRt(str(path))
    interpreter = fb.Interpreter(model_path=path)
    interpreter.modify_graph_with_delegate(delegate)
    given: list[dict[str, Any]] = cpu.get_input_details()
    shapes = {int(d["index"]): (N, *map(int, d["shape"][1:])) for d in given}
    for each in (cpu, interpreter):
        for tensor, shape in shapes.items():
            each.resize_tensor_input(tensor, shape)
        each.allocate_tensors()
    inputs = random_inputs(shapes, model)
    for tensor, values in inputs.items():
        if values.shape[3] == 3:
            pictures = [sample_bilinear(photograph(name), *values.shape[1:3]) for name in PHOTOGRAPHS]
            inputs[tensor] = ((np.concatenate(pictures) - model.mean) / model.std).astype(np.float32)
    for tensor, values in inputs.items():
        cpu.set_tensor(tensor, values)
        delegate.bind_buffer_to_tensor([api.new_buffer(values[i : i + 1]) for i in range(N)], tensor)
    cpu.invoke()
    found: list[dict[str, Any]] = cpu.get_output_details()
    expected = {int(d["index"]): cpu.get_tensor(d["index"]) for d in found}
    for tensor, values in expected.items():
        if len(values) == N:
            delegate.bind_buffer_to_tensor([api.new_buffer(np.zeros_like(values[:1])) for _ in range(N)], tensor)
    interpreter.invoke()
    errors = {tensor: relative_error(interpreter.get_tensor(tensor), values) for tensor, values in expected.items()}
    assert max(errors.values()) <= TOLERANCE[storage], errors
    delegate.close()
