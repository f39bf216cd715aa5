"""The inputs and outputs that are pictures with channels first (NCHW), as PyTorch's models have them.

A tensor of rank 4 is one if its second dimension is 1 to 4, the number of a picture's channels, and

- every operator of the subgraph that reads the input is a TRANSPOSE (0, 2, 3, 1), or the operator that writes the
  output is a TRANSPOSE (0, 3, 1, 2): the model computes with channels last;
- or the last two dimensions are above 4, so that with channels last it would be no picture.

Every other tensor counts as BHWC. ``layout`` in ``bind_buffer_to_tensor`` overrules this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...kernels.tensor import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Permutation, TensorInfo
from ..read.model import RawOperator, Subgraph

MOST_CHANNELS = 4
"""The largest number of channels of a picture."""


def with_layouts(subgraph: Subgraph, tensors: Mapping[int, TensorInfo]) -> Mapping[int, TensorInfo]:
    """The tensors of a subgraph, in which the inputs and outputs that are pictures with channels first are marked."""
    ends = {i for i in (*subgraph.inputs, *subgraph.outputs) if i in tensors and may_be_channels_first(tensors[i])}
    found = dict[int, TensorInfo]()
    for tensor in ends:
        transposed, shape = _is_transposed(subgraph, tensor), tensors[tensor].shape
        if transposed or min(shape[2:]) > MOST_CHANNELS:
            found[tensor] = replace(tensors[tensor], channels_first=True, transposed=transposed)
    return {**tensors, **found} if found else tensors


def may_be_channels_first(tensor: TensorInfo) -> bool:
    """Whether a tensor's second dimension may be the channels of a picture."""
    return len(tensor.shape) == 4 and 1 <= tensor.shape[1] <= MOST_CHANNELS


def _is_transposed(subgraph: Subgraph, tensor: int) -> bool:
    """Whether the model itself moves the channels of an input to the end, or those of an output from there."""
    if tensor in subgraph.inputs:
        readers = [raw for raw in subgraph.operators if tensor in raw.inputs]
        return bool(readers) and all(_is_transpose(raw, subgraph, TO_CHANNELS_LAST) for raw in readers)
    writers = [raw for raw in subgraph.operators if tensor in raw.outputs]
    return any(_is_transpose(raw, subgraph, TO_CHANNELS_FIRST) for raw in writers)


def _is_transpose(raw: RawOperator, subgraph: Subgraph, permutation: Permutation) -> bool:
    """Whether an operator is a TRANSPOSE by this constant permutation."""
    if raw.name != "TRANSPOSE" or raw.custom or raw.inputs[1] < 0:
        return False
    given = subgraph.tensors[raw.inputs[1]].constant
    return given is not None and given.size == 4 and tuple(given.reshape(-1).tolist()) == permutation
