"""The rules of the kernel dialect, over every kernel text: nothing that only one of the compilers accepts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import framebind
from framebind.kernels.codegen.cuda import CUDA
from framebind.kernels.codegen.dialect import Dialect
from framebind.kernels.codegen.glsl import GLSL, GLSL_ES
from framebind.kernels.codegen.opencl import OPENCL
from framebind.kernels.codegen.render import render, render_together
from framebind.kernels.codegen.source import Argument, KernelSource
from framebind.kernels.codegen.strides import sharing_kernels, stride_values
from framebind.kernels.views import Dense, Picture, Sliced

KERNELS = sorted((Path(framebind.__file__).parent / "kernels").rglob("*.kern"))
RESERVED = {"half", "input", "output", "sample", "filter", "common", "buffer", "kernel", "global", "local", "constant"}


def code(path: Path) -> str:
    return re.sub(r"//.*", "", path.read_text())


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernel_keeps_to_the_dialect(path: Path) -> None:
    text = code(path)
    assert not re.search(r"#", text), "preprocessor directives and ## belong to the generated part"
    assert not re.search(r"\b\d+\.\d*(?!\d*(e-?\d+)?f)\b", text), "a float literal without f is a double in OpenCL C"
    assert not re.search(r"\b(if|for|while) \([^{]*\)\s*\n\s+[^{\s]", text), (
        "always braces: WRITE is several statements"
    )
    assert not re.search(r"\(\s*(float|int|float4)\s*\)", text), "no casts: TO_F and TO_I"
    assert not RESERVED & set(re.findall(r"\b[a-z]+\b", text)), "a name that one of the two languages reserves"
    assert text.count("KERNEL {") == (0 if path.stem == "prelude" else 1)


def relu_source(**views: object) -> KernelSource:
    source, destination = views["src"], views["dst"]
    arguments = (Argument("src", source, "r", "frame"), Argument("dst", destination, "w", "arena"))  # type: ignore[arg-type]
    return KernelSource("copy", arguments, 64, 7, epilogue=(("max(v, F4(0.0f))", ""),))


def test_both_dialects_come_of_one_source() -> None:
    source = relu_source(src=Dense((1, 5, 7, 3)), dst=Sliced((1, 5, 7, 3), "f16"))
    glsl, opencl = render(source, GLSL), render(source, OPENCL)
    assert "buffer block_arena { uvec2 arena[]; }" in glsl and "readonly buffer block_frame { float frame[]; }" in glsl
    assert "__kernel" in opencl and "vstorea_half4" in opencl and "__global const float* frame" in opencl
    body = "WRITE_dst(b, y, x, s, READ_src(b, y, x, s));"
    assert body in glsl and body in opencl


def test_padding_lanes_are_written_as_zero() -> None:
    glsl = render(relu_source(src=Sliced((1, 1, 1, 5)), dst=Sliced((1, 1, 1, 5))), GLSL)
    assert "if ((s_) == 1) { store_v = F4V(store_v.x, 0.0f, 0.0f, 0.0f); }" in glsl


def test_glsl_es_has_precisions_and_textures_have_units() -> None:
    source = relu_source(src=Picture((1, 4, 4, 3), "rgba8", "bgr"), dst=Sliced((1, 4, 4, 3)))
    glsl = render(source, GLSL_ES)
    assert glsl.startswith("#version 310 es\nprecision highp float;")
    assert "layout(binding = 0) uniform sampler2D src_image;" in glsl
    assert "return F4V(t.z, t.y, t.x, 0.0f);" in glsl


@pytest.mark.parametrize("dialect", [GLSL, OPENCL, CUDA], ids=lambda dialect: dialect.name)
def test_a_text_has_no_more_of_the_prelude_than_it_uses(dialect: Dialect) -> None:
    source = relu_source(src=Sliced((1, 4, 4, 8)), dst=Sliced((1, 4, 4, 8)))
    plain = render(source, dialect)
    assert "error_function" not in plain and "resized_position" not in plain
    text = render(replace(source, epilogue=(("shift_right(v, w, F4(8.0f))", ""),)), dialect)
    for helper in ("float4 shift_right(", "float halved(", "#define F4V("):
        assert text.count(helper) == 1, helper
    assert "shift_left" not in text


def test_kernels_of_one_text_have_names_of_their_own() -> None:
    """A pad's helper function is there once for each pad. Sources that differ only in a stride that is the usual one
    share a kernel.
    """
    copied, strided = (
        relu_source(src=Sliced((1, 4, 4, 8), "f32", stride), dst=Dense((1, 4, 4, 8))) for stride in (0, 2)
    )
    pads = [replace(copied, name="pad", group_count=count) for count in (1, 2)]
    for dialect in (OPENCL, CUDA):
        text, names = render_together([copied, *pads, strided], dialect)
        assert names == ["kernel_0", "kernel_1", "kernel_2", "kernel_0"] and copied != strided
        assert [text.count(f"#define source_index source_index_{number}\n") for number in range(3)] == [0, 1, 1]
        defined = re.findall(r"^#define (\w+)", text.partition("#define copy kernel_0")[2], re.MULTILINE)
        assert set(re.findall(r"^#undef (\w+)", text, re.MULTILINE)) == {"copy", *defined}


def test_sources_that_differ_only_in_strides_share_a_kernel() -> None:
    """The strides that differ are parameters, and the others stay in the text."""
    wide, usual = Sliced((1, 4, 4, 8), "f32", 5), Sliced((1, 4, 4, 8))
    sources = [relu_source(src=src, dst=wide) for src in (usual, wide)]
    other = relu_source(src=usual, dst=Sliced((1, 4, 4, 12)))
    *both, lone = sharing_kernels([*sources, other])
    assert both[0] == both[1] and lone == other
    assert [stride_values(common, source) for common, source in zip(both, sources, strict=True)] == [(2,), (5,)]
    text = render(both[0], CUDA)
    assert "int src_offset, int dst_offset, int src_stride)" in text
    assert "(x_)) * src_stride + (s_)" in text and "(x_)) * 5 + (s_)" in text
