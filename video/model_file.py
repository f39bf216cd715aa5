"""A model as its file describes it, read without a GPU, to choose a task and to check it before the first video."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import framebind as fb

from .bundles import bundle_of, content_of, interpreter_arguments, models_of
from .feedback import feedback_of
from .further_inputs import NO_OPTIONS, FurtherInputs, values_of
from .layouts import Layout
from .model_metadata import ModelMetadata, read_metadata
from .network import choices_of, shapes, takes_bytes

KERNELS = (fb.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, fb.OpResolverType.AUTO)
"""LiteRT's kernels: first those that pack no weights, as nothing runs here; XNNPACK has custom operators."""


@dataclass(frozen=True)
class ModelFile:
    """A model as its file describes it: the protocol ``Model`` of tasks."""

    path: Path
    inputs: Mapping[int, tuple[int, ...]]
    outputs: Mapping[int, tuple[int, ...]]
    names: Mapping[int, str]
    layouts: Mapping[int, Layout]
    choices: Mapping[int, int]
    takes_bytes: bool
    metadata: ModelMetadata
    feedback: Mapping[int, int]
    """The inputs that outputs feed, and that are left out here as states: see ``feedback_of``."""
    values: Mapping[int, float | None]
    """The values of further inputs, which are left out here too: see ``values_of``."""
    is_certain: bool
    """False if shapes may change: the input takes any size, or LiteRT lacks an operator and computed no shapes."""

    @property
    def bundle(self) -> Mapping[str, bytes]:
        """The files of the model's bundle by name; none for a model of its own."""
        return models_of(self.path)


def read_model_file(path: Path, further: FurtherInputs = NO_OPTIONS) -> ModelFile:
    """The model of a file. It is read once, until the file changes. Raises ModelError if it cannot be read.

    ``further`` says which outputs and inputs are states, and the values of inputs.
    """
    try:
        changed = (bundle_of(path) or path).stat().st_mtime_ns
    except OSError as error:
        raise fb.ModelError(f"the model '{path}' cannot be read: {error.strerror}") from error
    return _read(path, changed, further)


@functools.lru_cache(maxsize=4)
def _read(path: Path, changed: int, further: FurtherInputs) -> ModelFile:
    model = interpreter_arguments(path)
    interpreter, delegate = fb.Interpreter(**model), fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    interpreter.modify_graph_with_delegate(delegate)
    inputs = interpreter.get_input_details()
    prepared = None if any(-1 in detail["shape_signature"] for detail in inputs) else _prepared(model)
    outputs: list[dict[str, Any]] = (prepared or interpreter).get_output_details()
    details = (*inputs, *outputs)
    layouts: dict[int, Layout] = {int(each["index"]): delegate.layout_of(int(each["index"])) for each in details}
    choices = choices_of(interpreter)
    delegate.close()
    names = {int(each["index"]): str(each["name"]) for each in details}
    fed, values = dict[int, int](), dict[int, float | None]()
    if further != NO_OPTIONS or len(inputs) > 1:  # else there are none
        fed = feedback_of(interpreter, further.feedback)
        values = values_of(interpreter, further.values, fed.values())
    return ModelFile(
        path,
        {tensor: shape for tensor, shape in shapes(inputs).items() if tensor not in {*fed.values(), *values}},
        {tensor: shape for tensor, shape in shapes(outputs).items() if tensor not in fed},
        names, layouts, choices, takes_bytes(inputs), read_metadata(content_of(path) or path), fed, values,
        is_certain=prepared is not None,
    )  # fmt: skip


def _prepared(model: dict[str, Any]) -> fb.Interpreter | None:
    """An interpreter on the CPU that has computed the shapes; None if LiteRT lacks an operator of the model."""
    for kernels in KERNELS:
        interpreter = fb.Interpreter(**model, num_threads=1, experimental_op_resolver_type=kernels, delegate="cpu")
        try:
            interpreter.allocate_tensors()
        except (fb.ModelError, RuntimeError):
            continue
        return interpreter
    return None
