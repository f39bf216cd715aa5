"""TensorFlow Lite models on the GPU, on your own GL textures and buffers. Use: ``import framebind as fb``."""

from .delegate.gpu_delegate import GpuDelegate
from .delegate.interpreter import Interpreter
from .delegate.options import GpuDelegateOptions, InferencePreference, InferencePriority, WaitType
from .delegate.report import DelegatedOp, PartitionReport
from .delegate.serialization import fingerprint
from .delegate.statistics import Statistics, StepTime
from .interop.camera import Camera, list_cameras
from .interop.cl_context import ClContext
from .interop.cl_objects import ClBuffer, ClImage
from .interop.compatibility import BestOptions, CompatibilityList
from .interop.drivers import InstalledApi, InstalledDriver, installed_apis
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
from .interop.gl_context import GlContext
from .interop.gl_draw import FragmentProgram
from .interop.gl_objects import GlBuffer, GlTexture
from .interop.gl_timer import GlTimer, StageTime
from .interop.overlay import Overlay
from .interop.share import SharingReport, sharing_report
from .interop.sink import Sink, open_sink
from .interop.source import Source, open_source
from .interop.transfers import transfer_guard, transfers
from .interop.window import Window

__all__ = [
    "BestOptions",
    "BindingError",
    "Camera",
    "ClBuffer",
    "ClContext",
    "ClImage",
    "CompatibilityList",
    "DelegateError",
    "DelegatedOp",
    "DeviceError",
    "FragmentProgram",
    "FramebindError",
    "GlBuffer",
    "GlContext",
    "GlTexture",
    "GlTimer",
    "GpuDelegate",
    "GpuDelegateOptions",
    "InferencePreference",
    "InferencePriority",
    "InstalledApi",
    "InstalledDriver",
    "Interpreter",
    "KernelError",
    "ModelError",
    "Overlay",
    "PartitionReport",
    "SharingReport",
    "Sink",
    "Source",
    "SourceError",
    "StageTime",
    "Statistics",
    "StepTime",
    "TransferError",
    "WaitType",
    "Window",
    "fingerprint",
    "installed_apis",
    "list_cameras",
    "open_sink",
    "open_source",
    "sharing_report",
    "transfer_guard",
    "transfers",
]
