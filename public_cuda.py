"""CUDA: contexts, arrays and pictures. Use: ``fb.cuda``.

The file has another name because the repository's root is the package: a ``cuda.py`` there would hide NVIDIA's package
``cuda`` from programs that run in that folder.
"""

from .interop.cuda.arrays import CudaArray
from .interop.cuda.context import CudaContext
from .interop.cuda.objects import CudaImage

__all__ = ["CudaArray", "CudaContext", "CudaImage"]


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return [*__all__]
