"""framebind's errors, raised instead of LiteRT's exceptions, which only have their text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..interop.errors import DelegateError, FramebindError, ModelError
from .gpu_delegate import GpuDelegate
from .litert.python_layer import is_about_the_model, text_of


@contextmanager
def application_errors(delegate: Any) -> Iterator[None]:
    """Raise the error of a delegate's callbacks if applying it in this block fails, and detach the delegate."""
    try:
        yield
    except FramebindError:
        raise
    except (RuntimeError, ValueError) as error:
        original = None
        if isinstance(delegate, GpuDelegate):
            original = delegate.engine.take_error()
            delegate.engine.detach()
        raise original or DelegateError(f"LiteRT does not apply the delegate: {text_of(error)}") from error


@contextmanager
def own_errors(delegate: GpuDelegate | None, action: str) -> Iterator[None]:
    """Raise the error of the delegate's callbacks instead of LiteRT's exception with its text, or a ModelError.

    ``action`` names LiteRT's action in this block, for the message.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise_own(delegate, error, action)
        raise
    raise_own(delegate, None, action)


def raise_own(delegate: GpuDelegate | None, cause: Exception | None, action: str) -> None:
    """Raise the error that ``own_errors`` raises after LiteRT raised ``cause``, if there is one."""
    original = delegate.engine.take_error() if delegate is not None else None
    if original is not None:
        raise original from cause
    if cause is not None and is_about_the_model(cause):
        cure = "; call allocate_tensors() first, also after resize_tensor_input()" if _NOT_READY in str(cause) else ""
        raise ModelError(f"LiteRT cannot {action} the model: {text_of(cause)}{cure}") from cause


_NOT_READY = "model that is not ready"
"""Words in LiteRT's errors if tensors are not allocated."""
