"""What an operator is: its TensorFlow Lite name and version, the checks that admit it, its shape rule and its kernels.

An operator lives in one file of this room, which ends in a tuple ``OPERATORS``, and has one line in ``registry.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .target import Target, TuningChoice
from .tensor import Shape, TensorId, TensorInfo
from .views import Resize


class Unsupported(Exception):  # noqa: N818 - it is a reason, and its reader is the table of operators
    """Why an operator cannot run on the GPU, as one sentence. The engine catches it and leaves the operator to the
    CPU.
    """


@dataclass(frozen=True)
class FusedOp:
    """An elementwise step applied to every value that a kernel writes: ``expression`` is a key of
    elementwise.EXPRESSIONS.

    ``operand`` is the id of the second tensor of a binary expression (it broadcasts to the written tensor), or None.
    ``swapped`` says that the written value is the right-hand side. ``values`` are up to four numbers (the alpha of
    LEAKY_RELU and the like) that the expression reads as the float4 ``p``; they are constants in memory, so that steps
    that differ in them share a kernel. ``max_pool_2x2``: the operand has twice the height and width, and each value
    is the largest of 2x2 pixels of it.
    """

    expression: str
    operand: int | None = None
    swapped: bool = False
    values: tuple[float, ...] = ()
    max_pool_2x2: bool = False


@dataclass(frozen=True)
class Parsed:
    """What ``Operator.parse`` makes of a flatbuffer operator.

    ``inputs`` picks the operator's runtime inputs, by position; constants that became part of ``attributes`` are
    left out.
    ``epilogue`` are applied to the output in order (fused activations, elementwise operators); here a link's operand is
    the position of an input too.
    """

    attributes: Any
    inputs: tuple[int, ...] = (0,)
    epilogue: tuple[FusedOp, ...] = ()


@dataclass(frozen=True)
class PackedArray:
    """A float32 array of shape (``rows``, 4), made by ``make`` when it is uploaded: not at all where it is kept."""

    rows: int
    make: Callable[[], np.ndarray]


@dataclass(frozen=True)
class SliceOwnership:
    """Which slices an invocation writes, whatever the pixels: with LOCAL % lanes, (GROUP_ID * lanes + LOCAL % lanes)
    % step and those ``step`` further, ``count`` of them at most. ``lanes`` divides the group.
    """

    lanes: int
    step: int
    count: int = 1


@dataclass(frozen=True)
class Launch:
    """One dispatch: a kernel file, the tensors it reads and writes by argument name, its constants and its tile count.

    ``arrays`` are constants of the kernel's own, uploaded once. ``broadcast`` names tensors that may be smaller than
    the written one. A work-group computes one tile; ``shared`` are its local arrays (type, name, count). ``epilogue``,
    without operands, are applied to what it writes first, before those of the node. ``choice`` is the decision that
    its constants follow, where there is one.

    ``slice_ownership`` says which slices of "dst" an invocation writes, each value once, so that its group can add
    them up. ``is_row_sum``: it writes a sum of each row of "src", and other parts of the pixels would do as well.
    ``single_pass_read``: it reads hardly a pixel of "src" more than once.
    ``fits_in_prologue``: it takes a work-group little time, so each that reads its vector can compute it for itself.
    ``resized``: how "src" is resized where it is read, to the shape that everything else here knows of it.
    """

    kernel: str
    reads: dict[str, TensorId]
    writes: dict[str, TensorId]
    group_count: int
    constants: dict[str, int | float] = field(default_factory=dict)
    arrays: dict[str, PackedArray] = field(default_factory=dict)
    shared: tuple[tuple[str, str, int], ...] = ()
    broadcast: frozenset[str] = frozenset()
    epilogue: tuple[FusedOp, ...] = ()
    choice: TuningChoice[Any] | None = None
    slice_ownership: SliceOwnership | None = None
    is_row_sum: bool = False
    fits_in_prologue: bool = False
    single_pass_read: bool = False
    resized: Resize | None = None


@dataclass
class Lowering:
    """What ``Operator.lower`` is given: the node's attributes, its tensors' ids and BHWC shapes, and the work-group
    size.

    ``scratch(shape)`` makes an f32 tensor that lives between the launches of this node only.
    """

    attributes: Any
    inputs: tuple[TensorId, ...]
    outputs: tuple[TensorId, ...]
    shape: Callable[[TensorId], Shape]
    scratch: Callable[[Shape], TensorId]
    target: Target

    @property
    def group_size(self) -> int:
        return self.target.group_size

    def group_count(self, items: int) -> int:
        """The number of tiles when each invocation of a work-group computes one of ``items`` items."""
        return -(-items // self.group_size)


@dataclass(frozen=True)
class Operator:
    """One row of the table of operators.

    ``parse(options, inputs, outputs)`` gets the flatbuffer's option table (or None), the operator's input tensors in
    order (None where an optional one is absent) and its output tensors; it returns Parsed or raises Unsupported.
    ``output_shapes(attributes, shapes)`` gives the TFLite shapes of the outputs for those of the node's operands: its
    inputs, then the operands of its links.
    ``lower(lowering)`` returns the launches, in order; the last one writes the outputs.
    ``custom`` marks an operator that TFLite knows by name only. ``max_version`` 0 means no limit. ``stateful``: its
    inputs may be variable tensors, which its launches may also write; no other operator touches those.
    """

    name: str
    parse: Callable[[Any, list[TensorInfo | None], list[TensorInfo]], Parsed]
    output_shapes: Callable[[Any, list[tuple[int, ...]]], list[tuple[int, ...]]]
    lower: Callable[[Lowering], list[Launch]]
    max_version: int = 0
    custom: bool = False
    stateful: bool = False
