"""GPU memory and semaphores that are made with Vulkan, and exported as file descriptors to other APIs.

Linux, and wherever else a libvulkan with VK_KHR_external_memory_fd is installed. Windows needs
VK_KHR_external_memory_win32 (handles instead of descriptors) here, in external_memory.py, and in that of
interop/cl/sharing.
"""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from typing import Any

from ..errors import DeviceError
from ..forks import free
from .platform import load

_U32, _U64, _P = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
_API_1_1 = (1 << 22) | (1 << 12)
_APPLICATION_INFO, _INSTANCE_CREATE_INFO, _DEVICE_QUEUE_CREATE_INFO, _DEVICE_CREATE_INFO = 0, 1, 2, 3
_MEMORY_ALLOCATE_INFO, _BUFFER_CREATE_INFO = 5, 12
_PROPERTIES_2, _ID_PROPERTIES = 1000059001, 1000071004
_SEMAPHORE_CREATE_INFO, _EXPORT_SEMAPHORE = 9, 1000077000
_SEMAPHORE_IMPORT_FD, _SEMAPHORE_GET_FD = 1000079000, 1000079001
_TIMELINE_FEATURES, _SEMAPHORE_TYPE, _SEMAPHORE_WAIT, _TIMELINE = 1000207000, 1000207002, 1000207004, 1
_EXTERNAL_MEMORY_BUFFER, _EXPORT_MEMORY, _MEMORY_GET_FD = 1000072000, 1000072002, 1000074002
_OPAQUE_FD, _DEVICE_LOCAL, _HOST_VISIBLE = 1, 1, 2
_STORAGE_AND_TRANSFER = 0x20 | 0x01 | 0x02
_PROPERTIES_BYTES = 1024  # more than VkPhysicalDeviceProperties has
_MEMORY_EXTENSION, _SEMAPHORE_EXTENSION = b"VK_KHR_external_memory_fd", b"VK_KHR_external_semaphore_fd"
_TIMELINE_EXTENSION = b"VK_KHR_timeline_semaphore"
_TIMEOUT, _EXTENSION_NOT_PRESENT, _FEATURE_NOT_PRESENT = 2, -7, -8
_PAGE_BYTES = 4096
UUID_BYTES = 16


def _struct(name: str, *fields: tuple[str, Any]) -> Any:
    """A Vulkan structure: each begins with its type and a pointer to more."""
    return type(name, (ctypes.Structure,), {"_fields_": [("type", _U32), ("next", _P), *fields]})


_ApplicationInfo: Any = _struct(
    "ApplicationInfo", ("name", _P), ("version", _U32), ("engine", _P), ("engine_version", _U32), ("api", _U32)
)
_InstanceCreateInfo: Any = _struct(
    "InstanceCreateInfo", ("flags", _U32), ("application", _P), ("layers", _U32), ("layer_names", _P),
    ("extensions", _U32), ("extension_names", _P),
)  # fmt: skip
_Properties: Any = _struct("Properties", ("properties", ctypes.c_uint8 * _PROPERTIES_BYTES))
_IdProperties: Any = _struct(
    "IdProperties", ("device", ctypes.c_uint8 * UUID_BYTES), ("driver", ctypes.c_uint8 * UUID_BYTES),
    ("luid", ctypes.c_uint8 * 8), ("node_mask", _U32), ("luid_valid", _U32),
)  # fmt: skip
_QueueCreateInfo: Any = _struct("QueueCreateInfo", ("flags", _U32), ("family", _U32), ("count", _U32), ("priority", _P))
_DeviceCreateInfo: Any = _struct(
    "DeviceCreateInfo", ("flags", _U32), ("queues", _U32), ("queue_infos", _P), ("layers", _U32), ("layer_names", _P),
    ("extensions", _U32), ("extension_names", _P), ("features", _P),
)  # fmt: skip
_BufferCreateInfo: Any = _struct(
    "BufferCreateInfo", ("flags", _U32), ("nbytes", _U64), ("usage", _U32), ("sharing", _U32), ("families", _U32),
    ("family_indices", _P),
)  # fmt: skip
_HandleTypes: Any = _struct("HandleTypes", ("handle_types", _U32))
_AllocateInfo: Any = _struct("AllocateInfo", ("nbytes", _U64), ("memory_type", _U32))
_SemaphoreCreateInfo: Any = _struct("SemaphoreCreateInfo", ("flags", _U32))
_TimelineFeatures: Any = _struct("TimelineFeatures", ("timeline_semaphore", _U32))
_SemaphoreType: Any = _struct("SemaphoreType", ("kind", _U32), ("value", _U64))
_ImportSemaphoreInfo: Any = _struct(
    "ImportSemaphoreInfo", ("semaphore", _U64), ("flags", _U32), ("handle_type", _U32), ("descriptor", ctypes.c_int)
)
_WaitInfo: Any = _struct("WaitInfo", ("flags", _U32), ("count", _U32), ("semaphores", _P), ("values", _P))
_GetFdInfo: Any = _struct("GetFdInfo", ("exported", _U64), ("handle_type", _U32))


class _Requirements(ctypes.Structure):
    _fields_ = (("nbytes", _U64), ("alignment", _U64), ("memory_types", _U32))


class _MemoryProperties(ctypes.Structure):
    _fields_ = (("types", _U32), ("type", _U32 * 2 * 32), ("heaps", _U32), ("heap", _U64 * 2 * 16))


class VulkanDevice:
    """The Vulkan device with a given UUID, for allocations and semaphores alone. ``open_device`` finds it."""

    def __init__(self, library: ctypes.CDLL, physical: int) -> None:
        self._library, self._physical = library, physical
        self._device = _P()
        self._functions: dict[str, Any] = {}
        self._extensions = (_MEMORY_EXTENSION, _SEMAPHORE_EXTENSION, _TIMELINE_EXTENSION)
        # Not every driver has semaphores that can be exported (lavapipe), and memory alone is of use.
        while status := self._create(self._extensions):
            if status not in (_EXTENSION_NOT_PRESENT, _FEATURE_NOT_PRESENT) or len(self._extensions) == 1:
                break
            self._extensions = self._extensions[:-1]
        if status:
            raise DeviceError(f"vkCreateDevice with {_MEMORY_EXTENSION.decode()} failed with VkResult {status}")

    def _create(self, extensions: tuple[bytes, ...]) -> int:
        priority = ctypes.c_float(1.0)
        queue = _QueueCreateInfo(_DEVICE_QUEUE_CREATE_INFO, None, 0, 0, 1, _address(priority))
        names, count = (ctypes.c_char_p * len(extensions))(*extensions), len(extensions)
        features = _TimelineFeatures(_TIMELINE_FEATURES, None, 1)
        more = _address(features) if _TIMELINE_EXTENSION in extensions else None
        info = _DeviceCreateInfo(
            _DEVICE_CREATE_INFO, more, 0, 1, _address(queue), 0, None, count, _address(names), None
        )
        create = self._library.vkCreateDevice
        return create(_P(self._physical), ctypes.byref(info), None, ctypes.byref(self._device))

    def allocate(self, nbytes: int) -> Allocation:
        """Memory of the GPU's own for a buffer of at least ``nbytes``. Raises DeviceError if there is none left."""
        external = _HandleTypes(_EXTERNAL_MEMORY_BUFFER, None, _OPAQUE_FD)
        info = _BufferCreateInfo(_BUFFER_CREATE_INFO, _address(external), 0, nbytes, _STORAGE_AND_TRANSFER, 0, 0, None)
        buffer, needed = _U64(), _Requirements()
        _call(self._library, "vkCreateBuffer", self._device, ctypes.byref(info), None, ctypes.byref(buffer))
        self._library.vkGetBufferMemoryRequirements(self._device, buffer, ctypes.byref(needed))
        self._library.vkDestroyBuffer(self._device, buffer, None)
        export = _HandleTypes(_EXPORT_MEMORY, None, _OPAQUE_FD)
        # Importers may align sizes more than Vulkan does (llvmpipe's GL).
        whole = -(-needed.nbytes // _PAGE_BYTES) * _PAGE_BYTES
        memory_type = self._memory_type(needed.memory_types)
        request = _AllocateInfo(_MEMORY_ALLOCATE_INFO, _address(export), whole, memory_type)
        memory = _U64()
        _call(self._library, "vkAllocateMemory", self._device, ctypes.byref(request), None, ctypes.byref(memory))
        return Allocation(self, memory.value, whole)

    def _memory_type(self, allowed: int) -> int:
        """The type of the GPU's own memory, if possible one that the host does not see."""
        properties = _MemoryProperties()
        self._library.vkGetPhysicalDeviceMemoryProperties(_P(self._physical), ctypes.byref(properties))
        local = [i for i in range(properties.types) if allowed >> i & 1 and properties.type[i][0] & _DEVICE_LOCAL]
        if not local:
            raise DeviceError("Vulkan has no memory of the GPU's own for a buffer that is exported")
        return min(local, key=lambda i: properties.type[i][0] & _HOST_VISIBLE)

    def export(self, memory: int) -> int:
        """A new file descriptor of the memory. The API that imports it owns it."""
        return self._descriptor("vkGetMemoryFdKHR", _MEMORY_GET_FD, memory)

    def semaphore(self) -> tuple[int, int]:
        """A binary semaphore as two file descriptors, one for each of the APIs that import it, which then own it.

        Raises DeviceError if the driver exports none.
        """
        export = _HandleTypes(_EXPORT_SEMAPHORE, None, _OPAQUE_FD)
        info, semaphore = _SemaphoreCreateInfo(_SEMAPHORE_CREATE_INFO, _address(export), 0), _U64()
        _call(self._library, "vkCreateSemaphore", self._device, ctypes.byref(info), None, ctypes.byref(semaphore))
        try:
            arguments = "vkGetSemaphoreFdKHR", _SEMAPHORE_GET_FD, semaphore.value
            first = self._descriptor(*arguments)
            try:
                return first, self._descriptor(*arguments)
            except DeviceError:
                os.close(first)
                raise
        finally:
            self._library.vkDestroySemaphore(self._device, semaphore, None)

    def timeline(self, descriptor: int | None = None) -> Timeline:
        """A new semaphore that counts up from 0, or the one of another process, from its file descriptor.

        Vulkan owns the descriptor then. Raises DeviceError if the driver has none, or refuses it; the descriptor is
        then closed.
        """
        try:
            if _TIMELINE_EXTENSION not in self._extensions:
                raise DeviceError(f"the Vulkan driver has no {_TIMELINE_EXTENSION.decode()}")
            made = Timeline(self, self._new_timeline())
            if descriptor is not None:
                info = _ImportSemaphoreInfo(_SEMAPHORE_IMPORT_FD, None, made.handle, 0, _OPAQUE_FD, descriptor)
                self._check_extension("vkImportSemaphoreFdKHR", info)
        except DeviceError:
            if descriptor is not None:
                os.close(descriptor)
            raise
        return made

    def _new_timeline(self) -> int:
        kind = _SemaphoreType(_SEMAPHORE_TYPE, None, _TIMELINE, 0)
        export = _HandleTypes(_EXPORT_SEMAPHORE, _address(kind), _OPAQUE_FD)
        info, semaphore = _SemaphoreCreateInfo(_SEMAPHORE_CREATE_INFO, _address(export), 0), _U64()
        _call(self._library, "vkCreateSemaphore", self._device, ctypes.byref(info), None, ctypes.byref(semaphore))
        return semaphore.value

    def export_semaphore(self, semaphore: int) -> int:
        """A new file descriptor of a semaphore. The API that imports it owns it."""
        return self._descriptor("vkGetSemaphoreFdKHR", _SEMAPHORE_GET_FD, semaphore)

    def wait(self, semaphore: int, value: int, seconds: float) -> bool:
        """Block until a timeline has reached ``value``. Returns False if it has not in time."""
        handles, values = _U64(semaphore), _U64(value)
        info = _WaitInfo(_SEMAPHORE_WAIT, None, 0, 1, _address(handles), _address(values))
        wait = self._extension("vkWaitSemaphoresKHR", _P, _P, _U64)
        status = wait(self._device, ctypes.addressof(info), round(seconds * 1e9))
        if status < 0:
            raise DeviceError(f"vkWaitSemaphoresKHR failed with VkResult {status}")
        return status != _TIMEOUT

    def destroy(self, semaphore: int) -> None:
        """Destroy a semaphore. Whoever imported it keeps it."""
        self._library.vkDestroySemaphore(self._device, _U64(semaphore), None)

    def _descriptor(self, function: str, kind: int, exported: int) -> int:
        descriptor = ctypes.c_int(-1)
        info = _GetFdInfo(kind, None, exported, _OPAQUE_FD)
        self._check_extension(function, info, ctypes.addressof(descriptor))
        return descriptor.value

    def _check_extension(self, function: str, info: Any, *results: int) -> None:
        """Call an extension's function of a device, a structure and results. Raises DeviceError if it fails."""
        call = self._extension(function, _P, _P, *[_P] * len(results))
        status = call(self._device, ctypes.addressof(info), *results)
        if status:
            raise DeviceError(f"{function} failed with VkResult {status}")

    def _extension(self, function: str, *types: Any) -> Any:
        """A function of an extension, looked up once. Raises DeviceError if the driver has none."""
        if function in self._functions:
            return self._functions[function]
        find = self._library.vkGetDeviceProcAddr
        find.restype = _P
        address = find(self._device, function.encode())
        if not address:
            raise DeviceError(f"the Vulkan driver has no {function}")
        self._functions[function] = found = ctypes.CFUNCTYPE(ctypes.c_int, *types)(address)
        return found

    def free(self, memory: int) -> None:
        """Free an allocation. Whoever imported it keeps the memory."""
        self._library.vkFreeMemory(self._device, _U64(memory), None)


class Allocation:
    """Memory of the GPU of ``nbytes``, freed when it is collected; whoever imported it by then keeps it."""

    def __init__(self, device: VulkanDevice, memory: int, nbytes: int) -> None:
        self.nbytes, self._device, self._memory = nbytes, device, memory
        weakref.finalize(self, free, device.free, memory).atexit = False

    def export(self) -> int:
        """A file descriptor for one import, which then owns it."""
        return self._device.export(self._memory)


class Timeline:
    """A semaphore that counts up, in this process or in several. Destroyed when it is collected."""

    def __init__(self, device: VulkanDevice, handle: int) -> None:
        self.handle, self._device = handle, device
        weakref.finalize(self, free, device.destroy, handle).atexit = False

    def export(self) -> int:
        """A file descriptor for one import, which then owns it."""
        return self._device.export_semaphore(self.handle)

    def wait(self, value: int, seconds: float) -> bool:
        """Block until it has reached ``value``. Returns False if it has not in time. Raises DeviceError."""
        return self._device.wait(self.handle, value, seconds)


@functools.cache
def open_device(uuid: bytes) -> VulkanDevice:
    """The Vulkan device of that UUID (16 bytes), kept for the life of the process.

    Raises DeviceError if Vulkan is not installed, has no such device, or cannot export its memory.
    """
    library, instance = _instance()
    count, devices = _U32(64), (_P * 64)()
    _call(library, "vkEnumeratePhysicalDevices", instance, ctypes.byref(count), devices)
    for physical in devices[: count.value]:
        if _uuid(library, physical) == uuid:
            return VulkanDevice(library, physical)
    raise DeviceError(f"none of Vulkan's {count.value} devices is the one of the GL and the CL context")


def device_uuids() -> list[bytes]:
    """The UUIDs of all Vulkan devices. Raises DeviceError if Vulkan is not installed."""
    library, instance = _instance()
    count, devices = _U32(64), (_P * 64)()
    _call(library, "vkEnumeratePhysicalDevices", instance, ctypes.byref(count), devices)
    return [_uuid(library, physical) for physical in devices[: count.value]]


@functools.cache
def _instance() -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    library = load("libvulkan.so.1", "vulkan-1.dll")
    if library is None:
        raise DeviceError("there is no Vulkan loader (libvulkan.so.1); on Debian or Ubuntu: apt-get install libvulkan1")
    application = _ApplicationInfo(_APPLICATION_INFO, None, None, 0, None, 0, _API_1_1)
    info = _InstanceCreateInfo(_INSTANCE_CREATE_INFO, None, 0, _address(application), 0, None, 0, None)
    instance = _P()
    _call(library, "vkCreateInstance", ctypes.byref(info), None, ctypes.byref(instance))
    return library, instance


def _uuid(library: ctypes.CDLL, physical: int) -> bytes:
    ids = _IdProperties(_ID_PROPERTIES)
    properties = _Properties(_PROPERTIES_2, _address(ids))
    library.vkGetPhysicalDeviceProperties2(_P(physical), ctypes.byref(properties))
    return bytes(ids.device)


def _call(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    status = getattr(library, name)(*arguments)
    if status < 0:
        raise DeviceError(f"{name} failed with VkResult {status}")


def _address(structure: Any) -> int:
    """The address for a field that points to it. The caller keeps it alive."""
    return ctypes.addressof(structure)
