"""Type checkers of users know every public signature."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType

from support.public_names import public_names

LITERTS_CLASSES = ("Interpreter.", "SignatureRunner.")
"""Public classes of ours whose base is LiteRT's."""


def functions() -> Iterator[tuple[str, FunctionType]]:
    """Public functions, and the public methods and properties of public classes, by their names after ``fb.``."""
    for name, value in public_names().items():
        if inspect.isfunction(value):
            yield name, value
        for each in dir(value) if inspect.isclass(value) else ():
            found = inspect.getattr_static(value, each)
            found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
            if not each.startswith("_") and isinstance(found, FunctionType):
                yield f"{name}.{each}", found


def test_every_public_signature_is_annotated() -> None:
    ours = {name: function for name, function in functions() if function.__module__.startswith("framebind")}
    found = []
    for name, function in ours.items():
        signature = inspect.signature(function)
        parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
        if inspect.Signature.empty in (signature.return_annotation, *(each.annotation for each in parameters)):
            found.append(name)
    assert len(ours) > 300 and not found


def test_methods_that_litert_has_without_types_have_types_here() -> None:
    found = {name: function.__module__ for name, function in functions() if name.startswith(LITERTS_CLASSES)}
    theirs = [name for name, module in found.items() if not module.startswith("framebind")]
    assert len(found) > 20
    assert [name for name in theirs if ".experimental_" not in name] == []
