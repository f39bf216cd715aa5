"""The order of launches: as few levels as possible, and never one that changes what a launch reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from roofline import program_for

from framebind.delegate.lower.launches import Lowered
from framebind.delegate.plan.levels import orders_in_levels
from framebind.delegate.transform.graph import Alias
from framebind.kernels.operation import Launch
from framebind.kernels.target import Target
from framebind.kernels.tensor import Shape, TensorId
from support.stray_reads import stray_reads

Part = tuple[int, int]
"""The start of a part in its tensor, and its channels."""


def lowered(launches: Sequence[tuple[Sequence[int], int]], parts: Mapping[int, Part] | None = None) -> Lowered:
    """Launches that read and write such tensors of 4 pixels. ``parts`` lie in tensor 99, four slices wide."""
    shapes: dict[TensorId, Shape] = {tensor: (1, 2, 2, 8) for reads, write in launches for tensor in (*reads, write)}
    shapes |= {99: (1, 2, 2, 16)} | {tensor: (1, 2, 2, channels) for tensor, (_, channels) in (parts or {}).items()}
    aliases = {tensor: Alias(99, start, 4) for tensor, (start, _) in (parts or {}).items()}
    found = Lowered(Target(64, 64), shapes, aliases)
    for reads, write in launches:
        found.add(Launch("k", {f"r{i}": tensor for i, tensor in enumerate(reads)}, {"dst": write}, 1), f"to {write}")
    return found


def orders(made: Lowered) -> list[list[list[int]]]:
    """The tensors that are written, by order and level."""
    found = orders_in_levels(made.launches, made)
    return [[[int(str(entry.destination)) for entry in level] for level in levels] for levels in found]


def test_branches_share_levels() -> None:
    """Two heads of two convolutions behind one another are two levels, not four."""
    assert orders(lowered([([0], 1), ([1], 2), ([0], 3), ([3], 4), ([2, 4], 5)])) == [[[1, 3], [2, 4], [5]]]


def test_a_launch_is_in_its_first_or_its_last_level() -> None:
    assert orders(lowered([([0], 1), ([1], 2), ([0], 3), ([2, 3], 4)])) == [[[1, 3], [2], [4]], [[1], [2, 3], [4]]]


@pytest.mark.parametrize(
    ("parts", "levels"),
    [
        ({1: (0, 8), 2: (2, 8)}, [[1, 2], [3]]),
        ({1: (0, 12), 2: (2, 8)}, [[1], [2], [3]]),
        ({1: (3, 8), 2: (0, 4)}, [[1], [2], [3]]),
    ],
    ids=["channels of their own", "a slice in common", "around the end of a pixel"],
)
def test_parts_of_a_tensor_are_written_side_by_side(parts: dict[int, Part], levels: list[list[int]]) -> None:
    assert orders(lowered([([0], 1), ([0], 2), ([99], 3)], parts))[0] == levels


def test_what_is_written_again_stays_in_order() -> None:
    """A second write follows the reads of the first, and both writes."""
    assert orders(lowered([([0], 1), ([1], 2), ([0], 1), ([1], 3)])) == [[[1], [2], [1], [3]]]


def test_frames_of_other_strides_share_a_level_only_if_they_are_apart() -> None:
    made = lowered([([0], 1), ([0], 2)], {1: (0, 8), 2: (2, 8)})
    made.aliases = {1: Alias(99, 0, 4), 2: Alias(99, 2, 2)}
    assert len(orders(made)[0]) == 2
    made.aliases = {1: replace(Alias(99, 0, 4)), 2: Alias(99, 16, 2)}
    assert len(orders(made)[0]) == 1


def test_no_order_reads_what_is_not_there_yet(model_path: Callable[[str], Path]) -> None:
    """Each order of a model's launches, over its own arena."""
    program = program_for(model_path("pose_landmark_lite"), "f16")
    assert stray_reads(program) == []
    launches = program.compiled.lowered.launches
    first, *others = orders_in_levels(launches, program.compiled.lowered)
    assert program.record().barriers == len(first) - 1 < len(launches) - 1
    assert all(len(other) == len(first) for other in others)
    for one, two in permutations((first, *others), 2):
        assert {id(entry) for level in one for entry in level} == {id(entry) for level in two for entry in level}
