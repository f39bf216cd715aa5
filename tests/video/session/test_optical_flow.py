"""Optical flow: colours and rows are those of the formulas of Baker et al. in NumPy, of the last two frames."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from framebind.video.apis import DECODING, GL
from framebind.video.copies import DETECTIONS, RECORDING
from framebind.video.model_options import ModelOptions
from framebind.video.network import Network
from framebind.video.session.road import planes_api
from framebind.video.session.session import Session
from framebind.video.task import Run
from framebind.video.tasks import find_task
from framebind.video.vision.color_wheel import wheel_table
from framebind.video.work import Work, task_for
from support.demo_models import brightness, flow_model
from support.recording_driver import RecordingDriver
from support.tiny_models import channels_first

Array = npt.NDArray[Any]
FRAMES = 3


@pytest.fixture(params=["nhwc", "nchw"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    content = flow_model()
    (path := tmp_path / "flow.tflite").write_bytes(channels_first(content) if request.param == "nchw" else content)
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Frames of noise, of the size of the model's pictures."""
    (folder := tmp_path / "pictures").mkdir()
    for number in range(FRAMES):
        noise = np.random.default_rng(number).integers(0, 256, (24, 32, 3), np.uint8)
        cv2.imwrite(str(folder / f"{number}.png"), noise)
    return folder


def flows(pictures: Path) -> list[Array]:
    """The model's output (24, 32, 2) for each frame and the one before; in the first frame nothing moves."""
    frames = [cv2.imread(str(pictures / f"{number}.png")) for number in range(FRAMES)]
    seen = [(frame[..., ::-1] / 255 - 0.5) / 0.5 for frame in frames if frame is not None]
    return [8 * (new - old)[..., [0, 2]] for old, new in zip([seen[0], *seen], seen, strict=False)]


def wheel() -> Array:
    """The 55 colours of the paper's code: RY, YG, GC, CB, BM and MR, each a ramp of one channel."""
    colors = np.zeros((55, 3))
    first = 0
    for count, full, ramp, rises in (
        (15, 0, 1, True), (6, 1, 0, False), (4, 1, 2, True), (11, 2, 1, False), (13, 2, 0, True), (6, 0, 2, False),
    ):  # fmt: skip
        steps = np.floor(255 * np.arange(count) / count)
        colors[first : first + count, full] = 255
        colors[first : first + count, ramp] = steps if rises else 255 - steps
        first += count
    return colors


def colored(flow: Array, longest: float) -> Array:
    """The colours (height, width, BGR) of a flow by the formula of the paper's code."""
    x, y = flow[..., 0] / longest, flow[..., 1] / longest
    radius, place = np.hypot(x, y), (np.arctan2(-y, -x) / np.pi + 1) / 2 * 54
    before = np.floor(place).astype(int)
    share, table = (place - before)[..., None], wheel() / 255
    full = (1 - share) * table[before] + share * table[(before + 1) % 55]
    radius = radius[..., None]
    return 255 * np.where(radius <= 1, 1 - radius * (1 - full), 0.75 * full)[..., ::-1]


def test_the_wheel_is_that_of_the_paper() -> None:
    np.testing.assert_array_equal(wheel_table()[0], wheel())


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_pictures_and_rows_are_those_of_the_formulas(model: Path, tmp_path: Path, pictures: Path) -> None:
    assert task_for("", str(model)) == "optical_flow"
    work = Work("optical_flow", str(model), save=("video", "jsonl"), suffix=".png")
    fb.transfers.reset()
    with Session(work) as session:
        rows = [row for rows in session.frames(work, str(pictures), tmp_path / "a") for row in rows]
    down = {reason: count.bytes for (way, reason), count in fb.transfers.by_reason.items() if way == "download"}
    assert down == {RECORDING: FRAMES * 32 * 24 * 4, DETECTIONS: (FRAMES - 1) * 32}
    longest = 0.0
    for number, (flow, row) in enumerate(zip(flows(pictures), rows, strict=True)):
        longest += (0.1 if number else 1.0) * (np.hypot(*flow.transpose(2, 0, 1)).max() - longest)
        picture = cv2.imread(str(tmp_path / "a.frames" / f"{number:06}.png"))
        assert picture is not None
        if number == 0:
            assert row["class"] is None and (picture == 255).all(), "nothing moves"
            continue
        # A line and a text are in the middle. Where the motion is to the right, angles of 180 and -180 degrees meet.
        is_seen = (np.arange(24)[:, None] < 5) & ~((flow[..., 0] > 0) & (np.abs(flow[..., 1]) < 1e-3))
        np.testing.assert_allclose(picture[is_seen], colored(flow, longest)[is_seen], atol=2)
        assert row["class"] == "motion"
        np.testing.assert_allclose(row["points"] or [], [(16, 12), np.array([16, 12]) + flow.mean((0, 1))], atol=0.01)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_planes_of_the_last_two_frames_give_the_same_rows(model: Path, pictures: Path) -> None:
    work = Work("optical_flow", str(model), save=("jsonl",))
    with Session(work, road="planes") as session:
        rows = [row for rows in session.frames(work, str(pictures), None) for row in rows]
    assert rows[0]["class"] is None
    for flow, row in zip(flows(pictures)[1:], rows[1:], strict=True):
        # Luma and chroma of a pixel are rounded to bytes: of a mean little is left.
        np.testing.assert_allclose(row["points"] or [], [(16, 12), np.array([16, 12]) + flow.mean((0, 1))], atol=0.05)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_demo_and_watch_show_it(model: Path, tmp_path: Path, pictures: Path) -> None:
    report = run(find_task("optical_flow").prepare, Options(str(model), str(pictures), [tmp_path / "a.png"], frames=3))
    assert (report.frames, report.detected, report.copied) == (2, 2 * 32, 0)
    with fb.video.Watch([str(pictures)], model=model, backend="opengl") as watch:
        found = [result.found for _, result in zip(range(FRAMES), watch, strict=False)]
    assert all(each[0]["class"] == "motion" for each in found if each)


def test_on_cuda_the_last_two_frames_are_bound(recorder: RecordingDriver, model: Path) -> None:
    with DECODING.new_context():
        network = Network(model, fb.GpuDelegateOptions(backend="cuda"), api=DECODING)
        finder = Work("optical_flow", str(model)).finder(network, (64, 48))
        arrays = [np.full((48, 64, 3), number, np.uint8) for number in range(FRAMES)]
        frames = [fb.cuda.CudaArray.from_array(each) for each in arrays]
        calls = list[list[str]]()
        for number, frame in enumerate(frames):
            recorder.calls.clear()
            fb.transfers.reset()
            before = frames[number - 1] if number else None
            found = finder.find(Run(frame, partial(network.run_on, frame, previous=before)))
            assert len(found) == (number > 0)
            assert number == 0 or fb.transfers.bytes == 24 * 32 * 2 * 4, "only the flow is read"
            calls.append(recorder.names())
        network.close()
    assert calls[1] and calls[1] == calls[2]


def test_pairs_are_planes_only_where_the_frame_before_stays(model: Path) -> None:
    work = Work("optical_flow", str(model), save=("jsonl",), options=ModelOptions(backend="cuda"))
    assert planes_api(work) is DECODING and find_task("optical_flow").has_pairs
    assert planes_api(Work("optical_flow", str(model), save=("jsonl",), every=2, options=work.options)) is None
    on_gl = ModelOptions(backend="gl")
    assert planes_api(Work("optical_flow", str(model), save=("jsonl",), options=on_gl)) is None
    assert planes_api(Work("detect", save=("jsonl",), options=on_gl)) is GL


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_model_of_one_picture_is_refused(tmp_path: Path, pictures: Path) -> None:
    (path := tmp_path / "model.tflite").write_bytes(brightness(1))
    work = Work("optical_flow", str(path))
    with Session(work) as session, pytest.raises(fb.ModelError, match="gives no optical flow"):
        list(session.frames(work, str(pictures), None))
