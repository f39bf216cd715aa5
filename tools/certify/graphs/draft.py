"""Draft of a graph: operators on tensors of real numbers, which ``storage.py`` writes in any type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ....video.tflite_writer import Op

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Role = Literal["activation", "operand", "weights", "bias", "integers"]


@dataclass
class Entry:
    """A tensor of a draft.

    ``role``: an activation is computed; an operand is a constant in place of one; weights may be stored in 8 or 16
    bits, with one scale for each index along ``axis``, if it is not None; a bias has the scales of its ``weights``
    times that of its ``source``; integers are axes, sizes and the like.
    """

    role: Role
    shape: Shape
    values: Array | None = None
    axis: int | None = None
    weights: int = -1
    source: int = -1


@dataclass
class Draft:
    """Tensors and operators; tensor 0 is the input. ``same`` lists pairs of activations that must have one scale;
    ``fixed`` the activations whose scale and zero point the operator decides, by operator.
    """

    entries: list[Entry] = field(default_factory=list)
    operators: list[Op] = field(default_factory=list)
    same: list[tuple[int, int]] = field(default_factory=list)
    fixed: dict[int, str] = field(default_factory=dict)

    def shape(self, tensor: int) -> Shape:
        """The shape of a tensor."""
        return self.entries[tensor].shape

    def activation(self, shape: Sequence[int], like: int | None = None) -> int:
        """A new computed tensor; ``like``: with the scale of that one."""
        tensor = self._add(Entry("activation", tuple(int(n) for n in shape)))
        if like is not None:
            self.same.append((tensor, like))
        return tensor

    def constant(self, role: Role, values: Array, **given: Any) -> int:
        """Add a constant, and give its number."""
        return self._add(Entry(role, values.shape, values, **given))

    def integers(self, *values: int) -> int:
        """Add a constant vector of int32, and give its number."""
        return self.constant("integers", np.array(values, np.int32))

    def apply(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], table: Any = None, version: int = 1
    ) -> None:
        """Add an operator."""
        self.operators.append(Op(name, list(inputs), list(outputs), table, version))

    def outputs(self) -> list[int]:
        """The activations that no operator reads."""
        read = {tensor for operator in self.operators for tensor in operator.inputs}
        return [i for i, entry in enumerate(self.entries) if entry.role == "activation" and i not in read]

    def _add(self, entry: Entry) -> int:
        self.entries.append(entry)
        return len(self.entries) - 1
