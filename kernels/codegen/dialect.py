"""One kernel text, two compilers: turns a ``.kern`` file and the views of its arguments into GLSL or OpenCL C.

A ``.kern`` file holds optional helper functions and then one tile function, ``KERNEL { ... }``, which computes the tile
number ``GROUP_ID`` with ``GROUP`` invocations, of which it is number ``LOCAL``. It is C that both compilers accept:
``F4(x)`` and ``F4V(a, b, c, d)`` make a float4; ``1.0f``, never ``1.0``; no pointers, no casts, no ``#`` or ``##``,
always braces. Helper functions take and return values only. Memory is reached through these alone:

    READ(src, b, y, x, s)          one slice (float4) of a tensor, whatever memory and storage it has
    WRITE(dst, b, y, x, s, value)  the same, after the links (fused elementwise steps); a statement
    LOAD4(table, i)                float4 number i of a table of constants
    STORE4(dst, i, value)          the i-th four values of a Quantized tensor in memory order; all it can be written by
    FRAGMENT(src, b, y, x, s), FRAGMENT(table, i)   the same as READ and LOAD4, of the type FRAGMENT (kernels of matrix
                                   units only), for MULTIPLY_FRAGMENTS; NO_FRAGMENT is zeros
    POSITION(dst, i, b, y, x, s)   declares the ints b, y, x, s: where item number i of a tensor's slices lies
    UNROLL, UNROLL2, UNROLL4       before a loop: all its rounds, two or four at once, where a compiler can be told so
    add_across(value, mask)        the value and that of invocation LOCAL ^ mask of the same SUBGROUP, added up
    dst_B dst_H dst_W dst_C dst_S dst_COUNT   a tensor's batch, height, width, channels, slices, and B*H*W*S

Python generates the rest around the text: declarations, access macros, constants. The storage of a tensor is decided in
those macros only (``access.py``).
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from ..views import Picture
from .macros import definitions, glsl_element, glsl_slice, opencl_slice, opencl_words
from .source import Argument, KernelSource

HERE = Path(__file__).parent
"""The folder of the preludes and barriers."""
OPS = HERE.parent / "ops"


@functools.cache
def kernel_files() -> dict[str, Path]:
    """The kernel texts by name. Names are unique across the folders below ``ops/``."""
    found: dict[str, Path] = {}
    for path in sorted(OPS.rglob("*.kern")):
        if path.stem in found:
            raise ValueError(f"{path} and {found[path.stem]} have the same name")
        found[path.stem] = path
    return found


def render_glsl(source: KernelSource, version: str = "430 core") -> str:
    """GLSL for one compute shader; ``version`` is "430 core" or "310 es".

    Bindings: buffer i is the i-th of ``source.memories``; texture or image unit i is the i-th of ``source.pictures``.
    Uniform locations: an array of ints at 0, the offset of buffer argument i at i; then four vec4 for each Picture.
    """
    lines = glsl_head(version, source.group_size)
    elements = {memory: glsl_element(arguments) for memory, arguments in source.memories.items()}
    for binding, (memory, arguments) in enumerate(source.memories.items()):
        readonly = "readonly " if all(a.access == "r" for a in arguments) else ""
        lines.append(glsl_block(binding, readonly, elements[memory], memory))
    location = len(source.buffers)
    if location:  # one array, so that one call sets them all
        lines.append(f"layout(location = 0) uniform int offsets[{location}];")
    lines += [f"#define {argument.name}_offset offsets[{i}]" for i, argument in enumerate(source.buffers)]
    for unit, argument in enumerate(source.pictures):
        lines.append(f"layout(location = {location}) uniform vec4 {argument.name}_parameters[4];")
        lines += [f"#define {argument.name}_parameter{i} {argument.name}_parameters[{i}]" for i in range(4)]
        lines.append(glsl_picture(argument, f"{argument.name}_image", unit))
        location += 4
    lines += [f"shared {kind} {name}[{count}];" for kind, name, count in source.shared]
    helpers, body = tile_text(source)
    lines += [
        *definitions(source, glsl_slice(elements)),
        "#line 1 7",
        helpers + "void tile_function(int GROUP_ID) " + body,
    ]
    lines.append(
        "void main() {\n  int tile = int(gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x);\n"
        "  if (tile < GROUP_COUNT) { tile_function(tile); }\n}\n"
    )
    return "\n".join(lines)


def render_opencl(source: KernelSource) -> str:
    """OpenCL C 1.2 for one kernel named ``source.name``.

    Kernel arguments, in order: a pointer per memory, an image per Picture, an int offset per buffer argument, and four
    float4 per Picture. The global size is group * tiles.
    """
    parameters = []
    for memory, arguments in source.memories.items():
        const = "const " if all(a.access == "r" for a in arguments) else ""
        parameters.append(f"__global {const}float* {memory}")
    for argument in source.pictures:
        parameters.append(f"{'read_only' if argument.access == 'r' else 'write_only'} image2d_t {argument.name}_image")
    parameters += [f"int {argument.name}_offset" for argument in source.buffers]
    parameters += [f"float4 {argument.name}_parameter{i}" for argument in source.pictures for i in range(4)]
    helpers, body = tile_text(source)
    lines = [
        prelude("cl"),
        *definitions(source, opencl_slice(source), opencl_words(source)),
        f'#line 1 "{source.name}.kern"',
        helpers,
    ]
    lines.append(
        f"__kernel __attribute__((reqd_work_group_size({source.group_size}, 1, 1)))\n"
        f"void {source.name}({', '.join(parameters)}) {{"
    )
    lines += [f"  __local {kind} {name}[{count}];" for kind, name, count in source.shared]
    line = helpers.count("\n") + 1
    lines += ["  int GROUP_ID = (int)get_group_id(0);", f'#line {line} "{source.name}.kern"', body, "}\n"]
    return "\n".join(lines)


@functools.cache
def prelude(extension: str) -> str:
    """What the API's own prelude and the common macros and helpers define for every kernel."""
    return "".join((HERE / f"prelude.{part}").read_text() for part in (extension, "fragments", "kern")).rstrip()


@functools.cache
def tile_function(name: str) -> tuple[str, str]:
    """The helpers before KERNEL, and the braces after it, with access written per argument: READ(src, -> READ_src(."""
    text = kernel_files()[name].read_text()
    helpers, marker, body = text.partition("KERNEL ")
    if not marker:
        raise ValueError(f"{name}.kern has no KERNEL")
    return helpers, re.sub(r"\b(READ|WRITE|LOAD4|STORE4|POSITION|FRAGMENT)\((\w+),\s*", r"\1_\2(", body)


def tile_text(source: KernelSource) -> tuple[str, str]:
    """The same for a kernel, with what stands before and after its own tile: its prologue, and its sums."""
    helpers, body = tile_function(source.name)
    parts = [body]
    if source.prologue is not None:
        before, prologue = tile_function(source.prologue.name)
        parts.insert(0, prologue)
        helpers = before + helpers
    if source.partial_sums is not None:
        before, sums = tile_function("partial_sums")
        start = (
            "float4 partial_sums[OWNED_SLICES]; for (int j = 0; j < OWNED_SLICES; j++) { partial_sums[j] = F4(0.0f); }"
        )
        parts = [start, *parts, sums]
        helpers = before + helpers
    return helpers, body if len(parts) == 1 else "\n".join(["{", *parts, "}"])


def glsl_head(version: str, group_size: int) -> list[str]:
    """What every compute shader begins with."""
    lines = [f"#version {version}"]
    if version.endswith("es"):
        lines += [f"precision highp {kind};" for kind in ("float", "int", "sampler2D", "image2D")]
    return [*lines, f"layout(local_size_x = {group_size}) in;", prelude("glsl")]


def glsl_block(binding: int, qualifier: str, element: str, memory: str) -> str:
    """A buffer's declaration."""
    return f"layout(std430, binding = {binding}) {qualifier}buffer block_{memory} {{ {element} {memory}[]; }};"


def glsl_picture(argument: Argument, name: str, unit: int) -> str:
    """A texture's or image's declaration."""
    assert isinstance(argument.view, Picture)
    if argument.access == "r":
        return f"layout(binding = {unit}) uniform sampler2D {name};"
    return f"layout({argument.view.format}, binding = {unit}) writeonly uniform image2D {name};"
