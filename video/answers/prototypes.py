"""Masks of objects from prototypes: a product of two matrices, which runs on the GPU behind a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..copies import DETECTIONS
from ..layouts import PictureShape
from ..network_outputs import Outputs
from .graph import AnswerGraph
from .postprocess import Postprocess

Floats = npt.NDArray[np.float32]
OBJECTS = 16
"""Objects whose masks are computed at once."""


class PrototypeSums:
    """The sums of prototypes, each times an object's coefficient: by the GPU, or by NumPy of arrays."""

    def __init__(self, number: int, shape: PictureShape) -> None:
        """``number`` is that of the output with the prototypes, and ``shape`` theirs."""
        self._number, self.shape = number, shape
        self._postprocess: Postprocess | None = None

    def of(self, outputs: Sequence[Floats], coefficients: Floats, spans: Sequence[tuple[int, int]]) -> list[Floats]:
        """Sums (last - first, width), one for each row of coefficients (n, prototypes), in the rows of its span.

        A span is the first row of the prototypes, and the one before which it ends: only these are read from the GPU.
        ``outputs`` are those of the last run.
        """
        if not isinstance(outputs, Outputs) or not outputs.are_on_gpu(self._number):
            prototypes = self.shape.from_tensor(outputs[self._number])
            return [prototypes[first:last] @ each for each, (first, last) in zip(coefficients, spans, strict=True)]
        if self._postprocess is None:
            self._postprocess = outputs.postprocess(self, prototype_graph(self.shape), [self._number], further=1)
        found = list[Floats]()
        for start in range(0, len(spans), OBJECTS):
            found += self._batch(coefficients[start : start + OBJECTS], spans[start : start + OBJECTS])
        return found

    def _batch(self, coefficients: Floats, spans: Sequence[tuple[int, int]]) -> list[Floats]:
        postprocess, (width, height) = self._postprocess, self.shape.size
        assert postprocess is not None, "it is made before"
        postprocess.further[0].write(np.ascontiguousarray(coefficients, np.float32), reason=DETECTIONS)
        postprocess.run()
        found = list[Floats]()
        for number, (first, last) in enumerate(spans):
            rows = np.empty((last - first, width), np.float32)
            offset = rows.itemsize * width * (number * height + first)
            found.append(postprocess.outputs[0].read(rows, offset=offset, reason=DETECTIONS))
        return found


def prototype_graph(shape: PictureShape) -> bytes:
    """A model that takes prototypes of a ``shape`` and coefficients (OBJECTS, prototypes), and gives sums (OBJECTS,
    height * width).
    """
    graph, pixels = AnswerGraph(), shape.height * shape.width
    given, is_first = graph.input(shape.shape), shape.layout == "nchw"
    coefficients = graph.input((OBJECTS, shape.channels))
    prototypes = graph.reshape(given, (shape.channels, pixels) if is_first else (pixels, shape.channels))
    return graph.build(
        graph.apply("BATCH_MATMUL", [coefficients, prototypes], (OBJECTS, pixels), adjX=False, adjY=not is_first)
    )
