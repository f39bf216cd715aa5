"""Frames as textures of OpenGL: the task draws a picture of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import framebind as fb

from ..task import Scene
from ..times import WAIT, Times
from ..work import Work


class Textures:
    """The frames of a video as textures, with the task's drawing. Implements Renderer."""

    copies: tuple[str, ...] = ()

    def __init__(
        self,
        work: Work,
        source: fb.video.Source,
        scene: Scene,
        overlay: Callable[[], fb.video.Overlay],
        timer: fb.GlTimer,
        times: Times,
    ) -> None:
        """``overlay`` makes what draws marks over the scene's picture, once there are some."""
        source.every = work.every
        self.picture, self._source, self._overlay = scene.picture, source, overlay
        self._timer, self._times, self._drawing = timer, times, work.drawing(scene)
        make = self._drawing.mask
        self.mask = make() if make is not None and "masks" in work.save else None
        self._frames = source.frames(scene.picture.context, timer=timer)

    def take(self) -> fb.Frame | None:
        """The next frame; None at the end."""
        with self._times.stage(WAIT):
            return next(self._frames, None)

    def find(self, frame: fb.Frame, *, in_full: bool) -> list[dict[str, Any]]:
        """Draw the picture of a frame. Returns what was found in it."""
        self._timer.mark("draw")
        self._drawing.draw(frame.texture)
        return self._drawing.found(in_full=in_full)

    def mark(self, *, is_seen: bool) -> None:
        """Draw the marks of the last frame over the picture."""
        if is_seen and self._drawing.mark is not None:
            self._drawing.draw_marks(self.picture, self._overlay())
        self._timer.mark("read back")

    def written(self) -> None:
        """Count the frame's stages."""
        self._times.add(self._timer.end())

    def end(self) -> None:
        """End the times."""
        self._times.end(self._timer, self._source)
