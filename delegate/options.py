"""What a user may ask of the GPU delegate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..interop.errors import DelegateError
from ..kernels.layout import Storage

BACKENDS = ("auto", "opengl", "opencl")


@dataclass(frozen=True)
class GpuDelegateOptions:
    """Options of ``GpuDelegate``. Raises DelegateError for values that do not exist.

    ``backend``: the API that runs the model. "opengl" and "opencl" run in the GlContext or ClContext that is current on
    the thread where the delegate is applied, or else in one of their own, and never on the other API. "auto" takes the
    API whose context is current there (a ClContext before a GL context), or of the first object that is bound; where
    neither says, a GPU before a CPU. It logs in one line why it did not take the first choice.
    ``is_precision_loss_allowed``: keep intermediate tensors and weights in half precision (16 bits), which takes half
    the memory; arithmetic stays float32. Errors grow from about 1e-6 to about 1e-3 of the largest output value.
    ``max_delegated_partitions``: run only this many of the largest connected parts of the model on the GPU; None: all.
    ``enable_quantization``: run operators of 8-bit and 16-bit quantized tensors too, in float32 on the values that the
    integers stand for, rounded after each operator as the integers would be. False leaves them to the CPU.
    """

    backend: Literal["auto", "opengl", "opencl"] = "auto"
    is_precision_loss_allowed: bool = False
    max_delegated_partitions: int | None = None
    enable_quantization: bool = True

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise DelegateError(f"there is no backend {self.backend!r}: take one of {', '.join(BACKENDS)}")
        if self.max_delegated_partitions is not None and self.max_delegated_partitions < 1:
            raise DelegateError(
                f"max_delegated_partitions is {self.max_delegated_partitions}: give 1 or more, or None for no limit; "
                "for the CPU alone give the interpreter no delegate"
            )

    @property
    def storage(self) -> Storage:
        return "f16" if self.is_precision_loss_allowed else "f32"
