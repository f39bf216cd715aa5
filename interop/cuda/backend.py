"""CUDA in the table of backends."""

from __future__ import annotations

from ...kernels.codegen.cuda import CUDA
from ..backends import Backend, FoundDevice
from ..device import Device
from ..errors import DeviceError
from ..loaders import InstalledApi, Loader, installed_part
from ..record.shared_devices import is_users, open_in
from . import api, nvrtc
from .arrays import CudaArray
from .compute.device import CudaDevice
from .context import OLDEST_CAPABILITY, CudaContext, check_compiler, has_gpu
from .objects import CudaImage
from .user_objects import is_cuda_object

_TITLE = "CUDA"


def _open() -> Device:
    return open_in(CudaContext, _own_context, CudaDevice)


def _own_context() -> CudaContext:
    """A context on the first GPU, if the compiler knows that: else models could not run in it."""
    if has_gpu():
        check_compiler(0)
    return CudaContext()


def _new_context(device: str = "", *, independent: bool = False) -> CudaContext:
    if device and not device.isdecimal():
        raise DeviceError(f"CUDA's devices are named by their number, 0 for the first; '{device}' is none")
    return CudaContext(int(device or 0), independent=independent)


def _find_devices() -> list[FoundDevice]:
    """The CUDA devices. A GPU is unusable if there is no compiler, or if the compiler does not know it. No context is
    made.
    """
    try:
        found = [_device(number) for number in range(api.device_count())]
    except DeviceError as error:
        return [FoundDevice(_TITLE, "none", "", unusable=str(error))]
    return found or [FoundDevice(_TITLE, "none", "", unusable="NVIDIA's driver finds no GPU")]


def _device(number: int) -> FoundDevice:
    capability, version, unusable = api.capability(number), f"CUDA {api.driver_version()}", ""
    try:
        version += f", NVRTC {_compiler_version()}"
        check_compiler(number)
    except DeviceError as error:
        unusable = str(error)
    if capability < OLDEST_CAPABILITY:
        unusable = "its compute capability is below 7.0"
    version += f", compute capability {capability / 10}"
    return FoundDevice(_TITLE, api.device_name(number), version, False, "storage", unusable)


def _compiler_version() -> str:
    return ".".join(map(str, nvrtc.version()))


def _find_gpus() -> dict[bytes, tuple[int, str]]:
    """Number and name of each GPU, by UUID; none without the driver. No context is made."""
    try:
        return {api.device_uuid(number): (number, api.device_name(number)) for number in range(api.device_count())}
    except DeviceError:
        return {}


def _installed() -> InstalledApi:
    """The driver and the compiler, each with its own reason if it is missing."""
    parts = (
        installed_part("NVIDIA's driver", lambda: f"libcuda (CUDA {api.driver_version()})"),
        installed_part("nvidia-cuda-nvrtc", lambda: f"NVRTC {_compiler_version()}"),
    )
    devices = 0 if parts[0].problem else api.device_count()
    return InstalledApi(_TITLE, parts, devices, "" if devices else parts[0].problem or "NVIDIA's driver finds no GPU")


_LOADER = Loader(
    _TITLE, "only for NVIDIA's GPUs: their driver, and pip install nvidia-cuda-nvrtc cuda-pathfinder", _installed,
    has_files=False,
)  # fmt: skip
BACKEND = Backend(
    name="cuda", short="cuda", title=_TITLE, rank=30, dialect=CUDA, open=_open, context=lambda: CudaContext,
    is_current=lambda: is_users(CudaContext), is_present=has_gpu, new_context=_new_context,
    new_buffer=CudaArray.from_array, new_texture=CudaImage.from_array, owns=is_cuda_object, objects="arrays on CUDA",
    needs_context=False, gl_objects="copied", decodes=True, loaders=(_LOADER,), find_devices=_find_devices,
    find_gpus=_find_gpus, device_help="CUDA's number", gpu_environment=lambda uuid: {"CUDA_VISIBLE_DEVICES": uuid},
)  # fmt: skip
