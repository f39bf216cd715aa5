"""Macros that write an argument: the epilogue, zeros in padding lanes, and the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..tensor import INTEGER_DTYPES, slices
from ..views import Dense, Local, Picture, Plane, PlanePicture, Quantized, Strided, Table
from .dialect import Dialect
from .macro import SLICE, Macro, fused, literal, pixel_number, pixel_start, slice_number
from .pictures import picture_store
from .source import Argument, Buffer, FusedTexts, KernelSource

Store = Callable[[Argument, Buffer, str, str], str]
"""``Dialect.store`` or ``Dialect.store_integers``: the statements that store a value in a buffer."""


def write_macro(argument: Argument, source: KernelSource, dialect: Dialect, buffers: Mapping[str, Buffer]) -> Macro:
    """WRITE of an argument, or STORE4 of one that is Quantized: a block of statements."""
    view = argument.view
    if isinstance(view, Quantized):
        return _store_integers(argument, view, dialect, buffers[argument.memory], exact=source.integers)
    if isinstance(view, Table | Plane | PlanePicture):
        raise ValueError(f"{argument.name}: a table of constants, and a picture in planes, is read only")
    statements = ["float4 store_v = (v_)", *_apply(_epilogue_of(argument, source), "store_v")]
    if source.partial_sums is not None and argument.name == source.destination:
        statements += _add_to_partial_sums(source.partial_sums)
    if isinstance(view, Picture):
        statements.append(picture_store(argument))
    elif isinstance(view, Dense):
        statements += _store_dense(argument, view, "floats_of(store_v)" if source.integers else "store_v")
    elif isinstance(view, Strided):
        store = dialect.store_integers if source.integers else dialect.store
        statements += _store_strided(argument, view, buffers[argument.memory], store)
    else:
        statements += _clear_padding(view.shape[3])
        if isinstance(view, Local):
            place = f"{argument.memory}[({pixel_number(view.shape)}) * {slices(view.shape[3])} + (s_)]"
            statements.append(f"{place} = store_v")
        else:
            store = dialect.store_integers if source.integers else dialect.store
            index = slice_number(argument, view, "(s_)")
            statements.append(store(argument, buffers[argument.memory], index, "store_v"))
    return Macro(f"WRITE_{argument.name}", (*SLICE, "v_"), f"{{ {'; '.join(statements)}; }}")


def _epilogue_of(argument: Argument, source: KernelSource) -> FusedTexts:
    """The operations that are applied to what is written to the argument."""
    if isinstance(argument.view, Local):
        assert source.prologue is not None
        return source.prologue.epilogue
    return source.epilogue if argument.name == source.destination else ()


def _apply(fused_ops: FusedTexts, variable: str) -> list[str]:
    """One statement per operation, which changes the variable."""
    return [f"{variable} = {text}" for text in fused(fused_ops, variable)]


def _add_to_partial_sums(fused_ops: FusedTexts) -> list[str]:
    """Statements that apply the operations to the written value and add it to the sum of its slice. If MOMENTS is 2,
    they also add its square to the slice's sum of squares, which follows the OWNED_SLICES sums.
    """
    square = "if (MOMENTS == 2) { partial_sums[(MOMENTS - 1) * OWNED_SLICES + sum_j] += summand * summand; }"
    add = f"if ((s_) / OWNED_STEP == sum_j) {{ partial_sums[sum_j] += summand; {square} }}"
    each = f"for (int sum_j = 0; sum_j < OWNED_SLICES; sum_j++) {{ {add} }}"
    return ["float4 summand = store_v", *_apply(fused_ops, "summand"), each]


def _clear_padding(channels: int) -> list[str]:
    """The statement that writes zeros after the last channel, if the last slice is not full."""
    if channels % 4 == 0:
        return []
    kept = [f"store_v.{c}" if lane < channels % 4 else "0.0f" for lane, c in enumerate("xyzw")]
    return [f"if ((s_) == {slices(channels) - 1}) {{ store_v = F4V({', '.join(kept)}); }}"]


def _store_dense(argument: Argument, view: Dense, value: str) -> list[str]:
    """Statements that store the components of a value, four floats. OpenGL ES makes no float of an int by itself."""
    channels = view.shape[3]
    statements = [f"int store_i = {argument.name}_offset + ({pixel_number(view.shape)}) * {channels} + (s_) * 4"]
    for lane, component in enumerate("xyzw"):
        inside = "" if channels % 4 == 0 or lane < channels % 4 else f"if ((s_) * 4 + {lane} < {channels}) "
        if lane < channels:
            statements.append(f"{inside}{{ {argument.memory}[store_i + {lane}] = {value}.{component}; }}")
    return statements


def _store_strided(argument: Argument, view: Strided, buffer: Buffer, store: Store) -> list[str]:
    channels, step = view.shape[3], view.strides[3]
    statements = [f"int store_i = {argument.name}_offset + {pixel_start(view)} + (s_) * {4 * step}"]
    for lane, component in enumerate("xyzw"[:channels]):
        inside = f"if ((s_) * 4 + {lane} < {channels}) " if lane >= channels % 4 > 0 else ""
        stored = store(argument, buffer, f"store_i + {lane * step}", f"store_v.{component}")
        statements.append(f"{inside}{{ {stored}; }}")
    return statements


def _store_integers(argument: Argument, view: Quantized, dialect: Dialect, buffer: Buffer, *, exact: bool) -> Macro:
    """The macro STORE4 of a Quantized argument. Values are floats, or int32 if ``exact``."""
    if exact:
        store = dialect.store_integers(argument, buffer, "(i_)", "store_v")
        return Macro(f"STORE4_{argument.name}", ("i_", "v_"), f"{{ int4 store_v = (v_); {store}; }}")
    store = dialect.store(argument, buffer, "(i_)", "store_v")
    if view.dtype == "float16":
        return Macro(f"STORE4_{argument.name}", ("i_", "v_"), f"{{ float4 store_v = v_; {store}; }}")
    kind = INTEGER_DTYPES[view.dtype]
    stored = f"RINT((v_) / F4({literal(view.scale)})) + F4({literal(float(view.zero_point))})"
    limits = f"F4({literal(float(kind.lowest))}), F4({literal(float(kind.highest))})"
    block = f"{{ float4 store_v = clamp({stored}, {limits}); {store}; }}"
    return Macro(f"STORE4_{argument.name}", ("i_", "v_"), block)
