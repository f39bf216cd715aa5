"""The Vulkan device's failures, with a library that fails: what it gave before is given back."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import pytest

import framebind as fb
from framebind.interop.gl.vulkan import VulkanDevice

_INITIALIZATION_FAILED, _TOO_MANY_OBJECTS = -3, -10


class Library(ctypes.CDLL):
    """The process itself, with functions of Vulkan: ``opened`` has the descriptors that it gave out."""

    def __init__(self, create_status: int = 0) -> None:
        super().__init__(None)
        self.opened: list[int] = []
        self.vkCreateDevice: Any = lambda *_: create_status
        self.vkCreateSemaphore: Any = lambda *_: 0
        self.vkDestroySemaphore: Any = lambda *_: None


class OneDescriptor(VulkanDevice):
    """A device whose driver gives out one descriptor, and then no more."""

    def _descriptor(self, function: str, kind: int, exported: int) -> int:
        assert isinstance(self._library, Library)
        if self._library.opened:
            raise fb.DeviceError(f"{function} failed with VkResult {_TOO_MANY_OBJECTS}")
        self._library.opened.append(os.open(os.devnull, os.O_RDONLY))
        return self._library.opened[-1]


def test_a_device_that_cannot_be_made_is_an_error_and_no_null_handle() -> None:
    with pytest.raises(fb.DeviceError, match="vkCreateDevice with VK_KHR_external_memory_fd failed with VkResult -3"):
        VulkanDevice(Library(_INITIALIZATION_FAILED), 1)


def test_half_a_semaphore_leaves_no_descriptor_open() -> None:
    library = Library()
    with pytest.raises(fb.DeviceError, match="VkResult -10"):
        OneDescriptor(library, 1).semaphore()
    (descriptor,) = library.opened
    with pytest.raises(OSError):
        os.fstat(descriptor)
