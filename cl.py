"""OpenCL: contexts, buffers, images, and their memory in common with OpenGL. Use: ``fb.cl``."""

from .interop.cl.context import ClContext
from .interop.cl.objects import ClBuffer, ClImage
from .interop.cl.sharing.sharing import SharingReport, sharing_report

__all__ = ["ClBuffer", "ClContext", "ClImage", "SharingReport", "sharing_report"]


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return [*__all__]
