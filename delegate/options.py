"""Options of the GPU delegate: the fields of TensorFlow Lite's TfLiteGpuDelegateOptionsV2, and the backend.

docs/options.md compares the effect of each one here and in C++.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from enum import Enum

from ..interop.backends import AUTO, backend_named, backend_names
from ..interop.discovery.best_options import BestOptions
from ..interop.errors import DelegateError, DeviceError
from ..kernels.views import Storage


class InferencePriority(Enum):
    """A goal of ``GpuDelegateOptions.inference_priority1`` to ``3``.

    MAX_PRECISION: values as exact as float32 makes them. MIN_LATENCY: short runs. MIN_MEMORY_USAGE: little GPU memory.
    AUTO: the delegate orders the goals that are not named; it may only end the list.

    Examples
    --------
    >>> fb.GpuDelegateOptions(inference_priority1=fb.InferencePriority.MIN_LATENCY).storage
    'f16'
    """

    AUTO = 0
    MAX_PRECISION = 1
    MIN_LATENCY = 2
    MIN_MEMORY_USAGE = 3


class InferencePreference(Enum):
    """The use that ``GpuDelegateOptions.inference_preference`` prepares for.

    SUSTAINED_SPEED: many runs. The first frame measures the fastest choices on this GPU: one dispatch per step or one
    for all, the size of work-groups, the tiles of each kernel. It takes up to about a minute for each part of the
    model, and is done once if ``serialization_dir`` is given. FAST_SINGLE_ANSWER and BALANCED: rules decide.

    Examples
    --------
    >>> preference = fb.InferencePreference.SUSTAINED_SPEED
    >>> fb.GpuDelegateOptions(inference_preference=preference).inference_preference.name
    'SUSTAINED_SPEED'
    """

    FAST_SINGLE_ANSWER = 0
    SUSTAINED_SPEED = 1
    BALANCED = 2


class WaitType(Enum):
    """The wait of ``invoke`` after a part of the model was submitted to the GPU. A read of a result always waits.

    PASSIVE: the thread sleeps until the GPU is done. ACTIVE: it polls, which takes a CPU core and wakes sooner.
    DO_NOT_WAIT: ``invoke`` returns at once. AGGRESSIVE: as ACTIVE; Metal's also keeps the GPU awake between runs, which
    nothing does here.

    Examples
    --------
    >>> fb.GpuDelegateOptions(wait_type=fb.WaitType.PASSIVE).wait_type.name
    'PASSIVE'
    """

    PASSIVE = 0
    ACTIVE = 1
    DO_NOT_WAIT = 2
    AGGRESSIVE = 3


_AUTO = InferencePriority.AUTO
_COMPLETED = {
    InferencePriority.MAX_PRECISION: (InferencePriority.MIN_LATENCY, InferencePriority.MIN_MEMORY_USAGE),
    InferencePriority.MIN_LATENCY: (InferencePriority.MIN_MEMORY_USAGE, InferencePriority.MAX_PRECISION),
    InferencePriority.MIN_MEMORY_USAGE: (InferencePriority.MAX_PRECISION, InferencePriority.MIN_LATENCY),
}
"""The priorities after each first one if the others are AUTO, as in TensorFlow Lite's ResolveAutoPriority."""


@dataclass(frozen=True)
class GpuDelegateOptions:
    """Options of ``GpuDelegate``, with the names of TensorFlow Lite's C++ delegate.

    Parameters
    ----------
    backend
        The API that runs the model: "opengl" or "gl", "opencl" or "cl", "cuda". They run in the GlContext, ClContext or
        CudaContext that is current on the thread where the delegate is applied, or else in one of their own, and never
        on another API. The option then has the long name: ``fb.list_backends()`` has the names.
        "auto" takes the API whose context is current there (a CudaContext before a ClContext before a GL context), or
        of the first object that is bound; if neither says, CUDA on a GPU of NVIDIA, else a GPU before a CPU, of OpenCL
        or OpenGL. It logs in one line why it did not take the first choice. "null" records the model's commands and
        computes nothing (outputs are zeros), to look at a model on a machine without a GPU.
    is_precision_loss_allowed
        The older way to give priorities: False is MAX_PRECISION first, True is MIN_LATENCY first, None (C++'s -1)
        leaves it to the priorities.
    max_delegated_partitions
        Run only this many of the largest connected parts of the model on the GPU; None runs all.
    enable_quantization
        Run operators of 8-bit and 16-bit quantized tensors too: convolutions of 8 bits on the integers, others in
        float32 on the values that these stand for, rounded as the integers would be. False leaves them to the CPU.
    inference_preference
        See InferencePreference.
    inference_priority1, inference_priority2, inference_priority3
        The goals, from most to least important. AUTO may only end the list, and is filled in: MAX_PRECISION,
        MIN_LATENCY, MIN_MEMORY_USAGE in turn, from the first one on. Unless MAX_PRECISION comes first, weights and some
        intermediate tensors are kept in 16 bits, which takes half the memory; arithmetic stays float32. The errors of
        real models in both are in docs/precision.md. The order of the other two makes no difference.
    first_delegate_node_index, last_delegate_node_index
        Leave operators before the one and after the other to the CPU (numbers in each subgraph; None: no end), to find
        the operator behind a wrong result.
    wait_type
        See WaitType. The default waits for nothing, so that the CPU prepares the next frame meanwhile; whatever reads
        results, on the GPU or the CPU, is ordered behind the model in any case.
    serialization_dir, model_token
        The folder that keeps compiled programs and the model's weights in the device's layout between runs, and the
        model's name there (letters, digits, ``-_.``; ``fb.fingerprint(model)`` makes one). They go together. The folder
        is made if it is missing, readable by you alone; one that others may write to is refused, because what is loaded
        from there becomes code of the GPU's driver. Another model, device, driver, version or options never share a
        file, and a damaged one is made anew.

    Raises
    ------
    DelegateError
        For values that contradict each other; it names the fields.

    Examples
    --------
    >>> options = fb.GpuDelegateOptions(backend="opengl", is_precision_loss_allowed=True)
    >>> options.storage
    'f16'
    >>> fb.GpuDelegateOptions(max_delegated_partitions=0)
    Traceback (most recent call last):
        ...
    framebind.interop.errors.DelegateError: max_delegated_partitions is 0: give 1 or more, ...
    """

    backend: str = AUTO
    is_precision_loss_allowed: bool | None = None
    max_delegated_partitions: int | None = None
    enable_quantization: bool = True
    inference_preference: InferencePreference = InferencePreference.FAST_SINGLE_ANSWER
    inference_priority1: InferencePriority = InferencePriority.MAX_PRECISION
    inference_priority2: InferencePriority = InferencePriority.AUTO
    inference_priority3: InferencePriority = InferencePriority.AUTO
    first_delegate_node_index: int = 0
    last_delegate_node_index: int | None = None
    wait_type: WaitType = WaitType.DO_NOT_WAIT
    serialization_dir: str | os.PathLike[str] | None = None
    model_token: str | None = None

    def __repr__(self) -> str:
        """The options that differ from the defaults."""
        given = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default]
        return f"GpuDelegateOptions({', '.join(given)})"

    def __post_init__(self) -> None:
        object.__setattr__(self, "backend", checked_backend(self.backend))
        self._check_kinds()
        self._check_priorities()
        self._check_operators()
        self._check_serialization()

    @property
    def priorities(self) -> tuple[InferencePriority, InferencePriority, InferencePriority]:
        """The three priorities in order, without AUTO."""
        first, second, third = self.inference_priority1, self.inference_priority2, self.inference_priority3
        if self.is_precision_loss_allowed is not None:
            first = InferencePriority.MIN_LATENCY if self.is_precision_loss_allowed else InferencePriority.MAX_PRECISION
        if second is _AUTO:
            return first, *_COMPLETED[first]
        if third is _AUTO:
            third = next(priority for priority in _COMPLETED if priority not in (first, second))
        return first, second, third

    @property
    def is_tuned(self) -> bool:
        """Whether the first frame measures how the model runs fastest."""
        return self.inference_preference is InferencePreference.SUSTAINED_SPEED

    @property
    def storage(self) -> Storage:
        """The storage of tensors on the GPU: "f32", or "f16" if another priority goes before MAX_PRECISION."""
        return "f32" if self.priorities[0] is InferencePriority.MAX_PRECISION else "f16"

    def _check_kinds(self) -> None:
        if self.is_precision_loss_allowed not in (None, False, True):
            raise DelegateError(
                f"is_precision_loss_allowed is {self.is_precision_loss_allowed!r}: give True, False, or None, which is "
                "C++'s -1 and leaves it to the priorities"
            )
        kinds: dict[str, type[Enum]] = {
            "inference_preference": InferencePreference,
            "inference_priority1": InferencePriority,
            "inference_priority2": InferencePriority,
            "inference_priority3": InferencePriority,
            "wait_type": WaitType,
        }
        for field, kind in kinds.items():
            if not isinstance(getattr(self, field), kind):
                members = ", ".join(member.name for member in kind)
                raise DelegateError(f"{field} is {getattr(self, field)!r}: take one of {kind.__name__}'s {members}")

    def _check_priorities(self) -> None:
        given = (self.inference_priority1, self.inference_priority2, self.inference_priority3)
        first, second, third = (priority.name for priority in given)
        if self.is_precision_loss_allowed is not None and given != (InferencePriority.MAX_PRECISION, _AUTO, _AUTO):
            raise DelegateError(
                f"is_precision_loss_allowed is {self.is_precision_loss_allowed} and the inference priorities are "
                f"{first}, {second}, {third}: both say what matters most, so give only one of them"
            )
        if given[0] is _AUTO:
            raise DelegateError("inference_priority1 is AUTO: say what matters most, AUTO may follow")
        if given[1] is _AUTO and given[2] is not _AUTO:
            raise DelegateError(
                f"inference_priority3 is {third} behind an inference_priority2 that is AUTO: make {third} the second"
            )
        named = [priority for priority in given if priority is not _AUTO]
        if len(set(named)) < len(named):
            raise DelegateError(
                f"inference_priority1, inference_priority2 and inference_priority3 are {first}, {second}, {third}: "
                "name each once, and end with AUTO"
            )

    def _check_operators(self) -> None:
        if self.max_delegated_partitions is not None and self.max_delegated_partitions < 1:
            raise DelegateError(
                f"max_delegated_partitions is {self.max_delegated_partitions}: give 1 or more, or None for no limit; "
                "for the CPU alone give the interpreter no delegate"
            )
        first, last = self.first_delegate_node_index, self.last_delegate_node_index
        if first < 0 or (last is not None and last < first):
            raise DelegateError(
                f"first_delegate_node_index is {first} and last_delegate_node_index {last}: the first is 0 or more, "
                "the last not before it, or None for the model's last operator"
            )

    def _check_serialization(self) -> None:
        folder, token = self.serialization_dir, self.model_token
        if folder is None and token is None:
            return
        if folder is None or token is None:
            raise DelegateError(
                f"serialization_dir is {folder!r} and model_token {token!r}: give both or neither, the folder and the "
                "model's name in it"
            )
        path: object = os.fspath(folder) if isinstance(folder, str | os.PathLike) else None
        if not isinstance(path, str) or not path or "\0" in path:
            raise DelegateError(f"serialization_dir is {folder!r}: give the path of a folder, '.' for the current one")
        if not (isinstance(token, str) and re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}", token)):
            raise DelegateError(
                f"model_token is {token!r}: it becomes part of a file's name, so give 1 to 128 letters, digits, '-', "
                "'_' and '.', without '.' in front; a hash of the model's file will do"
            )


def checked_backend(name: str) -> str:
    """The long name of a backend that has this name, or "auto". Raises DelegateError with the known names."""
    try:
        return AUTO if name == AUTO else backend_named(name).name
    except DeviceError as error:
        raise DelegateError(str(error)) from None


def as_options(given: GpuDelegateOptions | BestOptions | str | None) -> GpuDelegateOptions:
    """Options from the argument of GpuDelegate: options, the best ones for a machine, a backend's name, or None.

    The best options of a machine without a GPU name no backend: then the backend is "auto". Raises DelegateError
    for any other argument.
    """
    if isinstance(given, GpuDelegateOptions):
        return given
    if given is None:
        return GpuDelegateOptions()
    if isinstance(given, str):
        return GpuDelegateOptions(backend=given)
    if isinstance(given, BestOptions):
        return GpuDelegateOptions(
            backend=given.backend or AUTO, is_precision_loss_allowed=given.is_precision_loss_allowed
        )
    raise DelegateError(
        f"the options of GpuDelegate are {type(given).__name__}: give GpuDelegateOptions, the name of a backend "
        f"({', '.join(backend_names())}), or CompatibilityList().best_options_for_this_device()"
    )
