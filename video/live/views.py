"""Interface between the watcher and the ways of looking at frames: drawn on OpenGL, or bound as they were decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy.typing as npt

import framebind as fb


class View(Protocol):
    """A stream's task, which remembers where things were in the frame before."""

    def find(self, frame: fb.Frame) -> list[dict[str, Any]]:
        """Run the model on a frame of ``Viewer.frames``, until the results are there: values for JSON."""
        ...

    def pixels(self) -> npt.NDArray[Any]:
        """The frame of the last ``find`` and what was found in it: RGBA, (height, width, 4), counted as WEB_PICTURE."""
        ...


class Viewer(Protocol):
    """A context, and what the streams share on it. Use it on the thread that made it; ``open`` on any thread."""

    def open(self, address: str, options: fb.video.StreamOptions) -> fb.video.Source:
        """Open a stream's source. Raises SourceError."""
        ...

    def frames(self, source: fb.video.Source) -> Iterator[fb.Frame | None]:
        """The newest frames of a source, once; None while there is no new one. Raises SourceError."""
        ...

    def view(self, source: fb.video.Source, name: str) -> View:
        """A view of a source that has frames. Raises ModelError."""
        ...

    def copies(self, source: fb.video.Source) -> bool:
        """True if frames of a source are copied by each run: by a decoder on the CPU, for a model that binds them."""
        ...
