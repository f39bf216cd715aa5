"""One vector of all values of a map, such as their range, computed by OpenGL, and smooth from frame to frame."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..copies import DETECTIONS

RATE = 0.1
"""Share of the new frame's vector in the smooth one: what changes at once is followed to 65% in ten frames."""
_SIDE = 24
"""The first pass reduces the map to so many vectors in each direction, and the second one these to one."""
_PARTS = """
layout(std430, binding = 0) readonly buffer values { float value[]; };
VECTOR
void main() {
    int first = int(gl_FragCoord.y) * SIDE + int(gl_FragCoord.x);
    color = vector(min(first, COUNT - 1));  // a small map has fewer values than there are parts: the rest is not read
    for (int n = first + SIDE * SIDE; n < COUNT; n += SIDE * SIDE) color = join(color, vector(n));
}
"""
# The texel on the left is the frame's own vector, the one on the right is smooth.
_WHOLE = """
uniform sampler2D parts, before;
uniform float first;
JOIN
void main() {
    color = texelFetch(parts, ivec2(0), 0);
    for (int n = 1; n < min(SIDE * SIDE, COUNT); n++)
        color = join(color, texelFetch(parts, ivec2(n % SIDE, n / SIDE), 0));
    if (gl_FragCoord.x > 1.0 && first < 0.5) color = mix(texelFetch(before, ivec2(1, 0), 0), color, RATE);
}
"""


class Reduction:
    """A vector of four numbers of a buffer's float32 values. Each frame costs two draws, and no copy unless it is read.

    ``smooth`` has the same formula for NumPy.
    """

    def __init__(self, values: fb.GlBuffer, count: int, vector: str, join: str) -> None:
        """``vector`` and ``join`` are GLSL: the functions ``vec4 vector(int n)`` of place n, of ``count``, which reads
        ``value``, and ``vec4 join(vec4 one, vec4 other)``, of which the order must not matter.
        """
        constants = f"const int SIDE = {_SIDE}, COUNT = {count};\nconst float RATE = {RATE};\n"
        self._first_pass = fb.FragmentProgram(constants + _PARTS.replace("VECTOR", f"{join}\n{vector}"))
        self._second_pass = fb.FragmentProgram(constants + _WHOLE.replace("JOIN", join))
        self._values, self._parts = values, fb.GlTexture(_SIDE, _SIDE, "rgba32f", label="parts of a reduction")
        self._previous, self.vectors = (fb.GlTexture(2, 1, "rgba32f", label=f"reduction {n}") for n in range(2))
        """``vectors`` has two texels after ``reduce``: the frame's own vector, and the smooth one."""
        self._first = 1.0

    def reduce(self) -> None:
        """Compute the vectors of the buffer as it is now."""
        self._previous, self.vectors = self.vectors, self._previous
        self._first_pass.draw(self._parts, buffers={"values": self._values})
        self._second_pass.draw(
            self.vectors, {"parts": self._parts, "before": self._previous}, uniforms={"first": self._first}
        )
        self._first = 0.0

    def read(self) -> npt.NDArray[np.float32]:
        """The frame's own vector and the smooth one, (2, 4), read: 32 bytes."""
        return self.vectors.read(reason=DETECTIONS)[0]


def smooth(before: npt.NDArray[np.float32] | None, now: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The smooth vector after a frame; ``before`` is None for the first one."""
    return now if before is None else before + np.float32(RATE) * (now - before)
