"""The objects that a program reads and writes, and the check that none is written and read in the same run."""

from __future__ import annotations

from collections.abc import Mapping

from ...interop.arrays import share_elements
from ...interop.device import Resource
from ...interop.errors import BindingError
from ...kernels.tensor import TensorInfo
from .messages import tensor_label


class ObjectsInUse:
    """The objects that are bound to a program's tensors, by tensor.

    ``changed``: there are others than at the last ``check``.
    """

    def __init__(self, outputs: tuple[int, ...], tensors: Mapping[int, TensorInfo]) -> None:
        self.changed = False
        self._outputs, self._tensors = outputs, tensors
        self._resources: dict[int, tuple[Resource, ...]] = {}
        """By tensor: the object, or those of its planes or frames."""

    def put(self, tensor: int, resources: tuple[Resource, ...]) -> None:
        """Let a tensor be this object, or the objects of its planes or frames."""
        self._resources[tensor] = resources
        self.changed = True

    def clear(self) -> None:
        """Let no tensor be an object."""
        self._resources.clear()

    def check(self) -> None:
        """Refuse one object that is written and read (or written twice) in a run: the order is the model's own."""
        handles = [resource.handle for resources in self._resources.values() for resource in resources]
        if len(set(handles)) < len(handles):
            self._refuse_written()
        self.changed = False

    def _refuse_written(self) -> None:
        """Raise BindingError if an object that is an output is another tensor too."""
        places = [(tensor, frame, r) for tensor, part in self._resources.items() for frame, r in enumerate(part)]
        for output, frame, written in [place for place in places if place[0] in self._outputs]:
            for other, other_frame, resource in places:
                if (other, other_frame) != (output, frame) and _overlap(resource, written):
                    part = f", frame {other_frame}" if other == output else ""
                    raise BindingError(
                        f"{resource.label} is bound to {tensor_label(output, self._tensors[output])} and to "
                        f"tensor {other}{part}: bind another object to one of them, and swap the two between invokes"
                    )


def _overlap(one: Resource, other: Resource) -> bool:
    """Whether two resources share memory. Textures do if their handles are equal; of buffers there are parts."""
    if one.handle != other.handle:
        return False
    if one.format != "" or other.format != "":
        return True
    if one.offset >= other.offset + other.nbytes or other.offset >= one.offset + one.nbytes:
        return False
    if one.layout is None or other.layout is None:
        return True
    return share_elements(one.layout, one.offset, other.layout, other.offset)
