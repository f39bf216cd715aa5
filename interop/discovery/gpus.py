"""The GPUs of this machine by UUID: an API's number of a GPU means nothing to another API."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from ..backends import by_preference


@dataclass(frozen=True)
class FoundGpu:
    """A GPU of this machine, as ``find_gpus`` finds it.

    Attributes
    ----------
    uuid : str
        As nvidia-smi prints it and CUDA_VISIBLE_DEVICES takes it: "GPU-" and 32 digits with hyphens.
    name : str
        The name, as a driver gives it.
    numbers : mapping of str to int
        The GPU's number for ``new_context`` of each backend that has it, by the backend's name: {"cuda": 0,
        "opengl": 1}.

    Examples
    --------
    >>> environment = [{"CUDA_VISIBLE_DEVICES": gpu.uuid} for gpu in fb.find_gpus()]  # of a process for each GPU
    """

    uuid: str
    name: str
    numbers: Mapping[str, int]

    @property
    def cuda(self) -> int | None:
        """The number for CudaContext; None if CUDA does not have it."""
        return self.numbers.get("cuda")

    @property
    def egl(self) -> int | None:
        """The number for ``GlContext.headless``; None if OpenGL does not have it."""
        return self.numbers.get("opengl")


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
    names, numbers = dict[bytes, str](), dict[bytes, dict[str, int]]()
    for backend in by_preference():
        for key, (number, name) in (backend.find_gpus() if backend.find_gpus else {}).items():
            names.setdefault(key, name)
            numbers.setdefault(key, {})[backend.name] = number
    return [FoundGpu(f"GPU-{uuid.UUID(bytes=key)}", name, numbers[key]) for key, name in names.items()]
