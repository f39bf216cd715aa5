"""The classes of pixels as a model of a few operators, which runs on the GPU behind a segmentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..copies import DETECTIONS
from ..layouts import PictureShape
from .graph import AnswerGraph
from .postprocess import Postprocess

STAY = 1.0
"""A pixel changes its class if another one scores higher by this."""
EXACT_BITS = 24
"""Bits of an integer that a float32 holds."""


class ClassNumbers:
    """The classes of a video's pixels, steady over time, on the GPU behind the scores of a network."""

    def __init__(
        self, shape: PictureShape, make: Callable[[object, bytes, Mapping[str, str]], Postprocess], chosen: int = 0
    ) -> None:
        """``shape`` is that of the scores; ``make`` gives an owner a model behind them, of its content and feedback.

        If the network has chosen, from ``chosen`` classes, ``shape`` is that of their numbers.
        """
        graph = class_graph(shape) if not chosen else number_graph(shape, chosen)
        self._postprocess, self._shape, self._classes = make(self, *graph), shape, chosen or shape.channels
        self._counts = np.empty(self._classes, np.float32)
        together, pixels = together_of(self._classes), shape.height * shape.width
        self._packed = np.empty(-(-pixels // together), np.float32)
        self._powers = self._classes ** np.arange(together)

    @property
    def buffer(self) -> Any:
        """The buffer (height, width) of float32 that has the numbers of the last frame's classes."""
        return self._postprocess.outputs[0]

    def run(self) -> None:
        """Find the classes of the next frame."""
        self._postprocess.run()

    def shares(self) -> npt.NDArray[np.float64]:
        """The share of the last frame that each class covers, from 0 to 1: 4 bytes for each class are read."""
        counts = self._postprocess.outputs[1].read(self._counts, reason=DETECTIONS)
        return counts / np.float64(self._shape.height * self._shape.width)

    def numbers(self) -> npt.NDArray[np.uint8]:
        """The classes (height, width) of the last frame: of each pixel a byte is read, or 4/3 if there are over 64."""
        packed = self._postprocess.outputs[2].read(self._packed, reason=DETECTIONS).astype(np.int64)
        numbers = (packed[:, None] // self._powers % self._classes).astype(np.uint8)
        return numbers.reshape(-1)[: self._shape.height * self._shape.width].reshape(self._shape.size[::-1])


def together_of(classes: int) -> int:
    """The most numbers of classes that one float32 holds as digits: 5 of 21 classes, 3 of 256."""
    together = 1
    while classes ** (together + 1) <= 1 << EXACT_BITS and together < EXACT_BITS:
        together += 1
    return together


def class_graph(shape: PictureShape) -> tuple[bytes, dict[str, str]]:
    """A model that takes scores of a ``shape``, and the states that it feeds back.

    It gives the classes (height, width) as float32, their counts (classes,), and the classes once more, packed:
    ``together_of`` numbers in each float32, the first one as the lowest digit.

    A pixel keeps its class unless another one scores higher by STAY. The state is the number of the class, plus 1: it
    begins with zeros, which are none.
    """
    graph, classes = AnswerGraph(), shape.channels
    scores, axis = graph.input(shape.shape), 1 if shape.layout == "nchw" else 3
    place = (1, shape.height, shape.width)
    before, one = graph.input(place), graph.number(1.0)
    last = graph.apply("CAST", [graph.apply("SUB", [before, one], place)], place, "int32")
    stay = _one_hot(graph, last, shape.shape, axis, STAY)
    steady = graph.apply("ADD", [scores, stay], shape.shape)
    numbers = graph.apply("ARG_MAX", [steady, graph.integers(axis)], place, "int32", outputType=2)
    outputs = _outputs(graph, numbers, classes)
    after = graph.apply("ADD", [outputs[0], one], place)
    return graph.build(*outputs, after), {graph.name(after): graph.name(before)}


def number_graph(shape: PictureShape, classes: int) -> tuple[bytes, dict[str, str]]:
    """A model that takes the numbers of pixels' classes, and gives what ``class_graph`` gives; it has no states."""
    graph = AnswerGraph()
    numbers = graph.cast(graph.input((1, shape.height, shape.width)), "int32")
    return graph.build(*_outputs(graph, numbers, classes)), {}


def _outputs(graph: AnswerGraph, numbers: int, classes: int) -> tuple[int, int, int]:
    """The classes (1, height, width) as float32, their counts, and the classes packed."""
    place = graph.shape(numbers)
    each = _one_hot(graph, numbers, (*place, classes), 3, 1.0)
    of_rows = graph.apply("SUM", [each, graph.integers(2)], (1, place[1], classes), keepDims=False)
    counts = graph.apply("SUM", [of_rows, graph.integers(1)], (1, classes), keepDims=False)
    floats = graph.apply("CAST", [numbers], place)
    return floats, counts, _packed(graph, floats, classes)


def _one_hot(graph: AnswerGraph, numbers: int, shape: tuple[int, ...], axis: int, on: float) -> int:
    """``on`` at the places of these numbers along an axis, and 0 elsewhere."""
    depth = graph.number(shape[axis], "int32")
    inputs = [numbers, depth, graph.number(on), graph.number(0.0)]
    return graph.apply("ONE_HOT", inputs, shape, axis=axis if axis < len(shape) - 1 else -1)


def _packed(graph: AnswerGraph, numbers: int, classes: int) -> int:
    """Several numbers of classes in each float."""
    together, count = together_of(classes), math.prod(graph.shape(numbers))
    rows = -(-count // together)
    flat = graph.reshape(numbers, (1, count))
    if rows * together > count:
        padding = graph.constant(np.array([[0, 0], [0, rows * together - count]], np.int32))
        flat = graph.apply("PAD", [flat, padding], (1, rows * together))
    powers = graph.constant((classes ** np.arange(together)).astype(np.float32)[None])
    products = graph.apply("MUL", [graph.reshape(flat, (rows, together)), powers], (rows, together))
    return graph.apply("SUM", [products, graph.integers(1)], (rows,), keepDims=False)
