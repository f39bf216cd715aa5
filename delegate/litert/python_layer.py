"""LiteRT's Python layer, made safe: its exceptions become framebind's errors, and its records can always be made.

That layer fails at some names and types that files may have: it turns C++ text into str, which raises
UnicodeDecodeError at a name that is not UTF-8, and types into NumPy's, which has no int4. Its exceptions only have the
text of the errors that a delegate's callbacks raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from ...interop.errors import DelegateError, FramebindError, ModelError
from ..read.model import Model
from ..read.names import printable

_MAX_LENGTH = 2000
"""The most characters of LiteRT's text in a message: LiteRT adds the reports of all nodes to it."""


_NO_TEXT = "LiteRT's reason has characters that are not UTF-8, and Python before 3.11 loses it"


def text_of(error: Exception) -> str:
    """LiteRT's text behind an exception of its Python layer, in printable form.

    Before Python 3.11 a text that is not UTF-8 is lost on its way through LiteRT's Python layer.
    """
    raw = error.object if isinstance(error, UnicodeDecodeError) else str(error)
    text = raw if isinstance(raw, str) else bytes(raw).decode("utf-8", "backslashreplace")
    return printable(" ".join(text.split("\n")).strip())[:_MAX_LENGTH] or _NO_TEXT


_ABOUT_ARGUMENTS = ("num_threads", "op resolver", "Looking up symbol", "custom_op_registerers")
"""Words in the ValueErrors that LiteRT's interpreter raises for its arguments, not for the model."""


@contextmanager
def check_taken() -> Iterator[None]:
    """Raise a ModelError if LiteRT refuses the model while it makes an interpreter in this block."""
    try:
        yield
    except ValueError as error:
        if any(words in str(error) for words in _ABOUT_ARGUMENTS):
            raise
        text = text_of(error)
        raise ModelError(f"LiteRT does not take the model: {text} {_cure(text)}") from error


def _cure(text: str) -> str:
    """Advice for the user of a model that LiteRT refused with this text."""
    if "Didn't find op" not in text:
        return "Download the file again"
    if "'STABLEHLO_" in text:  # what a converter could not translate; LiteRT has kernels for few of these
        return "The converter found no other operator for this layer: replace the layer, and convert the model again"
    return "Install a newer ai-edge-litert, or convert the model for this one"


def is_about_the_model(error: Exception) -> bool:
    """Whether LiteRT raised the exception because it cannot prepare or run the model.

    It raises ValueError for wrong arguments, and a RuntimeError of its own if an array still shows its memory.
    """
    if isinstance(error, FramebindError) or "reference to internal data" in str(error):
        return False
    return isinstance(error, (RuntimeError, UnicodeDecodeError))


class _Engine(Protocol):
    def take_error(self) -> BaseException | None: ...
    def detach(self) -> None: ...


class _Delegate(Protocol):
    """A GpuDelegate: the engine behind it has the errors of its callbacks."""

    @property
    def engine(self) -> _Engine: ...


@contextmanager
def application_errors(delegate: _Delegate | None) -> Iterator[None]:
    """Raise the error of a delegate's callbacks if applying it in this block fails, and detach the delegate.

    None is a delegate that is not framebind's.
    """
    try:
        yield
    except FramebindError:
        raise
    except (RuntimeError, ValueError) as error:
        original = None
        if delegate is not None:
            original = delegate.engine.take_error()
            delegate.engine.detach()
        raise original or DelegateError(f"LiteRT does not apply the delegate: {text_of(error)}") from error


@contextmanager
def own_errors(delegate: _Delegate | None, action: str) -> Iterator[None]:
    """Raise the error of the delegate's callbacks instead of LiteRT's exception with its text, or a ModelError.

    ``action`` names LiteRT's action in this block, for the message.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise_own(delegate, error, action)
        raise
    raise_own(delegate, None, action)


def raise_own(delegate: _Delegate | None, cause: Exception | None, action: str) -> None:
    """Raise the error that ``own_errors`` raises after LiteRT raised ``cause``, if there is one."""
    original = delegate.engine.take_error() if delegate is not None else None
    if original is not None:
        raise original from cause
    if cause is not None and is_about_the_model(cause):
        cure = "; call allocate_tensors() first, also after resize_tensor_input()" if NOT_READY in str(cause) else ""
        raise ModelError(f"LiteRT cannot {action} the model: {text_of(cause)}{cure}") from cause


NOT_READY = "model that is not ready"
"""Words in LiteRT's errors if tensors are not allocated."""


def describe_tensor(native: Any, model: Model, tensor: int, subgraph: int) -> dict[str, Any]:
    """The record that ``Interpreter.get_tensor_details`` has of a tensor, if LiteRT fails to make it.

    The name is printable. A type that NumPy lacks is ml_dtypes' type, or else ``np.void``.
    """
    info = model.subgraphs[subgraph].tensors[tensor]
    scales, zero_points, dimension, block_size = native.TensorQuantizationParameters(tensor, subgraph)
    return {
        "name": info.name,
        "index": tensor,
        "shape": native.TensorSize(tensor, subgraph),
        "shape_signature": native.TensorSizeSignature(tensor, subgraph),
        "dtype": _numpy_type(native, info.dtype.removeprefix("sparse "), tensor, subgraph),
        "quantization": native.TensorQuantization(tensor, subgraph),
        "quantization_parameters": {
            "scales": scales,
            "zero_points": zero_points,
            "quantized_dimension": dimension,
            "block_size": block_size,
        },
        "sparsity_parameters": native.TensorSparsityParameters(tensor, subgraph),
    }


def _numpy_type(native: Any, dtype: str, tensor: int, subgraph: int) -> Any:
    try:
        return native.TensorType(tensor, subgraph)
    except ValueError:
        return getattr(ml_dtypes, dtype, np.void)
