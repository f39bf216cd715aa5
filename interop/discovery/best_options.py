"""The options to run models with on a machine, which compatibility.py finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BestOptions:
    """The options to run models with on this machine.

    Attributes
    ----------
    backend : str or None
        For GpuDelegateOptions: the name of one of ``fb.list_backends()``. None: run without the delegate, with
        ``num_threads`` threads.
    is_precision_loss_allowed : bool
        For GpuDelegateOptions.
    num_threads : int or None
        For the interpreter on the CPU, 4 or as many as this process may use; None if a GPU runs the model.
    reason : str
        Why, in one sentence.

    Examples
    --------
    >>> best = fb.CompatibilityList().best_options_for_this_device()
    >>> best.backend in ("opengl", "opencl", "cuda", None)
    True
    """

    backend: str | None
    is_precision_loss_allowed: bool
    num_threads: int | None
    reason: str
