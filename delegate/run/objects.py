"""The objects that a program reads and writes, and the check that none is written and read in the same run."""

from __future__ import annotations

from collections.abc import Mapping

from ...interop.arrays import share_elements
from ...interop.device import Resource
from ...interop.errors import BindingError
from ...kernels.tensor import TensorInfo
from ..plan.binding import Binding
from .messages import tensor_label


def check_objects(bindings: Mapping[int, Binding], outputs: tuple[int, ...], tensors: Mapping[int, TensorInfo]) -> None:
    """Refuse an object that is written and read (or written twice) in one run, whose order only the model decides.

    ``bindings`` has the binding of each tensor.
    """
    handles = [resource.handle for binding in bindings.values() for resource in binding.resources]
    if len(set(handles)) < len(handles):
        _refuse_written(bindings, outputs, tensors)


def _refuse_written(
    bindings: Mapping[int, Binding], outputs: tuple[int, ...], tensors: Mapping[int, TensorInfo]
) -> None:
    """Raise BindingError if an object that is an output is another tensor too."""
    places = [(tensor, frame, r) for tensor, one in bindings.items() for frame, r in enumerate(one.resources)]
    for output, frame, written in [place for place in places if place[0] in outputs]:
        for other, other_frame, resource in places:
            if (other, other_frame) != (output, frame) and _overlap(resource, written):
                part = f", frame {other_frame}" if other == output else ""
                raise BindingError(
                    f"{resource.label} is bound to {tensor_label(output, tensors[output])} and to "
                    f"tensor {other}{part}: bind another object to one of them, and swap the two between invokes"
                )


def _overlap(one: Resource, other: Resource) -> bool:
    """Whether two resources share memory. Textures do if their handles are equal; buffers may be parts of one."""
    if one.handle != other.handle:
        return False
    if one.format != "" or other.format != "":
        return True
    if one.offset >= other.offset + other.nbytes or other.offset >= one.offset + one.nbytes:
        return False
    if one.layout is None or other.layout is None:
        return True
    return share_elements(one.layout, one.offset, other.layout, other.offset)
