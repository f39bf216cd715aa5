"""Every kernel in CUDA C++, compiled by NVRTC to machine code: without a GPU, and so nothing runs."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framebind.interop.cl.ptx import hides_instructions, is_revealed, revealed
from framebind.interop.cuda import nvrtc
from framebind.interop.errors import DeviceError
from framebind.interop.null.device import NullDevice
from framebind.interop.record.one_dispatch import merge, why_not_one
from framebind.kernels.codegen.c_family import dynamic_bytes
from framebind.kernels.codegen.cuda import CUDA
from framebind.kernels.codegen.opencl import OPENCL
from framebind.kernels.codegen.render import render_program, render_together
from framebind.kernels.codegen.source import Argument, KernelSource, storage_of
from framebind.kernels.codegen.texts import kernel_files, multiplies_octets, tile_function
from framebind.kernels.operation import Launch, Lowering, Operation
from framebind.kernels.ops.bottleneck.expanded import Expanded
from framebind.kernels.ops.bottleneck.inverted import InvertedTile
from framebind.kernels.ops.convolution.conv import Convolution
from framebind.kernels.ops.convolution.depthwise import Depthwise
from framebind.kernels.ops.convolution.fma_conv import FmaTile
from framebind.kernels.ops.convolution.separable import Separable
from framebind.kernels.ops.convolution.tiled_conv import ConvTile
from framebind.kernels.ops.convolution.transpose_conv import TransposeConvolution
from framebind.kernels.ops.convolution.warpgroup_conv import WarpgroupTile
from framebind.kernels.ops.window import SAME, Window
from framebind.kernels.target import Target
from framebind.kernels.tensor import Shape, TensorId
from framebind.kernels.views import Sliced, Storage, Strided, Table
from framebind.tools.certify.cases.network_models import NETWORKS
from framebind.tools.certify.cases.runs import all_runs, kept_cover
from null_programs import compile_run, program_on_null
from support.cases.attention_cases import SIZES, case_of
from support.cases.custom_cases import CUSTOM_CASES, model_of
from support.cases.node_cases import without_oracle
from support.cases.operator_runs import program_of
from support.environment import absent
from support.pictures.planes import channels_first, packed, plane_view, sampled_step, video

IMAGE: Shape = (1, 32, 32, 24)
MODELS = (
    "deeplabv3_257_mv_gpu", "style_transfer_f16_384", "selfie_segmentation", "face_detection_front",
    "hand_landmark_lite", "pose_landmark_lite", "style_predict_quantized_256", "style_transfer_quantized_384",
    "posenet_mobilenet_v1_100_257x257_multi_kpt_stripped_integer_quant",
)  # fmt: skip
VIDEOS = [(video(kind), "rgb") for kind in ("nv12", "yuv420p10")]
ARCHITECTURES = 75, 80, 89, 90, 100
"""Turing, the oldest that NVRTC 13 knows, without matrix units of floats; Ampere; Ada; Hopper; Blackwell."""
UNITS = re.compile(r"FRAGMENT|MULTIPLY_")
"""The macros of matrix units in a kernel's text."""
STORAGES: tuple[Storage, ...] = "f32", "f16"
CLANG = (
    "--target=nvptx64-nvidia-nvcl", "-Xclang", "-target-cpu", "-Xclang", "sm_80", "-x", "cl", "-cl-std=CL1.2", "-O3",
    "-Xclang", "-finclude-default-header", "-Dasm=__asm__",
)  # fmt: skip
"""Options with which clang compiles OpenCL for NVIDIA's GPUs."""
TOGETHER = 32
"""Kernels of one text that NVRTC is given: most of a call's time is not the kernel's."""


@pytest.fixture(autouse=True)
def compiler() -> None:
    try:
        nvrtc.version()
    except DeviceError as error:
        absent("nvrtc", str(error))


def compile_all(sources: Iterable[KernelSource], architecture: int) -> None:
    """Compile the sources, as a device compiles a model's. Raises CompileError with the first that fails, alone."""
    distinct = list(dict.fromkeys(sources))
    for first in range(0, len(distinct), TOGETHER):
        batch = distinct[first : first + TOGETHER]
        text, names = render_together(batch, CUDA)
        try:
            code = nvrtc.machine_code(text, architecture)
        except nvrtc.CompileError:
            for source in batch:
                nvrtc.machine_code(render_together([source], CUDA)[0], architecture)
            raise
        assert code[:4] == b"\x7fELF"
        assert all(f"{name}\0".encode() in code for name in names)


def device_of(architecture: int, group_size: int = 256) -> NullDevice:
    """A device as large as an H200, with matrix units if the architecture has them."""
    device = NullDevice(group_size=group_size, invocations=132 * 2048)
    warpgroup_bytes = 227 << 10 if architecture == nvrtc.WARPGROUPS else 0
    device.traits = replace(
        device.traits, matrix_units=architecture >= 80, local_bytes=49152, max_memories=448,
        warpgroup_bytes=warpgroup_bytes,
    )  # fmt: skip
    return device


def variants(architecture: int) -> list[KernelSource]:
    """The kernels that a GPU of the architecture gets from the kept cases of operators, from single nodes that only
    passes make, from networks and from custom operators.
    """
    if architecture not in (75, nvrtc.WARPGROUPS):
        architecture = 80  # they have the same units, and get the same kernels
    return [source for run in kept_cover("signatures") for source in compile_run(run).sources] + _of_graphs(
        architecture
    )


@functools.cache
def _of_graphs(architecture: int) -> list[KernelSource]:
    device, small = device_of(architecture), device_of(architecture, group_size=128)
    cases = [*without_oracle(), *map(case_of, SIZES)]
    programs = [program_of(small, case, storage)[0] for case in cases for storage in STORAGES]
    programs += [program_on_null(model, storage, device)[1] for model in _models() for storage in STORAGES]
    return [step.kernel.source for program in programs if program is not None for step in program.record().steps]


@functools.cache
def _models() -> list[bytes]:
    return [make()[0] for make in NETWORKS.values()] + [model_of(case) for case in CUSTOM_CASES]


def kernels_of(source: KernelSource) -> set[str]:
    """The names of the kernel texts in a source: its own, its prologue's and that of partial sums."""
    found = {source.name} | ({source.prologue.name} if source.prologue is not None else set())
    return found | ({"partial_sums"} if source.partial_sums is not None else set())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_text_compiles(architecture: int) -> None:
    """One source for each .kern file, with each storage of what it reads if the file is written for matrix units. Those
    that no GPU of the architecture gets are written for units that it does not have.
    """
    units = {name for name in kernel_files() if UNITS.search(tile_function(name).body)}
    chosen = dict[object, KernelSource]()
    for source in variants(architecture):
        for name in kernels_of(source):
            storages = tuple(storage_of(argument) for argument in source.arguments) if name in units else ()
            chosen.setdefault((name, storages), source)
    missing = kernel_files().keys() - {name for source in chosen.values() for name in kernels_of(source)}
    warpgroups = {name for name in units if multiplies_octets(name)}
    plain = {"winograd_input", "winograd_output"}  # for devices without matrix units
    larger = {"inverted"}  # than the cases
    beside_units = plain | larger if architecture == nvrtc.WARPGROUPS else plain | larger | warpgroups
    assert missing == (beside_units if architecture >= 80 else units)
    compile_all(chosen.values(), architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_variant_compiles(architecture: int) -> None:
    """Every combination of views, storages and fused operations that the kept cases and networks have."""
    compile_all(variants(architecture), architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tiles_of_dense_convolutions_compile(architecture: int) -> None:
    """Floats as pairs and halves, weights that no half holds, a window, single taps, a transposed one, and bytes."""
    sources = list[KernelSource]()
    target = Target(256, 1 << 18, matrix_units=True, halves=True, local_bytes=48 << 10)
    three, apart = Window((3, 3), (1, 1)), Window((3, 3), (2, 2))
    for window, tile in ((three, ConvTile(4, 1, 2, 2, 8, 2, 3, 3)), (apart, ConvTile(4, 2, 2, 1, 0, 1, 1, 3))):
        for storages in (("f32", "f16"), ("f16", "f16"), ("f16", "f32")):
            sources.append(tiled_source(Convolution(window, np.ones((48, 3, 3, 24)), None), tile, storages, target))
    transposed = TransposeConvolution((2, 2), SAME, None, np.ones((24, 2, 2, 24)))
    sources.append(tiled_source(transposed, ConvTile(4, 2, 2, 1, 8, 2), ("f16", "f16"), target))
    of_bytes = Convolution(three, np.ones((48, 3, 3, 48)), None, integer_weights=True, by_bytes=True)
    sources.append(tiled_source(of_bytes, ConvTile(4, 1, 2, 2, 8, 2, 3, 3), ("u16", "u16"), target))
    # Turing has no matrix units of floats, and compiles emulated ones for long.
    compile_all(sources if architecture > 75 else sources[:1], architecture)


@pytest.mark.parametrize("architecture", [90, 100])
def test_inverted_bottlenecks_compile(architecture: int) -> None:
    """Of floats and of halves."""
    one = Window((1, 1), (1, 1))
    target = Target(256, 1 << 18, matrix_units=True, fixed={"inverted": InvertedTile(4, 8, 8, 2, 1)})
    depthwise, pointwise = Depthwise(Window((3, 3), (1, 1)), 1, np.ones((1, 3, 3, 24))), np.ones((24, 1, 1, 24))
    operation = Expanded(Convolution(one, pointwise), ("RELU6",), Separable(depthwise, (), Convolution(one, pointwise)))
    launch = launched(operation, target)
    assert launch.kernel == "inverted"
    both: tuple[Storage, Storage] = "f32", "f16"
    compile_all((source_of(launch, operation, (storage, "f16")) for storage in both), architecture)


SMALL, LARGE = WarpgroupTile(1, 3, 1, 1, 0, 3, 14, 1), WarpgroupTile(1, 3, 2, 1, 1, 2, 9, 4, 2)
"""Tiles of warpgroups. The large one needs more local memory than a kernel declares."""


@pytest.mark.parametrize("architecture", [75, 80, 90, 100])
def test_tiles_of_warpgroups_compile(architecture: int) -> None:
    """With products of 9.0, or emulated ones."""
    sources = warpgroup_sources(*(SMALL, LARGE) if architecture == nvrtc.WARPGROUPS else (SMALL,))
    assert dynamic_bytes(sources[-1]) == (sources[-1].local_bytes if len(sources) > 1 else 0)
    compile_all(sources, architecture)


def warpgroup_sources(*tiles: WarpgroupTile) -> list[KernelSource]:
    target = Target(256, 1 << 18, matrix_units=True, halves=True, local_bytes=48 << 10, warpgroup_bytes=227 << 10)
    operation = Convolution(Window((3, 3), (1, 1)), np.ones((48, 3, 3, 24)), None)
    sources = list[KernelSource]()
    for tile in tiles:
        launch = launched(operation, replace(target, fixed={"warpgroup_conv": tile}))
        assert launch.halves
        octets = launch.halves[0].constants | {"OCTETS": int(tile is LARGE)}
        sources.append(source_of(replace(launch.halves[0], constants=octets), operation, ("f16", "f16")))
    return sources


def test_opencl_gets_the_same_instructions_of_warpgroups() -> None:
    """PoCL's compiler makes PTX of OpenCL's text, as NVIDIA's does, in which these instructions are comments."""
    found = [name for name in ("clang", *(f"clang-{number}" for number in range(13, 30))) if shutil.which(name)]
    if not found:
        absent("clang", "no clang is installed, which comes with PoCL")
    text, _ = render_together(warpgroup_sources(SMALL, LARGE), OPENCL)
    words = [found[0], *CLANG, "-DNVIDIA", "-DMATRIX_UNITS", "-DWARPGROUPS", "-w", "-S", "-o", "-", "-"]
    ptx = subprocess.run(words, input=text.encode(), capture_output=True, check=True).stdout
    assert hides_instructions(ptx) and not is_revealed(ptx) and is_revealed(revealed(ptx))
    hidden = re.findall(r"//@ (.*)", ptx.decode())
    instructions = revealed(ptx).decode()
    assert "//@" not in instructions and re.search(r"^\.target sm_80a", instructions, re.MULTILINE)
    assert not any(re.search(r"%\d", each) for each in hidden)  # each operand is a register
    assert {each.split(" ")[0].partition(".sync")[0] for each in hidden} >= {"wgmma.mma_async", ".shared"}


@pytest.mark.parametrize("architecture", [75, 100])
def test_tiles_of_multiply_adds_compile(architecture: int) -> None:
    """A window whose sums are split, single taps, and a transposed one."""
    target, sources = Target(256, 1 << 18, local_bytes=48 << 10), list[KernelSource]()
    convolution = Convolution(Window((3, 3), (1, 1)), np.ones((48, 3, 3, 24)), None)
    transposed = TransposeConvolution((2, 2), SAME, None, np.ones((24, 2, 2, 24)))
    operations: list[Operation] = [convolution, convolution, transposed]
    tiles = FmaTile(4, 3, 2, 2, 8, 2), FmaTile(8, 1, 4, 1, 0, 2), FmaTile(4, 2, 4, 1, 0, 2)
    for operation, tile in zip(operations, tiles, strict=True):
        launch = launched(operation, replace(target, fixed={"fma_conv": tile}))
        assert launch.kernel == "fma_conv"
        sources.append(source_of(launch, operation, ("f32", "f32")))
    compile_all(sources, architecture)


def launched(operation: Operation, target: Target) -> Launch:
    """The launch of a convolution of 32x32 pixels of 24 channels."""
    shapes: dict[TensorId, Shape] = {0: IMAGE, 1: output_of(operation)}
    (launch,) = operation.lower(Lowering((0,), (1,), shapes.__getitem__, lambda shape: 2, target))
    return launch


def output_of(operation: Operation) -> Shape:
    batch, height, width, channels = operation.output_shapes([IMAGE])[0]
    return batch, height, width, channels


def source_of(launch: Launch, operation: Operation, storages: tuple[Storage, Storage]) -> KernelSource:
    """The kernel of such a launch. ``storages`` are those of pixels and weights."""
    arguments = [
        Argument("src", Sliced(IMAGE, storages[0]), "r", "arena"),
        Argument("dst", Sliced(output_of(operation)), "w", "arena"),
    ]
    arguments += [
        Argument(name, Table(array.rows, storages[1]), "r", "weights") for name, array in launch.arrays.items()
    ]
    constants = tuple(launch.constants.items())
    return KernelSource(launch.kernel, tuple(arguments), 256, launch.group_count, constants, launch.local)


def tiled_source(
    operation: Operation, tile: ConvTile, storages: tuple[Storage, Storage], target: Target
) -> KernelSource:
    launch = launched(operation, replace(target, fixed={"tiled_conv": tile}))
    assert launch.kernel == "tiled_conv"
    return source_of(launch, operation, storages)


def test_a_kernel_awaits_its_inputs_before_it_reads_them() -> None:
    """It starts while the kernel before it still writes them. Nothing ever writes tables of constants."""
    for name in kernel_files():
        before, awaited, _ = tile_function(name).body.partition("AWAIT_INPUTS")
        if awaited:
            read = re.findall(r"\b(?:READ|WRITE|LOAD4|STORE4|COPY_FRAGMENTS|COPY_STAGE|FRAGMENT)_(\w+)", before)
            assert read and all(re.fullmatch("(\\w+_)?(weights|bias)", each) for each in read), (name, read)
            assert "BARRIER" not in before, name


def test_pictures_in_planes_compile() -> None:
    device, sources = NullDevice(), list[KernelSource]()
    for given, order in ((packed(3), "bgr"), (packed(4), "rgba"), (channels_first(), "rgb"), *VIDEOS):
        view = plane_view(given, (1, 5, 7, len(order)), order)
        sources.append(sampled_step(device, given, view, {}, device.buffer(4096, "target")).kernel.source)
    compile_all(sources, 75)


@pytest.mark.parametrize("architecture", [75, 80, 90])
def test_arrays_by_strides_compile(architecture: int) -> None:
    shape: Shape = (2, 3, 5, 6)
    sources: list[KernelSource] = []
    for view in (Strided(shape, "float32", (400, 20, 1, 60)), Strided(shape, "float16", (90, 18, 6, 1))):
        for src, dst in ((view, Sliced(shape)), (Sliced(shape), view)):
            arguments = (Argument("src", src, "r", "source"), Argument("dst", dst, "w", "target"))
            sources += [KernelSource("copy", arguments, 64, 1, integers=integers) for integers in (False, True)]
    compile_all(sources, architecture)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernels_of_every_operator_case_compile(architecture: int) -> None:
    compile_all((source for run in all_runs() for source in compile_run(run).sources), architecture)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize("model", MODELS)
def test_a_model_s_kernels_and_program_compile(
    model_path: Callable[[str], Path], model: str, storage: Storage, architecture: int
) -> None:
    """The kernels compile together and as one dispatch, as a GPU of that architecture gets them."""
    device = device_of(architecture)
    _, program = program_on_null(model_path(model).read_bytes(), storage, device)
    assert program is not None
    steps = program.record().steps
    compile_all([step.kernel.source for step in steps], architecture)
    assert not why_not_one(steps, device.traits)
    text = render_program(merge(steps, device.traits.local_bytes).source, CUDA)
    assert nvrtc.machine_code(text, architecture)[:4] == b"\x7fELF"
