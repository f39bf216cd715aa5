"""Table of the APIs that run models, with all facts that commands, demos and benchmarks need."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import framebind as fb

Backend = Literal["opengl", "opencl", "cuda"]
"""The ``backend`` of each row of APIS, as a type: command lines and GpuDelegateOptions want one."""
AnyBackend = Literal["null", "auto", Backend]
"""All backends of GpuDelegateOptions."""


@dataclass(frozen=True)
class Api:
    """An API that runs models, and how to make its contexts and objects.

    ``backend`` is its name in fb.GpuDelegateOptions, ``short`` its name in tables and on command lines. ``loader`` is
    the name of its loader in fb.installed_apis(); ``packages`` says how to install that and a driver for any machine.
    """

    backend: Backend
    short: str
    loader: str
    packages: str
    context: Callable[[], type[fb.GlContext] | type[fb.ClContext] | type[fb.CudaContext]]
    """Gives the class of its contexts. OpenCL's is imported when it is first asked for."""
    new_context: Callable[..., AbstractContextManager[Any]]
    """Makes a context; its argument is the device, as ``--device`` takes it, "" for the first that works."""
    buffer: Callable[[npt.NDArray[np.float32]], Any]
    """Makes a buffer of float32 values on the context that is current."""
    texture: Callable[[npt.NDArray[np.uint8]], Any]
    """Makes a texture of pixels (height, width, 4) on the context that is current."""

    def open_context(self, device: str = "") -> AbstractContextManager[Any]:
        """The context that is current on the thread, which stays open, or else a new one, which is closed.

        If a device is named, the context is a new one in any case.
        """
        if self.context().is_current() and not device:
            return nullcontext(self.context().current())
        return self.new_context(device)


def _new_gl_context(device: str = "") -> fb.GlContext:
    if device and not device.isdecimal():
        raise fb.DeviceError(
            f"OpenGL's devices are named by their EGL number, 0 for the first; '{device}' is none. OpenCL's have names"
        )
    return fb.GlContext.headless(device_index=int(device) if device else None)


def _new_cl_context(device: str = "") -> fb.ClContext:
    return fb.ClContext(int(device) if device.isdecimal() else device or None)


def new_cuda_context(device: str = "", *, independent: bool = False) -> fb.CudaContext:
    """A context on the GPU of that number, "" for the first one. ``independent`` as in fb.CudaContext."""
    if device and not device.isdecimal():
        raise fb.DeviceError(f"CUDA's devices are named by their number, 0 for the first; '{device}' is none")
    return fb.CudaContext(int(device or 0), independent=independent)


GL = Api(
    "opengl", "gl", "EGL",
    "Debian, Ubuntu: apt-get install libegl1 libgl1 libgl1-mesa-dri. Fedora: dnf install mesa-libEGL mesa-dri-drivers",
    lambda: fb.GlContext, _new_gl_context, fb.GlBuffer.from_array, fb.GlTexture.from_array,
)  # fmt: skip
"""The API that demos draw with."""
CL = Api(
    "opencl", "cl", "OpenCL",
    "for the CPU: Debian, Ubuntu: apt-get install pocl-opencl-icd. Fedora: dnf install pocl",
    lambda: fb.ClContext, _new_cl_context,
    lambda values: fb.ClBuffer.from_array(values), lambda pixels: fb.ClImage.from_array(pixels),
)  # fmt: skip
CUDA = Api(
    "cuda", "cuda", "CUDA",
    "only for NVIDIA's GPUs: their driver, and pip install nvidia-cuda-nvrtc cuda-pathfinder",
    lambda: fb.CudaContext, new_cuda_context, fb.CudaArray.from_array, fb.CudaImage.from_array,
)  # fmt: skip
APIS = (GL, CL, CUDA)
BY_NAME = {name: api for api in APIS for name in (api.short, api.backend)}
"""The rows by both of their names."""


def api_of(backend: str) -> Api:
    """The API of that name. "auto" is the API whose context is current, or else the best one on this machine."""
    if is_cuda(backend):
        return CUDA
    named = BY_NAME.get(backend) or _current()
    if named is not None:
        return named
    found = fb.CompatibilityList()
    best = found.best_options_for_this_device().backend
    if best is not None:
        return BY_NAME[best]
    usable = {device.api for device in found.devices if not device.unusable}
    return CL if "OpenCL" in usable else GL


def is_cuda(backend: str) -> bool:
    """Whether ``api_of`` a backend is CUDA. No other API is asked, which would take up to seconds."""
    named = BY_NAME.get(backend) or _current()
    if named is not None:
        return named is CUDA
    return any(not device.unusable for device in fb.CompatibilityList().devices_of(CUDA.backend))


def _current() -> Api | None:
    """The API whose context is current on this thread. Who makes one of CUDA or OpenCL current means it."""
    known = (CUDA, CL, GL) if "pyopencl" in sys.modules else (CUDA, GL)  # who has a ClContext has imported it
    return next((api for api in known if api.context().is_current()), None)
