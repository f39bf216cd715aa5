"""The inputs and outputs of a model file, read on the CPU: a wrong model is one error before the first video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import framebind as fb

from .models import find_model
from .network import shapes
from .work import Work

KERNELS = (fb.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, fb.OpResolverType.AUTO)
"""LiteRT's kernels: first those that pack no weights, as nothing runs here; XNNPACK has custom operators."""
CHECKED_SIZE = (640, 480)
"""Size of the frames for which a finder is made to check the model; no finder refuses a size."""


@dataclass(frozen=True)
class ModelFile:
    """A model as its file describes it: the protocol ``Model`` of tasks."""

    path: Path
    inputs: Mapping[int, tuple[int, ...]]
    outputs: Mapping[int, tuple[int, ...]]
    names: Mapping[int, str]


def read_model_file(path: Path) -> ModelFile | None:
    """The model, or None if the CPU cannot tell: its input takes any size, or LiteRT lacks one of its operators."""
    for kernels in KERNELS:
        interpreter = fb.Interpreter(path, num_threads=1, experimental_op_resolver_type=kernels, delegate="cpu")
        inputs: list[dict[str, Any]] = interpreter.get_input_details()
        if any(-1 in detail["shape_signature"] for detail in inputs):
            return None
        try:
            interpreter.allocate_tensors()
        except (fb.ModelError, RuntimeError):
            continue
        outputs: list[dict[str, Any]] = interpreter.get_output_details()
        names = {int(detail["index"]): str(detail["name"]) for detail in (*inputs, *outputs)}
        return ModelFile(path, shapes(interpreter.get_input_details()), shapes(outputs), names)
    return None


def check_model(work: Work) -> None:
    """Raise ModelError if the model of a work is none for its task. It is downloaded if it has to be."""
    path = find_model(work.model_name)
    if work.video_task.finder is not None and (model := read_model_file(path)) is not None:
        work.finder(model, CHECKED_SIZE)
