"""Saves all outputs of any model of one picture."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import framebind as fb

from ..layouts import picture_shape
from ..results.rows import COLUMNS
from ..sampling import Values
from ..task import Finder, Fit, Match, Model, Run, VideoTask, sampling_of

MOST_BYTES = 256 << 20
"""Largest outputs of a frame that are read."""


def fits(model: Model) -> Fit:
    """Any model is for this task, unless another task takes it."""
    return Fit(Match.ANY, "no other task knows its inputs and outputs")


def finder(model: Model, size: tuple[int, int], mean: Values | None = None, std: Values | None = None) -> Finder:
    """Give all outputs as they are.

    ``mean`` and ``std`` are those of the picture's values from 0 to 1, in all channels or in each. Raises ModelError
    for a model that does not take one picture.
    """
    check_model(model)
    sampling = sampling_of(model, mean, std, usual=(0.0, 1.0))
    names = list(output_names(model).values())

    def find(run: Run) -> list[dict[str, Any]]:
        outputs = run.outputs(sampling)
        return [{"outputs": {name: np.array(values) for name, values in zip(names, outputs, strict=True)}}]

    return Finder(find)


def output_names(model: Model) -> dict[int, str]:
    """The names of the outputs by tensor index, of letters, digits, "_", "-" and "." only, each once."""
    names: dict[int, str] = {}
    for number, tensor in enumerate(model.outputs):
        name = re.sub(r"[^\w.-]+", "_", model.names[tensor], flags=re.ASCII).strip("._")[:100] or f"output_{number}"
        names[tensor] = f"{name}_{number}" if name in {*names.values(), *COLUMNS, "error"} else name
    return names


def check_model(model: Model) -> None:
    """Raise ModelError for a model of other inputs than one picture, or of outputs that are too large."""
    pictures = [picture_shape(shape, model.layouts[tensor]) for tensor, shape in model.inputs.items()]
    if len(pictures) != 1 or pictures[0] is None or pictures[0].channels not in (1, 3, 4):
        raise fb.ModelError(
            f"{model.path.name} takes {list(model.inputs.values())}: only models of one picture (1, height, width, "
            "channels) or (1, channels, height, width), with 1, 3 or 4 channels, can be run on videos"
        )
    if (nbytes := sum(4 * int(np.prod(shape, dtype=np.int64)) for shape in model.outputs.values())) > MOST_BYTES:
        raise fb.ModelError(f"the outputs of {model.path.name} are {nbytes} bytes per frame, more than {MOST_BYTES}")


TASK = VideoTask("", finder, options=("mean", "std"), saves=("npz",), has_memory=False, is_painted=False, fits=fits)
