"""Steps that no barrier separates, although one of them writes what another one reads or writes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from framebind.interop.device import Operand, Slot, Step
from framebind.interop.record.hazards import hazards
from framebind.kernels.codegen.source import Argument
from framebind.kernels.tensor import slices
from framebind.kernels.views import SLICE_BYTES, Sliced

WORD = 4
"""Bytes of the smallest slice."""


def unordered_steps(steps: Sequence[Step], barriers: Sequence[int] | None = None) -> list[str]:
    """The steps that share a word with an earlier one behind the same barrier, if one of the two writes it.

    ``barriers`` are the numbers of the steps that wait; None: those by rule.
    """
    waits = {*(hazards(steps) if barriers is None else barriers)}
    read: dict[Hashable, set[int]] = {}
    written: dict[Hashable, set[int]] = {}
    found: list[str] = []
    for number, step in enumerate(steps):
        if number in waits:
            read.clear()
            written.clear()
        touched = list(_touched(step))
        for memory, words, writes in touched:
            known = [written.get(memory, set()), read.get(memory, set()) if writes else set[int]()]
            if any(not words.isdisjoint(each) for each in known):
                found.append(f"step {number} {step.label}")
        for memory, words, writes in touched:
            (written if writes else read).setdefault(memory, set()).update(words)
    return found


def _touched(step: Step) -> Iterator[tuple[Hashable, set[int], bool]]:
    """The memory, the words in it, and whether they are written, for each argument of a step."""
    for argument in step.kernel.source.arguments:
        if argument.has_memory:
            operand = step.operands[argument.name]
            memory = operand.resource if isinstance(operand.resource, Slot) else id(operand.resource)
            yield memory, {*_words(argument, operand).tolist()}, "w" in argument.access


def _words(argument: Argument, operand: Operand) -> npt.NDArray[np.intp]:
    """The words of slices; all words of an operand that has no slices."""
    view, first = argument.view, operand.offset // WORD
    if not isinstance(view, Sliced):
        return first + np.arange(-(-operand.nbytes // WORD))
    batch, height, width, channels = view.shape
    pixels = np.arange(batch * height * width)[:, None] * view.stride
    words = SLICE_BYTES[view.storage] // WORD
    return first + (pixels * words + np.arange(slices(channels) * words)).reshape(-1)
