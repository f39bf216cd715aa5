"""The task "raw": any model of one picture, with its outputs as the results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..copies import OUTPUTS
from ..network import Sampling, Values
from ..results.rows import COLUMNS
from ..task import Finder, Model, Run, Scene, Task

MOST_BYTES = 256 << 20
"""Largest outputs of a frame that are read."""


def prepare(scene: Scene, mean: Values = 0.0, std: Values = 1.0) -> Task:
    """Bind the outputs' buffers once; bind each frame, and read the outputs.

    ``mean`` and ``std`` are those of the picture's values from 0 to 1, in all channels or in each. Raises ModelError
    for a model that does not take one picture.
    """
    network, image, names = scene.network, _image(scene.network), output_names(scene.network)
    arrays = {name: np.empty(network.outputs[tensor], np.float32) for tensor, name in names.items()}
    buffers: dict[str, fb.GlBuffer] = {}
    for tensor, name in names.items():
        buffers[name] = fb.GlBuffer(max(arrays[name].nbytes, 4), label=f"the output '{name}'")
        network.bind(tensor, buffers[name])

    def draw(frame: fb.GlTexture) -> None:
        network.bind(image, frame, mean=mean, std=std)
        network.run()

    def results() -> list[dict[str, Any]]:
        for name, array in arrays.items():
            buffers[name].read(array, reason=OUTPUTS)
        return [{"outputs": {name: array.copy() for name, array in arrays.items()}}]

    return Task(draw, results=results)


def finder(model: Model, size: tuple[int, int], mean: Values = 0.0, std: Values = 1.0) -> Finder:
    """The same without GL."""
    _image(model)
    names = list(output_names(model).values())

    def find(run: Run) -> list[dict[str, Any]]:
        outputs: dict[str, npt.NDArray[np.float32]] = {}
        for name, values in zip(names, run(Sampling(mean, std, None, 0.0)), strict=True):
            outputs[name] = np.array(values, np.float32)
        return [{"outputs": outputs}]

    return Finder(find)


def output_names(model: Model) -> dict[int, str]:
    """The names of the outputs by tensor index, of letters, digits, "_", "-" and "." only, each once."""
    names: dict[int, str] = {}
    for number, tensor in enumerate(model.outputs):
        name = re.sub(r"[^\w.-]+", "_", model.names[tensor], flags=re.ASCII).strip("._")[:100] or f"output_{number}"
        names[tensor] = f"{name}_{number}" if name in {*names.values(), *COLUMNS, "error"} else name
    return names


def _image(model: Model) -> int:
    """The tensor of the picture. Raises ModelError for a model of other inputs, or of outputs that are too large."""
    shapes = list(model.inputs.values())
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][0] != 1 or shapes[0][3] not in (1, 3, 4):
        raise fb.ModelError(
            f"{model.path.name} takes {shapes}: only models of one picture (1, height, width, 1, 3 or 4) can be run on "
            "videos"
        )
    if (nbytes := sum(4 * int(np.prod(shape, dtype=np.int64)) for shape in model.outputs.values())) > MOST_BYTES:
        raise fb.ModelError(f"the outputs of {model.path.name} are {nbytes} bytes per frame, more than {MOST_BYTES}")
    (tensor,) = model.inputs
    return tensor
