"""EGL's functions for DMA-BUFs and fences, recorded: no driver of these machines has them.

Names and numbers are those of the Khronos registry.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

import framebind as fb

IMPORT, MODIFIERS = "EGL_EXT_image_dma_buf_import", "EGL_EXT_image_dma_buf_import_modifiers"
EXPORT, FENCES = "EGL_MESA_image_dma_buf_export", "EGL_ANDROID_native_fence_sync"
EXTENSIONS = f"{IMPORT} {MODIFIERS} {EXPORT}"
DISPLAY, CONTEXT, IMAGE, SYNC, EGL_NONE = 71, 70, 72, 73, 0x3038


class EglRecorder:
    """EGL's functions. ``calls`` are those of images and fences; the call named by ``refuses`` fails.

    An exported texture has ``planes`` of (new descriptor or None for that of the plane before, offset, pitch).
    """

    def __init__(
        self,
        refuses: str = "",
        extensions: str = EXTENSIONS,
        planes: Sequence[tuple[bool, int, int]] = ((True, 0, 32),),
        modifiers: Sequence[int] = (0,),
        refuses_after: int = 0,
    ) -> None:
        self.calls, self._left = list[tuple[Any, ...]](), refuses_after
        self._refuses, self._extensions, self.planes, self._modifiers = refuses, extensions, planes, modifiers

    def _record(self, name: str, *arguments: Any) -> bool:
        self.calls.append((name, *arguments))
        if name != self._refuses:
            return True
        self._left -= 1
        return self._left >= 0

    def eglGetCurrentDisplay(self) -> int:  # noqa: N802
        return DISPLAY

    def eglGetCurrentContext(self) -> int:  # noqa: N802
        return CONTEXT

    def eglQueryString(self, display: int, name: int) -> bytes:  # noqa: N802
        assert (display, name) == (DISPLAY, 0x3055)
        return self._extensions.encode()

    def eglCreateImage(self, *arguments: Any) -> int:  # noqa: N802
        display, context, target, buffer, attributes = arguments
        return IMAGE if self._record("create", display, context, target, buffer, list(attributes)) else 0

    def eglDestroyImage(self, display: int, image: int) -> None:  # noqa: N802
        self._record("destroy", display, image)

    def eglExportDMABUFImageQueryMESA(  # noqa: N802
        self, display: int, image: int, fourcc: Any, count: Any, modifiers: Any
    ) -> bool:
        if not self._record("query" if modifiers is None else "modifiers", display, image):
            return False
        fourcc._obj.value, count._obj.value = 0x34324241, len(self.planes)
        if modifiers is not None:
            modifiers[: len(self._modifiers)] = self._modifiers
        return True

    def eglExportDMABUFImageMESA(  # noqa: N802
        self, display: int, image: int, descriptors: Any, pitches: Any, offsets: Any
    ) -> bool:
        """New descriptors are there even if the call fails."""
        for n, (is_new, offset, pitch) in enumerate(self.planes):
            offsets[n], pitches[n] = offset, pitch
            if is_new:
                descriptors[n] = os.memfd_create("DMA-BUF")
        return self._record("export", display, image)

    def eglCreateSync(self, display: int, kind: int, attributes: Any) -> int:  # noqa: N802
        return SYNC if self._record("fence", display, kind, list(attributes)) else 0

    def eglDupNativeFenceFDANDROID(self, display: int, sync: int) -> int:  # noqa: N802
        return os.memfd_create("fence") if self._record("duplicate", display, sync) else -1

    def eglDestroySync(self, display: int, sync: int) -> None:  # noqa: N802
        self._record("end", display, sync)

    def failed(self, what: str) -> fb.DeviceError:
        return fb.DeviceError(f"{what} failed with EGL_BAD_MATCH")


def open_descriptors() -> int:
    """The number of file descriptors of this process, but for those of devices, which drivers open when they like."""
    count = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            count += not os.readlink(f"/proc/self/fd/{descriptor}").startswith("/dev/")
    return count
