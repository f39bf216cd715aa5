"""The outputs of a network's last run: arrays that are read when they are asked for, and their best candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from .answers.candidates import Selector, candidate_graph
from .answers.postprocess import Postprocess
from .answers.selection import Candidates, Selection, select
from .basic_types import Array
from .copies import DETECTIONS

SMALL = 1 << 16
"""Bytes of outputs up to which it costs less to read them than to select from them on the GPU. Not measured."""


class Outputs(Sequence[Array]):
    """The outputs of a network's last run, by number: float32 arrays, each of which is read when it is asked for.

    An array is made once, and is valid until the next run. What comes from buffers is counted as DETECTIONS.
    ``candidates`` reads of a detector's outputs only the best rows.
    """

    def __init__(
        self,
        shapes: dict[int, tuple[int, ...]],
        buffers: dict[int, Any],
        on_cpu: Callable[[int], Array],
        postprocess: Callable[..., Postprocess],
    ) -> None:
        """``buffers`` are by tensor; ``on_cpu`` gives the values of the others. ``postprocess`` is the network's."""
        self.buffers, self._tensors, self._on_cpu, self._postprocess = buffers, list(shapes), on_cpu, postprocess
        self._shapes, self._arrays = shapes, dict[int, Array]()
        self._selectors = dict[Selection, Selector | None]()
        """Models that select on the GPU; None for outputs from which the CPU selects."""

    def __len__(self) -> int:
        return len(self._tensors)

    @overload
    def __getitem__(self, number: int) -> Array: ...
    @overload
    def __getitem__(self, number: slice) -> list[Array]: ...
    def __getitem__(self, number: int | slice) -> Array | list[Array]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        tensor = self._tensors[number]
        if tensor not in self.buffers:
            return self._on_cpu(tensor)
        if tensor not in self._arrays:
            self._arrays[tensor] = np.empty(self._shapes[tensor], np.float32)
        return self.buffers[tensor].read(self._arrays[tensor], reason=DETECTIONS)

    def candidates(self, selection: Selection, least: float) -> Candidates:
        """The best candidates in a detector's outputs, with the score ``least`` or more.

        The GPU selects them, unless outputs are small, or computed on the CPU.
        """
        try:
            selector = self._selectors[selection]
        except KeyError:
            selector = self._selector(selection) if self.are_on_gpu(*selection.outputs) else None
            self._selectors[selection] = selector
        return select(selection, self, least) if selector is None else selector.select(least)

    def _selector(self, selection: Selection) -> Selector:
        """A small model behind the outputs that selects on the GPU."""
        shapes = {number: self._shapes[self._tensors[number]] for number in selection.outputs}
        return Selector(selection, self.postprocess(self, candidate_graph(selection, shapes), selection.outputs))

    def are_on_gpu(self, *numbers: int) -> bool:
        """Whether outputs are worth a model behind them: they are in buffers, and not small."""
        tensors = [self._tensors[number] for number in numbers]
        nbytes = sum(4 * math.prod(self._shapes[tensor]) for tensor in tensors)
        return nbytes > SMALL and all(tensor in self.buffers for tensor in tensors)

    def postprocess(
        self,
        owner: object,
        content: bytes,
        numbers: Sequence[int],
        feedback: Mapping[str, str] | None = None,
        further: int = 0,
    ) -> Postprocess:
        """A small model behind these outputs: see ``Network.postprocess``."""
        buffers = [self.buffers[self._tensors[number]] for number in numbers]
        return self._postprocess(owner, content, buffers, feedback, further)


def candidates_of(outputs: Sequence[Array], selection: Selection, least: float) -> Candidates:
    """The best candidates in a detector's outputs, with the score ``least`` or more: those of a run, or arrays."""
    if isinstance(outputs, Outputs):
        return outputs.candidates(selection, least)
    return select(selection, outputs, least)
