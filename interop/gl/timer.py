"""Timer of the stages of frames, by the GPU's own clock. Times are read some frames later, so that nothing waits."""

from __future__ import annotations

import ctypes
import time
import weakref
from dataclasses import dataclass

from ..errors import counted
from ..uncopied import Uncopied
from .context import GlContext
from .khronos import GL
from .query import has_extension

_DEPTH = 4
"""Number of frames after which the times of a frame are read."""
_MARKS, _MOST_MARKS = 16, 4096
"""Stages of a frame that there are queries for at first: a frame of more (one of many tiles) makes further ones, once.
The most stages; later ones count as part of the last one.
"""
_CALIBRATION = 1024
"""Number of frames after which the CPU's and the GPU's clock are compared again: they drift by parts in a million."""


@dataclass(frozen=True)
class StageTime:
    """Begin and end of one stage of a frame, in nanoseconds of ``time.perf_counter_ns``.

    Attributes
    ----------
    name : str
        The stage.
    cpu : (int, int)
        Times at which the CPU began and ended to issue its commands.
    gpu : (int, int) or None
        Times at which the GPU began and ended to run them; None if the driver has no timers.

    Examples
    --------
    >>> stage = fb.StageTime("upload", cpu=(1_000, 251_000), gpu=None)
    >>> print(f"{stage.name}: {(stage.cpu[1] - stage.cpu[0]) / 1e6:.2f} ms")
    upload: 0.25 ms
    """

    name: str
    cpu: tuple[int, int]
    gpu: tuple[int, int] | None


class GlTimer(Uncopied):
    """Times the stages of each frame, in the context that is current when it is made.

    Attributes
    ----------
    depth : int
        ``end()`` gives the stages of the frame that many frames earlier.
    has_gpu : bool
        Whether the driver has timers. OpenGL ES without GL_EXT_disjoint_timer_query has none: then there are only the
        CPU's times.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     timer, texture = fb.GlTimer(), fb.GlTexture(8, 8)
    ...     for frame in range(timer.depth + 1):
    ...         timer.mark("upload")
    ...         texture.write(np.zeros((8, 8, 4), np.uint8))
    ...         pixels = texture.read()  # which waits for the GPU
    ...         stages = timer.end()
    ...     [stage.name for stage in stages]
    ['upload']
    """

    depth = _DEPTH

    def __init__(self) -> None:
        self.context = context = GlContext.current()
        self.has_gpu = not context.is_es or has_extension(context, "GL_EXT_disjoint_timer_query")
        self._frames, self._every = [_Frame() for _ in range(_DEPTH + 1)], list[int]()
        self._number, self._offset, self._value = 0, 0, ctypes.c_uint64()
        if self.has_gpu:
            suffix = "EXT" if context.is_es else ""
            self._stamp = getattr(context.gl, f"glQueryCounter{suffix}")
            self._result = getattr(context.gl, f"glGetQueryObjectui64v{suffix}")
            weakref.finalize(self, _free, context, self._every).atexit = False
        for frame in self._frames:
            self._grow(frame, _MARKS + 1)

    def __repr__(self) -> str:
        return (
            f"<GlTimer: times of {'CPU and GPU' if self.has_gpu else 'the CPU'}, {counted(self.depth, 'frame')} late>"
        )

    def mark(self, name: str) -> None:
        """Begin the stage ``name`` and end the one before. A name may come more than once."""
        frame = self._frames[self._number % len(self._frames)]
        if frame.count < _MOST_MARKS:
            if frame.count + 1 == len(frame.cpu):  # the frame's end takes one more
                self._grow(frame, len(frame.cpu))
            frame.names[frame.count] = name
            self._note(frame)

    def end(self) -> list[StageTime]:
        """End this frame.

        Returns
        -------
        list of StageTime
            The stages of the frame ``depth`` frames earlier, in order. Empty for the first frames, and if the GPU is
            more than ``depth`` frames behind: nothing waits for it.
        """
        frame = self._frames[self._number % len(self._frames)]
        self._note(frame)
        if self.has_gpu:
            self.context.gl.glFlush()  # else the frame would end only when the next frame's commands push it out
        if self.has_gpu and self._number % _CALIBRATION == 0:
            before, gpu, after = time.perf_counter_ns(), self.context.gl.integer(GL.TIMESTAMP), time.perf_counter_ns()
            self._offset = (before + after) // 2 - gpu
        self._number += 1
        oldest = self._frames[self._number % len(self._frames)]
        stages = self._read(oldest)
        oldest.count = 0
        return stages

    def _grow(self, frame: _Frame, count: int) -> None:
        """Make room for so many marks more."""
        frame.names += [""] * count
        frame.cpu += [0] * count
        if self.has_gpu:
            frame.queries += (made := [self.context.objects.generate("query") for _ in range(count)])
            self._every += made

    def _note(self, frame: _Frame) -> None:
        frame.cpu[frame.count] = time.perf_counter_ns()
        if self.has_gpu:
            self._stamp(frame.queries[frame.count], GL.TIMESTAMP)
        frame.count += 1

    def _read(self, frame: _Frame) -> list[StageTime]:
        stages, ends = frame.count - 1, list[int]()
        if stages < 1:
            return []
        if self.has_gpu:
            self._result(frame.queries[stages], GL.QUERY_RESULT_AVAILABLE, ctypes.byref(self._value))
            if not self._value.value:
                return []
            for query in frame.queries[: frame.count]:
                self._result(query, GL.QUERY_RESULT, ctypes.byref(self._value))
                ends.append(self._value.value + self._offset)
        return [
            StageTime(frame.names[i], (frame.cpu[i], frame.cpu[i + 1]), (ends[i], ends[i + 1]) if ends else None)
            for i in range(stages)
        ]


class _Frame:
    """The marks of one frame: names, the CPU's times, and queries of the GPU's times."""

    def __init__(self) -> None:
        self.queries, self.names, self.cpu, self.count = list[int](), list[str](), list[int](), 0


def _free(context: GlContext, queries: list[int]) -> None:
    for query in queries:
        context.objects.defer_delete("query", query)
