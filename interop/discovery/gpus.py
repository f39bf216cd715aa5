"""The GPUs of this machine by UUID: an API's number of a GPU means nothing to another API."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from ..cuda import api as cuda
from ..errors import DeviceError
from ..gl import egl
from ..gl.context import GlContext
from ..gl.memory import MEMORY_EXTENSION, device_uuids
from ..gl.query import has_extension


@dataclass(frozen=True)
class FoundGpu:
    """A GPU of this machine, as ``find_gpus`` finds it.

    Attributes
    ----------
    uuid : str
        As nvidia-smi prints it and CUDA_VISIBLE_DEVICES takes it: "GPU-" and 32 digits with hyphens.
    name : str
        The name, as a driver gives it.
    cuda : int or None
        The number for CudaContext; None if CUDA does not have it.
    egl : int or None
        The number for ``GlContext.headless``; None if OpenGL does not have it.

    Examples
    --------
    >>> environment = [{"CUDA_VISIBLE_DEVICES": gpu.uuid} for gpu in fb.find_gpus()]  # of a process for each GPU
    """

    uuid: str
    name: str
    cuda: int | None
    egl: int | None


def find_gpus() -> list[FoundGpu]:
    """Find the GPUs that CUDA and OpenGL have, CUDA's first. Software drivers do not count.

    A GL context is made on each device of EGL, and closed.

    Returns
    -------
    list of FoundGpu
        Empty if there is none.

    Examples
    --------
    >>> for gpu in fb.find_gpus():
    ...     print(gpu.name, gpu.uuid, gpu.cuda, gpu.egl)
    """
    by_cuda, by_egl = _cuda_gpus(), _egl_gpus()
    return [
        FoundGpu(
            f"GPU-{uuid.UUID(bytes=key)}",
            (by_cuda.get(key) or by_egl[key])[1],
            by_cuda[key][0] if key in by_cuda else None,
            by_egl[key][0] if key in by_egl else None,
        )
        for key in dict.fromkeys([*by_cuda, *by_egl])
    ]


def _cuda_gpus() -> dict[bytes, tuple[int, str]]:
    """Number and name of each GPU of CUDA, by UUID; none without its driver. No context is made."""
    try:
        return {cuda.device_uuid(number): (number, cuda.device_name(number)) for number in range(cuda.device_count())}
    except DeviceError:
        return {}


def _egl_gpus() -> dict[bytes, tuple[int, str]]:
    """Number and name of each GPU of EGL that says its UUID."""
    found: dict[bytes, tuple[int, str]] = {}
    for number in range(egl.count_devices()):
        try:
            context = GlContext.headless(device_index=number)
        except DeviceError:
            continue  # doctor says why
        with context:
            if not context.software and has_extension(context, MEMORY_EXTENSION):
                for key in device_uuids(context):
                    found.setdefault(key, (number, context.renderer))
    return found
