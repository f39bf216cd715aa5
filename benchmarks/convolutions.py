"""Times single convolutions inside one dispatch: by the general kernel, then by every tile of matrix units, or, on
devices without them, by the likeliest tiles of rows in local memory.

A convolution runs as STEPS steps of one dispatch, with a barrier of all work-groups after each. The script prints the
time of a step with its barrier, and the largest difference from the general kernel's result as a part of its largest
value.

    python benchmarks/convolutions.py --device-name nvidia [--groups-per-unit 3] [NAME ...]
    python benchmarks/convolutions.py --backend opengl --groups-per-unit 0 [NAME ...]
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb
from framebind.interop.device import CommandList, Device, Operand, Resource, Step
from framebind.interop.discovery.devices import open_device
from framebind.kernels.codegen.source import Argument, KernelSource
from framebind.kernels.operation import Launch, Lowering
from framebind.kernels.ops.convolution.blocks import Block
from framebind.kernels.ops.convolution.conv import Convolution, launch_convolution
from framebind.kernels.ops.window import VALID, Window
from framebind.kernels.tensor import Shape, TensorId, slices
from framebind.kernels.views import Sliced, Storage, Table
from framebind.video.apis import BY_NAME

STEPS, FEWER_STEPS, RUNS = 48, 8, 20
Array = npt.NDArray[np.float32]


class Layer(NamedTuple):
    """A convolution: rows and columns of its input, channels in and out, the window's size and stride, input storage.

    Windows are square and reflect at borders; weights and biases are float16.
    """

    size: int
    channels: int
    out: int
    window: int = 1
    stride: int = 1
    storage: Storage = "f32"


LAYERS = {
    "style 3x3": Layer(96, 32, 32, 3, 1, "f16"),
    "style 3x3 at 192": Layer(192, 32, 16, 3, 1, "f16"),
    "style 3x3 at 384": Layer(384, 16, 8, 3, 1, "f16"),
    "style 3x3 by 2": Layer(192, 16, 32, 3, 2),
    "style first 9x9": Layer(384, 3, 8, 9),
    "style last 9x9": Layer(384, 8, 3, 9, 1, "f16"),
    "deeplab 480 to 80": Layer(33, 480, 80),
    "deeplab 480 to 160": Layer(33, 480, 160),
    "deeplab 256 to 256": Layer(33, 256, 256),
    "deeplab 80 to 480": Layer(33, 80, 480),
    "deeplab 32 to 192": Layer(33, 32, 192),
    "pose 576 to 96": Layer(8, 576, 96),
    "pose 96 to 576": Layer(8, 96, 576),
    "pose 192 to 192": Layer(4, 192, 192),
    "posenet 512 to 512": Layer(17, 512, 512, 1, 1, "f16"),
    "posenet 256 to 256": Layer(33, 256, 256, 1, 1, "f16"),
}


class Bound(NamedTuple):
    """A layer with values, in the memory of a device: its input is at 0, its output at ``destination`` bytes."""

    operation: Convolution
    src: Sliced
    dst: Sliced
    arena: Resource
    destination: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", default=list(LAYERS), metavar="NAME", help=", ".join(LAYERS))
    parser.add_argument("--backend", choices=("opencl", "opengl"), default="opencl")
    parser.add_argument("--device-name", default="", help="a part of the OpenCL device's name")
    parser.add_argument("--groups-per-unit", type=int, default=3, help="work-groups per unit, at most; 0: a rule")
    given = parser.parse_args()
    with fb.cl.ClContext(given.device_name) if given.device_name else BY_NAME[given.backend].new_context():
        device = open_device(given.backend)
        print(f"{device.traits.name}, {device.traits.driver}; microseconds with a barrier")
        for name in given.layers:
            bound = bind(device, LAYERS[name])
            expected: Array | None = None
            for label, launch in launches(device, bound):
                step = make_step(device, bound, launch)
                taken = microseconds(device, step, given.groups_per_unit)
                found = result(device, bound)
                expected = found if expected is None else expected
                error = float(np.abs(found - expected).max() / np.abs(expected).max())
                print(f"{name:20} {label:52} {launch.group_count:6} tiles {taken:8.2f} {error:9.1e}", flush=True)


def bind(device: Device, layer: Layer) -> Bound:
    """The layer with random values; its memory is never released before the process ends."""
    random, edge = np.random.default_rng(0), layer.window // 2
    size, strides, extra = (layer.window, layer.window), (layer.stride, layer.stride), (edge, edge, edge, edge)
    window = Window(size, strides, padding=VALID, extra=extra, mode="reflect")
    weights = random.normal(size=(layer.out, layer.window, layer.window, layer.channels))
    weights /= math.sqrt(weights[0].size)
    operation = Convolution(window, weights.astype(np.float16), random.normal(size=layer.out).astype(np.float16))
    src = Sliced((1, layer.size, layer.size, layer.channels), layer.storage)
    dst = Sliced((1, *window.output_size(layer.size, layer.size), layer.out))
    values = np.zeros(
        (*src.shape[:3], 4 * slices(layer.channels)), np.float16 if layer.storage == "f16" else np.float32
    )
    values[..., : layer.channels] = random.normal(size=src.shape)
    destination = -(-src.nbytes // 256) * 256
    arena = device.buffer(destination + dst.nbytes, "arena")
    device.write(arena, values, "values for the benchmark")
    return Bound(operation, src, dst, arena, destination)


def launches(device: Device, bound: Bound) -> Iterator[tuple[str, Launch]]:
    """The general kernel's launch by its rule, and that of each tile."""
    shapes: dict[TensorId, Shape] = {0: bound.src.shape, 1: bound.dst.shape}

    def no_scratch(shape: Shape) -> TensorId:
        raise AssertionError(shape)

    target = device.traits.target
    plain = replace(target, matrix_units=False, fixed={"patch_conv": None})
    lowering = Lowering((0,), (1,), shapes.__getitem__, no_scratch, plain)
    choice = launch_convolution(lowering, 0, bound.operation).choice
    assert choice is not None
    block = next(each for each in choice.candidates if isinstance(each, Block))
    general = replace(plain, fixed={"patch_conv": None, "conv": block})
    yield "general", launch_convolution(replace(lowering, target=general), 0, bound.operation)
    choice = launch_convolution(replace(lowering, target=target), 0, bound.operation).choice
    if choice is None:
        return
    for tile in choice.candidates:
        if not isinstance(tile, Block):
            fixed = replace(target, fixed={choice.kernel: tile})
            yield str(tile), launch_convolution(replace(lowering, target=fixed), 0, bound.operation)


def make_step(device: Device, bound: Bound, launch: Launch) -> Step:
    """The launch with constants of 16 bits."""
    arguments = [Argument("src", bound.src, "r", "arena"), Argument("dst", bound.dst, "w", "arena")]
    operands = {"src": Operand(bound.arena, 0, bound.src.nbytes)}
    operands["dst"] = Operand(bound.arena, bound.destination, bound.dst.nbytes)
    for name, array in launch.arrays.items():
        table = Table(array.rows, "f16")
        memory = device.buffer(table.nbytes, name)
        device.write(memory, array.make().astype(np.float16), "values for the benchmark")
        arguments.append(Argument(name, table, "r", name))
        operands[name] = Operand(memory, 0, table.nbytes)
    constants = tuple(launch.constants.items())
    group_size = device.traits.group_size
    source = KernelSource(launch.kernel, tuple(arguments), group_size, launch.group_count, constants, launch.local)
    return Step(device.kernel(source), operands, launch.group_count, launch.kernel)


def microseconds(device: Device, step: Step, groups_per_unit: int) -> float:
    """The time of a step and a barrier: the difference between a dispatch of many steps and one of few, per step."""
    medians: list[float] = []
    for count in (STEPS, FEWER_STEPS):
        commands = device.record([step] * count, "one", groups_per_unit)
        medians.append(statistics.median(seconds(device, commands) for _ in range(RUNS)))
        commands.release()
    return (medians[0] - medians[1]) / (STEPS - FEWER_STEPS) * 1e6


def seconds(device: Device, commands: CommandList) -> float:
    start = time.perf_counter()
    commands.run()
    device.finish()
    return time.perf_counter() - start


def result(device: Device, bound: Bound) -> Array:
    found = np.empty(bound.dst.nbytes // 4, np.float32)
    device.read(bound.arena, found, "comparison", bound.destination)
    return found


if __name__ == "__main__":
    main()
