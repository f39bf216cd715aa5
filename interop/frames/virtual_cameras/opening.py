"""The addresses of virtual cameras, "pipewire:NAME" and "v4l2:DEVICE", and the cameras that they open."""

from __future__ import annotations

from pathlib import Path

from ...errors import SourceError
from .camera import VirtualCamera
from .pipewire_camera import PipewireCamera

KINDS = ("pipewire",)
"""The kinds of cameras, which their addresses begin with."""
DEFAULT_NAME = "framebind"


def is_camera(target: str | Path) -> bool:
    """Whether a target is the address of a virtual camera, not the path of a file."""
    return str(target).partition(":")[0] in KINDS


def open_camera(address: str, size: tuple[int, int], fps: float) -> VirtualCamera:
    """Open the camera of an address, for pictures of ``size`` (width, height). Raises SourceError if it cannot."""
    _, _, name = address.partition(":")
    if len(name) > 200 or not name.isprintable():
        raise SourceError("the name of a camera has at most 200 characters, all of them printable")
    return PipewireCamera(name or DEFAULT_NAME, size, fps)
