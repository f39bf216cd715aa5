"""The choice of ``Interpreter(..., delegate="auto")``: the GPU, if there is one and the model gains from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from ..interop.discovery.devices import ChosenDevice
from ..interop.errors import DelegateError, DeviceError
from .claim.payoff import LEAST_MULTIPLY_ADDS
from .gpu_delegate import GpuDelegate

DelegateChoice = Literal["auto", "gpu", "cpu"]


def checked_choice(choice: DelegateChoice | None, delegates: Any) -> DelegateChoice | None:
    """The argument ``delegate`` of an interpreter. Raises DelegateError if it is unknown or contradicts the others."""
    if choice not in (None, *get_args(DelegateChoice)):
        raise DelegateError(
            f"delegate is {choice!r}: take 'auto', 'gpu' or 'cpu'; experimental_delegates takes a GpuDelegate"
        )
    if choice is not None and delegates:
        raise DelegateError(f"give Interpreter delegate={choice!r} or experimental_delegates, not both")
    return choice


def delegate_on_gpu(choose: Callable[[], ChosenDevice], *, sizes_are_known: bool) -> tuple[GpuDelegate | None, str]:
    """A delegate that takes a model only if it pays, on the GPU of this machine, and the name of the GPU.

    None, and the reason, if there is no GPU. The delegate has opened its device: close it if it is not used.

    Parameters
    ----------
    choose
        ``choose_device``.
    sizes_are_known
        Whether the model's inputs already have their final sizes, so that its arithmetic can be counted.
    """
    try:
        device, reason, _ = choose()
    except DeviceError as error:
        return None, str(error)
    name = f"{device.traits.api} on {device.traits.name}"
    if device.traits.software:
        device.close()
        return None, f"no GPU was found ({name} is the CPU), and LiteRT's own kernels are faster there"
    delegate = GpuDelegate()
    delegate.engine.use(device)
    delegate.engine.least_multiply_adds = LEAST_MULTIPLY_ADDS if sizes_are_known else 0.0
    return delegate, f"{name}, because {reason}" if reason else name


def reason_for_no_operator(delegate: GpuDelegate) -> str:
    """The reason why a delegate of ``delegate_on_gpu`` took no operator of the model; "" if it took some.

    It keeps these operators if inputs are resized later.
    """
    engine = delegate.engine
    engine.least_multiply_adds = None
    if engine.partitions:
        return ""
    selection = engine.selections[0]
    return selection.does_not_pay or next(iter(selection.not_selected.values()), "no operator of it runs on a GPU")
