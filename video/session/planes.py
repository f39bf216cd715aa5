"""Frames as the decoder's planes: they are bound to the model, and only its outputs are read.

On CUDA NVDEC decodes, and no pixel comes to the CPU. On OpenGL the CPU decodes; it also paints what a task finds on the
decoder's frames, which then go to the encoder.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import framebind as fb

from ..network import Network
from ..network_outputs import Outputs
from ..results.outputs import MarkedFrames
from ..sampling import Sampling
from ..task import Run
from ..times import Times
from ..work import Work


class Planes:
    """The frames of a video as planes, with the task's finder. Implements Renderer.

    The next frame is decoded by this thread while the GPU works on the last one.
    """

    def __init__(self, work: Work, source: fb.video.Source, network: Network, times: Times) -> None:
        self._every, self._network, self._times = work.every, network, times
        self._frames = source.frames(None if network.api.decodes else "cpu")
        self._number, self._ahead = 0, list[fb.Frame | fb.FramebindError | None]()
        self._latest = latest = deque[fb.Frame](maxlen=2)
        """The frame that was taken last, behind the one before."""
        self._finder = work.finder(network, source.size)
        self.mask = self._finder.mask  # below nothing refers to self: the next video takes over what this one compiled
        self.picture = MarkedFrames(lambda: latest[-1].planes, fb.video.Marks(), self._finder.paint)
        self.copies = network.uploads

    @property
    def last(self) -> fb.Frame:
        """The frame that was taken last."""
        return self._latest[-1]

    def take(self) -> fb.Frame | None:
        """The next frame that counts; None at the end."""
        while True:
            self._decode()
            frame, number = self._ahead.pop(), self._number
            if isinstance(frame, fb.FramebindError):
                raise frame
            self._number += 1
            if frame is None or number % self._every == 0:
                if frame is not None:
                    self._latest.append(frame)
                return frame

    def find(self, frame: fb.Frame, *, in_full: bool) -> list[dict[str, Any]]:
        """Run the model on a frame, and find things in its outputs."""
        find = self._finder.find_in_full if in_full else self._finder.find
        with self._times.stage("model"):
            return find(Run(frame, partial(self._run, frame)))

    def mark(self, *, is_seen: bool) -> None:
        """Make the marks of the last frame."""
        if is_seen and self._finder.mark is not None:
            with self._times.stage("draw"):
                self._finder.mark(self.picture.marks)

    def written(self) -> None:
        """Do nothing: the frame has no stages on the GPU's clock."""

    def end(self) -> None:
        """End the times."""
        self._times.end()

    def _run(self, frame: fb.Frame, sampling: Sampling) -> Outputs:
        previous = self._latest[0] if len(self._latest) > 1 else None
        outputs = self._network.run_on(frame, sampling, previous)
        self._decode()
        return outputs

    def _decode(self) -> None:
        """Decode the next frame, unless that was done. Its error is raised by ``take``."""
        if not self._ahead:
            try:
                with self._times.stage("decode"):
                    self._ahead.append(next(self._frames, None))
            except fb.FramebindError as error:
                self._ahead.append(error)
