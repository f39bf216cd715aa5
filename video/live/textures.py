"""Streams on OpenGL: each frame becomes a texture, and the task paints a picture of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy.typing as npt

import framebind as fb

from ..apis import GL
from ..task import Drawing, Scene
from ..work import Work
from .networks import Networks
from .pictures import Shrinker


@contextlib.contextmanager
def open_textures_viewer(work: Work) -> Iterator[TexturesViewer]:
    """A viewer with contexts of its own."""
    options = work.options
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(GL.new_context(options.device if options.api is GL else ""))
        if options.device and options.api is not GL:
            stack.enter_context(options.api.new_context(options.device))
        yield TexturesViewer(context, work)


class TexturesViewer:
    """The GL context, and the networks that streams of one size share. Implements Viewer."""

    def __init__(self, context: fb.GlContext, work: Work) -> None:
        self._context, self._work = context, work
        self.timer, self.overlay = fb.GlTimer(), fb.video.Overlay()
        self.networks = Networks(work.options, self.timer)
        self._shrinkers: dict[tuple[int, int], Shrinker] = {}

    def open(self, address: str, options: fb.video.StreamOptions) -> fb.video.Source:
        return fb.open_source(address, stream=options)

    def frames(self, source: fb.video.Source) -> Iterator[fb.Frame | None]:
        return source.frames(self._context, wait=False)

    def view(self, source: fb.video.Source, name: str) -> TexturesView:
        picture = fb.GlTexture(*source.size, "rgba8", label=f"the picture of {name}")
        load = partial(self.networks.for_stream, stream=name)
        scene = Scene(load(self._work.model_name), picture, load)
        return TexturesView(self, self._work.drawing(scene), picture)

    def copies(self, source: fb.video.Source) -> bool:
        return False

    def finish(self) -> None:
        """Wait until the GPU has painted."""
        self._context.finish()

    def read(self, picture: fb.GlTexture) -> npt.NDArray[Any]:
        """The pixels of a picture, made smaller for the page."""
        if picture.size not in self._shrinkers:
            self._shrinkers[picture.size] = Shrinker(picture.size)
        return self._shrinkers[picture.size].read(picture)


class TexturesView:
    """A stream's task and its picture. Implements View."""

    def __init__(self, viewer: TexturesViewer, task: Drawing, picture: fb.GlTexture) -> None:
        self._viewer, self._task, self._picture = viewer, task, picture

    def find(self, frame: fb.Frame) -> list[dict[str, Any]]:
        self._task.draw(frame.texture)
        found = self._task.found(in_full=True)
        if self._task.results is None:
            self._viewer.finish()  # the picture is the result
        self._viewer.timer.end()
        return found

    def pixels(self) -> npt.NDArray[Any]:
        self._task.draw_marks(self._picture, self._viewer.overlay)
        return self._viewer.read(self._picture)
