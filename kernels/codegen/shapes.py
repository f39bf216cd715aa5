"""Shape constants of a tensor argument: its sizes, and where a numbered item of its slices lies."""

from __future__ import annotations

from ..tensor import slices
from ..views import Plane, Table
from .macro import SLICE, Macro, constant
from .source import Argument


def shape_lines(argument: Argument) -> list[Macro | str]:
    """Constants: batch, height, width, channels, slices, number of slices; and POSITION. A table has none,
    and no plane.
    """
    name, view = argument.name, argument.view
    if isinstance(view, Table | Plane):
        return []
    batch, height, width, channels = view.shape
    height, width = argument.resized.size if argument.resized is not None else (height, width)
    values = dict(
        B=batch, H=height, W=width, C=channels, S=slices(channels), COUNT=batch * height * width * slices(channels)
    )
    position = [
        f"int s_ = (i_) % {name}_S",
        f"int x_ = (i_) / {name}_S % {name}_W",
        f"int y_ = (i_) / ({name}_S * {name}_W) % {name}_H",
        f"int b_ = (i_) / ({name}_S * {name}_W * {name}_H)",
    ]
    constants = [constant(f"{name}_{key}", value) for key, value in values.items()]
    return [*constants, Macro(f"POSITION_{name}", ("i_", *SLICE), "; ".join(position))]
