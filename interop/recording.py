"""What every device does before it records: check each step's operands, and find where steps must wait."""

from __future__ import annotations

from collections.abc import Sequence

from ..kernels.dialect import PICTURE_PARAMETERS
from ..kernels.layout import Picture
from .device import Operand, Resource, Slot, Step
from .errors import BindingError


def check_steps(steps: Sequence[Step]) -> None:
    """Raise BindingError, naming step and argument, where an operand is missing, too small, misaligned or of a wrong
    kind.
    """
    for step in steps:
        source = step.kernel.source
        missing = {a.name for a in source.arguments} ^ set(step.operands)
        if missing:
            raise BindingError(f"step '{step.label}': operands and arguments differ in {sorted(missing)}")
        memories: dict[str, Resource | Slot] = {}
        for argument in source.arguments:
            operand = step.operands[argument.name]
            where = f"step '{step.label}', argument '{argument.name}'"
            if isinstance(argument.view, Picture):
                if len(step.parameters.get(argument.name, ())) != PICTURE_PARAMETERS:
                    raise BindingError(f"{where}: a picture takes {PICTURE_PARAMETERS} parameters")
                continue
            if memories.setdefault(argument.memory, operand.resource) != operand.resource:
                raise BindingError(f"{where}: two buffers for the one memory '{argument.memory}'")
            if operand.offset % argument.unit:
                raise BindingError(f"{where}: offset {operand.offset} is no multiple of {argument.unit} bytes")
            if operand.nbytes < argument.view.nbytes:
                raise BindingError(f"{where}: {operand.nbytes} bytes given, {argument.view.nbytes} needed")
            if not isinstance(operand.resource, Slot):
                check_resource(operand.resource, operand, where)


def check_resource(resource: Resource, operand: Operand, where: str) -> None:
    """Raise BindingError where the resource is released or ends before the operand does."""
    if resource.released:
        raise BindingError(f"{where}: '{resource.label}' is released")
    if operand.offset + operand.nbytes > resource.nbytes:
        raise BindingError(
            f"{where}: bytes {operand.offset} to {operand.offset + operand.nbytes} lie outside '{resource.label}', "
            f"which has {resource.nbytes}"
        )


def hazards(steps: Sequence[Step]) -> list[int]:
    """The steps before which a barrier is needed, in order: what they touch was touched, and one of the two wrote.

    A barrier orders everything before it, so touches are forgotten there.
    """
    barriers: list[int] = []
    touched: list[tuple[Resource | Slot, int, int, bool]] = []
    for number, step in enumerate(steps):
        touches = []
        for argument in step.kernel.source.arguments:
            operand = step.operands[argument.name]
            end = operand.offset + operand.nbytes if operand.nbytes else 1 << 62
            touches.append((operand.resource, operand.offset, end, "w" in argument.access))
        if any(_conflict(old, new) for old in touched for new in touches):
            barriers.append(number)
            touched = []
        touched += touches
    return barriers


def _conflict(old: tuple[Resource | Slot, int, int, bool], new: tuple[Resource | Slot, int, int, bool]) -> bool:
    same = old[0] is new[0] or (isinstance(old[0], Slot) and old[0] == new[0])
    return same and (old[3] or new[3]) and old[1] < new[2] and new[1] < old[2]
