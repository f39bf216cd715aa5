"""The devices of this machine, how they share memory, and the options that models run best with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property

from ..backends import FoundDevice, backend_named, by_preference, list_backends
from ..cl.backend import working_devices
from ..cl.context import ClContext
from ..cl.sharing.sharing import SharingReport, sharing_report
from ..deprecated import warn_deprecated
from ..gl.backend import working_contexts
from .best_options import BestOptions

MOST_CPU_THREADS = 4
"""Threads for the CPU interpreter at most: the number in TensorFlow Lite's documents, for phones of eight cores."""


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
        """The devices, with ``api``, ``name``, ``version``, ``software``, ``f16`` and ``unusable`` of each.

        A context is opened on each device of OpenGL and OpenCL, which takes seconds on some machines.
        """
        return [device for backend in list_backends() for device in self.devices_of(backend.name)]

    def devices_of(self, backend: str) -> list[FoundDevice]:
        """The devices of one API, by a name of ``fb.list_backends()``. Those of CUDA take milliseconds: no context is
        opened. Raises DeviceError for an unknown name.
        """
        found = backend_named(backend)
        if found.name not in self._found:
            self._found[found.name] = found.find_devices()
        return self._found[found.name]

    @property
    def cuda_devices(self) -> list[FoundDevice]:
        """Old name of ``devices_of("cuda")``."""
        warn_deprecated("CompatibilityList.cuda_devices", 'devices_of("cuda")')
        return self.devices_of("cuda")

    @cached_property
    def _found(self) -> dict[str, list[FoundDevice]]:
        return {}

    @cached_property
    def sharing(self) -> list[SharingReport]:
        """A report for each pair of a GL and a CL device that work."""
        return _sharing_reports()

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
        gl_is_current = any(backend.is_current() for backend in list_backends() if backend.gl_objects == "own")
        if not gl_is_current:  # then an API that copies GL's objects may be best, and no other one's context is opened
            copying = [backend for backend in by_preference() if backend.gl_objects == "copied"]
            best = best_options([device for backend in copying for device in self.devices_of(backend.name)], [])
            if best.backend is not None:
                return best
        return best_options(self.devices, self.sharing, gl_is_current=gl_is_current)


def best_options(
    devices: Sequence[FoundDevice], sharing: Sequence[SharingReport], *, gl_is_current: bool = False
) -> BestOptions:
    """Choose as CompatibilityList.best_options_for_this_device does, among these devices."""
    gpus = [device for device in devices if not device.software and not device.unusable]
    first = {
        backend.name: next((gpu for gpu in gpus if gpu.api in backend.titles.values()), None)
        for backend in by_preference()
    }
    gl_gpu = next((first[backend.name] for backend in by_preference() if backend.gl_objects == "own"), None)
    refused: list[str] = []
    # 16-bit storage is not advised: arithmetic is float32 anyway, and nothing measured so far was faster with it.
    for backend in by_preference():
        gpu = first[backend.name]
        if backend.gl_objects == "copied":
            why, why_not = f"no GL context is current whose objects {backend.title} would copy", gl_is_current
        elif backend.gl_objects == "shared":
            why = f"{backend.title}'s dispatches cost less"
            why_not = gpu is not None and gl_gpu is not None and not _share(gl_gpu, gpu, sharing)
            refused.append(f"{backend.title} {'shares no memory with OpenGL' if why_not else 'has no GPU'}")
        else:
            why, why_not = " and ".join(refused) or "GL objects are its own", False
        if gpu is not None and not why_not:
            return BestOptions(backend.name, False, None, f"{gpu.name} is a GPU, and {why}")
    software = ", ".join(device.name for device in devices if device.software and not device.unusable)
    reason = f"no GPU was found, and {software} run on the CPU" if software else "no GPU driver was found"
    threads = min(MOST_CPU_THREADS, _usable_cpus())
    return BestOptions(None, False, threads, f"{reason}: LiteRT's CPU interpreter is faster")


def _usable_cpus() -> int:
    """The number of CPUs that this process may use, which a container or taskset may have limited."""
    if hasattr(os, "sched_getaffinity"):  # not on Windows and macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _sharing_reports() -> list[SharingReport]:
    """A report for each pair of a GL and a CL device that work. Contexts are opened on both, and closed."""
    reports, usable = list[SharingReport](), list(working_devices([]))
    for context in working_contexts([]) if usable else ():
        for device in usable:
            cl = ClContext(device)
            reports.append(sharing_report(context, cl))
            cl.close()
    return reports


def _share(gl: FoundDevice, cl: FoundDevice, sharing: Sequence[SharingReport]) -> bool:
    reports = [report for report in sharing if gl.name in report.gl and cl.name in report.cl]
    return any(report.strategy is not None for report in reports)
