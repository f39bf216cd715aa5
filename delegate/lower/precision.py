"""Storage of each intermediate tensor: halves if nothing is lost, as for numbers of steps of quantized tensors and
enlarged copies of halves; halves around instance norms, if 16 bits are allowed; else f32. A normalization rescales its
input, so rounding errors there do not spread; its tensors are also the largest of their networks. Halves everywhere
miss the error bound: docs/decisions/0007-f32-except-norms.md. pack.py chooses the storage of constants.

Nodes whose result is the argument of a logarithm or its like keep f32 throughout (``find_exact``): the spectrum of a
real sound spans many powers of ten, and an error that is small beside the largest value is large beside the smallest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

from ...kernels.operation import FusedOp
from ...kernels.tensor import TensorId
from ...kernels.views import Storage
from ..transform.graph import Graph, Node
from .block_storage import find_inside_blocks
from .launches import LabelledLaunch, Lowered, only_resizes

AMPLIFYING = frozenset({"ATAN2", "LOG", "POW", "RSQRT", "SQRT"})
"""Expressions that make a small error of a small value large. A quotient does so with its divisor."""
LIMITING = frozenset(
    {"COS", "ELU", "EXP", "GELU", "GELU_TANH", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "PRELU", "RELU_0_TO_1",
     "RELU_N1_TO_1", "RELU6", "SILU", "SILU_OF_STEPS", "SIN", "TANH"}
)  # fmt: skip
"""Expressions whose errors are judged beside values of about one, and not beside the smallest: what comes before them
may be rounded. So may a layer of weights before RELU; RELU alone may be there to keep a logarithm from negative values.
"""
DENSE_PRODUCTS = 1 << 25
"""The least products of a dense convolution whose time is that of its bytes and products, which halve with the bits of
a tensor. A window of several taps over all channels sums up hundreds of products, so that rounding errors of its input
cancel out. Networks of depthwise and pointwise convolutions, whose errors do not, have none.
"""
BETWEEN_CONVOLUTIONS = frozenset(
    {"concat", "conv", "copy", "matrix_conv", "matrix_patch", "patch_conv", "pool", "strided_copy", "tiled_conv",
     "transpose_conv"}
)  # fmt: skip
"""The kernels whose results a rounding of what they read moves about as much as that of a convolution's weights does:
sums of many products, and kernels that move values between them.
"""


def find_exact(graph: Graph) -> frozenset[Node]:
    """The nodes whose constants and results must not be rounded to 16 bits.

    They compute the argument of an amplifying expression, back to the graph's inputs or the last limiting expression.
    """
    exact: set[Node] = set()
    behind: dict[int, bool] = {}
    """The tensors that must be exact, and whether a layer of weights lies between each and the expression."""

    def places(tensor: int) -> set[int]:
        """The tensor and, if it lies in another one, that: the other's parts may be read by any name."""
        return {tensor, graph.aliases[tensor].parent} if tensor in graph.aliases else {tensor}

    def mark(tensor: int, is_behind: bool) -> None:
        for each in places(tensor):
            behind[each] = behind.get(each, True) and is_behind

    for node in reversed(graph.nodes):
        written = {each for tensor in node.outputs for each in places(tensor)}
        is_exact = not behind.keys().isdisjoint(written)
        is_behind = all(behind.get(tensor, True) for tensor in written)
        for op in reversed((*node.input_ops, *node.epilogue)):
            if op.operand is not None and _amplifies_operand(op):
                mark(op.operand, is_behind=False)
            elif op.operand is not None and is_exact:
                mark(op.operand, is_behind)
            if op.expression in LIMITING or (op.expression == "RELU" and is_behind):
                is_exact = False
            elif _amplifies_value(op, graph):
                is_exact, is_behind = True, False
        if is_exact:
            exact.add(node)
        if is_exact and not node.operation.limits_errors:
            for tensor in node.inputs:
                mark(tensor, is_behind or hasattr(node.operation, "weights"))
    return frozenset(exact)


def _amplifies_operand(op: FusedOp) -> bool:
    """Whether the operation's operand must be exact."""
    return op.expression in AMPLIFYING or (op.expression == "DIV" and not op.swapped)


def _amplifies_value(op: FusedOp, graph: Graph) -> bool:
    """Whether the value that the operation is applied to must be exact."""
    if op.expression == "DIV":
        return op.swapped
    if op.expression == "POW" and op.operand is not None and not op.swapped:
        exponent = graph.tensors[op.operand].constant
        return exponent is None or bool((exponent < 1).any())
    return op.expression in AMPLIFYING


def choose_storage(lowered: Lowered, storage: Storage) -> dict[TensorId, Storage]:
    """The storage of every tensor of the program. The user allows 16 bits if ``storage`` is "f16" and not "f32"."""
    storages: dict[TensorId, Storage] = dict.fromkeys(lowered.shapes, "f32")
    whole = set[TensorId]()
    """The tensors that are written as numbers of steps."""
    for entry in lowered.launches:
        launch = entry.launch
        if launch.tolerates_f16 and storage == "f16" and not entry.exact:
            tensors = launch.reads | launch.writes
            storages.update((tensors[name], "f16") for name in launch.tolerates_f16)
        elif _only_copies(entry):
            storages[launch.writes["dst"]] = storages[launch.reads["src"]]  # so nothing is lost
            whole |= {entry.destination} if launch.reads["src"] in whole else set()
        if entry.writes_steps:
            storages[entry.destination] = "f16"
            whole.add(entry.destination)
    if storage == "f16":
        storages.update(dict.fromkeys(_between_convolutions(lowered), "f16"))
        storages.update(dict.fromkeys(find_inside_blocks(lowered), "f16"))
    storages |= _shared(lowered, storages, whole)
    of_bytes = {lowered.parent(each.launch.reads["src"]) for each in lowered.launches if each.launch.multiplies_bytes}
    storages.update((tensor, "u8") for tensor in lowered.shapes if lowered.parent(tensor) in of_bytes)
    return storages


def _only_copies(entry: LabelledLaunch) -> bool:
    """Whether each written value is one of those that are read: of a nearest resizing, or of a maximum."""
    resize = only_resizes(entry)
    if resize is not None:
        return not resize.bilinear
    launch, fused = entry.launch, entry.epilogue or entry.input_ops or entry.prologue or entry.partial_sums
    return launch.kernel == "pool" and launch.constants["MAXIMUM"] == 1 and not fused


def _between_convolutions(lowered: Lowered) -> list[TensorId]:
    """The intermediate tensors that a dense convolution reads or writes, if all launches that touch them, or a tensor
    in the same memory, are BETWEEN_CONVOLUTIONS.
    """
    kernels: dict[TensorId, set[str]] = {}
    dense, written = set[TensorId](), set[TensorId]()
    for entry in lowered.launches:
        plain = not (entry.exact or entry.rounds or entry.integers or entry.input_ops or entry.prologue)
        results = {lowered.parent(tensor) for tensor in entry.launch.writes.values()}
        touched = results | {lowered.parent(tensor) for tensor in entry.reads}
        for tensor in touched:
            kernels.setdefault(tensor, set()).add(entry.launch.kernel if plain else "")
        written |= results
        if _is_dense(entry, lowered):
            dense |= touched
    fixed = {lowered.parent(tensor) for tensor in lowered.outputs} | lowered.constants
    chosen = {each for each in dense & written - fixed if kernels[each] <= BETWEEN_CONVOLUTIONS}
    return [tensor for tensor in lowered.shapes if lowered.parent(tensor) in chosen]


def _is_dense(entry: LabelledLaunch, lowered: Lowered) -> bool:
    """Whether the launch is a convolution by matrix units of several taps and DENSE_PRODUCTS, as all by tiles are."""
    launch = entry.launch
    if launch.kernel not in ("matrix_conv", "tiled_conv"):
        return False
    taps = int(launch.constants["KERNEL_H"] * launch.constants["KERNEL_W"])
    products = math.prod(lowered.shape(launch.writes["dst"])) * taps * lowered.shape(launch.reads["src"])[3]
    return taps > 1 and (launch.kernel == "tiled_conv" or products >= DENSE_PRODUCTS)


def _shared(lowered: Lowered, storages: Mapping[TensorId, Storage], whole: Set[TensorId]) -> dict[TensorId, Storage]:
    """The storage of tensors that share memory: halves only if all of them are halves, or if all that is written there
    are ``whole`` numbers that halves hold.
    """
    written = {tensor for entry in lowered.launches for tensor in entry.launch.writes.values()}
    families: dict[int, list[int]] = {}
    for tensor, part in lowered.aliases.items():
        families.setdefault(part.parent, [part.parent]).append(tensor)
    shared: dict[TensorId, Storage] = {}
    for family in families.values():
        results = written.intersection(family)
        halves = all(storages[tensor] == "f16" for tensor in family) or bool(results and results <= whole)
        shared |= dict.fromkeys(family, "f16" if halves else "f32")
    return shared
