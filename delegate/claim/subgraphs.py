"""Parsing of a subgraph's operators, in order: nodes of those that the GPU can run, and reasons of the others.

The file's shapes of computed tensors are not used if they follow from the inputs: a file may declare none, and inputs
may be resized. LiteRT computes them anew, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...kernels.cpu_shapes import cpu_shapes
from ...kernels.operation import Unsupported
from ...kernels.registry import OPERATORS
from ..read.model import RawOperator, Subgraph
from ..read.types import mistyped_outputs
from .inlining import inline, runs_subgraphs
from .parsing import ParsedSubgraph, mistyped, parse_operator, refuse_variable, unparsed
from .shape_rules import Shape, rule_shapes
from .variables import AccessOrder, Variables, add_tensors


def parse_operators(
    subgraph: Subgraph,
    *,
    quantized: bool,
    shapes: Mapping[int, Shape],
    subgraphs: Sequence[Subgraph] = (),
    variables: Variables = Variables(),  # noqa: B008 - it is frozen
) -> ParsedSubgraph:
    """Parse every operator, in order. See ``claim`` for the parameters."""
    parsed = unparsed(subgraph, quantized=quantized, shapes=shapes)
    add_tensors(variables, parsed)
    order, on_gpu = AccessOrder(parsed), variables.by_operator()
    others = {tensor: computed for _, _, tensor, computed in mistyped_outputs(subgraph)}
    states = {i for i, tensor in enumerate(subgraph.tensors) if tensor.variable}
    for raw in subgraph.operators:
        try:
            reason, variable = variables.reason(raw), on_gpu.get(raw.index)
            if reason is not None:
                raise Unsupported(reason)
            for tensor in others.keys() & raw.inputs:
                raise Unsupported(mistyped(subgraph.tensors[tensor], others[tensor]))
            if variable is None and not states.isdisjoint((*raw.inputs, *raw.outputs)):
                refuse_variable(raw, subgraph)
            if runs_subgraphs(raw):
                parsed.nodes[raw.index] = inline(raw, parsed, subgraphs, unless=shapes)
            elif variable is None:
                parsed.nodes[raw.index] = (parse_operator(raw, parsed, unless=shapes),)
            elif raw.index in variable.handles:
                parsed.nodes[raw.index] = ()  # a handle is known
            else:
                parsed.nodes[raw.index] = (parse_operator(order.ordered(raw, variable), parsed, unless=shapes),)
        except Unsupported as reason:
            parsed.unsupported[raw.index] = str(reason)
            _leave_to_cpu(raw, parsed, shapes)
    return parsed


def _leave_to_cpu(raw: RawOperator, parsed: ParsedSubgraph, shapes: Mapping[int, Shape]) -> None:
    """Find the shapes of tensors that the CPU computes: LiteRT's, else by the operator's rule, else the file's."""
    row = OPERATORS.get(raw.name)
    found = None
    if not parsed.unknown.intersection(raw.inputs):
        if row is not None and row.custom == raw.custom:
            found = rule_shapes(row, parsed.node_of(raw))
        elif not raw.custom:
            found = cpu_shapes(raw.name, parsed.node_of(raw))
    if found is None or len(found) != len(raw.outputs):
        parsed.unknown.update(i for i in raw.outputs if i not in shapes and parsed.tensors[i].shape == ())
    else:
        parsed.set_shapes(raw.outputs, found, unless=shapes)
