"""Parts of tests of devices: copies between two views as steps, a chain of them, and pictures as NumPy reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framebind.interop.device import CommandList, Device, Operand, Slot, Step
from framebind.kernels.codegen.source import Argument, KernelSource
from framebind.kernels.tensor import Shape, slices
from framebind.kernels.views import TEXTURE_CHANNELS, Dense, Plane, Sliced, Table, View

Array = npt.NDArray[Any]
SHAPE: Shape = (1, 3, 5, 6)


def copy_source(
    device: Device, src: View, dst: View, *, memories: tuple[str, str] = ("source", "target"), epilogue: Any = ()
) -> KernelSource:
    assert not isinstance(dst, Table | Plane)
    shape = dst.shape
    group_size = device.traits.group_size
    group_count = -(-shape[0] * shape[1] * shape[2] * slices(shape[3]) // group_size)
    arguments = (Argument("src", src, "r", memories[0]), Argument("dst", dst, "w", memories[1]))
    return KernelSource("copy", arguments, group_size, group_count, epilogue=epilogue)


def step(
    device: Device, source: KernelSource, src: Operand, dst: Operand, label: str = "copy", /, **given: Any
) -> Step:
    return Step(device.kernel(source), {"src": src, "dst": dst}, source.group_count, label, given)


def whole(resource: Any) -> Operand:
    return Operand(resource, 0, resource.nbytes)


def to_sliced(x: Array, storage: str = "f32") -> Array:
    pad = slices(x.shape[3]) * 4 - x.shape[3]
    return np.pad(x, ((0, 0),) * 3 + ((0, pad),)).astype(np.float32 if storage == "f32" else np.float16)


def random(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def convert(device: Device, src: View, dst: View, content: Array) -> Array:
    """Run one copy from a buffer with ``content``; the bytes of the target as float32 or float16, flat."""
    a, b = (device.buffer(-(-view.nbytes // 4) * 4, name) for view, name in ((src, "a"), (dst, "b")))
    device.write(a, content, "test")
    device.record([step(device, copy_source(device, src, dst), whole(a), whole(b))]).run()
    is_half = "f16" in getattr(dst, "storage", "") or getattr(dst, "dtype", "") == "float16"
    dtype = np.dtype(np.float16 if is_half else np.float32)
    out = np.empty(dst.nbytes // dtype.itemsize, dtype)
    device.read(b, out, "test")
    return out


def sample(texture: Array, parameters: tuple[float, ...], shape: Shape, order: str, bilinear: bool) -> Array:
    """The values that a kernel must read: NumPy, in float64, straight from the meaning of the parameters."""
    row0, row1, factor, addend, *padding = np.array(parameters, np.float64).reshape(-1, 4)
    y, x = np.mgrid[0 : shape[1], 0 : shape[2]] + 0.5
    u, v = row0[0] * x + row0[1] * y + row0[2], row1[0] * x + row1[1] * y + row1[2]
    texels = np.asarray(texture, np.float64) / (255 if texture.dtype == np.uint8 else 1)
    height, width = texture.shape[:2]
    if not bilinear:
        found = texels[np.floor(v).astype(int), np.floor(u).astype(int)]
    else:
        left, top = np.floor(u - 0.5).astype(int), np.floor(v - 0.5).astype(int)
        part_u, part_v = (u - 0.5 - left)[..., None], (v - 0.5 - top)[..., None]
        columns = [np.clip(left + i, 0, width - 1) for i in (0, 1)]
        rows = [np.clip(top + i, 0, height - 1) for i in (0, 1)]
        above = texels[rows[0], columns[0]] * (1 - part_u) + texels[rows[0], columns[1]] * part_u
        below = texels[rows[1], columns[0]] * (1 - part_u) + texels[rows[1], columns[1]] * part_u
        found = above * (1 - part_v) + below * part_v
    channels = [found[..., "rgba".index(c)] for c in order]
    values = np.stack(channels, -1) * factor[: len(order)] + addend[: len(order)]
    if padding:
        is_outside = (u < 0) | (u >= row0[3]) | (v < 0) | (v >= row1[3])
        assert is_outside.any() and not is_outside.all()
        values[is_outside] = padding[0][: len(order)]
    return values[None].astype(np.float32)


def texels(format: str, height: int, width: int, seed: int = 0) -> Array:
    rng, channels = np.random.default_rng(seed), TEXTURE_CHANNELS[format]
    if format.endswith("8"):
        return rng.integers(0, 256, (height, width, channels), np.uint8)
    if format.endswith("16"):
        return rng.integers(0, 65536, (height, width, channels), np.uint16)
    return rng.normal(size=(height, width, channels)).astype(np.float16 if format.endswith("16f") else np.float32)


FORMATS = [("rgba8", "rgb"), ("rgba8", "bgr"), ("rgba16f", "rgba"), ("rgba32f", "rgb"), ("rgba32f", "ba"),
           ("rgba8", "g"), ("r8", "r"), ("r32f", "r")]  # fmt: skip
PLACES: list[dict[str, Any]] = [
    {},
    {"crop": (3.0, 2.0, 5.0, 4.0)},
    {"flip": "horizontal"},
    {"flip": "both"},
    {"crop": (1.0, 1.0, 9.0, 7.0), "rotation": 90.0},
    {"crop": (2.5, 1.25, 6.5, 5.0), "rotation": 30.0, "flip": "vertical", "mean": (0.5,), "std": (0.25,)},
]


def chain(gpu: Device, shape: Shape) -> tuple[list[Step], Any]:
    """in (slot) -> arena f32 -> arena f32 (same kernel, other offsets) -> out (slot)."""
    dense, sliced = Dense(shape), Sliced(shape)
    arena = gpu.buffer(4 * 4096, "arena")
    first, last = copy_source(gpu, dense, sliced), copy_source(gpu, sliced, dense)
    middle = copy_source(gpu, sliced, sliced, memories=("arena", "arena"))
    places = [Operand(arena, 4096 * i, sliced.nbytes) for i in range(4)]
    steps = [step(gpu, first, Operand(Slot("in"), 0, dense.nbytes), places[0], "first")]
    steps += [step(gpu, middle, places[i], places[i + 1], f"middle {i}") for i in range(3)]
    steps.append(step(gpu, last, places[3], Operand(Slot("out"), 0, dense.nbytes), "last"))
    return steps, arena


def bound(gpu: Device, list_: CommandList, x: Array) -> Any:
    source, target = gpu.buffer(x.nbytes, "in"), gpu.buffer(x.nbytes, "out")
    gpu.write(source, x, "test")
    list_.set_slot("in", source)
    list_.set_slot("out", target)
    return target


def content(gpu: Device, buffer: Any, shape: Shape = SHAPE) -> Array:
    out = np.empty(shape, np.float32)
    gpu.read(buffer, out, "test")
    return out


def texture(gpu: Device, picture: Array) -> Any:
    """A texture of the device with the content of a picture (height, width, 1 or 4 channels)."""
    format = ("rgba" if picture.shape[2] == 4 else "r") + {"uint8": "8", "float16": "16f"}.get(
        picture.dtype.name, "32f"
    )
    resource = gpu.texture(picture.shape[1], picture.shape[0], format, "picture")
    gpu.write(resource, picture, "test")
    return resource
