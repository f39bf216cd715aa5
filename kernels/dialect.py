"""One kernel text, two compilers: turns a ``.kern`` file and the views of its arguments into GLSL or OpenCL C.

A ``.kern`` file holds optional helper functions and then one tile function, ``KERNEL { ... }``, which computes the tile
number ``TILE`` with ``GROUP`` invocations, of which it is number ``LOCAL``. It is C that both compilers accept:
``F4(x)`` and ``F4V(a, b, c, d)`` make a float4; ``1.0f``, never ``1.0``; no pointers, no casts, no ``#`` or ``##``,
always braces. Helper functions take and return values only. Memory is reached through these alone:

    READ(src, b, y, x, s)          one slice (float4) of a tensor, whatever memory and storage it has
    WRITE(dst, b, y, x, s, value)  the same, after the links (fused elementwise steps); a statement
    LOAD4(table, i)                float4 number i of a table of constants
    STORE4(dst, i, value)          the i-th four values of a Quantized tensor in memory order; all it can be written by
    POSITION(dst, i, b, y, x, s)   declares the ints b, y, x, s: where item number i of a tensor's slices lies
    dst_B dst_H dst_W dst_C dst_S dst_COUNT   a tensor's batch, height, width, channels, slices, and B*H*W*S

Python generates the rest around the text: declarations, access macros, constants. The storage of a tensor is decided in
those macros only.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .integers import glsl_integers, opencl_integers
from .layout import (
    INTEGERS,
    SLICE_BYTES,
    TEXTURE_CHANNELS,
    Access,
    Dense,
    Picture,
    Quantized,
    Sliced,
    Table,
    View,
    slices,
)

HERE = Path(__file__).parent
PICTURE_PARAMETERS = 16
"""How many floats a Picture argument takes by value: four float4 (see layout.picture_parameters)."""


@dataclass(frozen=True)
class Argument:
    """A named argument of a kernel. Arguments with the same ``memory`` are parts of one buffer; a Picture has its own.

    ``splat`` says that a tensor with one channel is read as that value in all four lanes (a broadcast operand).
    """

    name: str
    view: View
    access: Access
    memory: str
    splat: bool = False

    @property
    def unit(self) -> int:
        """Bytes per step of the argument's offset: a slice's, or a float's."""
        if isinstance(self.view, Sliced | Table):
            return SLICE_BYTES[self.view.storage]
        return 4


@dataclass(frozen=True)
class KernelSource:
    """Everything that decides a kernel's text. ``links`` are (expression in v and w, name of the argument read as w
    or "").

    By value a kernel takes one int per buffer argument (its offset in units) and PICTURE_PARAMETERS floats per Picture,
    each in the order of ``arguments``.
    """

    name: str
    arguments: tuple[Argument, ...]
    group: int
    tiles: int
    constants: tuple[tuple[str, int | float], ...] = ()
    shared: tuple[tuple[str, str, int], ...] = ()
    links: tuple[tuple[str, str], ...] = ()

    @property
    def buffers(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not isinstance(a.view, Picture))

    @property
    def pictures(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if isinstance(a.view, Picture))

    @property
    def memories(self) -> dict[str, list[Argument]]:
        """The buffers that a kernel is bound to, in binding order, each with the arguments that lie in it."""
        memories: dict[str, list[Argument]] = {}
        for argument in self.buffers:
            memories.setdefault(argument.memory, []).append(argument)
        return memories


SliceAccess = Callable[[Argument, str, str | None], str]
"""(argument, index, value): the text that loads slice number ``index``, or, where ``value`` is given, stores it."""


def render_glsl(source: KernelSource, version: str = "430 core") -> str:
    """GLSL for one compute shader; ``version`` is "430 core" or "310 es".

    Bindings: buffer i is the i-th of ``source.memories``; texture or image unit i is the i-th of ``source.pictures``.
    Uniform locations: an array of ints at 0, the offset of buffer argument i at i; then four vec4 for each Picture.
    """
    lines = [f"#version {version}"]
    if version.endswith("es"):
        lines += [f"precision highp {kind};" for kind in ("float", "int", "sampler2D", "image2D")]
    lines += [f"layout(local_size_x = {source.group}) in;", _prelude("glsl")]
    for binding, (memory, arguments) in enumerate(source.memories.items()):
        element = _glsl_element(arguments)
        readonly = "readonly " if all(a.access == "r" for a in arguments) else ""
        lines.append(
            f"layout(std430, binding = {binding}) {readonly}buffer block_{memory} {{ {element} {memory}[]; }};"
        )
    location = len(source.buffers)
    if location:  # one array, so that one call sets them all
        lines.append(f"layout(location = 0) uniform int offsets[{location}];")
    lines += [f"#define {argument.name}_offset offsets[{i}]" for i, argument in enumerate(source.buffers)]
    for unit, argument in enumerate(source.pictures):
        lines.append(f"layout(location = {location}) uniform vec4 {argument.name}_parameters[4];")
        lines += [f"#define {argument.name}_parameter{i} {argument.name}_parameters[{i}]" for i in range(4)]
        lines.append(_glsl_picture(argument, unit))
        location += 4
    lines += [f"shared {kind} {name}[{count}];" for kind, name, count in source.shared]
    helpers, body = _body(source.name)
    lines += [*_definitions(source, _glsl_slice(source)), "#line 1 7", helpers + "void tile_function(int TILE) " + body]
    lines.append(
        "void main() {\n  int tile = int(gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x);\n"
        "  if (tile < TILES) { tile_function(tile); }\n}\n"
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
    helpers, body = _body(source.name)
    lines = [_prelude("cl"), *_definitions(source, _opencl_slice(source)), f'#line 1 "{source.name}.kern"', helpers]
    lines.append(
        f"__kernel __attribute__((reqd_work_group_size({source.group}, 1, 1)))\n"
        f"void {source.name}({', '.join(parameters)}) {{"
    )
    lines += [f"  __local {kind} {name}[{count}];" for kind, name, count in source.shared]
    line = helpers.count("\n") + 1
    lines += ["  int TILE = (int)get_group_id(0);", f'#line {line} "{source.name}.kern"', body, "}\n"]
    return "\n".join(lines)


@functools.cache
def _prelude(extension: str) -> str:
    """What the API's own prelude and the common helpers define for every kernel."""
    return (HERE / f"prelude.{extension}").read_text() + (HERE / "prelude.kern").read_text().rstrip()


@functools.cache
def _body(name: str) -> tuple[str, str]:
    """The helpers before KERNEL, and the braces after it, with access written per argument: READ(src, -> READ_src(."""
    text = (HERE / f"{name}.kern").read_text()
    helpers, marker, body = text.partition("KERNEL ")
    if not marker:
        raise ValueError(f"{name}.kern has no KERNEL")
    return helpers, re.sub(r"\b(READ|WRITE|LOAD4|STORE4|POSITION)\((\w+),\s*", r"\1_\2(", body)


def _definitions(source: KernelSource, slice_access: SliceAccess) -> list[str]:
    """The constants and access macros of every argument."""
    lines = [f"#define GROUP {source.group}", f"#define TILES {source.tiles}"]
    for name, value in source.constants:
        lines.append(f"#define {name} {_literal(value)}")
    for argument in source.arguments:
        lines += _shape_constants(argument)
        if "r" in argument.access:
            lines.append(_read_macro(argument, slice_access))
        if isinstance(argument.view, Quantized) and "w" in argument.access:
            lines.append(_quantized_store(argument, slice_access))
        elif "w" in argument.access:
            lines.append(_write_macro(argument, source.links if argument.name == "dst" else (), slice_access))
    return lines


def _literal(value: int | float) -> str:
    if isinstance(value, float):
        text = repr(value)
        return f"({text}f)" if "." in text or "e" in text else f"({text}.0f)"
    return f"({int(value)})"


def _shape_constants(argument: Argument) -> list[str]:
    name, view = argument.name, argument.view
    if isinstance(view, Table):
        return []
    batch, height, width, channels = view.shape
    values = dict(
        B=batch, H=height, W=width, C=channels, S=slices(channels), COUNT=batch * height * width * slices(channels)
    )
    lines = [f"#define {name}_{key} {value}" for key, value in values.items()]
    position = [f"int s_ = (i_) % {name}_S", f"int x_ = (i_) / {name}_S % {name}_W"]
    position += [
        f"int y_ = (i_) / ({name}_S * {name}_W) % {name}_H",
        f"int b_ = (i_) / ({name}_S * {name}_W * {name}_H)",
    ]
    return [*lines, f"#define POSITION_{name}(i_, b_, y_, x_, s_) {'; '.join(position)}"]


def _pixel(shape: tuple[int, ...]) -> str:
    """The number of a pixel; a dimension of size 1 is left out, so that a smaller operand broadcasts."""
    text = "0"
    for size, name in zip(shape[:3], ("(b_)", "(y_)", "(x_)"), strict=True):
        if size > 1:
            text = name if text == "0" else f"({text}) * {size} + {name}"
    return text


def _read_macro(argument: Argument, slice_access: SliceAccess) -> str:
    name, view = argument.name, argument.view
    if isinstance(view, Table):
        return f"#define LOAD4_{name}(i_) {slice_access(argument, f'{name}_offset + (i_)', None)}"
    if isinstance(view, Picture):
        return _picture_read(argument)
    channels = view.shape[3]
    if isinstance(view, Quantized):
        return _quantized_read(argument, slice_access)
    if isinstance(view, Dense):
        base = f"{name}_offset + ({_pixel(view.shape)}) * {channels}"
        lanes = [_dense_lane(argument.memory, base, lane, channels) for lane in range(4)]
        value = f"F4({argument.memory}[{base}])" if argument.splat else f"F4V({', '.join(lanes)})"
    else:
        slice_index = "0" if argument.splat else "(s_)"
        value = slice_access(argument, f"{name}_offset + ({_pixel(view.shape)}) * {view.stride} + {slice_index}", None)
        value = f"F4({value}.x)" if argument.splat else value
    return f"#define READ_{name}(b_, y_, x_, s_) {value}"


def _quantized_read(argument: Argument, slice_access: SliceAccess) -> str:
    view = argument.view
    assert isinstance(view, Quantized)
    channels = view.shape[3]
    if channels % 4 == 0:
        stored = slice_access(argument, f"({_pixel(view.shape)}) * {channels // 4} + (s_)", None)
    else:
        first, lanes = f"({_pixel(view.shape)}) * {channels} + (s_) * 4", []
        for lane in range(4):
            place = f"min({first} + {lane}, {math.prod(view.shape) - 1})"
            lanes.append(f"LANE({slice_access(argument, f'({place}) / 4', None)}, ({place}) % 4)")
        stored = f"F4V({', '.join(lanes)})"
    value = f"({stored} - F4({_literal(float(view.zero_point))})) * F4({_literal(view.scale)})"
    return f"#define READ_{argument.name}(b_, y_, x_, s_) ({value})"


def _quantized_store(argument: Argument, slice_access: SliceAccess) -> str:
    view = argument.view
    assert isinstance(view, Quantized)
    kind = INTEGERS[view.dtype]
    stored = f"RINT((v_) / F4({_literal(view.scale)})) + F4({_literal(float(view.zero_point))})"
    limits = f"F4({_literal(float(kind.lowest))}), F4({_literal(float(kind.highest))})"
    store = slice_access(argument, "(i_)", "link_v")
    return f"#define STORE4_{argument.name}(i_, v_) {{ float4 link_v = clamp({stored}, {limits}); {store}; }}"


def _dense_lane(memory: str, base: str, lane: int, channels: int) -> str:
    if channels < 4:
        return f"{memory}[{base} + {lane}]" if lane < channels else "0.0f"
    inside = f"{memory}[{base} + (s_) * 4 + {lane}]"
    return f"((s_) * 4 + {lane} < {channels} ? {inside} : 0.0f)" if channels % 4 else inside


def _write_macro(argument: Argument, links: tuple[tuple[str, str], ...], slice_access: SliceAccess) -> str:
    """A block: the value, each link applied to it, padding lanes set to zero, and the store."""
    name, view = argument.name, argument.view
    if isinstance(view, Table | Quantized):
        raise ValueError(f"{name}: a table of constants is read only, and a Quantized tensor written by STORE4 only")
    statements = ["float4 link_v = (v_)"]
    for expression, operand in links:
        text = re.sub(r"\bv\b", "link_v", expression)
        if operand:
            text = re.sub(r"\bw\b", f"READ_{operand}(b_, y_, x_, s_)", text)
        statements.append(f"link_v = {text}")
    channels = view.shape[3]
    if isinstance(view, Picture):
        statements.append(_picture_store(argument))
    elif isinstance(view, Dense):
        statements.append(f"int link_i = {name}_offset + ({_pixel(view.shape)}) * {channels} + (s_) * 4")
        for lane, component in enumerate("xyzw"):
            inside = "" if channels % 4 == 0 or lane < channels % 4 else f"if ((s_) * 4 + {lane} < {channels}) "
            if lane < channels:
                statements.append(f"{inside}{{ {argument.memory}[link_i + {lane}] = link_v.{component}; }}")
    else:
        if channels % 4:
            kept = [f"link_v.{c}" if lane < channels % 4 else "0.0f" for lane, c in enumerate("xyzw")]
            statements.append(f"if ((s_) == {slices(channels) - 1}) {{ link_v = F4V({', '.join(kept)}); }}")
        index = f"{name}_offset + ({_pixel(view.shape)}) * {view.stride} + (s_)"
        statements.append(slice_access(argument, index, "link_v"))
    return f"#define WRITE_{name}(b_, y_, x_, s_, v_) {{ {'; '.join(statements)}; }}"


# Pictures -------------------------------------------------------------------------------------------------------------


def _glsl_picture(argument: Argument, unit: int) -> str:
    assert isinstance(argument.view, Picture)
    if argument.access == "r":
        return f"layout(binding = {unit}) uniform sampler2D {argument.name}_image;"
    return f"layout({argument.view.format}, binding = {unit}) writeonly uniform image2D {argument.name}_image;"


def _picture_read(argument: Argument) -> str:
    """A function that puts a texel's channels in the tensor's order, and a macro that reads a pixel with it."""
    view, name = argument.view, argument.name
    assert isinstance(view, Picture)
    lanes = [f"t.{'xyzw'['rgba'.index(channel)]}" for channel in view.order] + ["0.0f"] * (4 - len(view.order))
    place = f"{name}_parameter0, {name}_parameter1, TO_F(x_), TO_F(y_)"
    texel = f"order_{name}(sample_{view.sampling}({name}_image, {place}))"
    return (
        f"float4 order_{name}(float4 t) {{ return F4V({', '.join(lanes)}); }}\n"
        f"#define READ_{name}(b_, y_, x_, s_) ({texel} * {name}_parameter2 + {name}_parameter3)"
    )


def _picture_store(argument: Argument) -> str:
    """Store a tensor pixel as a texel: std and mean undone, channels placed, alpha 1 where the tensor has none."""
    view, name = argument.view, argument.name
    assert isinstance(view, Picture)
    texel = f"(link_v * {name}_parameter2 + {name}_parameter3)"
    if TEXTURE_CHANNELS[view.format] == 4 and len(view.order) == 1:
        channels = [f"{texel}.x"] * 3 + ["1.0f"]
    else:
        channels = [
            f"{texel}.{'xyzw'[view.order.index(c)]}" if c in view.order else "01"[c == "a"] + ".0f" for c in "rgba"
        ]
    place = f"TO_F(x_), TO_F(y_), {name}_parameter0, {name}_parameter1"
    return f"store_texel({name}_image, {place}, F4V({', '.join(channels)}))"


# What the two dialects do differently with a slice ------------------------------------------------------------------


def _glsl_element(arguments: list[Argument]) -> str:
    """The element type of a buffer block: float4 where all is f32, pairs of words where an argument has 16 bits."""
    if any(isinstance(a.view, Dense) for a in arguments):
        if not all(isinstance(a.view, Dense) for a in arguments):
            raise ValueError(f"memory '{arguments[0].memory}' mixes a user's float32 layout with slices")
        return "float"
    if any(isinstance(a.view, Quantized) for a in arguments):
        return "uint"
    return "uvec2" if any(a.unit == SLICE_BYTES["f16"] for a in arguments) else "vec4"


def _glsl_slice(source: KernelSource) -> SliceAccess:
    elements = {memory: _glsl_element(arguments) for memory, arguments in source.memories.items()}

    def access(argument: Argument, index: str, value: str | None) -> str:
        memory = argument.memory
        if isinstance(argument.view, Quantized):
            return glsl_integers(memory, argument.view.dtype, index, value)
        if argument.unit == SLICE_BYTES["f16"]:
            place = f"{memory}[{index}]"
            return f"UNPACK_HALF4({place})" if value is None else f"{place} = PACK_HALF4({value})"
        if elements[memory] == "vec4":
            return f"{memory}[{index}]" if value is None else f"{memory}[{index}] = {value}"
        # f32 slices in a block that also holds halves: two elements of two words each.
        if value is None:
            return f"uintBitsToFloat(uvec4({memory}[({index}) * 2], {memory}[({index}) * 2 + 1]))"
        bits = f"uvec4 link_bits = floatBitsToUint({value}); int link_i = ({index}) * 2"
        return f"{bits}; {memory}[link_i] = link_bits.xy; {memory}[link_i + 1] = link_bits.zw"

    return access


def _opencl_slice(source: KernelSource) -> SliceAccess:
    def access(argument: Argument, index: str, value: str | None) -> str:
        const = "const " if all(a.access == "r" for a in source.memories[argument.memory]) else ""
        if isinstance(argument.view, Quantized):
            return opencl_integers(argument.memory, argument.view.dtype, index, value)
        if argument.unit == SLICE_BYTES["f16"]:
            place = f"{index}, (__global {const}half*){argument.memory}"
            return f"vload_half4({place})" if value is None else f"vstore_half4({value}, {place})"
        slice_ = f"((__global {const}float4*){argument.memory})[{index}]"
        return slice_ if value is None else f"{slice_} = {value}"

    return access
