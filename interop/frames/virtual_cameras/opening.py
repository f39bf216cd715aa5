"""The addresses of virtual cameras, such as "pipewire:NAME" and "http://:8080", and the cameras that they open."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
from pathlib import Path
from typing import NamedTuple

from ...errors import DeviceError, SourceError
from ...gl.context import GlContext
from ...processes.dma_buf_slots import DmaBufSlots
from ...processes.messages import Description
from .camera import HTTP, PIPEWIRE, SERVERS, V4L2, VirtualCamera
from .libpipewire import load_pipewire
from .pipewire_camera import PipewireCamera
from .v4l2_camera import V4l2Camera, loopback_devices

log = logging.getLogger("framebind.camera")

DEFAULT_NAME = "framebind"
BROWSER = "http://:8080"
_LONGEST_NAME = 200
_SHARED_TEXTURES = 4
_NO_DEVICE = "there is no device of v4l2loopback: 'modprobe v4l2loopback exclusive_caps=1' makes one"


class VirtualCameraPlace(NamedTuple):
    """A place where this machine can show a virtual camera, or a reason why it cannot.

    Attributes
    ----------
    address : str
        What ``VideoWriter`` takes: "pipewire", "v4l2:/dev/videoN" ("v4l2" alone if there is no device) or
        "http://:8080".
    is_ready : bool
        Whether a camera can be shown there.
    about : str
        What answers there; or what is missing, and what to do.

    Examples
    --------
    >>> place = fb.video.VirtualCameraPlace("pipewire", True, "PipeWire answers (libpipewire 1.0.5)")
    >>> print(place.address if place.is_ready else place.about)
    pipewire
    """

    address: str
    is_ready: bool
    about: str


def list_virtual_cameras() -> list[VirtualCameraPlace]:
    """List the places where ``VideoWriter`` can show pictures to other programs, as cameras.

    Returns
    -------
    list of VirtualCameraPlace
        PipeWire, each device of v4l2loopback, and browsers.

    Examples
    --------
    >>> [place.address for place in fb.video.list_virtual_cameras()][0]
    'pipewire'
    """
    devices = loopback_devices()
    places = [VirtualCameraPlace(f"{V4L2}:{device}", True, name) for device, name in devices.items()]
    return [_pipewire(), *(places or [VirtualCameraPlace(V4L2, False, _NO_DEVICE)]), _browser()]


def open_camera(address: str, size: tuple[int, int], fps: float) -> VirtualCamera:
    """Open the camera of an address, for pictures of ``size`` (width, height). Raises SourceError if it cannot.

    Without a name the camera of PipeWire is "framebind", and v4l2 is the first device of v4l2loopback.
    """
    kind, _, name = address.partition(":")
    if kind == HTTP:
        from .web_camera import WebCamera  # its server takes a while to import

        return WebCamera(address, size, fps)
    if kind in SERVERS:
        from .stream_camera import StreamCamera

        return StreamCamera(address, size, fps)
    if kind == V4L2:
        device = name or next(iter(loopback_devices()), "")
        if not device:
            raise SourceError(_NO_DEVICE)
        return V4l2Camera(device, size, fps)
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise SourceError(f"the name of a camera has at most {_LONGEST_NAME} characters, all of them printable")
    slots = _exported_textures(size)
    try:
        return PipewireCamera(name or DEFAULT_NAME, size, fps, slots)
    except BaseException:
        if slots is not None:
            slots.release()
        raise


def _exported_textures(size: tuple[int, int]) -> DmaBufSlots | None:
    """Textures that programs can take as DMA-BUFs; None if no GL context is current, or its driver exports none."""
    try:
        wanted = Description("", *size, "rgba8", _SHARED_TEXTURES, 0, 0, "")
        return DmaBufSlots.allocate(GlContext.current(), wanted)
    except DeviceError as error:
        log.debug("PipeWire's frames are no DMA-BUFs: %s", error)
        return None


def _browser() -> VirtualCameraPlace:
    """Whether the packages are here that serve a camera to browsers."""
    missing = [name for name in ("aiohttp", "aiortc") if importlib.util.find_spec(name) is None]
    if missing:
        reason = f"{' and '.join(missing)} not installed: pip install {' '.join(missing)}"
        return VirtualCameraPlace(BROWSER, False, reason)
    return VirtualCameraPlace(BROWSER, True, "browsers see it by WebRTC or MJPEG")


def _pipewire() -> VirtualCameraPlace:
    """Whether libpipewire is here, and a daemon listens. No camera is made."""
    try:
        version = load_pipewire().pw_get_library_version().decode()
    except SourceError as error:
        return VirtualCameraPlace(PIPEWIRE, False, str(error))
    folder = os.environ.get("PIPEWIRE_RUNTIME_DIR") or os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    place = Path(folder, os.environ.get("PIPEWIRE_REMOTE") or "pipewire-0")
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(place))
    except OSError as error:
        reason = (
            f"no daemon of PipeWire answers ({error.strerror or error}): 'systemctl --user start pipewire' starts it"
        )
        return VirtualCameraPlace(PIPEWIRE, False, reason)
    return VirtualCameraPlace(PIPEWIRE, True, f"PipeWire answers (libpipewire {version})")
