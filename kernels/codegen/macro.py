"""Macros as objects: the language in which the access to a kernel's arguments is generated."""

from __future__ import annotations

import math
import re
import struct
from typing import NamedTuple

from ..tensor import Shape
from ..views import Sliced, Strided
from .source import Argument, FusedTexts

SLICE = ("b_", "y_", "x_", "s_")
"""Parameters that name a slice: batch, row, column, number of the slice."""


class Macro(NamedTuple):
    """``#define name(params) body``, or ``#define name body`` without parameters."""

    name: str
    params: tuple[str, ...]
    body: str

    def renamed(self, name: str) -> Macro:
        """Give the macro another name."""
        return Macro(name, self.params, self.body)

    def call(self, *arguments: str) -> str:
        """A use of the macro, by default with its own parameters as arguments."""
        return f"{self.name}({', '.join(arguments or self.params)})"

    def __str__(self) -> str:
        params = f"({', '.join(self.params)})" if self.params else ""
        return f"#define {self.name}{params} {self.body}"


def constant(name: str, value: str | int) -> str:
    """The line that defines a constant."""
    return f"#define {name} {value}"


def literal(value: int | float) -> str:
    """A constant in C, in parentheses: an int, or a float with its suffix."""
    if isinstance(value, float) and not math.isfinite(value):  # neither language can write it
        return f"FLOAT_OF_BITS(0x{struct.unpack('<I', struct.pack('<f', value))[0]:08x}u)"
    if isinstance(value, float):
        text = repr(value)
        return f"({text}f)" if "." in text or "e" in text else f"({text}.0f)"
    return f"({int(value)})" if value > -(1 << 31) else f"({int(value) + 1} - 1)"  # C has no negative literals


def pixel_number(shape: Shape) -> str:
    """The number of pixel (b_, y_, x_). A dimension of size 1 is left out, so that a smaller operand broadcasts."""
    text = "0"
    for size, name in zip(shape[:3], ("(b_)", "(y_)", "(x_)"), strict=True):
        if size > 1:
            text = name if text == "0" else f"({text}) * {size} + {name}"
    return text


def slice_number(argument: Argument, view: Sliced, within: str) -> str:
    """The number of a slice in memory: ``within`` is its number within pixel (b_, y_, x_)."""
    stride = f"{argument.name}_stride" if argument.takes_stride else view.stride
    return f"{argument.name}_offset + ({pixel_number(view.shape)}) * {stride} + {within}"


def pixel_start(view: Strided) -> str:
    """The number of elements before pixel (b_, y_, x_) of a tensor that lies in memory by strides."""
    steps = zip(view.shape, ("(b_)", "(y_)", "(x_)"), view.strides, strict=False)
    return " + ".join([f"{name} * {stride}" for size, name, stride in steps if size > 1 and stride]) or "0"


def fused(fused_ops: FusedTexts, value: str) -> list[str]:
    """The expression of each fused operation, with ``value`` for v and a read of its operand for w."""
    return [substituted(expression, operand, value) for expression, operand in fused_ops]


def substituted(expression: str, operand: str, value: str) -> str:
    """A fused operation's expression, with ``value`` for v and a read of the operand, if it has one, for w."""
    words = {"v": value, "w": f"READ_{operand}({', '.join(SLICE)})" if operand else "w"}
    return re.sub(r"\b[vw]\b", lambda word: words[word[0]], expression)
