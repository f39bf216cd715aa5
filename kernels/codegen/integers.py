"""The texts that load and store four stored integers of a tensor at once, in each dialect.

Integers are floats in kernels. ``index`` counts groups of four; without ``value`` the text loads, else it stores.
"""

from __future__ import annotations

from ..tensor import INTEGER_DTYPES

_OPENCL = {"int8": "char", "uint8": "uchar", "int16": "short", "bool": "uchar", "int32": "int", "int64": "long"}


def glsl_integers(memory: str, dtype: str, index: str, value: str | None) -> str:
    """``memory`` is a buffer of uint: four integers are as many words as one integer has bytes."""
    kind = INTEGER_DTYPES[dtype]
    signed = "int" if kind.lowest else "uint"
    words = [f"{memory}[({index}) * {kind.nbytes} + {word}]" for word in range(kind.nbytes)]
    if value is None:
        if kind.nbytes > 2:
            return f"UNPACK_{'INTS' if kind.nbytes == 4 else 'LONGS'}({', '.join(words)})"
        packed = ", ".join(f"{signed}({word})" for word in words)
        return f"UNPACK_{'BYTES' if kind.nbytes == 1 else 'SHORTS'}({packed})"
    if kind.nbytes == 1:
        return f"{words[0]} = PACK_BYTES({value})"
    if kind.nbytes == 2:
        return f"{words[0]} = PACK_SHORTS({value}.xy); {words[1]} = PACK_SHORTS({value}.zw)"
    if kind.nbytes == 4:
        return "; ".join(f"{word} = uint(int({value}.{lane}))" for word, lane in zip(words, "xyzw", strict=True))
    stores = [f"uvec2 long_{lane} = PACK_LONG({value}.{lane})" for lane in "xyzw"]
    stores += [f"{word} = long_{'xyzw'[i // 2]}.{'xy'[i % 2]}" for i, word in enumerate(words)]
    return "; ".join(stores)


def opencl_integers(memory: str, dtype: str, index: str, value: str | None) -> str:
    """``memory`` is a pointer to anything in global memory, const where it is only read."""
    kind = _OPENCL[dtype]
    if value is None:
        return f"convert_float4(vload4({index}, (__global const {kind}*){memory}))"
    return f"vstore4(convert_{kind}4({value}), {index}, (__global {kind}*){memory})"
