"""Every kernel in CUDA C++, compiled by NVRTC to machine code: without a GPU, and so nothing runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framebind.delegate.certify.cases.compiled import compile_run, program_on_null
from framebind.delegate.certify.cases.cover import all_runs, kept_cover
from framebind.interop.cuda import nvrtc
from framebind.interop.errors import DeviceError
from framebind.interop.record.null import NullDevice
from framebind.interop.record.one_dispatch import merge, why_not_one
from framebind.kernels.codegen.cuda import CUDA
from framebind.kernels.codegen.render import render, render_program
from framebind.kernels.codegen.source import KernelSource
from framebind.kernels.codegen.texts import prelude
from framebind.kernels.views import Storage
from support.environment import absent
from support.pictures.planes import channels_first, packed, plane_view, sampled_step, video

FLOAT = (
    "deeplabv3_257_mv_gpu", "style_transfer_f16_384", "selfie_segmentation", "face_detection_front",
    "hand_landmark_lite", "pose_landmark_lite",
)  # fmt: skip
VIDEOS = [(video(kind), "rgb") for kind in ("nv12", "yuv420p10")]
TOGETHER = 32
"""Kernels of one text that NVRTC is given: most of a call's time is not the kernel's."""


@pytest.fixture(autouse=True)
def compiler() -> None:
    try:
        nvrtc.version()
    except DeviceError as error:
        absent("nvrtc", str(error))


def together(texts: Iterable[str]) -> str:
    """Kernels as one text, each in a namespace, with its macros undefined after it."""
    parts = [prelude("cuda")]
    for number, text in enumerate(texts):
        own = text.removeprefix(prelude("cuda")).replace('extern "C" ', "")
        names = dict.fromkeys(re.findall(r"^#define (\w+)", own, re.MULTILINE))
        parts += [f"namespace kernel_{number} {{", own, "}", *(f"#undef {name}" for name in names)]
    return "\n".join(parts)


def batches(sources: Iterable[KernelSource]) -> Iterator[list[str]]:
    texts = list(dict.fromkeys(render(source, CUDA) for source in sources))
    for first in range(0, len(texts), TOGETHER):
        yield texts[first : first + TOGETHER]


def compile_all(sources: Iterable[KernelSource], architecture: int) -> None:
    """Compile distinct texts. Raises CompileError with the first that fails, alone."""
    for batch in batches(sources):
        try:
            code = nvrtc.machine_code(together(batch), architecture)
        except nvrtc.CompileError:
            for text in batch:
                nvrtc.machine_code(text, architecture)
            raise
        assert code[:4] == b"\x7fELF"


def test_a_text_of_each_kernel_compiles() -> None:
    """One of every kernel that the kept cases launch."""
    sources = [source for run in kept_cover("signatures") for source in compile_run(run).sources]
    compile_all({source.name: source for source in sources}.values(), 90)


def test_pictures_in_planes_compile() -> None:
    device, sources = NullDevice(), list[KernelSource]()
    for given, order in ((packed(3), "bgr"), (packed(4), "rgba"), (channels_first(), "rgb"), *VIDEOS):
        view = plane_view(given, (1, 5, 7, len(order)), order)
        sources.append(sampled_step(device, given, view, {}, device.buffer(4096, "target")).kernel.source)
    compile_all(sources, 75)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("architecture", [75, 80, 90])
def test_the_kernels_of_every_operator_case_compile(architecture: int) -> None:
    """All for one architecture, and for the others those of the cases that reach every feature."""
    runs = all_runs() if architecture == 90 else kept_cover("features")
    compile_all((source for run in runs for source in compile_run(run).sources), architecture)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("architecture", [75, 80, 90])
@pytest.mark.parametrize("storage", ["f32", "f16"])
@pytest.mark.parametrize("model", FLOAT)
def test_a_model_s_kernels_and_program_compile(
    model_path: Callable[[str], Path], model: str, storage: Storage, architecture: int
) -> None:
    """Its kernels one by one, and as one dispatch if they can be one, as a GPU of that architecture gets them."""
    device = NullDevice(group_size=256, invocations=132 * 2048)
    device.traits = replace(device.traits, matrix_units=architecture >= 80, local_bytes=49152, max_memories=448)
    _, program = program_on_null(model_path(model).read_bytes(), storage, device)
    assert program is not None
    steps = program.record().steps
    compile_all([step.kernel.source for step in steps], architecture)
    if not why_not_one(steps, device.traits):
        text = render_program(merge(steps, device.traits.local_bytes).source, CUDA)
        assert nvrtc.machine_code(text, architecture)[:4] == b"\x7fELF"
