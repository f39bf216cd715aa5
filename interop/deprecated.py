"""Old names and old arguments: they work for one more release, with a warning that says what to write instead."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

SINCE, GONE = "0.2.0", "0.3.0"
"""The release that deprecated the present old names, and the one in which they go away (docs/deprecated.md)."""
F = TypeVar("F", bound=Callable[..., Any])
Translate = Callable[[Any, Sequence[Any], Mapping[str, Any]], "dict[str, Any] | None"]
"""Turns old arguments (of the object, by position, by name) into new ones by name; None if they are new already."""

_DTYPES, _CONTEXTS = (str, type, np.dtype), {"queue", "context"}
"""Types that name a dtype, and the names of an argument that new calls do not have."""


def warn_deprecated(old: str, new: str) -> None:
    """Tell the caller of the function that calls this one what to write instead of something old.

    Parameters
    ----------
    old, new : str
        What the caller wrote, and what to write in its place.
    """
    message = f"{old} is deprecated since framebind {SINCE} and goes away in {GONE}: use {new}"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def accepts_old(translate: Translate, new: str) -> Callable[[F], F]:
    """Let a method take its old arguments too, with a DeprecationWarning that names ``new``, the call as it is now."""

    def decorate(method: F) -> F:
        @functools.wraps(method)
        def call(self: Any, *given: Any, **named: Any) -> Any:
            arguments = translate(self, given, named)
            if arguments is None:
                return method(self, *given, **named)
            owner = self if isinstance(self, type) else type(self)
            words = [type(value).__name__ for value in given] + [f"{name}=..." for name in named]
            warn_deprecated(f"{owner.__name__}.{method.__name__}({', '.join(words)})", f"{method.__name__}{new}")
            return method(self, **arguments)

        return cast(F, call)

    return decorate


def old_write(memory: Any, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments of ``write(array, reason, offset)``, also after a queue or context. See Translate."""
    if len(given) < 2 and not _names_context(named) and not (given and "array" in named):
        return None
    return _without_context(("array", "reason", "offset"), given, named)


def old_read(memory: Any, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments of a buffer's ``read(dtype, reason)``, a texture's ``read(reason)`` and ``read(queue, array, reason,
    offset)``, where a context may be in place of the queue. See Translate.
    """
    is_dtype = "dtype" in named or (bool(given) and isinstance(given[0], _DTYPES))
    if is_dtype and memory.format:
        return {"reason": given[0], **named}
    if is_dtype:
        arguments = dict(zip(("dtype", "reason"), given, strict=False)) | dict(named)
        dtype = np.dtype(arguments.pop("dtype"))
        return {"out": np.empty(memory.nbytes // dtype.itemsize, dtype), **arguments}
    if len(given) < 2 and _CONTEXTS.isdisjoint(named) and "array" not in named:  # each frame comes here
        return None
    arguments = _without_context(("array", "reason", "offset"), given, named)
    return {"out": arguments.pop("array"), **arguments}


def old_empty(*names: str) -> Translate:
    """Arguments of ``empty(context, ...)``, with those that follow the context. The new call uses the current one."""

    def translate(cls: Any, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any] | None:
        if not _names_context(named) and (not given or not hasattr(given[0], "make_current")):
            return None
        rest = given if _names_context(named) else given[1:]
        return dict(zip(names, rest, strict=False)) | {name: v for name, v in named.items() if name != "context"}

    return translate


def _names_context(named: Mapping[str, Any]) -> bool:
    return not _CONTEXTS.isdisjoint(named)


def _without_context(names: Sequence[str], given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name, without a queue or context that comes first or by its name."""
    has_context = bool(given) and not _names_context(named) and (len(given) < 2 or not isinstance(given[1], str))
    by_position = zip(names, given[1:] if has_context else given, strict=False)
    return dict(by_position) | {name: value for name, value in named.items() if name not in ("queue", "context")}
