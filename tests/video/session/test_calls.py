"""The Python functions that a frame of a video takes, when the first frames have made what is made once."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.video.apis import DECODING
from framebind.video.model_options import ModelOptions
from framebind.video.models import find_model
from framebind.video.network import Network
from framebind.video.results.rows import make_rows
from framebind.video.session.planes import Planes
from framebind.video.session.session import Session
from framebind.video.times import Times
from framebind.video.work import Work
from support.recording_driver import RecordingDriver
from support.video.clips import write_clip

ROOT = f"{Path(fb.__file__).parent}/"
MOST_ON_GL, MOST_ON_CUDA = 300, 130
"""Functions of framebind, for rows of faces: there were 486 and 155. A frame makes no call that could be made once."""


@pytest.fixture
def detector(model_path: Callable[[str], Path]) -> str:
    return str(model_path("face_detection_front"))


def calls_of_a_frame(frames: Iterator[Any]) -> list[str]:
    """The functions of framebind that the fifth frame calls, without finalizers of garbage, which may come in any."""
    names, root = list[str](), ROOT
    for _ in range(4):
        next(frames)
    gc.collect()
    gc.disable()

    def note(called: FrameType, event: str, _argument: Any) -> None:
        path = called.f_code.co_filename
        if event == "call" and path.startswith(root) and not path.startswith(f"{root}tests/"):
            names.append(f"{path.removeprefix(root)} {called.f_code.co_name}")

    sys.setprofile(note)
    try:
        next(frames)
    finally:
        sys.setprofile(None)
        gc.enable()
    return names


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_frame_from_the_cpu_takes_few_python_functions(detector: str, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", size=(64, 48), frames=6)
    work = Work("detect", detector, save=("jsonl",), options=ModelOptions(backend="gl"))
    with Session(work) as session:
        frames = session.frames(work, str(clip), tmp_path / "out")
        names = calls_of_a_frame(frames)
        list(frames)
    assert "delegate/run/bindings.py _video_again" in names
    assert len(names) <= MOST_ON_GL, "\n".join(names)


def test_a_frame_of_nvdec_takes_few_python_functions(detector: str, recorder: RecordingDriver) -> None:
    """Its surfaces come again and again. The stand-in of the driver decodes nothing, and detects nothing."""
    work, path = Work("detect", detector, options=ModelOptions(backend="cuda")), find_model(detector)
    with fb.cuda.CudaContext():
        shapes = (48, 64), (24, 32, 2)
        surfaces = [
            fb.Frame(
                fb.YuvPicture(
                    [fb.cuda.CudaArray.from_array(np.zeros(s, np.uint8)) for s in shapes], width=64, height=48
                )
            )
            for _ in range(2)
        ]
        source: Any = SimpleNamespace(size=(64, 48), frames=lambda context: itertools.cycle(surfaces))
        network = Network(path, work.options.options(path), api=DECODING)
        planes = Planes(work, source, network, Times())

        def frames() -> Iterator[Any]:
            for number in itertools.count():
                frame = planes.take()
                assert frame is not None
                yield make_rows("clip.mp4", frame.time, number, planes.find(frame, in_full=True))

        names = calls_of_a_frame(frames())
        network.close()
    assert "delegate/run/bindings.py _video_again" in names
    assert len(names) <= MOST_ON_CUDA, "\n".join(names)
