"""TensorFlow Lite models on the GPU, on your own GL textures and buffers. Use: ``import framebind as fb``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ai_edge_litert.interpreter import Delegate, OpResolverType, load_delegate

from .delegate.cache.cache import fingerprint
from .delegate.custom_operators import InterpreterWithCustomOps
from .delegate.gpu_delegate import GpuDelegate
from .delegate.interpreter import Interpreter
from .delegate.options import GpuDelegateOptions, InferencePreference, InferencePriority, WaitType
from .delegate.plan.region import Region
from .delegate.report import DelegatedOp, PartitionReport
from .delegate.signature_runner import SignatureRunner
from .delegate.statistics import Statistics, StepCost, StepTime, TensorMemory
from .interop.backends import Backend, list_backends
from .interop.deprecated import warn_deprecated
from .interop.discovery.best_options import BestOptions
from .interop.discovery.gpus import FoundGpu, find_gpus
from .interop.errors import (
    BindingError,
    DelegateError,
    DeviceError,
    FramebindError,
    KernelError,
    ModelError,
    SourceError,
    TransferError,
)
from .interop.frames.frame import Frame
from .interop.frames.read.opening import open_source
from .interop.gl.buffer import GlBuffer
from .interop.gl.context import GlContext
from .interop.gl.draw.draw import FragmentProgram
from .interop.gl.texture import GlTexture
from .interop.gl.timer import GlTimer, StageTime
from .interop.transfers import transfer_guard, transfers
from .interop.yuv import YuvPicture

if TYPE_CHECKING:
    from . import cl, mp, video
    from . import public_cuda as cuda
    from .cl import ClBuffer as ClBuffer
    from .cl import ClContext as ClContext
    from .cl import ClImage as ClImage
    from .cl import SharingReport as SharingReport
    from .cl import sharing_report as sharing_report
    from .delegate.compiled_model import CompiledModel
    from .delegate.tensor_buffer import TensorBuffer
    from .interop.discovery.compatibility import CompatibilityList
    from .interop.discovery.drivers import installed_apis
    from .interop.frames.write.sink import MarkedVideo as MarkedVideo
    from .interop.frames.write.sink import Sink as Sink
    from .interop.frames.write.sink import open_sink as open_sink
    from .interop.gl.draw.window import Window
    from .interop.processes.exported import ExportedTexture, export_texture
    from .interop.processes.imported import ImportedTexture, import_texture
    from .public_cuda import CudaArray as CudaArray
    from .public_cuda import CudaContext as CudaContext
    from .public_cuda import CudaImage as CudaImage
    from .video import Camera as Camera
    from .video import Marks as Marks
    from .video import Overlay as Overlay
    from .video import Planes as Planes
    from .video import Source as Source
    from .video import StreamOptions as StreamOptions
    from .video import VideoPart as VideoPart
    from .video import VideoStage as VideoStage
    from .video import VideoTags as VideoTags
    from .video import VideoWriter as VideoWriter
    from .video import WorkTime as WorkTime
    from .video import divide_video as divide_video
    from .video import join_videos as join_videos
    from .video import list_cameras as list_cameras
    from .video import masked_address as masked_address
    from .video import video_seconds as video_seconds

__version__ = "0.2.0"

__all__ = [
    "Backend",
    "BestOptions",
    "BindingError",
    "CompatibilityList",
    "CompiledModel",
    "Delegate",
    "DelegateError",
    "DelegatedOp",
    "DeviceError",
    "ExportedTexture",
    "FoundGpu",
    "FragmentProgram",
    "Frame",
    "FramebindError",
    "GlBuffer",
    "GlContext",
    "GlTexture",
    "GlTimer",
    "GpuDelegate",
    "GpuDelegateOptions",
    "ImportedTexture",
    "InferencePreference",
    "InferencePriority",
    "Interpreter",
    "InterpreterWithCustomOps",
    "KernelError",
    "ModelError",
    "OpResolverType",
    "PartitionReport",
    "Region",
    "SignatureRunner",
    "SourceError",
    "StageTime",
    "Statistics",
    "StepCost",
    "StepTime",
    "TensorBuffer",
    "TensorMemory",
    "TransferError",
    "WaitType",
    "Window",
    "YuvPicture",
    "cl",
    "cuda",
    "export_texture",
    "find_gpus",
    "fingerprint",
    "import_texture",
    "installed_apis",
    "list_backends",
    "load_delegate",
    "mp",
    "open_source",
    "transfer_guard",
    "transfers",
    "video",
]

_MODULES = {"cl": ".cl", "cuda": ".public_cuda", "mp": ".mp", "video": ".video"}
"""Public modules, which are imported when they are first used, and their files."""
_MOVED = {
    **dict.fromkeys(("ClBuffer", "ClContext", "ClImage", "SharingReport", "sharing_report"), "cl"),
    **dict.fromkeys(("CudaArray", "CudaContext", "CudaImage"), "cuda"),
    **dict.fromkeys(
        (
            "Camera",
            "Marks",
            "Overlay",
            "Planes",
            "Source",
            "StreamOptions",
            "VideoPart",
            "VideoStage",
            "VideoTags",
            "VideoWriter",
            "WorkTime",
            "divide_video",
            "join_videos",
            "list_cameras",
            "masked_address",
            "video_seconds",
        ),
        "video",
    ),
}
"""The module that has a name now, by old name (docs/deprecated.md)."""
_OLD = dict.fromkeys(("MarkedVideo", "Sink", "open_sink"), ".interop.frames.write.sink")
"""Old names that other classes replace: they warn when they are used."""
_LATE = {
    "CompatibilityList": ".interop.discovery.compatibility",
    "CompiledModel": ".delegate.compiled_model",
    **dict.fromkeys(("ExportedTexture", "export_texture"), ".interop.processes.exported"),
    **dict.fromkeys(("ImportedTexture", "import_texture"), ".interop.processes.imported"),
    "TensorBuffer": ".delegate.tensor_buffer",
    "Window": ".interop.gl.draw.window",
    "installed_apis": ".interop.discovery.drivers",
}
"""Public names whose modules are imported when they are first used: programs that need none start faster. Without
pyopencl and what uses it, ``import framebind`` and a GL context take 696 ms of CPU time in place of 787 (the least of
15 processes on 2 busy cores, 2026-11-23, benchmarks/imports.py). GLFW, for a window, starts a process to find its
library.
"""


def __getattr__(name: str) -> Any:
    """Import a name of ``_MODULES``, ``_LATE`` or ``_OLD``, or one of ``_MOVED`` with a DeprecationWarning."""
    if name in _MODULES:
        globals()[name] = module = import_module(_MODULES[name], __name__)
        return module
    if name in _MOVED:
        module = _MOVED[name]
        warn_deprecated(f"framebind.{name}", f"framebind.{module}.{name}")
        return getattr(import_module(_MODULES[module], __name__), name)
    late = _LATE | _OLD
    if name not in late:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(late[name], __name__), name)
    return value


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted([*__all__, "__version__"])
