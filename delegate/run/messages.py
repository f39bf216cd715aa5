"""Names of tensors in messages, and the reasons why a tensor cannot be bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...kernels.tensor import LARGEST_RANK, TensorInfo
from ..read.model import Subgraph

CLOSED = "this GpuDelegate is closed: make a new one, and an interpreter for it"
"""Text for errors of everything that a delegate cannot do any longer after ``close``."""


def tensor_label(index: int, tensor: TensorInfo) -> str:
    """Text for messages: "tensor 3 'image' (BHWC 1x257x257x3)"."""
    shape = tensor.bhwc if len(tensor.shape) <= LARGEST_RANK else tensor.shape
    layout = "NCHW" if tensor.channels_first else "BHWC"
    return f"tensor {index} '{tensor.name}' ({layout} {'x'.join(map(str, shape))})"


def inputs_and_outputs(subgraph: Subgraph) -> str:
    """Text for messages: the tensors of the model that can be bound."""

    def listed(indices: Sequence[int]) -> str:
        return ", ".join(f"{i} '{subgraph.tensors[i].name}'" for i in indices)

    return f"the model's inputs are {listed(subgraph.inputs)}, its outputs {listed(subgraph.outputs)}"


def named_reasons(subgraph: Subgraph, reasons: Mapping[int, str]) -> str:
    """Text for messages: the first reasons of operators, with their names; further ones often follow from them."""
    first = [f"operator {index} {subgraph.operators[index].name}: {reasons[index]}" for index in sorted(reasons)[:3]]
    return "; ".join(first) + (f" (and {len(reasons) - 3} more)" if len(reasons) > 3 else "")


def why_not_bindable(subgraph: Subgraph, tensor: int) -> str:
    """The reason why a variable tensor, or a tensor that no partition reads or writes, cannot be bound."""
    if not 0 <= tensor < len(subgraph.tensors):
        return f"there is no tensor {tensor}; {inputs_and_outputs(subgraph)}"
    what = tensor_label(tensor, subgraph.tensors[tensor])
    if subgraph.tensors[tensor].variable:
        return f"{what} cannot be bound: it is a variable, whose value LiteRT or the delegate keeps; use set_tensor"
    if tensor in subgraph.inputs or tensor in subgraph.outputs:
        return f"{what} cannot be bound: no operator on the GPU reads or writes it; the log says why"
    return f"{what} cannot be bound: it is inside the model; {inputs_and_outputs(subgraph)}"
