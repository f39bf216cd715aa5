"""The loaders that are installed for all APIs, and their drivers."""

from __future__ import annotations

from ..backends import list_backends
from ..loaders import InstalledApi


def installed_apis() -> list[InstalledApi]:
    """The loaders of EGL (OpenGL without a window), OpenCL, Vulkan (memory that both share) and CUDA; their drivers.

    Loads every driver, makes no context and allocates nothing on a GPU. The drivers' files are looked for as the
    loaders do, also in the folders that ``__EGL_VENDOR_LIBRARY_DIRS``, ``OCL_ICD_VENDORS``, ``VK_DRIVER_FILES`` and
    their like name.

    Returns
    -------
    list of InstalledApi
        For EGL, OpenCL, Vulkan and CUDA in this order: ``api``, ``drivers``, ``devices`` (how many it lists) and
        ``problem`` (why it lists none, else ""). A driver has ``file``, ``library`` and ``problem`` (why it does not
        load, or ""). CUDA has two on every machine, there or not: NVIDIA's driver, and NVIDIA's compiler.

    Examples
    --------
    >>> [api.api for api in fb.installed_apis()]
    ['EGL', 'OpenCL', 'Vulkan', 'CUDA']
    """
    return [loader.installed() for backend in list_backends() for loader in backend.loaders]
