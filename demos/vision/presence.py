"""The classes that a picture shows, counted on the GPU: what is read back is one number for each class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

GRID = 64
"""Columns and rows of pixels that are counted: a share is right to about a hundredth."""

_ROWS = """
uniform sampler2D classes;
void main() {
    int number = int(gl_FragCoord.x);
    ivec2 size = textureSize(classes, 0);
    color = vec4(0.0);
    for (int column = 0; column < GRID; column++) {
        vec2 place = vec2(float(column) + 0.5, gl_FragCoord.y) / float(GRID);
        if (int(texelFetch(classes, ivec2(place * vec2(size)), 0).a + 0.5) == number) color += 1.0;
    }
}
"""
_SUMS = """
uniform sampler2D rows;
void main() {
    color = vec4(0.0);
    for (int row = 0; row < GRID; row++) color += texelFetch(rows, ivec2(int(gl_FragCoord.x), row), 0).r;
    color /= float(GRID * GRID);
}
"""


def share_counter(classes: int, reason: str) -> Callable[[fb.GlTexture], npt.NDArray[Any]]:
    """Make a function that says what share of a picture each class has.

    ``count(texture)`` takes the numbers of classes in alpha, and returns float32 shares (classes) from 0 to 1: the same
    array each time. ``reason`` is that of the copy.
    """
    programs = [fb.FragmentProgram(f"const int GRID = {GRID};\n{text}") for text in (_ROWS, _SUMS)]
    rows = fb.GlTexture(classes, GRID, "r32f", label="pixels of each class, by row")
    sums = fb.GlTexture(classes, 1, "r32f", label="shares of the classes")
    shares = np.zeros(classes, np.float32)

    def count(texture: fb.GlTexture) -> npt.NDArray[Any]:
        programs[0].draw(rows, {"classes": texture})
        programs[1].draw(sums, {"rows": rows})
        shares[:] = sums.read(reason).reshape(-1)[:classes]
        return shares

    return count
