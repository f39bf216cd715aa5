"""Cameras and network streams: asked for a format, read raw if the GPU can convert it, and opened again when lost."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ...errors import SourceError
from ..decode.addresses import masked_address
from .frame_reader import Pixels
from .opencv import load_cv2, quiet
from .yuv_to_rgb import Layout, Matrix, layout_of

if TYPE_CHECKING:
    import cv2

RAW_FORMATS = {"YUYV": "yuyv", "YUY2": "yuyv", "NV12": "nv12"}
"""Formats that are uploaded as the camera gives them: FOURCC to layout."""
FOURCCS = ("MJPG", *RAW_FORMATS)
_LAST_INDEX = (1 << 31) - 1
_PROPERTY = re.compile(r"(=\s*)(\"[^\"]*\"|\S+)")
"""A value of a property in a pipeline of GStreamer."""
_DEVICES = Path("/sys/class/video4linux")
"""The folder in which Linux lists video devices."""


@dataclass(frozen=True)
class CameraOptions:
    """The format to ask a camera for; None leaves it to the camera. ``matrix`` is the colour matrix of raw formats."""

    size: tuple[int, int] | None = None
    fps: float | None = None
    fourcc: str | None = None
    matrix: Matrix = "bt601"


@dataclass(frozen=True)
class Camera:
    """A video device of this machine.

    Attributes
    ----------
    index : int
        The number that ``open_source`` takes.
    name : str
        The name that the system gives it.

    Examples
    --------
    >>> fb.video.Camera(0, "a webcam").index
    0
    """

    index: int
    name: str


def list_cameras() -> list[Camera]:
    """The video devices of this machine, by index. Linux only: on other systems the list is empty.

    Returns
    -------
    list of Camera

    Examples
    --------
    >>> for camera in fb.video.list_cameras():
    ...     source = fb.open_source(camera.index)
    ...     source.close()
    """
    return cameras_in(_DEVICES)


def cameras_in(folder: Path) -> list[Camera]:
    """The video devices that a folder lists as Linux does, by index."""
    found: list[Camera] = []
    for device in folder.glob("video*"):
        number = device.name.removeprefix("video")
        if number.isdecimal():
            try:
                name = (device / "name").read_text(errors="replace").strip()
            except OSError:
                name = "unknown"
            found.append(Camera(int(number), name))
    return sorted(found, key=lambda camera: camera.index)


class CameraReader:
    """Live frames of a camera (``source`` is its index), a stream's address or a GStreamer pipeline, through OpenCV.

    Frames of a raw format stay in the layout of that format; others are decoded to BGR. Raises SourceError if it cannot
    be opened, or does not give the format that was asked for.
    """

    live, length, time = True, None, None
    damaged, status, retry = 0, "", None

    def __init__(self, source: int | str, options: CameraOptions | None = None) -> None:
        self._source, self._options = source, options or CameraOptions()
        self._what = f"camera {source}" if isinstance(source, int) else f"stream '{_masked(source)}'"
        if isinstance(source, int) and not 0 <= source <= _LAST_INDEX:  # OpenCV dies of -1
            raise SourceError(f"there is no {self._what}: cameras are numbered from 0")
        fourcc = self._options.fourcc
        if fourcc is not None and fourcc not in FOURCCS:
            raise SourceError(f"frames in {fourcc} cannot be read: take one of {', '.join(FOURCCS)}")
        self._capture = self._open()
        if self._capture is None:
            raise SourceError(why_closed(self._source, self._what, list_cameras()))
        self.layout = self._ask(self._capture)
        self.captured = time.perf_counter()
        shown = self._shown(self._capture)
        self.name = f"{self._what} ({shown})" if shown else self._what

    def read(self, view: Pixels) -> bool:
        """Read the next frame into ``view``; False if none came: the camera is gone until ``reopen`` finds it."""
        if self._capture is None:
            return False
        cv2 = load_cv2()
        found, frame = self._capture.read(view)
        if not found:
            return False
        now = time.perf_counter()
        # V4L2 stamps frames with the clock of perf_counter on Linux. Other systems use other clocks.
        stamp = self._capture.get(cv2.CAP_PROP_POS_MSEC) / 1e3 if isinstance(self._source, int) else 0.0
        self.captured = stamp if 0 <= now - stamp < 1 else now
        if frame is not view:
            if frame.nbytes != view.nbytes or frame.dtype != view.dtype:
                raise SourceError(
                    f"{self.name} gives frames of {_describe(frame)}, not {_describe(view)} as announced: ask for "
                    "another --size, or for --fourcc MJPG"
                )
            view[...] = frame.reshape(view.shape)
        return True

    def reopen(self) -> bool:
        """Try once to open it again with the same options. Raises SourceError if it came back with another format."""
        self.close()
        self._capture = self._open()
        if self._capture is None:
            return False
        if (layout := self._ask(self._capture)) != self.layout:
            raise SourceError(
                f"{self.name} came back with frames of {layout.shape[1]}x{layout.shape[0]} ({layout.name}): start again"
            )
        return True

    def close(self) -> None:
        """Close the camera. May be called more than once."""
        if self._capture is not None:
            self._capture.release()
            self._capture = None

    def _open(self) -> cv2.VideoCapture | None:
        cv2 = load_cv2()
        with quiet():
            if isinstance(self._source, str) and "!" in self._source:
                capture = cv2.VideoCapture(self._source, cv2.CAP_GSTREAMER)
            else:
                capture = cv2.VideoCapture(self._source)
        return capture if capture.isOpened() else None

    def _ask(self, capture: cv2.VideoCapture) -> Layout:
        """Ask a camera for the format, in the order that drivers need. Returns the layout that it gives."""
        cv2, options, layout = load_cv2(), self._options, "bgr"
        if isinstance(self._source, int):
            # Compressed by default: large raw frames do not fit through USB 2.
            wanted = options.fourcc or "MJPG"
            capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*wanted))
            if options.size is not None:
                capture.set(cv2.CAP_PROP_FRAME_WIDTH, options.size[0])
                capture.set(cv2.CAP_PROP_FRAME_HEIGHT, options.size[1])
            if options.fps is not None:
                capture.set(cv2.CAP_PROP_FPS, options.fps)
            given = _fourcc(capture)
            if options.fourcc is not None and RAW_FORMATS.get(given, given) != RAW_FORMATS.get(wanted, wanted):
                capture.release()
                raise SourceError(
                    f"{self._what} gives {given or 'a format without a name'}, not {wanted}: leave out --fourcc, or "
                    "take another --size"
                )
            if options.fourcc in RAW_FORMATS:
                layout = RAW_FORMATS[options.fourcc]
                capture.set(cv2.CAP_PROP_CONVERT_RGB, 0)
            capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)
        self.size = (int(capture.get(cv2.CAP_PROP_FRAME_WIDTH)), int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT)))
        self.fps = capture.get(cv2.CAP_PROP_FPS) or None
        if min(self.size) < 1:
            capture.release()
            raise SourceError(f"{self._what} opens, but has no picture: is another program using it?")
        return layout_of(layout, *self.size, options.matrix)

    def _shown(self, capture: cv2.VideoCapture) -> str:
        if not isinstance(self._source, int):
            return ""
        return f"{self.size[0]}x{self.size[1]} {_fourcc(capture)}{f', {self.fps:g} fps' if self.fps else ''}"


def _masked(source: str) -> str:
    """An address, or a pipeline of GStreamer, without secrets: properties may be user-pw and location."""
    return _PROPERTY.sub(r"\1***", source) if " ! " in source else masked_address(source)


def why_closed(source: int | str, what: str, cameras: list[Camera]) -> str:
    """The reason why a camera, a stream or a pipeline cannot be opened. ``cameras`` are those of this machine."""
    if isinstance(source, str):
        cv2 = load_cv2()
        if "!" in source and not cv2.videoio_registry.hasBackend(cv2.CAP_GSTREAMER):
            return (
                f"{what} is a GStreamer pipeline, and this OpenCV is built without GStreamer (as all from "
                "PyPI are): install one that has it, for instance your distribution's python3-opencv"
            )
        return f"{what} cannot be opened: is the address right, and can it be reached from here?"
    device = f"/dev/video{source}"
    if source in (camera.index for camera in cameras):
        why = (
            "another program uses it, perhaps"
            if os.access(device, os.R_OK | os.W_OK)
            else f"you may not open {device}: join its group ('video', mostly), and log in again"
        )
    else:
        why = "is it plugged in?"
    here = ", ".join(f"{camera.index} '{camera.name}'" for camera in cameras) or "none that the system lists"
    return f"{what} cannot be opened: {why} Cameras here: {here}. A video or 'synthetic' are sources too"


def _fourcc(capture: cv2.VideoCapture) -> str:
    code = int(capture.get(load_cv2().CAP_PROP_FOURCC))
    return code.to_bytes(4, "little").decode("ascii", "replace").strip("\0 ") if code > 0 else ""


def _describe(frame: npt.NDArray[Any]) -> str:
    """A frame's size and type, for messages."""
    height, width = frame.shape[:2]
    return f"{width}x{height} {frame.dtype}"
