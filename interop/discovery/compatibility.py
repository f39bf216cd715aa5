"""The GL, CL and CUDA devices of this machine, how they share memory, and the options that models run best with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyopencl

from ..cl.context import ClContext, all_devices, driver_of, why_unusable
from ..cl.sharing.sharing import SharingReport, sharing_report
from ..cuda import api as cuda
from ..cuda import nvrtc
from ..cuda.context import OLDEST_CAPABILITY, check_compiler
from ..errors import DeviceError
from ..gl import egl
from ..gl.context import GlContext
from .best_options import BestOptions

MOST_CPU_THREADS = 4
"""Threads for the CPU interpreter at most: the number in TensorFlow Lite's documents, for phones of eight cores."""


@dataclass(frozen=True)
class FoundDevice:
    """A GL, CL or CUDA device of this machine."""

    api: str
    """"OpenGL", "OpenGL ES", "OpenCL" or "CUDA"."""
    name: str
    version: str
    software: bool = False
    """Whether the device is the CPU."""
    f16: str = ""
    """Its use of 16-bit floats: "storage", or "storage, arithmetic"."""
    unusable: str = ""
    """The reason why models cannot run on it; "" if they can."""


class CompatibilityList:
    """The devices of this machine, found when they are first asked for.

    It has the GL context that is current on this thread; without one, every GL device that works without a window. It
    has every OpenCL device and every CUDA device. An API without a device is a row too: its name is "none", and
    ``unusable`` says what is missing.

    Examples
    --------
    >>> found = fb.CompatibilityList()
    >>> any(device.api == "OpenGL" for device in found.devices)
    True
    >>> best = found.best_options_for_this_device()
    >>> if found.is_delegate_supported_on_this_device():
    ...     interpreter = fb.Interpreter("model.tflite", experimental_delegates=[fb.GpuDelegate(best)])
    ... else:
    ...     interpreter = fb.Interpreter("model.tflite", num_threads=best.num_threads, delegate="cpu")
    """

    @cached_property
    def devices(self) -> list[FoundDevice]:
        """``api``, ``name``, ``version``, ``software``, ``f16`` and ``unusable`` of each device.

        A context is opened on each device of OpenGL and OpenCL, which takes seconds on some machines.
        """
        return self._opened[0] + self.cuda_devices

    @cached_property
    def cuda_devices(self) -> list[FoundDevice]:
        """The devices of CUDA alone. No context is opened, so that this takes milliseconds."""
        return _cuda_devices()

    @cached_property
    def sharing(self) -> list[SharingReport]:
        """A report for each pair of a GL and a CL device that work."""
        return self._opened[1]

    @cached_property
    def _opened(self) -> tuple[list[FoundDevice], list[SharingReport]]:
        return open_all()

    def __repr__(self) -> str:
        found = [f"{device.api} {device.name}" for device in self.devices]
        return f"<CompatibilityList: {'; '.join(found) or 'no device'}>"

    def is_delegate_supported_on_this_device(self) -> bool:
        """Whether a GPU runs models here.

        A driver that computes on the CPU (llvmpipe, PoCL) does not count: it works, but LiteRT's CPU interpreter is
        faster.
        """
        return self.best_options_for_this_device().backend is not None

    def best_options_for_this_device(self) -> BestOptions:
        """The options to run models with here, and why.

        CUDA, if it has a GPU and no GL context is current on this thread. OpenCL, if its device is a GPU and takes GL
        objects without a copy, or if OpenGL has no GPU; else OpenGL.
        """
        gl_is_current = GlContext.is_current()
        if not gl_is_current:
            best = best_options(self.cuda_devices, [])
            if best.backend == "cuda":
                return best  # no context of another API was opened
        return best_options(self.devices, self.sharing, gl_is_current=gl_is_current)


def best_options(
    devices: Sequence[FoundDevice], sharing: Sequence[SharingReport], *, gl_is_current: bool = False
) -> BestOptions:
    """See CompatibilityList.best_options_for_this_device."""
    gpus = [device for device in devices if not device.software and not device.unusable]
    cuda_gpu = next((gpu for gpu in gpus if gpu.api == "CUDA"), None)
    if cuda_gpu is not None and not gl_is_current:
        return BestOptions("cuda", False, None, f"{cuda_gpu.name} is a GPU of NVIDIA, and no GL context is current")
    cl_gpu = next((gpu for gpu in gpus if gpu.api == "OpenCL"), None)
    gl_gpu = next((gpu for gpu in gpus if gpu.api.startswith("OpenGL")), None)
    # 16-bit storage is not advised: arithmetic is float32 anyway, and nothing measured so far was faster with it.
    if cl_gpu is not None and (gl_gpu is None or _share(gl_gpu, cl_gpu, sharing)):
        return BestOptions("opencl", False, None, f"{cl_gpu.name} is a GPU, and OpenCL's dispatches cost less")
    if gl_gpu is not None:
        why = "shares no memory with OpenGL" if cl_gpu is not None else "has no GPU"
        return BestOptions("opengl", False, None, f"{gl_gpu.name} is a GPU, and OpenCL {why}")
    software = ", ".join(device.name for device in devices if device.software and not device.unusable)
    reason = f"no GPU was found, and {software} run on the CPU" if software else "no GPU driver was found"
    threads = min(MOST_CPU_THREADS, _usable_cpus())
    return BestOptions(None, False, threads, f"{reason}: LiteRT's CPU interpreter is faster")


def _usable_cpus() -> int:
    """The number of CPUs that this process may use, which a container or taskset may have limited."""
    if hasattr(os, "sched_getaffinity"):  # not on Windows and macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def open_all() -> tuple[list[FoundDevice], list[SharingReport]]:
    """Open a context on every GL and CL device of this machine, and close those that were opened.

    Returns
    -------
    devices : list of FoundDevice
        GL devices, then OpenCL devices.
    sharing : list of SharingReport
        One for each pair of a GL and a CL device that work.
    """
    gl, opencl, sharing = list[FoundDevice](), list[FoundDevice](), list[SharingReport]()
    usable = list(_cl_devices(opencl))
    for context in _gl_contexts(gl):
        api = "OpenGL ES" if context.is_es else "OpenGL"
        gl.append(FoundDevice(api, context.renderer, context.gl.version, context.software, "storage"))
        for device in usable:
            cl = ClContext(device)
            sharing.append(sharing_report(context, cl))
            cl.close()
    return gl + opencl, sharing


def _share(gl: FoundDevice, cl: FoundDevice, sharing: Sequence[SharingReport]) -> bool:
    reports = [report for report in sharing if gl.name in report.gl and cl.name in report.cl]
    return any(report.strategy is not None for report in reports)


def _cl_devices(found: list[FoundDevice]) -> Iterator[pyopencl.Device]:
    """Yield the OpenCL devices that work; add all of them to ``found``."""
    try:
        devices = all_devices()
    except DeviceError as error:
        found.append(FoundDevice("OpenCL", "none", "", unusable=str(error)))
        return
    for device in devices:
        f16 = "storage, arithmetic" if "cl_khr_fp16" in device.extensions.split() else "storage"
        software, reason = bool(device.type & pyopencl.device_type.CPU), why_unusable(device)
        found.append(FoundDevice("OpenCL", device.name.strip(), driver_of(device), software, f16, reason))
        if not reason:
            yield device


def _cuda_devices() -> list[FoundDevice]:
    """The CUDA devices. A GPU is unusable if there is no compiler, or if the compiler does not know it. No context is
    made.
    """
    try:
        found = [_cuda_device(number) for number in range(cuda.device_count())]
    except DeviceError as error:
        return [FoundDevice("CUDA", "none", "", unusable=str(error))]
    return found or [FoundDevice("CUDA", "none", "", unusable="NVIDIA's driver finds no GPU")]


def _cuda_device(number: int) -> FoundDevice:
    capability, version, unusable = cuda.capability(number), f"CUDA {cuda.driver_version()}", ""
    try:
        version += f", NVRTC {'.'.join(map(str, nvrtc.version()))}"
        check_compiler(number)
    except DeviceError as error:
        unusable = str(error)
    if capability < OLDEST_CAPABILITY:
        unusable = "its compute capability is below 7.0"
    version += f", compute capability {capability / 10}"
    return FoundDevice("CUDA", cuda.device_name(number), version, False, "storage", unusable)


def _gl_contexts(failed: list[FoundDevice]) -> Iterator[GlContext]:
    """Yield the context that is current; without one, a new context of each device, current until the next one.

    Devices that give no context are added to ``failed``.
    """
    if GlContext.is_current():
        yield GlContext.current()
        return
    for number in range(egl.count_devices()) or [None]:
        try:
            context = _headless(number)
        except DeviceError as error:
            name = "none" if number is None else f"EGL device {number}"
            failed.append(FoundDevice("OpenGL", name, "", unusable=str(error)))
            continue
        yield context
        context.close()


def _headless(number: int | None) -> GlContext:
    """A context of desktop OpenGL, or of OpenGL ES if the device's desktop OpenGL is too old."""
    try:
        return GlContext.headless(device_index=number)
    except DeviceError as desktop:
        try:
            return GlContext.headless(es=True, device_index=number)
        except DeviceError:
            raise desktop from None
