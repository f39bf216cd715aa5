"""Frames, whole videos, folders of them and live streams through a model. Use: ``fb.video``.

This file is a door: it alone in ``video`` names modules of ``interop``. The library behind it uses public names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..interop.frames.decode.addresses import StreamOptions, is_loopback, masked_address
    from ..interop.frames.decode.containers import video_seconds
    from ..interop.frames.decode.division import VideoPart, divide_video
    from ..interop.frames.decode.tags import VideoTags
    from ..interop.frames.decode.thread_times import WorkTime
    from ..interop.frames.frame import Frame
    from ..interop.frames.paint.marks import Marks
    from ..interop.frames.paint.marks_on_textures import Overlay
    from ..interop.frames.paint.planes import Planes
    from ..interop.frames.read.camera import Camera, list_cameras
    from ..interop.frames.read.opening import open_source
    from ..interop.frames.read.source import Source
    from ..interop.frames.virtual_cameras.opening import VirtualCameraPlace, list_virtual_cameras
    from ..interop.frames.write.joined import join_videos
    from ..interop.frames.write.video_writer import VideoWriter
    from ..interop.gl.draw.window import Window
    from .live.result import WatchResult
    from .live.watch import Watch
    from .results.supervision_objects import to_detections, to_key_points
    from .session.stage import VideoStage

__all__ = [
    "Camera",
    "Frame",
    "Marks",
    "Overlay",
    "Planes",
    "Source",
    "StreamOptions",
    "VideoPart",
    "VideoStage",
    "VideoTags",
    "VideoWriter",
    "VirtualCameraPlace",
    "Watch",
    "WatchResult",
    "Window",
    "WorkTime",
    "divide_video",
    "is_loopback",
    "join_videos",
    "list_cameras",
    "list_virtual_cameras",
    "masked_address",
    "open_source",
    "to_detections",
    "to_key_points",
    "video_seconds",
]

_FRAMES = "..interop.frames"
_LATE = {
    "Camera": f"{_FRAMES}.read.camera",
    "Frame": f"{_FRAMES}.frame",
    "Marks": f"{_FRAMES}.paint.marks",
    "Overlay": f"{_FRAMES}.paint.marks_on_textures",
    "Planes": f"{_FRAMES}.paint.planes",
    "Source": f"{_FRAMES}.read.source",
    "StreamOptions": f"{_FRAMES}.decode.addresses",
    "VideoPart": f"{_FRAMES}.decode.division",
    "VideoStage": ".session.stage",
    "VideoTags": f"{_FRAMES}.decode.tags",
    "VideoWriter": f"{_FRAMES}.write.video_writer",
    "VirtualCameraPlace": f"{_FRAMES}.virtual_cameras.opening",
    "Watch": ".live.watch",
    "WatchResult": ".live.result",
    "Window": "..interop.gl.draw.window",
    "WorkTime": f"{_FRAMES}.decode.thread_times",
    "divide_video": f"{_FRAMES}.decode.division",
    "is_loopback": f"{_FRAMES}.decode.addresses",
    "join_videos": f"{_FRAMES}.write.joined",
    "list_cameras": f"{_FRAMES}.read.camera",
    "list_virtual_cameras": f"{_FRAMES}.virtual_cameras.opening",
    "masked_address": f"{_FRAMES}.decode.addresses",
    "open_source": f"{_FRAMES}.read.opening",
    "to_detections": ".results.supervision_objects",
    "to_key_points": ".results.supervision_objects",
    "video_seconds": f"{_FRAMES}.decode.containers",
}
"""Public names with their modules, which are imported when they are first used: commands start faster."""


def __getattr__(name: str) -> Any:
    """Import a name of ``_LATE``."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_LATE[name], __name__), name)
    return value


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return [*__all__]
