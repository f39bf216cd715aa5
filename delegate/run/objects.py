"""The objects that a program reads and writes, and the check that none is written and read in the same run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

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

    def put(self, tensor: int, resources: tuple[Resource, ...]) -> None:
        """Let a tensor be this object, or the objects of its planes."""
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
        for output in self._outputs:
            pairs = itertools.product(self._resources.get(output, ()), self._resources.items())
            for written, (other, resources) in pairs:
                resource = next((resource for resource in resources if _overlap(resource, written)), None)
                if resource is not None and other != output:
                    raise BindingError(
                        f"{resource.label} is bound to {tensor_label(output, self._tensors[output])} and to "
                        f"tensor {other}: bind another object to one of them, and swap the two between invokes"
                    )


def _overlap(one: Resource, other: Resource) -> bool:
    """Whether two resources are the same memory. Textures are if their handles are; of buffers there are parts."""
    if one.handle != other.handle:
        return False
    whole = one.format != "" or other.format != ""
    return whole or (one.offset < other.offset + other.nbytes and other.offset < one.offset + one.nbytes)
