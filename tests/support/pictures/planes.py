"""Pictures in planes for tests of devices: their views, parameters and contents, and copies that read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from framebind.interop.device import Device, Operand, Slot, Step
from framebind.kernels.codegen.source import Argument, KernelSource
from framebind.kernels.colours import LUMA_SHARES, YuvColours
from framebind.kernels.tensor import Shape
from framebind.kernels.views import Dense, Plane, PlanePicture, picture_parameters, plane_name, plane_parameters
from support.device_steps import Array, content, whole

WIDTH, HEIGHT = 10, 6


class Given(NamedTuple):
    """The planes of a picture, their parameters, the contents of their buffers, and the picture as NumPy reads it."""

    planes: tuple[Plane, ...]
    memories: tuple[int, ...]
    parameters: tuple[float, ...]
    contents: list[Array]
    picture: Array
    colours: YuvColours | None = None


def numbers(shape: tuple[int, ...], dtype: Any = np.uint8, largest: int = 255, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, largest + 1, shape).astype(dtype)


def packed(channels: int) -> Given:
    """Pixels of bytes in rows with a pitch: (height, width, channels)."""
    rows = numbers((HEIGHT, (WIDTH + 2) * channels))
    picture = rows[:, : WIDTH * channels].reshape(HEIGHT, WIDTH, channels)
    parameters = plane_parameters((WIDTH, HEIGHT), (WIDTH + 2) * channels)
    return Given((Plane("uint8", channels, channels),), (0,), parameters, [rows], picture)


def channels_first() -> Given:
    """A plane of bytes for each channel, all in one buffer: (3, height, width)."""
    array = numbers((3, HEIGHT, WIDTH))
    parameters = [plane_parameters((WIDTH, HEIGHT), WIDTH, first_row=HEIGHT * i) for i in range(3)]
    picture = np.moveaxis(array, 0, 2)
    return Given((Plane("uint8", 1, 1),) * 3, (0, 0, 0), sum(parameters, ()), [array], picture)


def upsampled(chroma: Array, columns: int, rows: int) -> Array:
    """Chroma at each pixel of luma. Columns are those of even ones (left siting), rows lie between two."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    u, v = x / columns, (y + 0.5) / rows - 0.5
    left, top = np.floor(u).astype(int), np.floor(v).astype(int)
    last_row, last_column = chroma.shape[0] - 1, chroma.shape[1] - 1

    def at(row: Array, column: Array) -> Array:
        return chroma[np.clip(row, 0, last_row), np.clip(column, 0, last_column)].astype(np.float64)

    across, down = u - left, v - top
    above = at(top, left) * (1 - across) + at(top, left + 1) * across
    below = at(top + 1, left) * (1 - across) + at(top + 1, left + 1) * across
    return above * (1 - down) + below * down


def rgb(codes: Array, matrix: str, limited: bool, bits: int) -> Array:
    """Red, green and blue of (height, width, 3) numbers of luma and chroma, by the definitions of luma and chroma."""
    unit, full = 2 ** (bits - 8), 2**bits - 1
    y = (codes[..., 0] - 16 * unit) / (219 * unit) if limited else codes[..., 0] / full
    u, v = ((codes[..., i] - 128 * unit) / (224 * unit if limited else full) for i in (1, 2))
    red_share, blue_share = LUMA_SHARES[matrix]
    red, blue = y + v * (2 - 2 * red_share), y + u * (2 - 2 * blue_share)
    green = (y - red_share * red - blue_share * blue) / (1 - red_share - blue_share)
    return np.clip(np.stack([red, green, blue], -1), 0, 1)


def video(kind: str, matrix: Any = "bt709", range: Any = "limited") -> Given:
    """nv12, yuv420p, p010 or yuv422p10 of random numbers."""
    bits = 10 if "10" in kind else 8
    dtype, largest = (np.uint16, 1023) if bits == 10 else (np.uint8, 255)
    rows = 1 if "422" in kind else 2
    luma = numbers((HEIGHT, WIDTH), dtype, largest)
    chroma = [numbers((HEIGHT // rows, WIDTH // 2), dtype, largest, seed) for seed in (1, 2)]
    codes = np.stack([luma, *(upsampled(part, 2, rows) for part in chroma)], -1)
    picture = rgb(codes, matrix, range == "limited", bits)
    stored_as = 64 if kind == "p010" else 1
    colours = YuvColours(matrix, range, bits, (255 if bits == 8 else 65535) / stored_as)
    name, size = np.dtype(dtype).name, (WIDTH // 2, HEIGHT // rows)
    if kind in ("nv12", "p010"):
        contents = [luma * stored_as, np.stack(chroma, -1) * stored_as]
        planes = (Plane(name, 1, 1), Plane(name, 2, 2, 2, rows, left=True))
        parameters = plane_parameters((WIDTH, HEIGHT), WIDTH) + plane_parameters(size, WIDTH)
        return Given(planes, (0, 1), parameters, [each.astype(dtype) for each in contents], picture, colours)
    planes = (Plane(name, 1, 1), *(Plane(name, 1, 1, 2, rows, left=True),) * 2)
    parameters = plane_parameters((WIDTH, HEIGHT), WIDTH) + 2 * plane_parameters(size, WIDTH // 2)
    return Given(planes, (0, 1, 2), parameters, [luma, *chroma], picture, colours)


def sampled_step(gpu: Device, given: Given, view: PlanePicture, place: dict[str, Any], target: Any) -> Step:
    """A copy of the picture into a buffer, its planes in the slots plane0, plane1 ..."""
    names = [f"plane{memory}" for memory in given.memories]
    planes = [
        Argument(plane_name("src", i), plane, "r", name, picture="src", number=i)
        for i, (plane, name) in enumerate(zip(given.planes, names, strict=True))
    ]
    arguments = (Argument("src", view, "r", "picture"), *planes, Argument("dst", Dense(view.shape), "w", "target"))
    size = gpu.traits.group_size
    source = KernelSource("copy", arguments, size, -(-view.shape[1] * view.shape[2] // size))
    parameters = picture_parameters(view.shape, (WIDTH, HEIGHT), **place) + given.parameters
    operands = {argument.name: Operand(Slot(argument.memory)) for argument in planes} | {"dst": whole(target)}
    return Step(gpu.kernel(source), operands, source.group_count, "copy", {"src": parameters})


def buffers(gpu: Device, given: Given) -> list[Any]:
    made = []
    for array in given.contents:
        made.append(gpu.buffer(-(-array.nbytes // 4) * 4, "plane"))
        gpu.write(made[-1], array, "test")
    return made


def plane_view(given: Given, shape: Shape, order: str, sampling: Any = "bilinear") -> PlanePicture:
    return PlanePicture(shape, given.planes, given.memories, order, sampling, given.colours)


def run(
    gpu: Device, given: Given, shape: Shape, order: str, place: dict[str, Any], resources: list[Any], way: Any = None
) -> Array:
    """The picture as a tensor. ``way`` is that of Device.record."""
    exact = not place and shape[1:3] == (HEIGHT, WIDTH)
    view = plane_view(given, shape, order, "exact" if exact else "bilinear")
    target = gpu.buffer(Dense(shape).nbytes, "target")
    commands = gpu.record([sampled_step(gpu, given, view, place, target)], way)
    for number, resource in enumerate(resources):
        commands.set_slot(f"plane{number}", resource)
    commands.run()
    return content(gpu, target, shape)
