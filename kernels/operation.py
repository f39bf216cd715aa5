"""Operations, the launches that compute them, and the TensorFlow Lite operators that they come from.

An operator lives in one file below ``ops/``: a frozen dataclass that is an Operation, a function that parses its
TensorFlow Lite form, and a tuple ``TFLITE`` of rows at the end, which ``registry.py`` finds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np

from .target import Target, TuningChoice
from .tensor import Bounds, Shape, TensorId, TensorInfo, slices
from .views import Resize


class Unsupported(Exception):  # noqa: N818 - a reason, not an error
    """The reason why an operator cannot run on the GPU, as one sentence. The engine leaves the operator to the CPU."""


@dataclass(frozen=True)
class FusedOp:
    """An elementwise operation that is fused into the kernel that writes (or reads) a value."""

    expression: str
    """A key of EXPRESSIONS in ops/pointwise/elementwise.py."""
    operand: int | None = None
    """The tensor that is the second operand of a binary expression. It broadcasts to the written tensor."""
    _: KW_ONLY
    swapped: bool = False
    """The written value is the right-hand side."""
    values: tuple[float, ...] = ()
    """Up to four numbers, such as the alpha of LEAKY_RELU, which the expression reads as the float4 ``p``. They are
    constants in memory, so operations that differ only in them share a kernel.
    """
    max_pool_2x2: bool = False
    """The operand has twice the height and width, and the largest of 2x2 of its pixels is used."""


@dataclass(frozen=True)
class PackedArray:
    """A float32 array of shape (``rows``, 4), or one of int32, or of uint16 (pairs of bytes). ``make`` packs it; it is
    not called if a cache has the packed bytes.
    """

    rows: int
    make: Callable[[], np.ndarray]
    exact: bool = False
    """Whether halves may not take the place of floats: the numbers are places, such as of values in a tensor."""


LocalArrays = tuple[tuple[str, str, int], ...]
"""The arrays of a work-group in local memory: (element type, name, number of elements)."""


@dataclass(frozen=True)
class SliceOwnership:
    """The output slices that an invocation writes, the same for all its pixels.

    With l = LOCAL % lanes, it writes the slices s, s + step, s + 2 * step ..., ``count`` at most, from s =
    (GROUP_ID * lanes + l) % step. A work-group can then add up its values of a slice. ``lanes`` divides the group's
    size.
    """

    lanes: int
    step: int
    count: int = 1


@dataclass(frozen=True)
class Fusion:
    """The ways in which delegate/lower may merge a launch with the one before or behind it, or leave it out."""

    slice_ownership: SliceOwnership | None = None
    """The slices of "dst" that an invocation writes, if its work-group can write partial sums of them too."""
    is_row_sum: bool = False
    """True if the launch writes the sum of each row of "src". The launch that writes "src" may write these sums
    instead, or sums of any other partition of the pixels.
    """
    is_moments: bool = False
    """True if the launch writes sums and sums of squares. If "src" is rounded to 16 bits, the launch that writes "src"
    may write them instead (partial_sums.kern): that is less exact, because it subtracts no value near the mean first.
    """
    is_normalization: bool = False
    """True if the launch scales and shifts "src" by the mean and the deviation of its channels, from "sums", "gamma"
    and "beta". A launch that reads the result may do so instead.
    """
    convolution: Operation | None = None
    """Set if the launch is exactly one convolution, so that ``normalized_conv`` may replace it and normalize "src" as
    well.
    """
    fits_in_prologue: bool = False
    """True if the launch is so short that every work-group that reads its result may compute it in a prologue."""
    single_pass_read: bool = False
    """True if the launch reads most pixels of "src" once only, so that it may sample a picture directly, without a
    copy.
    """
    reads_per_value: int | None = None
    """The number of times that the launch reads each value of "src"; None if it cannot resize what it reads."""
    is_copy: bool = False
    """True if the launch only copies "src", resized if it has a ``resize``."""
    is_reshape: bool = False
    """True if the launch copies the values of "src" in their order. On a buffer without padding this copy changes
    nothing.
    """


@dataclass(frozen=True)
class Launch:
    """One dispatch: a kernel text, the tensors that it reads and writes by argument name, and its work-groups."""

    kernel: str
    """The name of a .kern file below ``ops/``."""
    reads: dict[str, TensorId]
    writes: dict[str, TensorId]
    group_count: int
    """The number of work-groups."""
    constants: dict[str, int | float] = field(default_factory=dict)
    """Numbers that the kernel text knows by name; another value makes another kernel."""
    arrays: dict[str, PackedArray] = field(default_factory=dict)
    """Packed constants such as weights, by argument name. They are uploaded once."""
    local: LocalArrays = ()
    broadcast: frozenset[str] = frozenset()
    """The arguments that may be smaller than the written tensor."""
    epilogue: tuple[FusedOp, ...] = ()
    """Operations applied to the written values before the epilogue of the node."""
    choice: TuningChoice[Any] | None = None
    """The decision behind the constants, if it can be tuned."""
    resize: Resize | None = None
    """Resizes "src" while it is read. The shape of "src" is then the resized one."""
    tolerates_f16: tuple[str, ...] = ()
    """The arguments that may be rounded to 16 bits: the input of a normalization, and its result. Other tensors are not
    rounded because of that.
    """
    fusion: Fusion = Fusion()
    integers: bool | None = None
    """Whether the kernel computes on int32; None: if the node does."""
    halves: tuple[Launch, ...] = ()
    """The launch or the two that take this one's place if "src" is kept as halves and nothing is fused into its reads.
    The first reads "src", the last writes "dst".
    """

    @property
    def multiplies_bytes(self) -> bool:
        """Whether the kernel multiplies bytes by bytes: "src" must then hold whole numbers from 0 to 255."""
        return self.constants.get("BYTES") == 1


@dataclass
class Lowering:
    """The input of ``Operation.lower``: the ids and BHWC shapes of the node's tensors, and the device to lower for.

    ``scratch(shape)`` makes an f32 tensor that lives between the launches of this node only.
    """

    inputs: tuple[TensorId, ...]
    outputs: tuple[TensorId, ...]
    shape: Callable[[TensorId], Shape]
    scratch: Callable[[Shape], TensorId]
    target: Target

    @property
    def group_size(self) -> int:
        return self.target.group_size

    def group_count(self, items: int) -> int:
        """The number of work-groups if each invocation computes one of ``items`` items."""
        return -(-items // self.group_size)

    def groups_for(self, tensor: TensorId) -> int:
        """The number of work-groups if each invocation computes one slice of one pixel of ``tensor``."""
        batch, height, width, channels = self.shape(tensor)
        return self.group_count(batch * height * width * slices(channels))

    def launch(self, kernel: str, arguments: Sequence[str], constants: dict[str, int | float] | None = None) -> Launch:
        """A launch in which each invocation computes one slice of one pixel of the first output, "dst".

        ``arguments`` are the kernel's names of the inputs, in order.
        """
        reads, output = dict(zip(arguments, self.inputs, strict=True)), self.outputs[0]
        return Launch(kernel, reads, {"dst": output}, self.groups_for(output), constants or {})


@dataclass(frozen=True)
class Collapsed:
    """An operation on tensors of rank 4 or less, with the shapes of its inputs and outputs."""

    operation: Operation
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]


class Operation(ABC):
    """A computation on tensors, whatever file format it comes from. A subclass is a frozen dataclass of attributes."""

    may_be_identity: ClassVar[bool] = False
    """True if the operation changes nothing when input and output have the same BHWC shape."""
    limits_errors: ClassVar[bool] = False
    """Whether errors of its input spread no further, because it normalizes or has activation functions inside."""

    @abstractmethod
    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The shapes of the outputs for the shapes of the inputs and of the epilogue's operands, in that order.

        Shapes are those of the model, not BHWC. Raises ValueError if the inputs do not fit together.
        """

    @abstractmethod
    def lower(self, lowering: Lowering) -> list[Launch]:
        """The launches that compute the outputs, in order; the last one writes them."""

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        """A chain of operations of rank 4 or less that compute this one, if a tensor has rank 5 or more. The first
        takes the inputs, the last makes the outputs.

        Dimensions that the operation treats alike are merged. The chain is empty if the operation is right on the BHWC
        forms, in which the batch is all dimensions before the last three.
        """
        return ()

    def keeps_steps(self) -> bool:
        """Whether every output value is zero or a value of the first input. Such values need not be rounded again."""
        return False


@dataclass(frozen=True)
class TfliteNode:
    """An operator of a TensorFlow Lite model: its option table (or None), and its tensors in order.

    A custom operator's ``options`` are bytes. An optional input that is left out is None.
    """

    options: Any
    inputs: list[TensorInfo | None]
    outputs: list[TensorInfo]
    body: str = ""
    """The TensorFlow Lite name of the operator that joins two values, if the operator reduces by one ("ADD")."""


@dataclass(frozen=True)
class Parsed:
    """The operation that a TensorFlow Lite operator is.

    ``inputs`` picks the operator's runtime inputs, by position; constants that became attributes are left out.
    ``epilogue`` is applied to the output in order (fused activations, elementwise operators); here an operand is the
    position of an input too.
    """

    operation: Operation
    inputs: tuple[int, ...] = (0,)
    epilogue: tuple[FusedOp, ...] = ()
    integers: bool = False
    """True if the operation computes on int32. Operators that only move, choose or compare values do so if a float32
    cannot hold them.
    """
    bounds: Bounds | None = None
    """The smallest and the largest integer of the output. None if every one is an integer of the inputs, or 0."""


ResultType = int | str | Callable[[TfliteNode], str]
"""The type that LiteRT gives an output: that of the input at a position, a type by its name, or a function of the
operator. "" is the declared type.
"""


@dataclass(frozen=True)
class TfliteOp:
    """A row of the table of TensorFlow Lite operators. It holds every fact about one of them.

    ``name`` is the builtin operator's, or the custom operator's. ``parse`` makes an operation of a node, or raises
    Unsupported with the reason to leave it to the CPU.
    """

    name: str
    parse: Callable[[TfliteNode], Parsed]
    _: KW_ONLY
    max_version: int = 0
    """The newest version that ``parse`` understands; 0 means any."""
    inputs: int = 1
    """The least number of inputs. LiteRT crashes if a model has fewer, so the reader refuses it."""
    max_rank: int = 4
    """The highest rank of its tensors."""
    optional: Sequence[int] = ()
    """The positions of inputs that a model may leave out."""
    channel_axis: int | None = None
    """The dimension of the weights (the second input) that is the output's channels, if the weights have a scale for
    each.
    """
    custom: bool = False
    """Whether TensorFlow Lite knows it by name only."""
    stateful: bool = False
    """Whether inputs may be variable tensors, which its launches may also write. No other operator touches those."""
    results: Sequence[ResultType] = (0,)
    """The types that LiteRT gives the outputs, in order; the last one is that of all further outputs. The GPU computes
    no other types.
    """
    keeps_declared_type: bool = False
    """Whether LiteRT's kernel writes values of these types into outputs of other declared types. Other kernels set the
    type, or refuse the model.
    """
    real_integers: Sequence[int] = ()
    """The positions of inputs whose int32 and int64 constants stand for real numbers, if they have a scale: biases.
    All other integers of 32 and 64 bits stand for themselves, whatever scale the file gives them, as in LiteRT.
    """
    rescales: bool | None = None
    """Whether LiteRT's kernel converts the integers of a quantized input to the output's scale. None: it does, unless
    it only moves values.
    """
    moves_values: bool = False
    """Whether outputs hold values of the inputs: quantized ones of the same scale need no rounding."""
    only_gpu: bool = False
    """Whether LiteRT's interpreter has no kernel for this builtin operator; it then refuses files that name it. The
    reader hands it the file with a custom operator of the same name (delegate/read/gpu_only.py).
    """
    takes_integers: bool = False
    """True if the operator computes on the stored integers themselves, and not on the real numbers that they stand for.
    It then has no float view.
    """
    unlike_litert: str = ""
    """The inputs for which results differ from LiteRT's, and the difference: a sentence for docs/operators.md."""
    fold: Callable[[Any, list[np.ndarray]], np.ndarray | list[np.ndarray]] | None = None
    """Computes the output, or a list of several, from the option table and small constants. The caller sets shapes and
    types. Raises ValueError for constants that it does not fold.
    """

    def result_types(self, node: TfliteNode) -> list[str]:
        """The types that LiteRT gives the outputs of a node, whose tensors are those of the file."""
        last = len(self.results) - 1
        rules = [self.results[min(place, last)] for place in range(len(node.outputs))]
        return [_result_type(rule, node) or output.dtype for rule, output in zip(rules, node.outputs, strict=True)]


def _result_type(rule: ResultType, node: TfliteNode) -> str:
    if isinstance(rule, str):
        return rule
    if callable(rule):
        return rule(node)
    source = node.inputs[rule] if rule < len(node.inputs) else None
    return "" if source is None else source.dtype.removeprefix("sparse ")
