"""``.task`` bundles of several networks in videos and streams: a network may first run in any frame."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.video.bundles import content_of
from framebind.video.live.textures import TexturesViewer
from framebind.video.live.watcher import Watcher
from framebind.video.model_file import read_model_file
from framebind.video.model_options import ModelOptions
from framebind.video.models import find_model
from framebind.video.work import Work, task_for
from support.video.task_bundles import bundle, one_face, one_gesture, one_hand, one_person, one_whole

pytestmark = [pytest.mark.parametrize("context", ["gl"], indirect=True), pytest.mark.usefixtures("context")]


@pytest.fixture
def face(model_path: Callable[[str], Path]) -> Path:
    return model_path("face_landmarker.task")


@pytest.fixture
def pictures(tmp_path: Path, photograph: Callable[..., npt.NDArray[np.uint8]]) -> Path:
    """A folder of pictures: one without a face, then two with one."""
    (folder := tmp_path / "pictures").mkdir()
    rgb = photograph("astronaut", 160, 160)
    for number, picture in enumerate((np.zeros_like(rgb), rgb, rgb)):
        cv2.imwrite(str(folder / f"{number}.png"), picture[..., ::-1])
    return folder


def test_a_network_may_run_late(face: Path, pictures: Path, tmp_path: Path) -> None:
    """Frames after the first one copy nothing: the networks of landmarks still compile and load their weights."""
    cache = tmp_path / "cache"
    with fb.video.VideoStage(model=face, save=("video", "jsonl"), output=tmp_path, cache=cache) as stage:
        rows = stage.rows(pictures)
    assert len(list(cache.iterdir())) >= 2, "the models of the chain, for the next start"
    assert [row["class"] for row in rows] == [None, "face", "face"]
    assert rows == [json.loads(line) for line in (tmp_path / "pictures.jsonl").read_text().splitlines()]
    points, depths, shapes = (rows[1][name] or [] for name in ("points", "depths", "blendshapes"))
    assert len(points) == len(depths) == 478 and len(shapes) == 52
    assert (tmp_path / "pictures.mp4").stat().st_size > 1000


def test_networks_run_where_the_frames_are(pictures: Path, tmp_path: Path) -> None:
    (path := tmp_path / "small.task").write_bytes(one_face())
    with fb.video.VideoStage(model=path, backend="opencl") as stage:
        with pytest.raises(
            fb.BindingError, match=r"small\.task run where the frames are, .* GL objects: .* gl or auto"
        ):
            stage.rows(pictures)
    with fb.video.VideoStage(model=path, most=2) as stage:
        found = [row["frame"] for row in stage.rows(pictures)]
    assert found == [0, 1, 1, 2, 2], "the stand-in's detector finds its face beside the one that is followed"


def test_each_stream_follows_its_own_faces(context: fb.GlContext, face: Path, pictures: Path, tmp_path: Path) -> None:
    (other := tmp_path / "other").symlink_to(pictures)
    viewer = TexturesViewer(context, Work("face", str(face), save=(), options=ModelOptions()))
    watcher, file = Watcher(viewer, [str(pictures), str(other)], fb.video.StreamOptions()), tmp_path / "found.jsonl"
    watcher.run(file, lambda: None)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    found = [row for row in rows if row["class"] == "face"]
    assert {row["source"] for row in found} == {"pictures", "other"} and len(found) == 4
    places = np.array([row["points"][1] for row in found])
    assert np.ptp(places, axis=0).max() < 2, "each stream sees its own pictures"


def test_a_bundle_names_its_task(tmp_path: Path) -> None:
    for name, make in {
        "face": one_face,
        "hands": one_hand,
        "gestures": one_gesture,
        "pose": one_person,
        "holistic": one_whole,
    }.items():
        (path := tmp_path / f"{name}.task").write_bytes(make())
        assert task_for("", str(path)) == name
    (empty := tmp_path / "empty.task").write_bytes(bundle({"a.txt": b"?"}))
    with pytest.raises(fb.ModelError, match=r"empty\.task has no pose_detector\.tflite and no hand_detector.*a\.txt"):
        task_for("", str(empty))
    with pytest.raises(fb.ModelError, match=r"empty\.task has no b\.tflite"):
        content_of(find_model(str(empty / "b.tflite")))
    with pytest.raises(fb.ModelError, match="the bundle lacks face_detector"):
        Work("face", str(tmp_path / "hands.task")).finder(read_model_file(tmp_path / "hands.task"), (64, 48))
