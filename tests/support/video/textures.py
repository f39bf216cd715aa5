"""The textures of a source's frames, for tests that look at nothing else of them."""

from __future__ import annotations

from collections.abc import Iterator

import framebind as fb


def textures(source: fb.video.Source, on: fb.GlContext | fb.Window) -> Iterator[fb.GlTexture]:
    """The texture of each frame."""
    return (frame.texture for frame in source.frames(on))
