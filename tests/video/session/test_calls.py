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
from support.video.task_bundles import one_face

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


def surfaces_of_nvdec() -> Any:
    """A source whose two surfaces come again and again."""
    shapes = (48, 64), (24, 32, 2)
    planes = [[fb.cuda.CudaArray.from_array(np.zeros(shape, np.uint8)) for shape in shapes] for _ in range(2)]
    surfaces = [fb.Frame(fb.YuvPicture(each, width=64, height=48)) for each in planes]
    return SimpleNamespace(size=(64, 48), frames=lambda context: itertools.cycle(surfaces))


@pytest.mark.usefixtures("recorder")
def test_the_next_video_takes_over_the_networks_of_a_bundle(tmp_path: Path) -> None:
    (path := tmp_path / "small.task").write_bytes(one_face())
    work = Work("face", str(path), options=ModelOptions(backend="cuda"))
    gc.disable()
    try:
        with fb.cuda.CudaContext():
            network = Network(path, work.options.options(path), api=DECODING)
            for number in range(2):
                planes = Planes(work, surfaces_of_nvdec(), network, Times())
                fb.transfers.reset()
                frame = planes.take()
                assert frame is not None and planes.find(frame, in_full=True) is not None
                assert (("upload", "constants of the model") in fb.transfers.by_reason) == (number == 0)
                del planes
            network.close()
    finally:
        gc.enable()


def test_a_frame_of_nvdec_takes_few_python_functions(detector: str, recorder: RecordingDriver) -> None:
    """The surfaces of NVDEC come again and again. The stand-in of the driver decodes nothing, and detects nothing."""
    work, path = Work("detect", detector, options=ModelOptions(backend="cuda")), find_model(detector)
    with fb.cuda.CudaContext():
        source = surfaces_of_nvdec()
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
