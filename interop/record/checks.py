"""Checks of steps and slots: every device makes them before it records and before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...kernels.codegen.source import Argument, KernelSource
from ...kernels.views import SAMPLE_BYTES, Picture, Plane, parameter_count
from ..device import Operand, Resource, Slot, Step, Traits
from ..errors import BindingError


@dataclass
class SlotUse:
    """A slot of a command list: its present resource, and the places that use it.

    A place is a step number, an argument, its operand, and the names of both for messages.
    """

    name: str
    resource: Resource | None = None
    places: list[tuple[int, Argument, Operand, str]] = field(default_factory=list)
    checked: bool = False
    """True if the resource fits the parameters of the steps that use it. ``check_slot`` sets it."""


def check_formats(source: KernelSource, traits: Traits) -> None:
    """Raise BindingError if a kernel writes textures of a format that the device cannot write."""
    for argument in source.textures:
        assert isinstance(argument.view, Picture | Plane)
        if argument.access != "r" and argument.view.format not in traits.write_formats:
            known = ", ".join(sorted(traits.write_formats)) or "none at all"
            raise BindingError(
                f"{traits.api} cannot write {argument.view.format} textures: bind one of {known} for writing"
            )


def check_steps(steps: Sequence[Step]) -> None:
    """Raise BindingError, naming step and argument, if an operand is missing, too small, misaligned or of a wrong
    kind.
    """
    for step in steps:
        source = step.kernel.source
        missing = {a.name for a in source.arguments if a.has_memory} ^ set(step.operands)
        if missing:
            raise BindingError(f"step '{step.label}': operands and arguments differ in {sorted(missing)}")
        memories: dict[str, Resource | Slot] = {}
        for argument in source.arguments:
            where, count = f"step '{step.label}', argument '{argument.name}'", parameter_count(argument.view)
            if len(step.parameters.get(argument.name, ())) != count:
                raise BindingError(f"{where}: it takes {count} parameters")
            if argument.is_texture or not argument.has_memory:
                continue
            operand = step.operands[argument.name]
            if memories.setdefault(argument.memory, operand.resource) != operand.resource:
                raise BindingError(f"{where}: two buffers for the one memory '{argument.memory}'")
            if operand.offset % argument.unit:
                raise BindingError(f"{where}: offset {operand.offset} is no multiple of {argument.unit} bytes")
            if operand.nbytes < argument.view.nbytes:
                raise BindingError(f"{where}: {operand.nbytes} bytes given, {argument.view.nbytes} needed")
            if not isinstance(operand.resource, Slot):
                check_resource(operand.resource, operand, where)


def check_resource(resource: Resource, operand: Operand, where: str) -> None:
    """Raise BindingError if the resource is released or ends before the operand does."""
    if resource.released:
        raise BindingError(f"{where}: '{resource.label}' is released")
    if operand.offset + operand.nbytes > resource.nbytes:
        raise BindingError(
            f"{where}: bytes {operand.offset} to {operand.offset + operand.nbytes} lie outside '{resource.label}', "
            f"which has {resource.nbytes}"
        )


def check_view(resource: Resource, argument: Argument, traits: Traits, where: str) -> None:
    """Raise BindingError if the resource is of another kind, size or format than the argument's view takes."""
    if not argument.is_texture:
        if resource.format:
            raise BindingError(f"{where}: '{resource.label}' is a texture, and a buffer is needed")
        if resource.nbytes > traits.max_buffer_bytes:
            raise BindingError(
                f"{where}: '{resource.label}' has {resource.nbytes} bytes, and kernels on {traits.name} "
                f"address at most {traits.max_buffer_bytes}"
            )
        return
    assert isinstance(argument.view, Picture | Plane)
    if not resource.format:
        raise BindingError(f"{where}: '{resource.label}' is a buffer, and a texture is needed")
    if resource.format != argument.view.format:
        raise BindingError(f"{where}: '{resource.label}' is {resource.format}, and {argument.view.format} is needed")


def check_slot(use: SlotUse, parameters: Sequence[Mapping[str, Any]]) -> None:
    """Raise BindingError if a slot is empty, or its resource is released or of another size than ``parameters`` say.

    ``parameters`` are, per step and argument, the floats that the step passes (kernels/views.py: picture_parameters).
    """
    resource = use.resource
    if resource is None:
        raise BindingError(f"nothing is bound to '{use.name}': bind a texture or a buffer before running")
    if resource.released:
        raise BindingError(f"'{resource.label}', bound to '{use.name}', is released: bind another one")
    if use.checked:
        return
    for number, argument, operand, where in use.places:
        view = argument.view
        if isinstance(view, Plane):
            plane = parameters[number][argument.picture][16 + 4 * argument.number :][:4]
            _check_plane(view, plane, resource, operand.offset, where)
        elif isinstance(view, Picture):
            given = parameters[number][argument.name]
            _check_size(resource, (given[3], given[7]), where)
    use.checked = True


def _check_plane(view: Plane, plane: Sequence[float], resource: Resource, offset: int, where: str) -> None:
    """Raise BindingError if a plane ends behind its buffer, or its texture has another size. See plane_parameters."""
    width, height, pitch, first_row = map(int, plane)
    if view.is_texture:
        _check_size(resource, (width, height), where)
        return
    needed = (first_row + height - 1) * pitch + (width - 1) * view.step + view.lanes
    if offset + needed * SAMPLE_BYTES[view.format] > resource.nbytes:
        raise BindingError(
            f"{where}: '{resource.label}' has {resource.nbytes} bytes, and its parameters were made for {needed} "
            f"numbers of type {view.format}: set them for its size"
        )


def _check_size(resource: Resource, size: tuple[float, float], where: str) -> None:
    if size != resource.size:
        raise BindingError(
            f"{where}: '{resource.label}' is {resource.size[0]}x{resource.size[1]}, and its parameters were made for "
            f"{size[0]:.0f}x{size[1]:.0f}: set them for its size"
        )
