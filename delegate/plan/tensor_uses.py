"""The boundary tensors of GPU partitions: which of them partitions compute, copy from the CPU and read, and which
operators on the CPU read them.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..read.model import RawOperator

Key = tuple[int, int]
"""Number of the subgraph, and of the tensor in it."""


class TensorUses:
    """The uses of boundary tensors, which change only when LiteRT asks for new partitions.

    Attributes
    ----------
    computed : set of Key
        Tensors that partitions compute: their values come from the GPU, not from the CPU.
    read_on_gpu : set of Key
        Tensors that partitions read from GPU memory that earlier ones wrote.
    shared : set of Key
        Tensors that a partition copies from the CPU, and that later partitions read.
    cpu_readers : dict of Key to list of int
        The numbers of the operators on the CPU that read a tensor.
    """

    def __init__(self) -> None:
        self.computed: set[Key] = set()
        self.read_on_gpu: set[Key] = set()
        self.shared: set[Key] = set()
        self.cpu_readers: dict[Key, list[int]] = {}
        self._uploaded: set[Key] = set()
        """Tensors that a partition copies from the CPU, for all later partitions too."""

    def begin_subgraph(self, number: int, on_cpu: Iterable[RawOperator]) -> None:
        """Begin again with a subgraph, without partitions; its operators ``on_cpu`` do not run on the GPU."""
        for keys in (self.computed, self.read_on_gpu, self._uploaded, self.shared):
            keys -= {key for key in keys if key[0] == number}
        for key in [key for key in self.cpu_readers if key[0] == number]:
            del self.cpu_readers[key]
        for operator in on_cpu:
            for tensor in operator.inputs:
                self.cpu_readers.setdefault((number, tensor), []).append(operator.index)

    def add_partition(self, subgraph: int, inputs: Iterable[int], outputs: Iterable[int]) -> tuple[int, ...]:
        """Add a partition after all earlier ones, and return the inputs that it copies from the CPU.

        Partitions are added in the order in which they run. So an input that an earlier one computes, or copies from
        the CPU, is on the GPU already.
        """
        read = {(subgraph, tensor) for tensor in inputs}
        self.read_on_gpu |= read & self.computed
        self.shared |= read & self._uploaded
        keys = read - self.computed - self._uploaded
        self._uploaded |= keys
        self.computed |= {(subgraph, tensor) for tensor in outputs}
        return tuple(sorted(tensor for _, tensor in keys))

    def clear(self) -> None:
        """Forget all partitions and operators."""
        for known in (self.computed, self.read_on_gpu, self._uploaded, self.shared, self.cpu_readers):
            known.clear()
