"""The outputs of a recurrent model that are inputs of the next frame: named by the user, or found by a rule.

The first input is the picture. Of the others, an input is fed by an output

1. if both have one shape and type, and names that differ in "i" and "o" at the end (r1i, r1o), or in "in" and "out", or
   "input" and "output" (state_in, state_out);
2. or, if no names pair up: by order. All further inputs of more than one value have the shapes and types of as many
   outputs, the last ones, and there is another output before these. None of them is a picture beside the first one: of
   its height and width, with 1, 3 or 4 channels.

An input of one value, as RVM's downsample_ratio, is not a state.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import framebind as fb

AUTO, NONE = "auto", "none"
"""Values of the option: by the rule, or nothing."""
HELP = (
    "States of a recurrent model, output:input with commas between (r1o:r1i,r2o:r2i; names or numbers), or none; by "
    "default those whose names or shapes pair up, as `inspect` shows."
)
_CHANNELS = (1, 3, 4)
"""Channels of pictures."""
Details = Sequence[Mapping[str, Any]]
"""Tensors as LiteRT describes them."""


def feedback_of(interpreter: fb.Interpreter, option: str) -> dict[int, int]:
    """The input that each output feeds, by numbers: by the rule (AUTO), none (NONE), or as ``option`` names them.

    Raises ModelError for an option that cannot be read, or that names a tensor which the model does not have.
    """
    inputs: Details = interpreter.get_input_details()
    outputs: Details = interpreter.get_output_details()
    if option == AUTO:
        return _by_name(inputs, outputs) or _by_order(inputs, outputs)
    if option == NONE:
        return {}
    known = tuple(numbers_of(interpreter, side) for side in ("input", "output"))
    found = dict[int, int]()
    for pair in option.split(","):
        output, colon, given = pair.strip().partition(":")
        if not colon or output not in known[1] or given not in known[0]:
            raise fb.ModelError(
                f"feedback '{pair}' is no output:input of the model: its outputs are {', '.join(known[1])}, its inputs "
                f"{', '.join(known[0])}"
            )
        found[known[1][output]] = known[0][given]
    return found


def numbers_of(interpreter: fb.Interpreter, side: str) -> dict[str, int]:
    """The tensors of a side by name, by name in a signature, and by number."""
    details: Details = getattr(interpreter, f"get_{side}_details")()
    found = {str(each["name"]): int(each["index"]) for each in details}
    for key in interpreter.get_signature_list():
        named: dict[str, Any] = getattr(interpreter.get_signature_runner(key), f"get_{side}_details")()
        found |= {name: int(each["index"]) for name, each in named.items() if int(each["index"]) in found.values()}
    return found | {str(index): index for index in found.values()}


def _by_name(inputs: Details, outputs: Details) -> dict[int, int]:
    by_name = {_plain(each["name"]): each for each in inputs[1:]}
    found = dict[int, int]()
    for output in outputs:
        name = _plain(output["name"])
        names = [name.replace("output", "input"), re.sub(r"out(?!put)", "in", name), re.sub("o$", "i", name)]
        for given in (by_name[each] for each in names if each != name and each in by_name):
            if _alike(output, given):
                found[int(output["index"])] = int(given["index"])
    return found if len(set(found.values())) == len(found) else {}


def _by_order(inputs: Details, outputs: Details) -> dict[int, int]:
    states = [each for each in inputs[1:] if math.prod(each["shape"]) > 1]
    last = outputs[len(outputs) - len(states) :]
    if not 0 < len(states) < len(outputs) or any(_is_beside(each["shape"], inputs[0]["shape"]) for each in states):
        return {}
    pairs = list(zip(last, states, strict=True))
    return {int(o["index"]): int(i["index"]) for o, i in pairs} if all(_alike(*pair) for pair in pairs) else {}


def _plain(name: str) -> str:
    """A tensor's name without what TensorFlow adds to it."""
    return re.sub(r":\d+$", "", name.removeprefix("serving_default_"))


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two tensors have one shape and one type."""
    return tuple(one["shape"]) == tuple(other["shape"]) and one["dtype"] == other["dtype"]


def _is_beside(shape: Sequence[int], picture: Sequence[int]) -> bool:
    """Whether a tensor may be a further picture: of the first one's sides, with channels last or first as there."""
    if len(shape) != 4 or len(picture) != 4:
        return False
    is_first = picture[1] in _CHANNELS and picture[3] not in _CHANNELS
    axis = 1 if is_first else 3
    return shape[axis] in _CHANNELS and all(shape[n] == picture[n] for n in (1, 2, 3) if n != axis)
