"""OpenGL, desktop and ES, in the table of backends; its devices without a window are EGL's."""

from __future__ import annotations

from collections.abc import Iterator

from ...kernels.codegen.glsl import GLSL
from ..backends import Backend, FoundDevice, Variant
from ..device import Device
from ..errors import DeviceError
from ..loaders import InstalledApi, Loader, driver_places, installed_by_files, library_of_json
from ..record.shared_devices import open_in
from . import egl
from .buffer import GlBuffer
from .compute.device import GlDevice
from .context import GlContext
from .external_memory import MEMORY_EXTENSION, device_uuids
from .platform import egl_library
from .query import has_extension
from .texture import GlTexture
from .user_objects import is_gl_object

_FOLDERS = ("/etc/glvnd/egl_vendor.d", "/usr/share/glvnd/egl_vendor.d")
_TITLE, _ES_TITLE = "OpenGL", "OpenGL ES"


def _open() -> Device:
    return open_in(GlContext, GlContext.headless, GlDevice)


def _new_context(device: str = "", *, independent: bool = False) -> GlContext:
    return GlContext.headless(device_index=_number(device))


def _new_es_context(device: str = "", *, independent: bool = False) -> GlContext:
    return GlContext.headless(es=True, device_index=_number(device))


def _number(device: str) -> int | None:
    if device and not device.isdecimal():
        raise DeviceError(
            f"OpenGL's devices are named by their EGL number, 0 for the first; '{device}' is none. OpenCL's have names"
        )
    return int(device) if device else None


def _installed() -> InstalledApi:
    places = driver_places("__EGL_VENDOR_LIBRARY_FILENAMES", "__EGL_VENDOR_LIBRARY_DIRS", _FOLDERS)
    return installed_by_files("EGL", places, library_of_json, _count)


def _count() -> int:
    if egl_library() is None:
        raise DeviceError("there is no EGL library (libEGL.so.1)")
    return egl.count_devices()


def _find_devices() -> list[FoundDevice]:
    found = list[FoundDevice]()
    for context in working_contexts(found):
        title = _ES_TITLE if context.is_es else _TITLE
        found.append(FoundDevice(title, context.renderer, context.gl.version, context.software, "storage"))
    return found


def working_contexts(failed: list[FoundDevice]) -> Iterator[GlContext]:
    """Yield the context that is current; without one, a new context of each device, current until the next one.

    Devices that give no context are added to ``failed``.
    """
    if GlContext.is_current():
        yield GlContext.current()
        return
    for number in range(egl.count_devices()) or [None]:
        try:
            context = _headless(number)
        except DeviceError as error:
            name = "none" if number is None else f"EGL device {number}"
            failed.append(FoundDevice(_TITLE, name, "", unusable=str(error)))
            continue
        yield context
        context.close()


def _headless(number: int | None) -> GlContext:
    """A context of desktop OpenGL, or of OpenGL ES if the device's desktop OpenGL is too old."""
    try:
        return GlContext.headless(device_index=number)
    except DeviceError as desktop:
        try:
            return GlContext.headless(es=True, device_index=number)
        except DeviceError:
            raise desktop from None


def _find_gpus() -> dict[bytes, tuple[int, str]]:
    """Number and name of each GPU of EGL that says its UUID."""
    found: dict[bytes, tuple[int, str]] = {}
    for number in range(egl.count_devices()):
        try:
            context = GlContext.headless(device_index=number)
        except DeviceError:
            continue  # doctor says why
        with context:
            if not context.software and has_extension(context, MEMORY_EXTENSION):
                for key in device_uuids(context):
                    found.setdefault(key, (number, context.renderer))
    return found


_EGL = Loader(
    "EGL",
    "Debian, Ubuntu: apt-get install libegl1 libgl1 libgl1-mesa-dri. Fedora: dnf install mesa-libEGL mesa-dri-drivers",
    _installed,
)
BACKEND = Backend(
    name="opengl", short="gl", title=_TITLE, rank=10, dialect=GLSL, open=_open, context=lambda: GlContext,
    is_current=GlContext.is_current, is_present=lambda: True, new_context=_new_context,
    new_buffer=GlBuffer.from_array, new_texture=GlTexture.from_array, owns=is_gl_object,
    objects="GL objects", needs_context=True, gl_objects="own", decodes=False, loaders=(_EGL,),
    find_devices=_find_devices, find_gpus=_find_gpus, device_help="OpenGL's EGL number",
    variants=(Variant("opengl es", "gles", _ES_TITLE, _new_es_context),),
)  # fmt: skip
