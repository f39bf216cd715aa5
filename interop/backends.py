"""Table of the APIs that run models: the ``BACKEND`` of each ``interop/NAME/backend.py``, found by its folder."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..kernels.codegen.dialect import Dialect
from .device import Device
from .errors import DeviceError
from .loaders import Loader

AUTO = "auto"
"""The name for ``backend=`` that chooses an API: interop/discovery/devices.py has the rule."""


@dataclass(frozen=True)
class FoundDevice:
    """A device of this machine, as one API finds it."""

    api: str
    """The API's title: "OpenGL", "OpenGL ES", "OpenCL" or "CUDA"."""
    name: str
    version: str
    software: bool = False
    """Whether the device is the CPU."""
    f16: str = ""
    """Use of 16-bit floats by kernels: "storage", or "storage, arithmetic"."""
    unusable: str = ""
    """The reason why models cannot run on it; "" if they can."""


class ContextClass(Protocol):
    """The class of an API's contexts."""

    def is_current(self) -> bool:
        """Whether a context of the class is current on this thread."""
        ...

    def current(self) -> Any:
        """The context of the class that is current on this thread."""
        ...


class NewContext(Protocol):
    """A function that opens a context and makes it current."""

    def __call__(self, device: str = "", *, independent: bool = False) -> AbstractContextManager[Any]:
        """Open a context on a device, as ``--device`` names it; "" is the first that works.

        Work in an ``independent`` context waits for no other context of the same GPU. Raises DeviceError.
        """
        ...


@dataclass(frozen=True)
class Variant:
    """Another edition of an API with the same contexts and objects, as OpenGL ES is of OpenGL."""

    name: str
    """The name in ``Statistics.api``."""
    short: str
    """The name for ``certify --device``."""
    title: str
    """The name in texts and in ``FoundDevice.api``."""
    new_context: NewContext


def _no_variables(uuid: str) -> Mapping[str, str]:
    """Give no environment variables: none of them chooses a GPU for the API."""
    return {}


@dataclass(frozen=True)
class Backend:
    """An API that runs models: its names, and the functions that open, find and own what it has.

    Everything that lists APIs walks over these entries, so that a new one needs no line outside its folder. Functions
    import what they need when they are called: to read the table loads no driver.

    Examples
    --------
    >>> [backend.title for backend in fb.list_backends()]
    ['OpenGL', 'OpenCL', 'CUDA']
    """

    name: str
    """The name in ``GpuDelegateOptions.backend`` and ``Statistics.api``: "opengl"."""
    short: str
    """The name on command lines and in tables, which options take too: "gl"."""
    title: str
    """The name in texts and in ``FoundDevice.api``: "OpenGL"."""
    rank: int | None
    """The order in lists, from small to large. "auto" tries the API with the largest rank first. None: the backend
    computes nothing, is never chosen, and is in no list for users.
    """
    dialect: Dialect | None
    """The language of its kernels; None if it compiles none."""
    open: Callable[[], Device]
    """Opens a device in the context that is current on this thread, or in one of its own. Raises DeviceError."""
    context: Callable[[], ContextClass]
    """Gives the class of its contexts, which may load a library."""
    is_current: Callable[[], bool]
    """Says whether a context of a user's is current on this thread. It loads no library."""
    is_present: Callable[[], bool]
    """Says whether "auto" tries it without a context: False if the machine has no hardware for it."""
    new_context: NewContext
    new_buffer: Callable[[Any], Any]
    """Makes a buffer with the values of an array, in the context that is current."""
    new_texture: Callable[[Any], Any]
    """Makes a texture with the pixels of a uint8 array (height, width, 4), in the context that is current."""
    owns: Callable[[Any], bool]
    """Says whether an object belongs to the API, so that its devices bind it or say why not."""
    objects: str
    """The name of such objects in messages: "GL objects"."""
    needs_context: bool
    """Whether objects of the API can be used only where a context of theirs is current."""
    gl_objects: Literal["own", "shared", "copied"]
    """The use of OpenGL's objects by models: as the API's own ones; without a copy where drivers share memory; or by
    copies on the GPU. Exactly one backend, with which demos draw, has "own".
    """
    decodes: bool
    """Whether videos can be decoded into its memory, with no pixel on the CPU."""
    loaders: Sequence[Loader]
    """The libraries that find its drivers, and the packages with them."""
    find_devices: Callable[[], list[FoundDevice]]
    """Finds the devices of this machine; one row with the name "none" says why there is none."""
    find_gpus: Callable[[], dict[bytes, tuple[int, str]]] | None
    """Finds number and name of each GPU by its UUID, without the CPU. None: its numbers choose no GPU."""
    device_help: str
    """The form of ``--device`` in its help: "OpenGL's EGL number"."""
    named_devices: bool = False
    """Whether certificates name its devices one by one ("cl:NAME"), as drivers of several vendors are there at once."""
    gpu_environment: Callable[[str], Mapping[str, str]] = _no_variables
    """Environment variables that show a new process the GPU of that UUID alone."""
    variants: tuple[Variant, ...] = ()

    def __repr__(self) -> str:
        return f"<Backend: {self.title}, '{self.short}' or '{self.name}'>"

    def open_context(self, device: str = "") -> AbstractContextManager[Any]:
        """Give the context that is current on the thread, which stays open, or else a new one, which is closed.

        If a device is named, the context is a new one in any case.
        """
        if self.is_current() and not device:
            return nullcontext(self.context().current())
        return self.new_context(device)

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the API and its variants, by their names in ``Statistics.api``."""
        return {self.name: self.title} | {variant.name: variant.title for variant in self.variants}


def find_backends(package: str) -> tuple[Backend, ...]:
    """Find the entry of each folder of a package that has a file backend.py, by rank; those without one come last."""
    found: list[Backend] = []
    for folder in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        if folder.ispkg and importlib.util.find_spec(f"{folder.name}.backend") is not None:
            found.append(importlib.import_module(f"{folder.name}.backend").BACKEND)
    return tuple(sorted(found, key=lambda backend: (backend.rank is None, backend.rank)))


@functools.cache
def all_backends() -> tuple[Backend, ...]:
    """The entries of interop's folders, also of those that compute nothing."""
    return find_backends(__package__ or "")


def list_backends() -> tuple[Backend, ...]:
    """List the APIs that run models, in the order of tables. Their drivers need not be there.

    Returns
    -------
    tuple of Backend
        ``name``, ``short`` and ``title`` are its names. ``new_context``, ``new_buffer`` and ``new_texture`` make what
        a model can be bound to.

    Examples
    --------
    >>> [(backend.short, backend.name) for backend in fb.list_backends()]
    [('gl', 'opengl'), ('cl', 'opencl'), ('cuda', 'cuda')]
    """
    return tuple(backend for backend in all_backends() if backend.rank is not None)


def by_preference() -> tuple[Backend, ...]:
    """The APIs that run models, in the order in which "auto" tries them."""
    return list_backends()[::-1]


def dialects() -> dict[str, Dialect]:
    """The languages of kernels by name. The null device renders every kernel in all of them."""
    return {backend.dialect.name: backend.dialect for backend in list_backends() if backend.dialect is not None}


def backend_names() -> tuple[str, ...]:
    """The names of APIs that options and command lines take, and "auto"."""
    return *dict.fromkeys(name for backend in list_backends() for name in (backend.short, backend.name)), AUTO


def backend_named(name: str) -> Backend:
    """The backend with that name or short name. Raises DeviceError, with the known names, if there is none."""
    for backend in all_backends():
        if name in (backend.short, backend.name):
            return backend
    raise DeviceError(f"there is no backend {name!r}: take one of {', '.join(backend_names())}")


def advice_on_others(own: str) -> str:
    """The end of a message that refuses an object: the backends that take the objects of other APIs."""
    others = [backend for backend in list_backends() if backend.name != own]
    return ", and ".join(
        f"{backend.objects} {'need ' if number == 0 else ''}the backend '{backend.name}'"
        for number, backend in enumerate(others)
    )
