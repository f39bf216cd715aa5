"""Times dense convolutions as separate launches: by warps alone, by tiles in local memory, and by warpgroups.

    python benchmarks/dense.py [--tiles 8] [--storage f16] [--json FILE] [NAME ...]

Layers are those of unet_512, yolov8n_640, resnet18_224, deeplab_mnv2_513 and, of tokens, SAM 2.1's encoder; with zeros
around. For each the script prints the time of matrix_conv.kern by its rule, then those of the likeliest tiles of
tiled_conv.kern and, of halves on a GPU that has it, of warpgroup_conv.kern, each rule's first: in microseconds per
launch of a graph, TFLOPS, and the largest difference between the results as a part of the largest. Without matrix
units (``--backend opengl``) the kernels are the general one, fma_conv.kern and, as three launches, those of
winograd.py, whose TFLOPS count the products that it saves, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import typer
from convolutions import Bound, seconds
from samples import Series, measured, write

from framebind.interop.device import Device, Operand, Step
from framebind.interop.discovery.devices import open_device
from framebind.kernels.codegen.source import Argument, KernelSource
from framebind.kernels.operation import Launch, Lowering
from framebind.kernels.ops.convolution.conv import Convolution, launch_convolution
from framebind.kernels.ops.convolution.fma_conv import fma_tiles
from framebind.kernels.ops.convolution.matrix_conv import choose_matrix_tile
from framebind.kernels.ops.convolution.packing import pack_bias
from framebind.kernels.ops.convolution.tiled_conv import Grid, tile_candidates
from framebind.kernels.ops.convolution.warpgroup_choice import warpgroup_candidates
from framebind.kernels.ops.convolution.warpgroup_conv import launch_warpgroups, room
from framebind.kernels.ops.convolution.winograd import launch_winograd, winograd_choice
from framebind.kernels.ops.window import SAME, Window
from framebind.kernels.target import Target, TuningChoice
from framebind.kernels.tensor import Shape, TensorId, slices
from framebind.kernels.views import Sliced, Table
from framebind.video.apis import BY_NAME

LAUNCHES, FEWER, RUNS = 24, 4, 15


class Layer(NamedTuple):
    """A convolution of ``size`` x ``size`` pixels: channels in and out, the window's size, stride and dilation."""

    size: int
    depth: int
    channels: int
    window: int = 3
    stride: int = 1
    dilation: int = 1


LAYERS = {
    "unet 24 at 512": Layer(512, 24, 24),
    "unet 48 to 24 at 512": Layer(512, 48, 24),
    "unet 48 at 256": Layer(256, 48, 48),
    "unet 96 at 128": Layer(128, 96, 96),
    "unet 384 to 192 at 64": Layer(64, 384, 192),
    "unet 384 at 32": Layer(32, 384, 384),
    "unet up 96 to 4 x 48": Layer(128, 96, 192, 1),
    "yolo 64 at 80": Layer(80, 64, 64),
    "yolo 80 at 80": Layer(80, 80, 80),
    "yolo 64 at 40": Layer(40, 64, 64),
    "yolo 128 at 20": Layer(20, 128, 128),
    "yolo 64 to 144 at 80": Layer(80, 64, 144),
    "yolo 64 to 128 by 2": Layer(80, 64, 128, 3, 2),
    "yolo 384 to 128 at 40": Layer(40, 384, 128, 1),
    "resnet 64 at 56": Layer(56, 64, 64),
    "resnet 128 at 28": Layer(28, 128, 128),
    "resnet 256 at 14": Layer(14, 256, 256),
    "resnet 512 at 7": Layer(7, 512, 512),
    "deeplab 160 to 128": Layer(129, 160, 128),
    "deeplab 576 to 128, rate 6": Layer(33, 576, 128, 3, 1, 6),
    "tokens 96 to 384 at 64": Layer(64, 96, 384, 1),
    "tokens 384 to 96 at 64": Layer(64, 384, 96, 1),
    "tokens 192 to 768 at 32": Layer(32, 192, 768, 1),
    "tokens 768 to 192 at 32": Layer(32, 768, 192, 1),
    "tokens 384 to 1152 at 28": Layer(28, 384, 1152, 1),
    "tokens 384 at 28": Layer(28, 384, 384, 1),
    "tokens 384 to 1536 at 16": Layer(16, 384, 1536, 1),
    "tokens 1536 to 384 at 16": Layer(16, 1536, 384, 1),
}


def bind(device: Device, layer: Layer, storage: Literal["f32", "f16"]) -> Bound:
    """The layer with random values. The memory is never released before the process ends."""
    random, kind = np.random.default_rng(0), np.float16 if storage == "f16" else np.float32
    sizes = ((side, side) for side in (layer.window, layer.stride, layer.dilation))
    window = Window(*sizes, padding=SAME)
    weights = random.normal(size=(layer.channels, *window.size, layer.depth)) / math.sqrt(layer.depth) / layer.window
    operation = Convolution(window, weights.astype(np.float16), None)
    src = Sliced((1, layer.size, layer.size, layer.depth), storage)
    dst = Sliced((1, *window.output_size(layer.size, layer.size), layer.channels), storage)
    values = np.zeros((*src.shape[:3], 4 * slices(layer.depth)), kind)
    values[..., : layer.depth] = random.normal(size=src.shape).astype(np.float16)
    destination = -(-src.nbytes // 256) * 256
    arena = device.buffer(destination + dst.nbytes, "arena")
    device.write(arena, values, "values for the benchmark")
    return Bound(operation, src, dst, arena, destination)


Shapes = dict[TensorId, Shape]
"""The shapes of the input, 0, the output, 1, and of what is between two launches."""


def launches(target: Target, bound: Bound, tiles: int) -> Iterator[tuple[str, list[Launch], Shapes]]:
    """The launches of the kernel of single warps or invocations, and those of the likeliest tiles of the others."""
    shapes: Shapes = {0: bound.src.shape, 1: bound.dst.shape}
    _, rows, columns, channels = bound.dst.shape
    window, depth = bound.operation.window, slices(bound.src.shape[3])
    grid = Grid((rows, columns), slices(channels))
    fixed_tiles: list[tuple[str, Any]]
    if target.matrix_units:
        plain = choose_matrix_tile(rows * columns, channels, math.prod(window.size), depth, target)
        likely = tile_candidates(window, bound.src.shape, grid, target)[:tiles]
        fixed_tiles = [("matrix_conv", plain), *(("tiled_conv", tile) for tile in likely)]
    else:
        fixed_tiles = [
            ("", None),
            *(("fma_conv", tile) for tile in fma_tiles(window, bound.src.shape, grid, target)[:tiles]),
        ]
    for name, tile in fixed_tiles:
        fixed = replace(target, fixed={name: tile} if name else {"fma_conv": None})
        launch = launch_convolution(lowering_for(shapes, fixed), 0, bound.operation)
        yield f"{name} {tuple(tile)}" if name else "general", [launch], shapes
    if not target.matrix_units:
        yield from by_winograd(target, bound, tiles)
    if not room(target) or bound.src.storage != "f16":
        return
    bias, weights = pack_bias(None, channels), bound.operation.weights
    likeliest = warpgroup_candidates(window, bound.src.shape, grid, target)[:tiles]
    for tile in (each for each in likeliest if each.shares == 1):  # a launch each
        choice = TuningChoice("warpgroup_conv", (tile,))
        (launch,) = launch_warpgroups(lowering_for(shapes, target), 0, window, grid, lambda: weights, bias, choice)
        octets = {"OCTETS": int(depth % 2 == 0)}
        yield f"warpgroup_conv {tuple(tile)}", [replace(launch, constants=launch.constants | octets)], shapes


def by_winograd(target: Target, bound: Bound, tiles: int) -> Iterator[tuple[str, list[Launch], Shapes]]:
    """The three launches for each of the likeliest tiles of the products."""
    shapes: Shapes = {0: bound.src.shape, 1: bound.dst.shape}
    likely = winograd_choice(lowering_for(shapes, target), 0, bound.operation.window, math.inf)
    for tile in likely.candidates[:tiles] if likely else ():
        shapes = {0: bound.src.shape, 1: bound.dst.shape}
        choice = TuningChoice("winograd", (tile,))
        made = launch_winograd(
            lowering_for(shapes, target), 0, bound.operation.window, bound.operation.weights, None, choice
        )
        yield f"winograd {tuple(tile)}", made, shapes


def lowering_for(shapes: Shapes, target: Target) -> Lowering:
    """The lowering of the convolution, which adds intermediate results to ``shapes``."""

    def scratch(shape: Shape) -> TensorId:
        tensor = len(shapes)
        shapes[tensor] = shape
        return tensor

    return Lowering((0,), (1,), shapes.__getitem__, scratch, target)


def make_steps(device: Device, bound: Bound, made: list[Launch], shapes: Shapes) -> list[Step]:
    """The launches with constants of 16 bits, if these may be rounded."""
    views: dict[TensorId, Sliced] = {0: bound.src, 1: bound.dst}
    memories: dict[TensorId, Operand] = {
        0: Operand(bound.arena, 0, bound.src.nbytes),
        1: Operand(bound.arena, bound.destination, bound.dst.nbytes),
    }
    for tensor in shapes.keys() - views:
        views[tensor] = Sliced(shapes[tensor])
        nbytes = views[tensor].nbytes
        memories[tensor] = Operand(device.buffer(nbytes, "between launches"), 0, nbytes)
    return [make_step(device, launch, views, memories) for launch in made]


def make_step(device: Device, launch: Launch, views: dict[TensorId, Sliced], memories: dict[TensorId, Operand]) -> Step:
    tensors, operands = launch.reads | launch.writes, dict[str, Operand]()
    arguments = list[Argument]()
    for name, tensor in tensors.items():
        memory = "arena" if tensor in (0, 1) else f"between{tensor}"
        arguments.append(Argument(name, views[tensor], "r" if name in launch.reads else "w", memory))
        operands[name] = memories[tensor]
    for name, array in launch.arrays.items():
        kind = np.float32 if array.exact else np.float16
        table = Table(array.rows, "f32" if array.exact else "f16")
        uploaded = device.buffer(table.nbytes, name)
        device.write(uploaded, array.make().astype(kind), "values for the benchmark")
        arguments.append(Argument(name, table, "r", name))
        operands[name] = Operand(uploaded, 0, table.nbytes)
    constants, size = tuple(launch.constants.items()), device.traits.group_size
    source = KernelSource(launch.kernel, tuple(arguments), size, launch.group_count, constants, launch.local)
    return Step(device.kernel(source), operands, launch.group_count, launch.kernel)


def microseconds(device: Device, steps: list[Step]) -> list[float]:
    """Samples of the time of a convolution: those of a graph of many, less the median of one of few."""
    samples = {}
    for count in (LAUNCHES, FEWER):
        commands = device.record(steps * count, "separate")
        samples[count] = [seconds(device, commands) for _ in range(RUNS)]
        commands.release()
    few = float(np.median(samples[FEWER]))
    return [(many - few) / (LAUNCHES - FEWER) * 1e6 for many in samples[LAUNCHES]]


def result(device: Device, bound: Bound) -> npt.NDArray[np.float32]:
    kind = np.float16 if bound.dst.storage == "f16" else np.float32
    found = np.empty(bound.dst.nbytes // kind().itemsize, kind)
    device.read(bound.arena, found, "comparison", bound.destination)
    return found.astype(np.float32)


def main(
    layers: Annotated[list[str] | None, typer.Argument(metavar="NAME", help=", ".join(LAYERS))] = None,
    tiles: Annotated[int, typer.Option(help="Tiles of each layer.")] = 4,
    storage: Annotated[Literal["f32", "f16"], typer.Option(help="Of pixels and results.")] = "f16",
    backend: Annotated[Literal["cuda", "opencl", "opengl"], typer.Option(help="The API.")] = "cuda",
    json: Annotated[Path | None, typer.Option(help="Write the samples to this file.")] = None,
) -> None:
    series = list[Series]()
    with BY_NAME[backend].new_context():
        device = open_device(backend)
        target = replace(device.traits.target, halves=True)
        for name in layers or LAYERS:
            bound = bind(device, LAYERS[name], storage)
            products = math.prod(bound.dst.shape) * math.prod(bound.operation.window.size) * bound.src.shape[3]
            expected: npt.NDArray[np.float32] | None = None
            steps = {
                label: make_steps(device, bound, made, shapes) for label, made, shapes in launches(target, bound, tiles)
            }
            device.record([step for some in steps.values() for step in some], "separate").release()  # compiles all
            for label, some in steps.items():
                taken = microseconds(device, some)
                found = result(device, bound)
                expected = found if expected is None else expected
                error, median = float(np.abs(found - expected).max() / np.abs(expected).max()), float(np.median(taken))
                speed = 2 * products / median / 1e6
                print(f"{name:28} {label:42} {median:8.2f} us {speed:6.1f} TFLOPS {error:9.1e}", flush=True)
                series.append(Series({"layer": name, "by": label, "storage": storage}, taken))
                for step in some if len(some) > 1 else ():
                    taken = microseconds(device, [step])
                    print(f"{name:28} {'of it ' + step.label:42} {float(np.median(taken)):8.2f} us", flush=True)
                    series.append(Series({"layer": name, "by": f"{label}: {step.label}", "storage": storage}, taken))
        if json is not None:
            write(json, measured("dense", [(device.traits.name, device.traits.driver)], "us", series))


if __name__ == "__main__":
    typer.run(main)
