"""Decoding of PoseNet: the 17 key points of one person, or of each of several, from the four outputs of the model.

The model divides its input into cells, ``stride`` pixels apart. For each cell and each key point it puts out a score
(a logit) and the offset of the point from the cell; for each bone, the displacement from one end to the other.

After "PersonLab" (Papandreou et al., 2018, sections 3.1 and 3.2), with the constants of PoseNet's own demo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .ssd import logit, sigmoid

Array = npt.NDArray[Any]

KEY_POINTS = (
    "nose", "left eye", "right eye", "left ear", "right ear", "left shoulder", "right shoulder", "left elbow",
    "right elbow", "left wrist", "right wrist", "left hip", "right hip", "left knee", "right knee", "left ankle",
    "right ankle",
)  # fmt: skip
"""The model's key points in their order; left and right are the person's."""
TREE = (
    (0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15), (0, 6), (6, 8), (8, 10),
    (6, 12), (12, 14), (14, 16),
)  # fmt: skip
"""The bones in the order of the model's displacements: the key point nearer to the nose, then the other."""
MOST_PEOPLE = 10
SAME_POINT = 20.0
"""Distance, in pixels of the model's input, within which two key points of a kind are the same person's."""
REFINEMENTS = 2
"""Number of times that the end of a displacement is corrected by the offset of the cell there."""


@dataclass(frozen=True)
class Outputs:
    """The model's outputs for one picture. Each row of the last axes is y, then x, in pixels of the model's input."""

    scores: Array
    """Logits (rows, columns, 17)."""
    offsets: Array
    """Key point minus cell (rows, columns, 2, 17)."""
    forward: Array
    """From the first end of each bone of TREE to the second (rows, columns, 2, 16)."""
    backward: Array
    """From the second end to the first (rows, columns, 2, 16)."""
    stride: float

    def cell(self, place: Array) -> tuple[int, int]:
        """The row and column of the cell nearest to a place (y, x)."""
        row, column = np.rint(place / self.stride).astype(int)
        rows, columns = self.scores.shape[:2]
        return min(max(row, 0), rows - 1), min(max(column, 0), columns - 1)

    def key_point(self, cell: tuple[int, int], number: int) -> Array:
        """The place (y, x) where a cell sees a key point."""
        return np.array(cell, np.float32) * self.stride + self.offsets[cell][:, number]


@dataclass(frozen=True)
class Person:
    """Key points (17, 2), x and y in pixels of the model's input, their scores (17) and the person's, from 0 to 1."""

    places: Array
    scores: Array
    score: float


def from_tensors(scores: Array, offsets: Array, forward: Array, backward: Array, stride: float) -> Outputs:
    """Make Outputs of the model's tensors: (1, rows, columns, 17), (..., 34), (..., 32) and (..., 32)."""
    pairs = [values.reshape(*values.shape[1:3], 2, -1) for values in (offsets, forward, backward)]
    return Outputs(scores[0], pairs[0], pairs[1], pairs[2], stride)


def decode_one(outputs: Outputs) -> Person:
    """The key points with the highest scores in the picture, whether or not one person has them all."""
    rows, columns, count = outputs.scores.shape
    best = outputs.scores.reshape(-1, count).argmax(axis=0)
    cells = [(int(place) // columns, int(place) % columns) for place in best]
    places = np.stack([outputs.key_point(cell, number) for number, cell in enumerate(cells)])
    scores = sigmoid(outputs.scores.reshape(rows * columns, count).max(axis=0))
    return Person(places[:, ::-1], scores, float(scores.mean()))


def decode_people(outputs: Outputs, least: float) -> list[Person]:
    """Each person whose score is ``least`` or more, the likeliest key point's first; MOST_PEOPLE at most.

    From each likely key point, the likeliest first, that is none of a known person's, a new person's other points are
    found along the bones. A person's score is the mean of the scores of those points that no earlier person has.
    """
    people: list[Person] = []
    for number, cell in _roots(outputs.scores, least):
        root = outputs.key_point(cell, number)
        if any(_is_near(root[::-1], person.places[number]) for person in people):
            continue
        places, scores = _follow(outputs, number, root, cell)
        own = [not any(_is_near(place, p.places[n]) for p in people) for n, place in enumerate(places)]
        score = float((scores * own).mean())
        if score >= least:
            people.append(Person(places, scores, score))
        if len(people) == MOST_PEOPLE:
            break
    return people


def _roots(logits: Array, least: float) -> list[tuple[int, tuple[int, int]]]:
    """Key point numbers and cells whose score is ``least`` or more and the highest of the 3 x 3 around, best first."""
    padded = np.pad(logits, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    chosen = np.argwhere((logits >= windows.max(axis=(-2, -1))) & (logits >= logit(least)))
    order = np.argsort(-logits[tuple(chosen.T)], kind="stable")
    return [(int(number), (int(row), int(column))) for row, column, number in chosen[order]]


def _follow(outputs: Outputs, root: int, place: Array, cell: tuple[int, int]) -> tuple[Array, Array]:
    """The places (17, 2), x and y, and scores (17) of the person one of whose key points is known."""
    places, scores = {root: place}, {root: outputs.scores[cell][root]}

    def step(source: int, target: int, displacements: Array, bone: int) -> None:
        if source in places and target not in places:
            end = places[source] + displacements[outputs.cell(places[source])][:, bone]
            for _ in range(REFINEMENTS):
                end = outputs.key_point(outputs.cell(end), target)
            places[target], scores[target] = end, outputs.scores[outputs.cell(end)][target]

    for bone in reversed(range(len(TREE))):
        parent, child = TREE[bone]
        step(child, parent, outputs.backward, bone)
    for bone, (parent, child) in enumerate(TREE):
        step(parent, child, outputs.forward, bone)
    numbers = range(len(KEY_POINTS))
    return np.stack([places[n][::-1] for n in numbers]), sigmoid(np.array([scores[n] for n in numbers], np.float32))


def _is_near(place: Array, other: Array) -> bool:
    return float(((place - other) ** 2).sum()) <= SAME_POINT**2
