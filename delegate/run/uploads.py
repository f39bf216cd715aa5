"""Uploads of a partition: the inputs that it copies from the CPU before its runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..litert.native import NativeGraph
from .boundary import BoundaryTensors


class Uploads:
    """The inputs that a partition copies from the CPU, before each run or only if their value has changed.

    ``tensors`` come from the CPU as far as no object on the GPU is bound to them. ``announced`` are those of them that
    the interpreter reports when they are set.
    """

    def __init__(self, tensors: tuple[int, ...], announced: Iterable[int]) -> None:
        self.tensors, self.announced = tensors, set(announced)
        self.once: tuple[int, ...] = ()
        """The tensors to copy before the next run only."""
        self.each_run: tuple[int, ...] = ()
        """The tensors to copy before each run."""

    def plan(
        self, tensors: Iterable[int], *, constant: Collection[int], arrays: Collection[int], changed: Collection[int]
    ) -> None:
        """Divide ``tensors``, those that the program reads from the CPU.

        The ones that depend on constants alone, and the announced ones, keep their value until a change is reported,
        unless they are ``arrays`` of the user. They are copied once, if their buffer has ``changed`` or that copy was
        still to come. All others are copied before each run.
        """
        lasting = {*constant, *self.announced}.difference(arrays)
        once, each_run = list[int](), list[int]()
        for tensor in tensors:
            if tensor not in lasting:
                each_run.append(tensor)
            elif tensor in changed or tensor in self.once:
                once.append(tensor)
        self.once, self.each_run = tuple(once), tuple(each_run)

    def value_set(self, tensor: int) -> None:
        """Copy an announced tensor before the next run, because it was set."""
        if tensor in self.announced and tensor not in self.once:
            self.once = (*self.once, tensor)

    def shown(self, tensor: int) -> bool:
        """Take a tensor for an unannounced one, because a view of its memory was given away. False if it is one."""
        if tensor not in self.announced:
            return False
        self.announced.remove(tensor)
        return True

    def run(self, boundary: BoundaryTensors, native: NativeGraph) -> None:
        """Copy what the next run needs."""
        if self.once:
            for tensor in self.once:
                boundary.upload(native, tensor)
            self.once = ()
        for tensor in self.each_run:
            boundary.upload(native, tensor)
