"""What this machine offers: its GL and CL devices, how they share memory, and what a model is best run on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import pyopencl

from ..cl.context import ClContext, all_devices, why_unusable
from ..errors import DeviceError
from ..gl import egl
from ..gl.context import GlContext
from ..share.sharing import SharingReport, sharing_report

CPU_THREADS = 4
"""For the CPU interpreter, as TensorFlow Lite's CompatibilityList advises."""


@dataclass(frozen=True)
class FoundDevice:
    """A GL or CL device. ``software``: it is the CPU. ``unusable``: why models cannot run on it; "" where they can."""

    api: str
    name: str
    version: str
    software: bool = False
    f16: str = ""
    """What it does in half precision: "storage", or "storage, arithmetic"."""
    unusable: str = ""


@dataclass(frozen=True)
class BestOptions:
    """What to run models with. ``backend`` and ``is_precision_loss_allowed`` are for GpuDelegateOptions.

    ``backend`` None: leave the delegate out, and give the interpreter ``num_threads``; else ``num_threads`` is None.
    """

    backend: Literal["opengl", "opencl"] | None
    is_precision_loss_allowed: bool
    num_threads: int | None
    reason: str


@dataclass
class CompatibilityList:
    """The devices of this machine, looked at when it is made: the GL context that is current on this thread, or, where
    there is none, every GL device that works without a window; and every OpenCL device.
    """

    devices: list[FoundDevice] = field(default_factory=list, init=False)
    sharing: list[SharingReport] = field(default_factory=list, init=False)
    """For each pair of a GL and a CL device that work."""

    def __post_init__(self) -> None:
        opencl: list[FoundDevice] = []
        usable = list(_cl_devices(opencl))
        for context in _gl_contexts(self.devices):
            api = "OpenGL ES" if context.is_es else "OpenGL"
            version = context.gl.version
            self.devices.append(FoundDevice(api, context.renderer, version, context.software, "storage"))
            for device in usable:
                cl = ClContext(device)
                self.sharing.append(sharing_report(context, cl))
                cl.close()
        self.devices += opencl

    def is_delegate_supported_on_this_device(self) -> bool:
        """Whether a GPU runs models here. A GPU that is the CPU (llvmpipe, PoCL) is none: it works, and is slower than
        the CPU interpreter.
        """
        return self.best_options_for_this_device().backend is not None

    def best_options_for_this_device(self) -> BestOptions:
        """What to run models with here, and why.

        OpenCL where its device is a GPU and takes GL objects without a copy, or OpenGL's is none; else OpenGL.
        """
        gpus = [device for device in self.devices if not device.software and not device.unusable]
        cl_gpu = next((gpu for gpu in gpus if gpu.api == "OpenCL"), None)
        gl_gpu = next((gpu for gpu in gpus if gpu.api != "OpenCL"), None)
        # Nothing measured so far is faster with 16 bits: arithmetic is float32 in either case.
        if cl_gpu is not None and (gl_gpu is None or self._share(gl_gpu, cl_gpu)):
            return BestOptions("opencl", False, None, f"{cl_gpu.name} is a GPU, and OpenCL's dispatches cost less")
        if gl_gpu is not None:
            why = "shares no memory with OpenGL" if cl_gpu is not None else "has no GPU"
            return BestOptions("opengl", False, None, f"{gl_gpu.name} is a GPU, and OpenCL {why}")
        software = ", ".join(device.name for device in self.devices if device.software and not device.unusable)
        reason = f"no GPU was found, and {software} run on the CPU" if software else "no GPU driver was found"
        return BestOptions(None, False, CPU_THREADS, f"{reason}: LiteRT's CPU interpreter is faster")

    def _share(self, gl: FoundDevice, cl: FoundDevice) -> bool:
        reports = [report for report in self.sharing if gl.name in report.gl and cl.name in report.cl]
        return any(report.strategy is not None for report in reports)


def _cl_devices(found: list[FoundDevice]) -> Iterator[pyopencl.Device]:
    """The OpenCL devices that work. All are added to ``found``."""
    try:
        devices = all_devices()
    except DeviceError as error:
        found.append(FoundDevice("OpenCL", "none", "", unusable=str(error)))
        return
    for device in devices:
        version = f"{device.version.strip()}, driver {device.driver_version.strip()}"
        f16 = "storage, arithmetic" if "cl_khr_fp16" in device.extensions.split() else "storage"
        software, reason = bool(device.type & pyopencl.device_type.CPU), why_unusable(device)
        found.append(FoundDevice("OpenCL", device.name.strip(), version, software, f16, reason))
        if not reason:
            yield device


def _gl_contexts(failed: list[FoundDevice]) -> Iterator[GlContext]:
    """The context that is current; else one of each device, current while it is looked at, and then closed.

    Devices that have none that will do are added to ``failed``.
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
    """Desktop OpenGL, or, where the device has too old a one, OpenGL ES."""
    try:
        return GlContext.headless(device_index=number)
    except DeviceError as desktop:
        try:
            return GlContext.headless(es=True, device_index=number)
        except DeviceError:
            raise desktop from None
