"""A model as plain records of its file's contents; reader.py makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...kernels.tensor import TensorInfo

OPTIONAL = -1
"""The tensor index of an optional input that is left out."""

NUMPY_TYPES = {
    name: np.dtype(name)
    for name in (
        "float16 float32 float64 bool complex64 complex128 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
    )
}
"""Types whose constants are plain arrays; int4 becomes int8, and others (string, ...) are kept as their raw bytes."""


@dataclass(frozen=True)
class RawOperator:
    """One operator of the file; ``inputs`` may hold -1 (an optional input left out).

    ``options`` is the builtin operator's option table (for instance tflite.Conv2DOptions), the bytes of a custom one's
    options, or None. ``code`` is its number in tflite.BuiltinOperator. ``body`` is the operator that joins two values
    for it, if it has one: see bodies.py. ``composite`` is the name of a STABLEHLO_COMPOSITE ("odml.gelu").
    """

    index: int
    name: str
    version: int
    custom: bool
    options: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    code: int = 0
    body: str = ""
    composite: str = ""


@dataclass(frozen=True)
class Subgraph:
    """Tensors, operators in execution order, and the indices of the input and output tensors."""

    name: str
    tensors: tuple[TensorInfo, ...]
    operators: tuple[RawOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Model:
    """A whole file; subgraph 0 is the one that ``invoke`` runs."""

    subgraphs: tuple[Subgraph, ...]
    content: bytes = field(repr=False)
    entries: frozenset[int] = frozenset()
    """The subgraphs that a signature runs."""
    signature_names: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The tensors of subgraph 0 by the names of its signatures: ("input", name) and ("output", name)."""
