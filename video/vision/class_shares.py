"""The shares of classes in a picture, counted on the GPU: only one number per class is read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

_ROWS = """
uniform sampler2D classes;
void main() {
    int number = int(gl_FragCoord.x);
    color = vec4(0.0);
    for (int column = 0; column < WIDTH; column++) {
        if (int(texelFetch(classes, ivec2(column, int(gl_FragCoord.y)), 0).a + 0.5) == number) color += 1.0;
    }
}
"""
_SUMS = """
uniform sampler2D rows;
void main() {
    color = vec4(0.0);
    for (int row = 0; row < HEIGHT; row++) color += texelFetch(rows, ivec2(int(gl_FragCoord.x), row), 0).r;
    color /= float(WIDTH * HEIGHT);
}
"""


def share_counter(classes: int, size: tuple[int, int], reason: str) -> Callable[[fb.GlTexture], npt.NDArray[Any]]:
    """Make a function that computes each class's share of a picture.

    ``count(texture)`` takes the numbers of classes in alpha, rounded, of a texture of ``size`` (width, height). It
    returns float32 shares (classes) from 0 to 1: the same array each time. ``reason`` is that of the copy.
    """
    width, height = size
    head = f"const int WIDTH = {width}, HEIGHT = {height};\n"
    programs = [fb.FragmentProgram(head + text) for text in (_ROWS, _SUMS)]
    rows = fb.GlTexture(classes, height, "r32f", label="pixels of each class, by row")
    sums = fb.GlTexture(classes, 1, "r32f", label="shares of the classes")
    shares = np.zeros(classes, np.float32)

    def count(texture: fb.GlTexture) -> npt.NDArray[Any]:
        programs[0].draw(rows, {"classes": texture})
        programs[1].draw(sums, {"rows": rows})
        shares[:] = sums.read(reason=reason).reshape(-1)[:classes]
        return shares

    return count
