"""The texts that load and store four stored integers of a quantized tensor at once, in each dialect.

Integers are floats in kernels. ``index`` counts groups of four; without ``value`` the text loads, else it stores.
"""

from __future__ import annotations

from .layout import INTEGERS

_OPENCL = {"int8": "char", "uint8": "uchar", "int16": "short"}


def glsl_integers(memory: str, dtype: str, index: str, value: str | None) -> str:
    """``memory`` is a buffer of uint: one word of bytes, or two of 16-bit integers."""
    signed = "int" if INTEGERS[dtype].lowest else "uint"
    if INTEGERS[dtype].nbytes == 1:
        word = f"{memory}[{index}]"
        return f"UNPACK_BYTES({signed}({word}))" if value is None else f"{word} = PACK_BYTES({value})"
    first, second = f"{memory}[({index}) * 2]", f"{memory}[({index}) * 2 + 1]"
    if value is None:
        return f"UNPACK_SHORTS({signed}({first}), {signed}({second}))"
    return f"{first} = PACK_SHORTS({value}.xy); {second} = PACK_SHORTS({value}.zw)"


def opencl_integers(memory: str, dtype: str, index: str, value: str | None) -> str:
    """``memory`` is a pointer to anything in global memory, const where it is only read."""
    kind = _OPENCL[dtype]
    if value is None:
        return f"convert_float4(vload4({index}, (__global const {kind}*){memory}))"
    return f"vstore4(convert_{kind}4({value}), {index}, (__global {kind}*){memory})"
