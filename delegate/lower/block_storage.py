"""Halves inside the blocks of transformers, if 16 bits are allowed.

A block normalizes its input, and adds what its layers make of that to the input again. The input, to which all blocks
add, keeps 32 bits: errors in it would add up. What lies between is read by layers of weights, which are halves: its own
rounding moves their sums as much as that of the weights does. Attention multiplies halves in any case.
"""

from __future__ import annotations

import numpy as np

from ...kernels.tensor import TensorId
from .launches import LabelledLaunch, Lowered

ATTENTION = frozenset({"attention", "matrix_attention"})
GELUS = frozenset({"GELU", "GELU_TANH"})
"""The expressions between the two layers of a block."""
LAYERS = frozenset({"conv", "depthwise", "fma_conv", "matrix_conv", "row_conv", "tiled_conv"})
MOVING = frozenset({"copy", "pad", "pool", "reshape", "strided_copy"})


def find_inside_blocks(lowered: Lowered) -> list[TensorId]:
    """The tensors between the layers of blocks: normalized tensors, what attention reads and writes, and what a layer
    with a GELU does; but none that is added to another one, or that a kernel of another kind reads or writes.
    """
    inside, kept = set[TensorId](), {lowered.parent(tensor) for tensor in lowered.outputs} | lowered.constants
    written = set[TensorId]()
    for entry in lowered.launches:
        results = {lowered.parent(tensor) for tensor in entry.launch.writes.values()}
        sources = {lowered.parent(tensor) for tensor in entry.launch.reads.values()}
        written |= results
        kept |= {lowered.parent(op.operand) for op in entry.epilogue if op.operand is not None}
        if entry.launch.kernel == "layer_norm" and not entry.exact:
            inside |= results
        elif not _may_round(entry):
            kept |= results | sources
        elif entry.launch.kernel in ATTENTION or _ends_in_gelu(entry):
            inside |= results | sources
    chosen = (inside & written) - kept
    for entry in lowered.launches:  # what moves halves loses nothing
        if entry.launch.kernel in MOVING and not entry.epilogue and chosen & {*map(lowered.parent, entry.reads)}:
            chosen |= {lowered.parent(tensor) for tensor in entry.launch.writes.values()} - kept
    return [tensor for tensor in lowered.shapes if lowered.parent(tensor) in chosen]


def _may_round(entry: LabelledLaunch) -> bool:
    """Whether a launch may read and write halves. Padding may, if a half holds the number that it writes."""
    plain = not (entry.exact or entry.rounds or entry.integers or entry.input_ops or entry.prologue)
    padded = float(entry.launch.constants["VALUE"]) if entry.launch.kernel == "pad" else 0.0
    return plain and entry.launch.kernel in ATTENTION | LAYERS | MOVING and padded == float(np.float16(padded))


def _ends_in_gelu(entry: LabelledLaunch) -> bool:
    return entry.launch.kernel in LAYERS and any(op.expression in GELUS for op in entry.epilogue[-1:])
