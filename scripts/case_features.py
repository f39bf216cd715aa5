"""Features of kernel sources: the facts that a test run can reach, at three levels of detail. For covers.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from framebind.kernels.codegen.source import Argument, KernelSource
from framebind.tools.certify.cases.operator_models import Const, ModelCase

Feature = tuple[Any, ...]
"""A kernel's or an operator's name, then a fact about it: ("conv", "src", "channels % 4", 1)."""
SMALL = 4
"""Constants up to this value count as different values; larger ones are sizes, and count as one value."""


def features(sources: Iterable[KernelSource]) -> set[Feature]:
    """Every single fact about the kernels: arguments, constants, and operations fused into their loads and stores."""
    found: set[Feature] = set()
    for source in sources:
        found |= {(source.name, *fact) for argument in source.arguments for fact in _facts(argument)}
        found |= {(source.name, name, _class_of(value)) for name, value in source.constants}
        found |= {(source.name, "epilogue", text) for text, _ in source.epilogue}
        found |= {(source.name, "input ops", text) for text, _ in source.input_ops}
        found.add((source.name, "epilogue length", len(source.epilogue)))
        found.add((source.name, "integers", source.integers))
    return found


def option_features(case: ModelCase, rank_class: Callable[[int], int] = int) -> set[Feature]:
    """The facts about the operator as the model has it: options, and each input's kind, type and class of rank.

    Each rank is a class of its own unless ``rank_class`` says otherwise.
    """
    options = vars(case.options) if case.options is not None else {}
    found: set[Feature] = {(case.operator, "option", name, _class_of(value)) for name, value in options.items()}
    for position, given in enumerate(case.inputs):
        kind = "absent" if given is None else "constant" if isinstance(given, Const) else "computed"
        found.add((case.operator, "input", position, kind))
        array = given.values if isinstance(given, Const) else given
        if array is not None:
            found.add((case.operator, "input", position, str(array.dtype), rank_class(array.ndim)))
    return found | {(case.operator, "outputs", min(case.outputs, 3)), (case.operator, "output", case.dtype)}


def signatures(sources: Iterable[KernelSource]) -> set[Feature]:
    """The kernels as a compiler distinguishes them, without sizes: all arguments with views and flags at once; then
    each storage of an argument, each switch and each fused expression.
    """
    found: set[Feature] = set()
    for source in sources:
        arguments = tuple((_name(a), type(a.view).__name__, *_flags(a)) for a in source.arguments)
        found |= {(source.name, arguments), (source.name, len(source.input_ops), len(source.epilogue))}
        found |= {(source.name, _name(a), _kind(a)) for a in source.arguments}
        found |= {(source.name, name, value) for name, value in source.constants if value in (0, 1)}
        found |= {(source.name, text) for text, _ in (*source.input_ops, *source.epilogue)}
        found.add((source.name, "integers", source.integers))
    return found


def outlines(sources: Iterable[KernelSource]) -> set[Feature]:
    """The kernels by name, for floats and for integers; and separately the views and types that they read and write."""
    found: set[Feature] = {(source.name, "integers", source.integers) for source in sources}
    return found | {(_kind(argument), argument.access) for source in sources for argument in source.arguments}


def _name(argument: Argument) -> str:
    return "epilogue operand" if argument.name.startswith("epilogue") else argument.name


def _kind(argument: Argument) -> str:
    view: Any = argument.view
    return " ".join([type(view).__name__, getattr(view, "storage", "") or getattr(view, "dtype", "")]).strip()


def _flags(argument: Argument) -> list[str]:
    flags = {
        "broadcast channel": argument.broadcast_channel,
        "zero extended": argument.zero_extended,
        "max pool": argument.max_pool_2x2,
        "resized": argument.resized is not None,
    }
    return [name for name, is_set in flags.items() if is_set]


def _facts(argument: Argument) -> Iterable[Feature]:
    name, view = _name(argument), argument.view
    yield name, "view", _kind(argument)
    for flag in _flags(argument):
        yield name, flag
    shape = getattr(view, "shape", None)
    if shape is not None:
        yield name, "channels % 4", shape[3] % 4
        yield name, "channels > 4", shape[3] > 4
        yield name, "batch > 1", shape[0] > 1
        if argument.access == "r":
            yield name, "larger than one", tuple(size > 1 for size in shape[:3])


def _class_of(value: Any) -> Any:
    if isinstance(value, int | float) and abs(value) > SMALL:
        return "large"
    return value if isinstance(value, int | float | str | bytes) else str(value)
