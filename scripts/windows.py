"""Windows of models: 1 to 6 consecutive operators with their constants, as small models, for fuzz_structure.py."""

from __future__ import annotations

import copy
import math
import os
import random
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

LONGEST = 6
"""Operators of the longest window."""
LARGEST = 2**18
"""Elements of the largest tensor of a window that is no constant: software devices take a second for larger ones."""
HEAVIEST = 2**18
"""Bytes of the constants of the heaviest window."""
TRIES = 50
"""Places that are tried in a model for each of its windows: most of some models are too large."""


def windows(count: int) -> list[bytes]:
    """``count`` windows of each model of FRAMEBIND_MODELS, or else of ``../shared/models``: the same in each run.

    Raises FileNotFoundError if no model is there.
    """
    beside = Path(__file__).resolve().parents[2] / "shared" / "models"
    folder = Path(os.environ.get("FRAMEBIND_MODELS") or beside)
    models = {name: content for path in sorted(folder.glob("*")) for name, content in _networks(path).items()}
    if not models:
        raise FileNotFoundError(f"there is no model in '{folder}': set FRAMEBIND_MODELS to a folder of models")
    return [window for name, content in models.items() for window in windows_of(content, count, random.Random(name))]


def _networks(path: Path) -> dict[str, bytes]:
    """The models of a file by name: itself, or those of MediaPipe's bundles."""
    if path.suffix == ".tflite":
        return {path.name: path.read_bytes()}
    if path.suffix != ".task":
        return {}
    with zipfile.ZipFile(path) as bundle:
        return {name: bundle.read(name) for name in bundle.namelist() if name.endswith(".tflite")}


def windows_of(content: bytes, count: int, generator: random.Random) -> list[bytes]:
    """At most this many windows of a model, none of one with several subgraphs: its operators may run them.

    Operators of constants alone, such as DEQUANTIZE of weights, belong to those that read their results.
    """
    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    operators = model.subgraphs[0].operators if len(model.subgraphs) == 1 else []
    folded = [operator for operator in operators if _is_folded(model, operator)]
    others = [operator for operator in operators if operator not in folded]
    found: list[bytes] = []
    for _ in range(count * TRIES if others else 0):
        length = generator.randint(1, LONGEST)
        first = generator.randrange(max(len(others) - length, 0) + 1)
        chosen = others[first : first + length]
        read = {int(i) for operator in chosen for i in operator.inputs}
        chosen = [operator for operator in folded if read & {int(i) for i in operator.outputs}] + chosen
        if _is_small(model, chosen):
            found.append(_packed(_cut(model, chosen)))
        if len(found) == count:
            break
    return found


def _is_small(model: Any, chosen: Sequence[Any]) -> bool:
    """Whether the window can be run in a moment."""
    numbers = _tensors(chosen)
    tensors = model.subgraphs[0].tensors
    elements = [_elements(tensors[i]) for i in numbers if not _is_constant(model, i)]
    constants = [len(model.buffers[tensors[i].buffer].data) for i in numbers if _is_constant(model, i)]
    return max(elements) <= LARGEST and sum(constants) <= HEAVIEST


def _cut(model: Any, chosen: Sequence[Any]) -> Any:
    """A model of these operators, which has copies of their tensors, codes and constants, and nothing else."""
    graph, numbers = model.subgraphs[0], _tensors(chosen)
    outside = [operator for operator in graph.operators if operator not in chosen]
    made, read, read_outside = (
        {int(i) for operator in operators for i in getattr(operator, ends)}
        for operators, ends in ((chosen, "outputs"), (chosen, "inputs"), (outside, "inputs"))
    )
    read_outside |= {int(i) for i in graph.outputs}
    constants = {int(i) for operator in chosen if _is_folded(model, operator) for i in operator.outputs}
    window: Any = copy.copy(model)
    part: Any = copy.copy(graph)
    window.subgraphs = [part]
    window.signatureDefs = window.metadata = window.metadataBuffer = None
    places = {-1: -1, **{number: place for place, number in enumerate(numbers)}}
    given = [i for i in numbers if not _is_constant(model, i) and i not in made and not graph.tensors[i].isVariable]
    part.inputs = [places[i] for i in given]
    part.outputs = [places[i] for i in sorted(made - constants) if i in read_outside or i not in read]
    part.tensors, part.operators = copy.deepcopy([graph.tensors[i] for i in numbers]), copy.deepcopy(chosen)
    codes = sorted({operator.opcodeIndex for operator in chosen})
    for operator in part.operators:
        operator.inputs, operator.outputs = ([places[int(i)] for i in e] for e in (operator.inputs, operator.outputs))
        operator.opcodeIndex = codes.index(operator.opcodeIndex)
    buffers = sorted({0, *(tensor.buffer for tensor in part.tensors)})
    for tensor in part.tensors:
        tensor.buffer = buffers.index(tensor.buffer)
    window.operatorCodes = [model.operatorCodes[code] for code in codes]
    window.buffers = [model.buffers[buffer] for buffer in buffers]
    return window


def _is_folded(model: Any, operator: Any) -> bool:
    """Whether the operator computes constants."""
    return all(_is_constant(model, i) for i in operator.inputs)


def _packed(model: Any) -> bytes:
    flat = flatbuffers.Builder(1024)
    flat.Finish(model.Pack(flat), b"TFL3")
    return bytes(flat.Output())


def _tensors(operators: Sequence[Any]) -> list[int]:
    """The numbers of the tensors that these operators read and write."""
    return sorted({int(i) for operator in operators for i in (*operator.inputs, *operator.outputs)} - {-1})


def _elements(tensor: Any) -> int:
    return 1 if tensor.shape is None else math.prod(map(int, tensor.shape))


def _is_constant(model: Any, number: int) -> bool:
    """Whether the tensor has values in the file. One that is absent (-1) counts as such."""
    if number < 0:
        return True
    data = model.buffers[model.subgraphs[0].tensors[number].buffer].data
    return data is not None and len(data) > 0
