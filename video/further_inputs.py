"""Inputs of a model beside the picture and the states: values that stay the same for all frames.

Robust Video Matting's ``downsample_ratio`` is one. It has a default by the picture's size, that of the authors' own
program: the longer side is seen with 512 pixels at most. Any other input of one value needs one from the user.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb

from .feedback import AUTO, numbers_of

HELP = (
    "Values of inputs that are no picture and no state, NAME=VALUE with commas between (downsample_ratio=0.25); each "
    "fills its input. The downsample_ratio of a matting model has a default by the picture's size."
)
RATIO, LONGEST = "downsample_ratio", 512
"""The input of Robust Video Matting with a default, and the pixels of the longer side that it is chosen for."""


class FurtherInputs(NamedTuple):
    """The options for all inputs but the picture, as the user gives them."""

    feedback: str = AUTO
    """The states of a recurrent model: see ``feedback_of``."""
    values: str = ""
    """Values of inputs: see ``values_of``."""


NO_OPTIONS = FurtherInputs()
"""Options that nobody gave."""


def values_of(interpreter: fb.Interpreter, option: str, states: Collection[int]) -> dict[int, float | None]:
    """The value of each input of one value, and of those that ``option`` names, by number; None if nobody says it.

    ``states`` are inputs that outputs feed. The first input is the picture. Raises ModelError for an option that cannot
    be read, or that names a tensor which has no value of its own.
    """
    details = interpreter.get_input_details()
    picture, *others = details
    found: dict[int, float | None] = {
        int(each["index"]): _default(str(each["name"]), picture["shape"])
        for each in others
        if math.prod(each["shape"]) == 1 and int(each["index"]) not in states
    }
    known, free = numbers_of(interpreter, "input"), {int(each["index"]) for each in others} - {*states}
    for pair in option.split(",") if option else ():
        name, _, text = pair.partition("=")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or known.get(name.strip()) not in free:
            names = ", ".join(str(each["name"]) for each in others if int(each["index"]) in free) or "none"
            raise fb.ModelError(
                f"input '{pair}' is no NAME=VALUE of the model: its inputs that are no picture and no state are {names}"
            )
        found[known[name.strip()]] = value
    return found


def check_set(model: str, values: Mapping[int, float | None], names: Mapping[int, str]) -> None:
    """Raise ModelError for an input without a value."""
    for tensor, value in values.items():
        if value is None:
            raise fb.ModelError(
                f"{model} has the input '{names[tensor]}', which is no picture and no state: give it a value, with "
                f"--input {names[tensor]}=VALUE or the argument input"
            )


def filled(detail: Mapping[str, Any], value: float) -> npt.NDArray[Any]:
    """The array of an input whose elements all have a value, in the model's type."""
    scale, zero = detail["quantization"]
    number = round(value / scale) + zero if scale else value
    return np.full(tuple(detail["shape"]), number, detail["dtype"])


def _default(name: str, picture: Sequence[int]) -> float | None:
    if RATIO not in name or len(picture) != 4:
        return None
    sides = picture[2:] if picture[1] in (1, 3, 4) else picture[1:3]
    return min(LONGEST / max(*map(int, sides), 1), 1.0)
