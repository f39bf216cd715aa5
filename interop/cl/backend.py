"""OpenCL in the table of backends. pyopencl takes time to import: only the functions that need it do so."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...kernels.codegen.opencl import OPENCL
from ..backends import Backend, FoundDevice
from ..contexts import cl_contexts
from ..device import Device
from ..errors import DeviceError
from ..loaders import InstalledApi, Loader, driver_places, installed_by_files, library_of_icd, library_of_json
from ..record.shared_devices import open_in

if TYPE_CHECKING:
    import pyopencl

    from .context import ClContext
    from .objects import ClBuffer, ClImage

_FOLDERS = ("/etc/OpenCL/vendors",)
_VULKAN_FOLDERS = ("/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d")
_TITLE = "OpenCL"


def _open() -> Device:
    from .compute.device import ClDevice

    return open_in(_context(), _context(), ClDevice)


def _context() -> type[ClContext]:
    from .context import ClContext

    return ClContext


def _new_context(device: str = "", *, independent: bool = False) -> ClContext:
    return _context()(int(device) if device.isdecimal() else device or None)


def _new_buffer(values: Any) -> ClBuffer:
    from .objects import ClBuffer

    return ClBuffer.from_array(values)


def _new_texture(pixels: Any) -> ClImage:
    from .objects import ClImage

    return ClImage.from_array(pixels)


def _owns(native: Any) -> bool:
    if "pyopencl" not in sys.modules:  # whoever has an object of it has imported it
        return False
    from .user_objects import is_cl_object

    return is_cl_object(native)


def _find_devices() -> list[FoundDevice]:
    found = list[FoundDevice]()
    for _ in working_devices(found):
        pass
    return found


def working_devices(found: list[FoundDevice]) -> Iterator[pyopencl.Device]:
    """Yield the OpenCL devices that work; add all of them to ``found``."""
    import pyopencl

    from .context import all_devices, driver_of, why_unusable

    try:
        devices = all_devices()
    except DeviceError as error:
        found.append(FoundDevice(_TITLE, "none", "", unusable=str(error)))
        return
    for device in devices:
        f16 = "storage, arithmetic" if "cl_khr_fp16" in device.extensions.split() else "storage"
        software, reason = bool(device.type & pyopencl.device_type.CPU), why_unusable(device)
        found.append(FoundDevice(_TITLE, device.name.strip(), driver_of(device), software, f16, reason))
        if not reason:
            yield device


def _installed() -> InstalledApi:
    return installed_by_files(_TITLE, driver_places("", "OCL_ICD_VENDORS", _FOLDERS), library_of_icd, _count)


def _count() -> int:
    import pyopencl

    try:
        platforms = pyopencl.get_platforms()
    except pyopencl.Error as error:
        raise DeviceError(f"there is no OpenCL platform ({error})") from error
    count = sum(len(_devices(platform)) for platform in platforms)
    if platforms and not count:
        from .context import POCL_CACHE

        raise DeviceError(f"it lists no device. {POCL_CACHE}")
    return count


def _devices(platform: pyopencl.Platform) -> list[pyopencl.Device]:
    import pyopencl

    try:
        return platform.get_devices()
    except pyopencl.Error:  # a driver without its hardware
        return []


def _installed_vulkan() -> InstalledApi:
    from ..gl import vulkan

    variable = "VK_DRIVER_FILES" if os.environ.get("VK_DRIVER_FILES") else "VK_ICD_FILENAMES"
    places = driver_places(variable, "", _VULKAN_FOLDERS)
    return installed_by_files("Vulkan", places, library_of_json, lambda: len(vulkan.device_uuids()))


_LOADERS = (
    Loader(
        _TITLE, "for the CPU: Debian, Ubuntu: apt-get install pocl-opencl-icd. Fedora: dnf install pocl", _installed
    ),
    Loader(
        "Vulkan",  # memory that OpenGL and OpenCL share
        "only for GPUs that share no memory otherwise: Debian, Ubuntu: apt-get install libvulkan1, and "
        "mesa-vulkan-drivers or the vendor's driver. Fedora: dnf install vulkan-loader mesa-vulkan-drivers",
        _installed_vulkan,
    ),
)
BACKEND = Backend(
    name="opencl", short="cl", title=_TITLE, dialect=OPENCL, open=_open, context=_context,
    rank=20,  # its dispatches cost less than OpenGL's, on an H200 as on the CPU (PoCL against llvmpipe)
    is_current=lambda: cl_contexts.last() is not None, is_present=lambda: True, new_context=_new_context,
    new_buffer=_new_buffer, new_texture=_new_texture, owns=_owns, objects="OpenCL objects", needs_context=True,
    gl_objects="shared", decodes=False, loaders=_LOADERS, find_devices=_find_devices, find_gpus=None,
    device_help="a part of an OpenCL device's name or its number", named_devices=True,
)  # fmt: skip
