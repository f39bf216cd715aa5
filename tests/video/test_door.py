"""The names of ``fb.video``: each is there, and those that ``fb`` has as well are the same object."""

from __future__ import annotations

import framebind as fb
from framebind import video


def test_every_name_is_there() -> None:
    assert list(video.__all__) == sorted(video.__all__) and set(video.__all__) == set(video._LATE)
    for name in video.__all__:
        value = getattr(video, name)
        assert value.__name__ == name
        assert name not in fb.__all__ or value is getattr(fb, name)
