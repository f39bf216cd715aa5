"""Variable tensors whose value stays on the GPU from one run to the next."""

from __future__ import annotations

import numpy as np

from ...interop.device import Device, Resource
from ..litert.native import NativeGraph

MARK = 0x7FC0F8B1
"""The bits of a NaN in float32 that no computation and no initial value leaves in every element."""


class VariableState:
    """A float32 variable tensor: LiteRT's memory of it, and the buffer that programs read and write.

    LiteRT resets variables in its own memory without telling the delegate. So after a run that memory is filled with
    MARK. If it still holds MARK before the next run, the GPU has the value, and nothing is copied. Otherwise LiteRT or
    the user has written a new value.
    """

    def __init__(self, device: Device, graph: NativeGraph, tensor: int) -> None:
        self._device, self._graph, self._tensor = device, graph, tensor
        self._label = f"tensor {tensor} '{graph.subgraph.tensors[tensor].name}'"
        self._buffer: Resource | None = None
        self._left = np.empty(0, np.uint8)
        self._marked = False

    @property
    def _on_gpu(self) -> bool:
        """Whether the buffer holds the value, which LiteRT's memory may hold too."""
        return self._buffer is not None and self._graph.holds(self._tensor, self._left)

    @property
    def is_readable(self) -> bool:
        """Whether LiteRT's memory holds the value."""
        return not (self._marked and self._on_gpu)

    def before_run(self, buffer: Resource) -> None:
        """Copy the value to ``buffer``, counted, if it was set since the last run."""
        if self._buffer is buffer and self._on_gpu:
            return
        self._buffer, self._marked = None, False  # until a run has ended well
        self._device.write(buffer, self._graph.array(self._tensor), f"state {self._label} from the CPU")

    def after_run(self, buffer: Resource) -> None:
        """Note that the program has written the buffer."""
        self._buffer = buffer
        if not self._marked:
            array = self._graph.array(self._tensor)
            self._left = np.full(array.size, MARK, np.uint32).view(np.uint8)
            self._fill()
            self._marked = True
        self._graph.mark_stale(self._tensor)

    def download(self) -> None:
        """Copy the value to LiteRT's memory, counted, unless it is there."""
        if not self.is_readable:
            assert self._buffer is not None
            values = np.empty(self._graph.array(self._tensor).shape, np.float32)
            self._device.read(self._buffer, values, f"state {self._label} to the CPU")
            self._left = values.reshape(-1).view(np.uint8)
            self._fill()
            self._marked = False
        self._graph.mark_current(self._tensor)

    def _fill(self) -> None:
        array = self._graph.array(self._tensor)
        array[...] = self._left.view(array.dtype).reshape(array.shape)
