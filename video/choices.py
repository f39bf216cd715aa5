"""Outputs that have the number of a class: ARG_MAX at the end of a model, which chooses one of several scores."""

from __future__ import annotations

import math

import framebind as fb

_KEEP_NUMBERS = frozenset({"CAST", "EXPAND_DIMS", "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "SQUEEZE", "TRANSPOSE"})
"""Operators behind ARG_MAX that leave its numbers as they are."""


def choices_of(interpreter: fb.Interpreter) -> dict[int, int]:
    """The number of classes from which each output's numbers are chosen, by tensor; without other outputs."""
    writers = {
        tensor: operator
        for operator in interpreter.delegated_ops()
        if operator.subgraph == 0
        for tensor in operator.outputs
    }
    sizes = {int(each["index"]): math.prod(map(int, each["shape"])) for each in interpreter.get_tensor_details()}
    found = dict[int, int]()
    for output in interpreter.outputs():
        left = dict(writers)  # each operator is passed once: the file may be damaged, and its operators a circle
        operator = left.pop(output, None)
        while operator is not None and operator.name in _KEEP_NUMBERS and operator.inputs:
            operator = left.pop(operator.inputs[0], None)
        if operator is not None and operator.name == "ARG_MAX" and operator.inputs:
            scores, numbers = sizes.get(operator.inputs[0], 0), sizes.get(operator.outputs[0], 0)
            found[output] = scores // max(numbers, 1)
    return found
