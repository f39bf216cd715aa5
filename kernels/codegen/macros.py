"""Access macros: how READ, WRITE, LOAD4, STORE4 and POSITION of each argument come out for its view and storage."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from ..tensor import INTEGER_DTYPES, slices
from ..views import SLICE_BYTES, TEXTURE_CHANNELS, Dense, Local, Picture, Quantized, Resize, Sliced, Table
from .integers import glsl_integers, opencl_integers
from .source import Argument, FusedTexts, KernelSource

SliceAccess = Callable[[Argument, str, str | None], str]
"""(argument, index, value): the text that loads slice number ``index``, or, where ``value`` is given, stores it."""
MATRIX_KERNELS = ("matrix_conv",)
"""The kernels that load fragments, of "src" and of "weights"."""


def definitions(source: KernelSource, slice_access: SliceAccess, words: SliceAccess | None = None) -> list[str]:
    """The constants and access macros of every argument. ``words`` loads a slice of halves as the two words that hold
    it, where matrix units may take it so.
    """
    lines = [f"#define GROUP {source.group_size}", f"#define GROUP_COUNT {source.group_count}"]
    for name, value in source.constants:
        lines.append(f"#define {name} {_literal(value)}")
    for argument in (*source.arguments, *(source.prologue.arguments if source.prologue else ())):
        lines += _shape_constants(argument)
        if "r" in argument.access:
            epilogue = source.input_ops if argument.name == "src" else ()
            lines.append(_read_with_input_ops(_read_macro(argument, slice_access), epilogue))
        if isinstance(argument.view, Quantized) and "w" in argument.access:
            lines.append(_quantized_store(argument, slice_access))
        elif "w" in argument.access:
            lines.append(_write_macro(argument, source, slice_access))
    return lines + (_fragment_macros(source, words) if source.name in MATRIX_KERNELS else [])


def _fragment_macros(source: KernelSource, words: SliceAccess | None) -> list[str]:
    """How fragments are loaded and multiplied: as floats, or, where all is halves and there are units, as they are."""
    floats = [
        "#define FRAGMENT float4", "#define NO_FRAGMENT F4(0.0f)", "#define FRAGMENT_src READ_src",
        "#define FRAGMENT_weights LOAD4_weights", "#define MULTIPLY_FRAGMENTS MULTIPLY_FLOATS",
    ]  # fmt: skip
    src, weights = (next(a for a in source.arguments if a.name == name) for name in ("src", "weights"))
    computed = source.input_ops or (src.resized is not None and src.resized.bilinear)
    if words is None or computed or not (_holds_halves(src) and _holds_halves(weights)):
        return floats
    loads = [
        _read_macro(src, words).replace("READ_", "FRAGMENT_"),
        _read_macro(weights, words).replace("LOAD4_", "FRAGMENT_"),
    ]
    halves = ["#define FRAGMENT uint2", "#define NO_FRAGMENT (uint2)(0u)", "#define MULTIPLY_FRAGMENTS MULTIPLY_HALVES"]
    return ["#ifdef MATRIX_UNITS", *halves, *loads, "#else", *floats, "#endif"]


def _holds_halves(argument: Argument) -> bool:
    return isinstance(argument.view, Sliced | Table) and argument.view.storage == "f16"


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
    height, width = argument.resized.size if argument.resized is not None else (height, width)
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
    """What reads a slice, or an element of a table, as the argument says."""
    macro = _stored_read(argument, slice_access)
    if argument.resized is not None:
        macro = _resized_read(macro, argument, argument.resized)
    return _max_pooled_read(macro, argument.name) if argument.max_pool_2x2 else macro


def _stored_read(argument: Argument, slice_access: SliceAccess) -> str:
    """The same as the tensor is stored."""
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
        value = f"F4({argument.memory}[{base}])" if argument.broadcast_channel else f"F4V({', '.join(lanes)})"
    else:
        slice_index = "0" if argument.broadcast_channel else "(s_)"
        if isinstance(view, Local):
            value = f"{argument.memory}[({_pixel(view.shape)}) * {slices(channels)} + {slice_index}]"
        else:
            place = f"{name}_offset + ({_pixel(view.shape)}) * {view.stride} + {slice_index}"
            value = slice_access(argument, place, None)
        value = f"F4({value}.x)" if argument.broadcast_channel else value
    if argument.zero_extended:
        value = f"((s_) < {slices(channels)} ? {value} : F4(0.0f))"
    return f"#define READ_{name}(b_, y_, x_, s_) {value}"


def _max_pooled_read(macro: str, name: str) -> str:
    """The macro that reads the largest of 2x2 pixels."""
    rows = [
        f"max({', '.join(f'READ_whole_{name}(b_, 2 * (y_) + {dy}, 2 * (x_) + {dx}, s_)' for dx in (0, 1))})"
        for dy in (0, 1)
    ]
    whole = macro.replace(f"READ_{name}(", f"READ_whole_{name}(")
    return f"{whole}\n#define READ_{name}(b_, y_, x_, s_) max({', '.join(rows)})"


def _resized_read(macro: str, argument: Argument, resize: Resize) -> str:
    """The macro that reads a pixel of the resized tensor: see prelude.kern."""
    name, source, view = argument.name, f"READ_source_{argument.name}", argument.view
    assert not isinstance(view, Table)
    _, height, width, _ = view.shape
    y_scale = _scale(height, resize.size[0], resize.align_corners)
    x_scale = _scale(width, resize.size[1], resize.align_corners)
    if resize.bilinear:
        centre = _literal(0.5 if resize.half_pixel_centers else 0.0)
        y = f"resized_position(y_, {_literal(y_scale)}, {centre})"
        x = f"resized_position(x_, {_literal(x_scale)}, {centre})"
        rows = f"pixel_before({y})", f"pixel_after({y}, {height})"
        columns = f"pixel_before({x})", f"pixel_after({x}, {width})"
        corners = [f"{source}(b_, {row}, {column}, s_)" for row in rows for column in columns]
        value = f"mix_corners({', '.join(corners)}, {y}, {x})"
    else:
        y, x = _nearest("y_", y_scale, height, resize), _nearest("x_", x_scale, width, resize)
        value = f"{source}(b_, {y}, {x}, s_)"
    return f"{macro.replace(f'READ_{name}(', f'{source}(')}\n#define READ_{name}(b_, y_, x_, s_) {value}"


def _nearest(number: str, scale: float, size: int, resize: Resize) -> str:
    """The row or column of the nearest pixel, of ``size``; where they are doubled, once or repeatedly, a shift."""
    if not resize.align_corners and 1 / scale in (1, 2, 4, 8):
        return f"(({number}) >> {int(1 / scale).bit_length() - 1})"
    centre, rounding = 0.5 if resize.half_pixel_centers else 0.0, 0.5 if resize.align_corners else 0.0
    return f"nearest_pixel({number}, {_literal(scale)}, {_literal(centre)}, {_literal(rounding)}, {size})"


def _scale(source: int, destination: int, align_corners: bool) -> float:
    return (source - 1) / (destination - 1) if align_corners and destination > 1 else source / destination


def _read_with_input_ops(macro: str, epilogue: FusedTexts) -> str:
    """The macro that reads "src", with links applied to what it reads: one expression that reads each operand."""
    if not epilogue:
        return macro
    value = "READ_stored_src(b_, y_, x_, s_)"
    for expression, operand in epilogue:
        words = {"v": value, "w": f"READ_{operand}(b_, y_, x_, s_)"}
        value = f"({' '.join(words.get(word, word) for word in expression.split())})"
    return f"{macro.replace('READ_src(', 'READ_stored_src(')}\n#define READ_src(b_, y_, x_, s_) {value}"


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
    kind = INTEGER_DTYPES[view.dtype]
    stored = f"RINT((v_) / F4({_literal(view.scale)})) + F4({_literal(float(view.zero_point))})"
    limits = f"F4({_literal(float(kind.lowest))}), F4({_literal(float(kind.highest))})"
    store = slice_access(argument, "(i_)", "store_v")
    return f"#define STORE4_{argument.name}(i_, v_) {{ float4 store_v = clamp({stored}, {limits}); {store}; }}"


def _dense_lane(memory: str, base: str, lane: int, channels: int) -> str:
    if channels < 4:
        return f"{memory}[{base} + {lane}]" if lane < channels else "0.0f"
    inside = f"{memory}[{base} + (s_) * 4 + {lane}]"
    return f"((s_) * 4 + {lane} < {channels} ? {inside} : 0.0f)" if channels % 4 else inside


def _epilogue_of(argument: Argument, source: KernelSource) -> FusedTexts:
    """What is applied to what is written to the argument."""
    if isinstance(argument.view, Local):
        assert source.prologue is not None
        return source.prologue.epilogue
    return source.epilogue if argument.name == source.destination else ()


def _apply(epilogue: FusedTexts, variable: str) -> list[str]:
    """A statement for each link, which changes the variable."""
    statements: list[str] = []
    for expression, operand in epilogue:
        text = re.sub(r"\bv\b", variable, expression)
        if operand:
            text = re.sub(r"\bw\b", f"READ_{operand}(b_, y_, x_, s_)", text)
        statements.append(f"{variable} = {text}")
    return statements


def _partial_sums(epilogue: FusedTexts) -> list[str]:
    """Adds the written value, with links applied, to its slice's sum: an invocation writes OWNED_SLICES of them."""
    add = "if ((s_) / OWNED_STEP == sum_j) { partial_sums[sum_j] += summand; }"
    each = f"for (int sum_j = 0; sum_j < OWNED_SLICES; sum_j++) {{ {add} }}"
    return ["float4 summand = store_v", *_apply(epilogue, "summand"), each]


def _write_macro(argument: Argument, source: KernelSource, slice_access: SliceAccess) -> str:
    """A block: the value, each link applied to it, padding lanes set to zero, and the store."""
    name, view = argument.name, argument.view
    if isinstance(view, Table | Quantized):
        raise ValueError(f"{name}: a table of constants is read only, and a Quantized tensor written by STORE4 only")
    statements = ["float4 store_v = (v_)", *_apply(_epilogue_of(argument, source), "store_v")]
    if source.partial_sums is not None and name == source.destination:
        statements += _partial_sums(source.partial_sums)
    channels = view.shape[3]
    if isinstance(view, Picture):
        statements.append(_picture_store(argument))
    elif isinstance(view, Dense):
        statements.append(f"int store_i = {name}_offset + ({_pixel(view.shape)}) * {channels} + (s_) * 4")
        for lane, component in enumerate("xyzw"):
            inside = "" if channels % 4 == 0 or lane < channels % 4 else f"if ((s_) * 4 + {lane} < {channels}) "
            if lane < channels:
                statements.append(f"{inside}{{ {argument.memory}[store_i + {lane}] = store_v.{component}; }}")
    else:
        if channels % 4:
            kept = [f"store_v.{c}" if lane < channels % 4 else "0.0f" for lane, c in enumerate("xyzw")]
            statements.append(f"if ((s_) == {slices(channels) - 1}) {{ store_v = F4V({', '.join(kept)}); }}")
        if isinstance(view, Local):
            statements.append(f"{argument.memory}[({_pixel(view.shape)}) * {slices(channels)} + (s_)] = store_v")
        else:
            index = f"{name}_offset + ({_pixel(view.shape)}) * {view.stride} + (s_)"
            statements.append(slice_access(argument, index, "store_v"))
    return f"#define WRITE_{name}(b_, y_, x_, s_, v_) {{ {'; '.join(statements)}; }}"


# Pictures -------------------------------------------------------------------------------------------------------------


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
    texel = f"(store_v * {name}_parameter2 + {name}_parameter3)"
    if TEXTURE_CHANNELS[view.format] == 4 and len(view.order) == 1:
        channels = [f"{texel}.x"] * 3 + ["1.0f"]
    else:
        channels = [
            f"{texel}.{'xyzw'[view.order.index(c)]}" if c in view.order else "01"[c == "a"] + ".0f" for c in "rgba"
        ]
    place = f"TO_F(x_), TO_F(y_), {name}_parameter0, {name}_parameter1"
    return f"store_texel({name}_image, {place}, F4V({', '.join(channels)}))"


# What the two dialects do differently with a slice ------------------------------------------------------------------


def glsl_element(arguments: list[Argument]) -> str:
    """The element type of a buffer block: float4 where all is f32, pairs of words where an argument has 16 bits."""
    if any(isinstance(a.view, Dense) for a in arguments):
        if not all(isinstance(a.view, Dense) for a in arguments):
            raise ValueError(f"memory '{arguments[0].memory}' mixes a user's float32 layout with slices")
        return "float"
    if any(isinstance(a.view, Quantized) for a in arguments):
        return "uint"
    return "uvec2" if any(a.unit == SLICE_BYTES["f16"] for a in arguments) else "vec4"


def glsl_slice(elements: Mapping[str, str]) -> SliceAccess:
    """Access to slices in buffers whose blocks have these types of elements."""

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
        bits = f"uvec4 store_bits = floatBitsToUint({value}); int store_i = ({index}) * 2"
        return f"{bits}; {memory}[store_i] = store_bits.xy; {memory}[store_i + 1] = store_bits.zw"

    return access


def opencl_slice(source: KernelSource) -> SliceAccess:
    def access(argument: Argument, index: str, value: str | None) -> str:
        const = "const " if all(a.access == "r" for a in source.memories[argument.memory]) else ""
        if isinstance(argument.view, Quantized):
            return opencl_integers(argument.memory, argument.view.dtype, index, value)
        if argument.unit == SLICE_BYTES["f16"]:
            place = f"{index}, (__global {const}half*){argument.memory}"
            return f"LOAD_HALF4({place})" if value is None else f"vstorea_half4({value}, {place})"
        slice_ = f"((__global {const}float4*){argument.memory})[{index}]"
        return slice_ if value is None else f"{slice_} = {value}"

    return access


def opencl_words(source: KernelSource) -> SliceAccess:
    """Loads of halves in OpenCL C that leave them as they are."""

    def access(argument: Argument, index: str, value: str | None) -> str:
        assert value is None
        const = "const " if all(a.access == "r" for a in source.memories[argument.memory]) else ""
        return f"((__global {const}uint2*){argument.memory})[{index}]"

    return access
