"""The work of a step: bytes that it moves and multiply-adds that it computes, from the shapes of its arguments."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...interop.device import Step
from ...kernels.views import Plane, Sampled, Table


class Work(NamedTuple):
    """The work of one step, at least: ``nbytes`` are those of each argument, read or written once.

    ``multiply_adds`` are those of convolutions and matrix products with constant weights.
    """

    nbytes: int
    multiply_adds: int


def work_of(step: Step, picture_bytes: int | None = None) -> Work:
    """The work of a step. A picture counts as ``picture_bytes``, or else as 4 bytes for each pixel of its tensor.

    Every weight is used once per pixel of the output; of a transposed convolution, once per pixel of the input.
    """
    source = step.kernel.source
    views = {argument.name: argument.view for argument in source.arguments}
    counted = views["src"] if source.name == "transpose_conv" else views.get("dst")
    pixels = 0 if counted is None or isinstance(counted, Table | Plane) else math.prod(counted.shape[:3])
    factors = sum(4 * v.count for name, v in views.items() if isinstance(v, Table) and name.endswith("weights"))
    pictures = [view for view in views.values() if isinstance(view, Sampled)]
    sampled = sum(4 * math.prod(view.shape[1:3]) if picture_bytes is None else picture_bytes for view in pictures)
    return Work(sum(view.nbytes for view in views.values()) + sampled, pixels * factors)
