"""Macros that read an argument: as it is stored, then resized, then pooled, then with input operations applied.

Each stage renames the macro of the stage before and adds one that uses it. The last one has the name that kernels use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ..tensor import slices
from ..views import Dense, Local, Picture, Plane, PlanePicture, Quantized, Resize, Strided, Table
from .macro import SLICE, Macro, literal, pixel_number, pixel_start, slice_number, substituted
from .pictures import order_function, picture_read
from .planes import plane_order_function, plane_picture_read
from .source import Argument, Buffer, FusedTexts

Load = Callable[[Argument, Buffer, str], str]
"""``Dialect.load`` or ``Dialect.load_words``: the expression of slice number ``index`` of an argument in a buffer."""
Lines = list[Macro | str]
"""Macros, and functions that they use; the last one is the macro that reads."""


def read_lines(argument: Argument, buffers: Mapping[str, Buffer], load: Load, word: str = "") -> Lines:
    """The macros and functions that read a slice of a tensor, or an element of a table.

    ``word`` begins the macros' names: READ for a tensor and LOAD4 for a table if it is "".
    """
    if isinstance(argument.view, Table):
        element = load(argument, buffers[argument.memory], f"{argument.name}_offset + (i_)")
        return [Macro(f"{word or 'LOAD4'}_{argument.name}", ("i_",), element)]
    assert not isinstance(argument.view, Plane)
    word = word or "READ"
    lines = _stored(argument, f"{word}_{argument.name}", buffers, load)
    if argument.resized is not None:
        lines = _resized(lines, f"{word}_source_{argument.name}", argument, argument.resized)
    return _pooled(lines, f"{word}_whole_{argument.name}") if argument.max_pool_2x2 else lines


def with_input_ops(lines: Lines, input_ops: FusedTexts) -> Lines:
    """Apply the input operations to what the lines read: one expression more, which also reads each operand."""
    if not input_ops:
        return lines
    stored = _last(lines).renamed("READ_stored_src")
    return [*lines[:-1], stored, Macro(_last(lines).name, SLICE, _applied(input_ops, stored.call()))]


def stored_and_applied(input_ops: FusedTexts) -> Lines:
    """STORED and APPLIED, the two halves of FRAGMENT of "src": the stored value, and the input operations."""
    if not input_ops:
        return [
            Macro("STORED_src", SLICE, f"FRAGMENT_src({', '.join(SLICE)})"),
            Macro("APPLIED_src", (*SLICE, "v_"), "(v_)"),
        ]
    stored = Macro("STORED_src", SLICE, f"READ_stored_src({', '.join(SLICE)})")
    return [stored, Macro("APPLIED_src", (*SLICE, "v_"), _applied(input_ops, "(v_)"))]


def _applied(input_ops: FusedTexts, value: str) -> str:
    """The expression of a value after all operations."""
    for expression, operand in input_ops:
        value = f"({substituted(expression, operand, value)})"
    return value


def _last(lines: Sequence[Macro | str]) -> Macro:
    last = lines[-1]
    assert isinstance(last, Macro)
    return last


def _stored(argument: Argument, name: str, buffers: Mapping[str, Buffer], load: Load) -> Lines:
    """A read of the tensor as it is stored."""
    view = argument.view
    assert not isinstance(view, Table | Plane)
    if isinstance(view, Picture):
        return [order_function(argument), picture_read(argument, name)]
    if isinstance(view, PlanePicture):
        return [plane_order_function(argument), plane_picture_read(argument, name)]
    if isinstance(view, Quantized):
        return [Macro(name, SLICE, _quantized(argument, view, buffers[argument.memory], load))]
    if isinstance(view, Dense):
        value = _dense(argument, view)
    elif isinstance(view, Strided):
        value = _strided(argument, view, buffers[argument.memory], load)
    else:
        slice_index = "0" if argument.broadcast_channel else "(s_)"
        if isinstance(view, Local):
            value = f"{argument.memory}[({pixel_number(view.shape)}) * {slices(view.shape[3])} + {slice_index}]"
        else:
            value = load(argument, buffers[argument.memory], slice_number(argument, view, slice_index))
        value = f"F4({value}.x)" if argument.broadcast_channel else value
    if argument.zero_extended:
        value = f"((s_) < {slices(view.shape[3])} ? {value} : F4(0.0f))"
    return [Macro(name, SLICE, value)]


def _dense(argument: Argument, view: Dense) -> str:
    channels = view.shape[3]
    base = f"{argument.name}_offset + ({pixel_number(view.shape)}) * {channels}"
    if argument.broadcast_channel:
        return f"F4({argument.memory}[{base}])"
    return f"F4V({', '.join(_dense_lane(argument.memory, base, lane, channels) for lane in range(4))})"


def _dense_lane(memory: str, base: str, lane: int, channels: int) -> str:
    if channels < 4:
        return f"{memory}[{base} + {lane}]" if lane < channels else "0.0f"
    inside = f"{memory}[{base} + (s_) * 4 + {lane}]"
    return f"((s_) * 4 + {lane} < {channels} ? {inside} : 0.0f)" if channels % 4 else inside


def _strided(argument: Argument, view: Strided, buffer: Buffer, load: Load) -> str:
    base = f"{argument.name}_offset + {pixel_start(view)}"
    if argument.broadcast_channel:
        return f"F4({load(argument, buffer, base)})"
    return f"F4V({', '.join(_strided_lane(argument, view, buffer, load, base, lane) for lane in range(4))})"


def _strided_lane(argument: Argument, view: Strided, buffer: Buffer, load: Load, base: str, lane: int) -> str:
    channels, step = view.shape[3], view.strides[3]
    if channels < 4:
        return load(argument, buffer, f"{base} + {lane * step}") if lane < channels else "0.0f"
    inside = load(argument, buffer, f"{base} + ((s_) * 4 + {lane}) * {step}")
    return f"((s_) * 4 + {lane} < {channels} ? {inside} : 0.0f)" if channels % 4 else inside


def _quantized(argument: Argument, view: Quantized, buffer: Buffer, load: Load) -> str:
    channels = view.shape[3]
    if channels % 4 == 0:
        stored = load(argument, buffer, f"({pixel_number(view.shape)}) * {channels // 4} + (s_)")
    else:
        first, lanes = f"({pixel_number(view.shape)}) * {channels} + (s_) * 4", list[str]()
        for lane in range(4):
            place = f"min({first} + {lane}, {math.prod(view.shape) - 1})"
            lanes.append(f"LANE({load(argument, buffer, f'({place}) / 4')}, ({place}) % 4)")
        stored = f"F4V({', '.join(lanes)})"
    return f"(({stored} - F4({literal(float(view.zero_point))})) * F4({literal(view.scale)}))"


def _pooled(lines: Lines, name: str) -> Lines:
    """A read of the largest of 2x2 pixels."""
    whole = _last(lines).renamed(name)
    rows = [
        f"max({', '.join(whole.call('b_', f'2 * (y_) + {dy}', f'2 * (x_) + {dx}', 's_') for dx in (0, 1))})"
        for dy in (0, 1)
    ]
    return [*lines[:-1], whole, Macro(_last(lines).name, SLICE, f"max({', '.join(rows)})")]


def _resized(lines: Lines, name: str, argument: Argument, resize: Resize) -> Lines:
    """A read of a pixel of the resized tensor: see prelude.kern."""
    source, view = _last(lines).renamed(name), argument.view
    assert not isinstance(view, Table | Plane)
    _, height, width, _ = view.shape
    y_scale = _scale(height, resize.size[0], align_corners=resize.align_corners)
    x_scale = _scale(width, resize.size[1], align_corners=resize.align_corners)
    if resize.bilinear:
        centre = literal(0.5 if resize.half_pixel_centers else 0.0)
        y = f"resized_position(y_, {literal(y_scale)}, {centre})"
        x = f"resized_position(x_, {literal(x_scale)}, {centre})"
        rows = f"pixel_before({y})", f"pixel_after({y}, {height})"
        columns = f"pixel_before({x})", f"pixel_after({x}, {width})"
        corners = [source.call("b_", row, column, "s_") for row in rows for column in columns]
        value = f"mix_corners({', '.join(corners)}, {y}, {x})"
    else:
        y, x = _nearest("y_", y_scale, height, resize), _nearest("x_", x_scale, width, resize)
        value = source.call("b_", y, x, "s_")
    return [*lines[:-1], source, Macro(_last(lines).name, SLICE, value)]


def _nearest(number: str, scale: float, size: int, resize: Resize) -> str:
    """The row or column of the nearest pixel; there are ``size`` of them. It is a shift if the size is multiplied by a
    power of two.
    """
    if not resize.align_corners and 1 / scale in (1, 2, 4, 8):
        return f"(({number}) >> {int(1 / scale).bit_length() - 1})"
    centre, rounding = 0.5 if resize.half_pixel_centers else 0.0, 0.5 if resize.align_corners else 0.0
    return f"nearest_pixel({number}, {literal(scale)}, {literal(centre)}, {literal(rounding)}, {size})"


def _scale(source: int, destination: int, *, align_corners: bool) -> float:
    return (source - 1) / (destination - 1) if align_corners and destination > 1 else source / destination
