"""Steps of a program: for each launch, the kernel source for its tensors' views, and the operands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...interop.device import Kernel, Operand, Resource, Slot, Step
from ...kernels.codegen.source import Argument, FusedTexts, KernelSource, Prologue
from ...kernels.operation import FusedOp
from ...kernels.ops.pointwise.elementwise import EXPRESSIONS
from ...kernels.ops.pointwise.integers import INTEGER_EXPRESSIONS
from ...kernels.tensor import TensorId
from ...kernels.views import (
    Access,
    Local,
    PlanePicture,
    Sampled,
    Sliced,
    Table,
    pairs_of_channels,
    plane_name,
    region_name,
)
from ..lower.launches import EPILOGUE, GATE, VALUES, LabelledLaunch
from .placement import Layout, frame_of

INPUT_OP, PARTIAL_SUM = "read", "partial_sums"
"""The names of the operands of input ops, and of the ops before partial sums: with a number behind."""


def build_steps(
    layout: Layout, memories: Mapping[str, Resource], compile: Callable[[KernelSource], Kernel]
) -> list[Step]:
    """A step for each launch of a layout. ``compile`` makes or finds a kernel; ``memories`` are the buffers that are no
    slots.
    """
    steps: list[Step] = []
    for number, entry in enumerate(layout.launches):
        bound = list(_Binder(entry, layout, memories).arguments())
        source = _kernel_source(entry, [argument for argument, _, _ in bound], layout.lowered.target.group_size)
        operands = {argument.name: operand for argument, operand, _ in bound if operand is not None}
        parameters = {argument.name: values for argument, _, values in bound if values}
        label = f"{number} {entry.label}"
        steps.append(Step(compile(source), operands, entry.launch.group_count, label, parameters))
    return steps


class _Bound(NamedTuple):
    """An argument of a kernel, its memory, and a picture's parameters. Arguments in local memory, and a picture in
    planes, have no memory of their own.
    """

    argument: Argument
    operand: Operand | None
    parameters: tuple[float, ...] = ()


@dataclass(frozen=True)
class _Binder:
    """Finds the arguments of a launch's kernel, and the memory of each."""

    entry: LabelledLaunch
    layout: Layout
    memories: Mapping[str, Resource]

    def arguments(self) -> Iterator[_Bound]:
        """All arguments, in the kernel's order."""
        launch, prologue = self.entry.launch, self.entry.prologue
        destination = self.entry.destination
        for name, tensor in launch.reads.items():
            bound = self._tensor(name, tensor, beside=destination if name in launch.broadcast else None)
            yield bound
            view = bound.argument.view
            if isinstance(view, PlanePicture):
                yield from self._planes(name, tensor, view)
            if isinstance(view, Sampled) and view.region:
                yield self._region(name, tensor, view.region)
        for name, tensor in launch.writes.items():
            yield self._tensor(name, tensor, access="w")
        for name, array in self.entry.arrays.items():
            yield self._array(name, array.rows)
        yield from self._operands(EPILOGUE, self.entry.epilogue, beside=destination)
        if self.entry.input_ops:
            yield from self._operands(INPUT_OP, self.entry.input_ops, beside=launch.reads["src"])
        yield from self._operands(PARTIAL_SUM, self.entry.partial_sums or (), beside=destination)
        if prologue is not None:
            yield self._tensor(GATE, prologue.tensor, access="w")
            yield from self._operands(GATE, prologue.epilogue, beside=prologue.tensor)

    def _operands(self, name: str, ops: Sequence[FusedOp], *, beside: TensorId) -> Iterator[_Bound]:
        """The second tensors of fused operations, named by number."""
        for number, op in enumerate(ops):
            if op.operand is not None:
                yield self._tensor(f"{name}{number}", op.operand, beside=beside, max_pool_2x2=op.max_pool_2x2)

    def _tensor(
        self,
        name: str,
        tensor: TensorId,
        *,
        access: Access = "r",
        beside: TensorId | None = None,
        max_pool_2x2: bool = False,
    ) -> _Bound:
        """A tensor as an argument. ``beside`` is the tensor to whose shape it broadcasts, if it does."""
        layout, prologue = self.layout, self.entry.prologue
        channels = layout.shape(tensor)[3]
        wide = 0 if beside is None else layout.shape(beside)[3]
        broadcast, extended = channels == 1 < wide, 1 < channels < wide
        if prologue is not None and tensor == prologue.tensor:
            vector = Local(layout.shape(tensor))
            return _Bound(
                Argument(name, vector, access, GATE, broadcast_channel=broadcast, zero_extended=extended), None
            )
        place = layout.place(tensor, access)
        if name == "src" and self.entry.launch.multiplies_bytes:
            assert isinstance(place.view, Sliced) and place.view.storage == "u8"
            place = replace(place, view=pairs_of_channels(place.view))
        # Copies of frames are one kernel, whose memory is another slot for each.
        memory = place.memory if frame_of(tensor) is None else layout.slot(tensor)
        argument = Argument(
            name, place.view, access, memory, broadcast_channel=broadcast, zero_extended=extended,
            max_pool_2x2=max_pool_2x2, resized=self.entry.launch.resize if name == "src" else None,
        )  # fmt: skip
        resource = self.memories.get(place.memory) or Slot(place.memory)
        is_picture = isinstance(place.view, Sampled)
        parameters = layout.bound(tensor).parameters if is_picture else ()
        operand = Operand(resource, place.offset, place.view.nbytes) if argument.has_memory else None
        return _Bound(argument, operand, parameters)

    def _planes(self, name: str, tensor: TensorId, view: PlanePicture) -> Iterator[_Bound]:
        """The planes of a picture that is bound to a tensor, each in the slot of its object."""
        layout, frame = self.layout, frame_of(tensor)
        for number, (plane, memory) in enumerate(zip(view.planes, view.memories, strict=True)):
            slot = layout.slot(tensor, memory)
            argument = Argument(plane_name(name, number), plane, "r", slot, picture=name, number=number)
            yield _Bound(argument, Operand(Slot(layout.slot(tensor, memory, frame))))

    def _region(self, name: str, tensor: TensorId, memory: int) -> _Bound:
        """The buffer that says where a picture's region is, in the slot of its object. A parameter has the row."""
        layout, table = self.layout, Table(2)
        argument = Argument(region_name(name), table, "r", layout.slot(tensor, memory))
        slot = Slot(layout.slot(tensor, memory, frame_of(tensor)))
        return _Bound(argument, Operand(slot, nbytes=table.nbytes))

    def _array(self, name: str, rows: int) -> _Bound:
        """An array of the launch's own, which lies among the constants."""
        constant = self.layout.constants[self.entry.number, name]
        argument = Argument(name, Table(rows, constant.storage), "r", "weights")
        return _Bound(argument, Operand(self.memories["weights"], constant.offset, constant.nbytes))


def picture_slots(steps: Sequence[Step]) -> dict[str, list[tuple[int, str]]]:
    """The steps, by number, and their arguments that take a picture's parameters, by the slot of its first object."""
    found: dict[str, list[tuple[int, str]]] = {}
    for number, step in enumerate(steps):
        for argument in step.kernel.source.pictures:
            view, name = argument.view, argument.name
            first = plane_name(name, view.memories.index(0)) if isinstance(view, PlanePicture) else name
            slot = step.operands[first].resource
            if isinstance(slot, Slot):
                found.setdefault(slot.name, []).append((number, name))
    return found


def _kernel_source(entry: LabelledLaunch, arguments: Sequence[Argument], group_size: int) -> KernelSource:
    launch, prologue, sums = entry.launch, entry.prologue, entry.partial_sums
    in_memory = tuple(argument for argument in arguments if not isinstance(argument.view, Local))
    vectors = tuple(argument for argument in arguments if isinstance(argument.view, Local))
    return KernelSource(
        launch.kernel, in_memory, group_size, launch.group_count, tuple(launch.constants.items()), launch.local,
        epilogue=_texts(EPILOGUE, entry.epilogue, INTEGER_EXPRESSIONS if entry.integers else EXPRESSIONS),
        input_ops=_texts(INPUT_OP, entry.input_ops),
        partial_sums=None if sums is None else _texts(PARTIAL_SUM, sums),
        prologue=None if prologue is None else Prologue(prologue.kernel, vectors, _texts(GATE, prologue.epilogue)),
        integers=entry.integers,
    )  # fmt: skip


def _texts(name: str, ops: Sequence[FusedOp], expressions: Mapping[str, str] = EXPRESSIONS) -> FusedTexts:
    """Fused operations as text, each with the name of its operand."""
    return tuple(
        (
            _expression(expressions[op.expression], op, f"LOAD4_{name}{VALUES}{i}(0)"),
            f"{name}{i}" if op.operand is not None else "",
        )
        for i, op in enumerate(ops)
    )


def _expression(expression: str, op: FusedOp, values: str) -> str:
    """The expression in v and w; swapped, the written value is the right-hand operand. ``values`` stands for p."""
    text = re.sub(r"\bp\b", values, expression)
    if not op.swapped:
        return text
    return re.sub(r"\b[vw]\b", lambda found: "w" if found[0] == "v" else "v", text)
