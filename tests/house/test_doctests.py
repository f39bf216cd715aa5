"""The examples in the docstrings of the public API run, on software devices.

An example finds ``fb`` and ``np`` imported, and files in the current folder: ``model.tflite`` (EXP of a float32
tensor of shape (1, 4, 5, 3), with the signature "serve") and ``picture.png`` (64 x 48 pixels, orange); those of Source
also ``clip.mp4`` (64 x 48 pixels, two frames). Names that are LiteRT's own have its documentation.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

import framebind as fb
from support.environment import absent, is_wanted
from support.public_names import public_names
from support.tiny_models import chain
from support.video.clips import write_clip

NEEDS_DISPLAY = {"Window"}
FRAMES = {
    "Frame": 2,
    "video.Source": 2,
    "video.VideoPart": 10,
    "video.VideoTags": 2,
    "video.VideoWriter": 2,
    "video.divide_video": 10,
    "video.join_videos": 10,
    "video.video_seconds": 10,
}
"""Frames of clip.mp4, by the names whose examples have one."""


def examples(name: str) -> list[doctest.DocTest]:
    """The examples of a public name: those of the object, or of its class if it is an instance, and of its methods."""
    value = public_names()[name]
    documented = value if inspect.isclass(value) or inspect.isroutine(value) else type(value)
    found = doctest.DocTestFinder().find(documented, name, globs={"fb": fb, "np": np})
    return [test for test in found if test.examples]


@contextlib.contextmanager
def nothing_current() -> Iterator[None]:
    """Within the block no context is current on this thread, as at the start of a program."""
    before = [kind.current() for kind in (fb.GlContext, fb.cl.ClContext) if kind.is_current()]
    for context in before:
        context.release()
    try:
        for make in (fb.GlContext.headless, fb.cl.ClContext):
            try:
                make().close()
            except fb.DeviceError as error:
                absent("gl" if make is fb.GlContext.headless else "cl:pocl", str(error))
        yield
    finally:
        for context in before:
            context.make_current()


OLD = {"MarkedVideo", "Sink", "open_sink"}
"""Old names, which have no examples any more."""
OWN = sorted(
    name
    for name, value in public_names().items()
    if name not in OLD and not value.__module__.startswith("ai_edge_litert")
)


@pytest.mark.parametrize("name", OWN)
def test_an_example_runs(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (is_wanted("gl") and is_wanted("cl:pocl")):
        pytest.skip("FRAMEBIND_DEVICES leaves out gl or cl:pocl")
    if name in NEEDS_DISPLAY:
        request.getfixturevalue("display")
    monkeypatch.chdir(tmp_path)
    Path("model.tflite").write_bytes(chain("EXP", signature="serve"))
    cv2.imwrite("picture.png", np.full((48, 64, 3), (0, 128, 255), np.uint8))
    if name in FRAMES:
        write_clip(Path("clip.mp4"), frames=FRAMES[name])
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    with nothing_current():
        for test in examples(name):
            runner.run(test, out=said.append)
    assert runner.tries and not runner.failures, "".join(said)
