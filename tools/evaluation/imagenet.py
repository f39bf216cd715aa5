"""Top-1 to top-K accuracy of a classifier on pictures whose classes are known (ILSVRC 2012, or any other set).

After tensorflow/lite/tools/evaluation/tasks/imagenet_image_classification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from .preprocessing import inception_crop, load, resize

Array = npt.NDArray[Any]


class Accuracy:
    """Counts, for each K, the pictures whose class is among the K of the highest scores."""

    def __init__(self, truth: Mapping[str, int], classes: int, most: int) -> None:
        self._truth, self._classes = truth, classes
        self.pictures = 0
        self.hits = np.zeros(min(most, classes), np.int64)

    def __call__(self, path: Path, outputs: Sequence[Array]) -> None:
        """Count a picture; ``outputs`` has the scores of all classes. Raises ModelError for other numbers of them."""
        if len(outputs) != 1 or outputs[0].size != self._classes:
            sizes = [output.shape for output in outputs]
            raise fb.ModelError(f"a classifier of {self._classes} labels has one score for each, not outputs {sizes}")
        best = np.argsort(-outputs[0].ravel().astype(np.float64), kind="stable")[: len(self.hits)]
        self.hits += np.cumsum(best == self._truth[path.name])
        self.pictures += 1

    def top(self) -> list[float]:
        """The accuracies, from top-1 on: parts of the pictures, from 0 to 1."""
        return [float(hits) / self.pictures for hits in self.hits] if self.pictures else []


def prepare(path: Path, size: tuple[int, int]) -> Array:
    """The middle of a picture (the Inception crop) at the model's size (height, width)."""
    return resize(inception_crop(load(path)), size)


def read_truth(pictures: Sequence[Path], labels: Path, names: Sequence[str]) -> dict[str, int]:
    """The number of the class of each picture by its file name.

    The file ``labels`` has a line per picture, in the order of the sorted file names, each the name of a class.
    ``names`` are the model's classes in their order. Raises SourceError if they do not fit.
    """
    lines = read_lines(labels)
    if len(lines) != len(pictures):
        raise fb.SourceError(f"'{labels}' has {len(lines)} lines for {len(pictures)} pictures: it needs one for each")
    numbers = {name: number for number, name in reversed(list(enumerate(names)))}  # of two of one name, the first
    unknown = sorted(set(lines) - numbers.keys())
    if unknown:
        raise fb.SourceError(f"'{labels}' has a class that is none of the model's labels: '{unknown[0]}'")
    return {path.name: numbers[line] for path, line in zip(pictures, lines, strict=True)}


def read_lines(path: Path) -> list[str]:
    """The lines of a text file. Raises SourceError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise fb.SourceError(f"'{path}' cannot be read as lines of text: {error}") from error


def without_denied(pictures: Sequence[Path], denylist: Path | None) -> list[Path]:
    """The pictures except those of a list of numbers, one per line; 1 is the first picture."""
    if denylist is None:
        return list(pictures)
    try:
        numbers = {int(line) for line in read_lines(denylist) if line.strip()}
    except ValueError as error:
        raise fb.SourceError(f"'{denylist}' has a line that is no number: {error}") from error
    return [path for number, path in enumerate(pictures, 1) if number not in numbers]
