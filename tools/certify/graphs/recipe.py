"""Recipes of random graphs: a storage, the input's shape and layers, all drawn from one seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .draft import Draft, Shape
from .layers import BYTE, FLOAT, INTEGER, Layer
from .storage import STORAGES, Storage

KINDS: Mapping[Storage, Mapping[str, Layer]] = {
    "float32": FLOAT, "float16": FLOAT, "dynamic": FLOAT, "int8": BYTE, "int16": INTEGER,
}  # fmt: skip
WINDOWS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD")
"""Layers that make up a third of all layers, because models mostly consist of them."""


@dataclass(frozen=True)
class Step:
    """A layer: its kind, the seed of its attributes and numbers, and the distance back to the tensor that it reads."""

    kind: str
    seed: int
    back: int = 1


@dataclass(frozen=True)
class Recipe:
    """A graph that can be built again. ``half``: the GPU may keep tensors and weights in 16 bits."""

    seed: int
    storage: Storage
    shape: Shape
    steps: tuple[Step, ...]
    half: bool = False

    def __str__(self) -> str:
        return f"seed {self.seed} {self.storage}{' halves' * self.half} {self.shape} {[s.kind for s in self.steps]}"


def recipe_from(text: str) -> Recipe:
    """The recipe of a seed, or the one that ``to_text`` returned."""
    if text.isdigit():
        return draw(int(text))
    fields: dict[str, Any] = json.loads(text)
    steps = tuple(Step(**step) for step in fields["steps"])
    fields |= {"shape": tuple(fields["shape"]), "steps": steps}
    return Recipe(**fields)


def to_text(recipe: Recipe) -> str:
    """The recipe as a line of JSON, for other processes."""
    return json.dumps(asdict(recipe))


def draw(seed: int) -> Recipe:
    """The recipe of a seed: 3 to 12 layers in chains and branches on a small input."""
    rng = np.random.default_rng(seed)
    storage = STORAGES[int(rng.integers(len(STORAGES)))]
    shape = tuple(int(rng.integers(1, n + 1)) for n in (3, 3, 7, 17))
    kinds = list(KINDS[storage])
    steps = [
        Step(
            str(rng.choice(WINDOWS if rng.random() < 0.34 else kinds)),
            int(rng.integers(1 << 30)),
            1 if rng.random() < 0.75 else int(rng.integers(1, 5)),
        )
        for _ in range(int(rng.integers(3, 13)))
    ]
    half = storage in ("float32", "float16") and rng.random() < 0.3
    return Recipe(seed, storage, shape, tuple(steps), half)


def drafted(recipe: Recipe) -> Draft:
    """The graph of a recipe. Layers that do not apply to the shape that they would read are left out."""
    draft = Draft()
    values = [draft.activation(recipe.shape)]
    for step in recipe.steps:
        source = values[max(len(values) - step.back, 0)]
        values += KINDS[recipe.storage][step.kind](draft, np.random.default_rng(step.seed), source)
    return draft
