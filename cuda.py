"""CUDA: contexts, arrays and pictures. Use: ``fb.cuda``."""

from .interop.cuda.arrays import CudaArray
from .interop.cuda.context import CudaContext
from .interop.cuda.objects import CudaImage

__all__ = ["CudaArray", "CudaContext", "CudaImage"]


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return [*__all__]
