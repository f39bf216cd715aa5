"""Sessions without a picture: their rows are those of sessions that draw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.dlpack import host_array
from framebind.video.apis import DECODING, GL, api_of
from framebind.video.copies import RECORDING
from framebind.video.model_options import ModelOptions
from framebind.video.results.rows import Row
from framebind.video.session.road import planes_api
from framebind.video.session.session import Session
from framebind.video.work import Work
from support.demo_models import brightness, color_classifier
from support.recording_driver import RecordingDriver
from support.video.clips import turn_track, write_clip


def rows_of(session: Session, path: Path) -> list[Row]:
    with session:
        return [row for rows in session.frames(session.work, str(path), None) for row in rows]


def check_alike(path: Path, work: Work) -> list[Row]:
    """Compare the rows of both kinds of sessions on OpenGL."""
    drawn, bound = (rows_of(Session(work, road=road), path) for road in ("textures", "planes"))
    assert [(row["frame"], row["time"], row["class"]) for row in bound] == [
        (row["frame"], row["time"], row["class"]) for row in drawn
    ]
    for row, other in zip(bound, drawn, strict=True):
        assert row["score"] == pytest.approx(other["score"], abs=0.03)
        assert row["share"] == pytest.approx(other["share"], abs=0.01)
    return bound


def test_rows_are_those_of_a_session_that_draws(context: fb.GlContext, tmp_path: Path) -> None:
    (model := tmp_path / "model.tflite").write_bytes(color_classifier())
    path = write_clip(tmp_path / "clip.mp4", pixel_format="yuv444p", size=(66, 48), frames=6)
    turn_track(path, 90)
    rows = check_alike(path, Work("classify", str(model), save=(), every=2, start=0.04))
    assert {row["frame"] for row in rows} == {0, 2, 4}


def test_a_marked_video_is_the_decoder_s_planes_with_the_task_s_marks(context: fb.GlContext, tmp_path: Path) -> None:
    """No picture is drawn and none is read back: outside of the marks are the numbers of the source."""
    (model := tmp_path / "model.tflite").write_bytes(color_classifier())
    path = write_clip(tmp_path / "clip.mp4", size=(512, 320), frames=3, sound=True)
    turn_track(path, 90)
    work = Work("classify", str(model), save=("video", "jsonl"), quality=0)
    videos: list[list[npt.NDArray[np.uint8]]] = []
    for road in ("textures", ""):
        fb.transfers.reset()
        with Session(work, road=road) as session:
            session.process(path, tmp_path / f"a{road}")
        with av.open(str(tmp_path / f"a{road}.mp4")) as container:
            assert len(container.streams.audio) == 1
        videos.append(frames_of(tmp_path / f"a{road}.mp4"))
    drawn, marked = videos
    counted = {(way, reason): hop.bytes for (way, reason), hop in fb.transfers.by_reason.items()}
    assert ("download", RECORDING) not in counted
    assert counted["upload", "input tensor 0 'picture' from its array"] == 3 * 512 * 320 * 3 // 2
    with av.open(str(path)) as container:
        source = [np.rot90(host_array(frame.planes[0]), 3) for frame in container.decode(video=0)]
    for number, picture in enumerate(marked):
        luma = picture[:512]
        # The marks lie at the top left.
        assert np.array_equal(luma[256:], source[number][256:]) and not np.array_equal(luma, source[number])
        assert np.abs(picture.astype(int) - drawn[number]).mean() < 1.0, "it looks as the drawn one"


@pytest.mark.parametrize("task", ["matte", "segment"])
@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_masks_are_painted_on_the_decoder_s_planes_as_gl_draws_them(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (model := tmp_path / "model.tflite").write_bytes(brightness(1) if task == "matte" else brightness(21, 0.5))
    path = write_clip(tmp_path / "clip.mp4", size=(160, 96), frames=3, options={"crf": "5"})
    turn_track(path, 90)
    work = Work(task, str(model), save=("video",), quality=0)
    copied: list[int] = []
    for is_software in (True, False):
        fb.transfers.reset()
        session = Session(work)
        with session:
            monkeypatch.setattr(session._context, "software", is_software)
            session.process(path, tmp_path / str(is_software))
        hop = fb.transfers.by_reason.get(("download", RECORDING))
        copied.append(0 if hop is None else hop.bytes)
    assert copied == [0, 3 * 160 * 96 * 4], "a GPU draws them"
    painted, drawn = (frames_of(tmp_path / f"{is_software}.mp4") for is_software in (True, False))
    for one, other in zip(painted, drawn, strict=True):
        difference = np.abs(one.astype(int) - other)
        # The model sees luma and chroma, or red, green and blue of them: a class at an edge may be another one.
        assert difference.mean() < 1.0 and (difference > 24).mean() < 0.01 and np.ptp(one) > 100


def frames_of(path: Path) -> list[npt.NDArray[np.uint8]]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray() for frame in container.decode(video=0)]


def test_sources_without_luma_and_chroma_are_drawn(context: fb.GlContext, tmp_path: Path) -> None:
    (model := tmp_path / "model.tflite").write_bytes(color_classifier())
    (folder := tmp_path / "frames").mkdir()
    cv2.imwrite(str(folder / "0.png"), np.full((48, 64, 3), (0, 0, 255), np.uint8))
    session = Session(Work("classify", str(model), save=("jsonl",)))
    with session:
        result = session.process(folder, tmp_path / "out")
    assert result["frames"] == 1 and "upload" in result["times"]["GPU"]
    assert '"class": "class 0", "score": 0.9' in (tmp_path / "out.jsonl").read_text()


def test_works_that_need_no_picture_on_the_gpu() -> None:
    work = Work("detect", save=("jsonl",), options=ModelOptions(backend="cuda"))
    on_gl = replace(work, options=ModelOptions(backend="gl"))
    assert planes_api(work) is DECODING and planes_api(on_gl) is GL
    assert planes_api(replace(on_gl, save=("jsonl", "video"))) is GL
    assert planes_api(replace(on_gl, save=("video",), suffix=".png")) is None
    assert planes_api(replace(work, save=("jsonl", "video"))) is None
    assert planes_api(replace(work, options=ModelOptions(backend="cl"))) is None
    assert planes_api(replace(on_gl, task="style")) is None
    assert planes_api(replace(on_gl, task="segment")) is GL and planes_api(replace(work, task="segment")) is DECODING
    assert planes_api(replace(on_gl, task="segment", save=("video", "masks"))) is None
    masks = Work("matte", save=("masks", "jsonl"), options=ModelOptions(backend="cuda"))
    assert planes_api(masks) is DECODING and planes_api(replace(masks, options=ModelOptions(backend="auto"))) is None
    assert planes_api(replace(masks, options=ModelOptions(backend="gl"))) is None


def test_auto_is_the_api_whose_context_is_current_or_else_cuda(
    recorder: RecordingDriver, context: fb.GlContext
) -> None:
    rows = Work("detect", save=("jsonl",), options=ModelOptions(backend="auto"))
    assert api_of("auto") is planes_api(rows) is GL
    context.release()
    assert api_of("auto") is planes_api(rows) is DECODING
    assert planes_api(replace(rows, save=("jsonl", "video"))) is GL, "it is painted on the decoder's frames"
    with fb.cuda.CudaContext():
        context.make_current()
        assert api_of("auto") is planes_api(rows) is DECODING, "nobody makes one without meaning it"
