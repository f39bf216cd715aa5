"""The detection demo: faces in real pictures, and objects that a model of our own claims to see."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import cv2
import numpy as np
import numpy.typing as npt
import pytest
from skimage.feature import Cascade
from typer.testing import CliRunner

import framebind as fb
import stand_ins
from framebind.__main__ import app
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from framebind.video.sampling import resample
from framebind.video.tasks import detect
from framebind.video.tasks.detect import Detection
from framebind.video.vision import ssd
from framebind.video.vision.boxes import CANDIDATES, decode_faces
from framebind.video.vision.framing import fitted
from framebind.video.vision.labels import read_labels
from framebind.video.vision.non_max_suppression import overlaps
from framebind.video.vision.one_euro import OneEuro
from framebind.video.vision.palette import palette
from support.demo_models import object_model
from support.environment import photograph_path
from support.video.clips import write_clip

Array = npt.NDArray[Any]
Photograph = Callable[..., npt.NDArray[np.uint8]]
ModelPath = Callable[[str], Path]
pytestmark = [pytest.mark.usefixtures("context"), pytest.mark.parametrize("context", ["gl"], indirect=True)]


@pytest.fixture
def find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Detection]]:
    """``find(model, rgb)``: what the demo finds in a picture. It is drawn to a.png."""
    drawn: list[list[Detection]] = []
    draw = detect.draw_boxes

    def spy(overlay: fb.video.Overlay, found: list[Detection], names: list[str], size: tuple[int, int]) -> None:
        drawn.append(found)
        draw(overlay, found, names, size)

    def find(model: Path, rgb: Array, **options: Any) -> list[Detection]:
        cv2.imwrite(str(tmp_path / "frame.png"), rgb[..., ::-1])
        given = Options(str(model), str(tmp_path / "frame.png"), output=[tmp_path / "a.png"])
        run(partial(detect.TASK.prepare, **options), given)
        return drawn[-1]

    monkeypatch.setattr(detect, "draw_boxes", spy)
    return find


def overlap(one: Array, other: Any) -> float:
    return float(overlaps(np.asarray(one, np.float32), np.array([other], np.float32))[0])


def test_the_one_face_of_a_photograph_is_found_wherever_it_is(
    find: Callable[..., list[Detection]], photograph: Photograph, model_path: ModelPath
) -> None:
    model, rgb = model_path("face_detection_front"), photograph("astronaut")
    # An independent opinion: the local binary patterns of scikit-image's cascade.
    cascade = Cascade(str(photograph_path().with_name("lbpcascade_frontalface_opencv.xml")))
    (face,) = cascade.detect_multi_scale(rgb, 1.2, 1, (60, 60), (200, 200))
    place = np.array([face["c"], face["r"], face["c"] + face["width"], face["r"] + face["height"]])
    wide = np.zeros((300, 400, 3), np.uint8)
    wide[:, 100:] = cv2.resize(rgb, (300, 300), interpolation=cv2.INTER_AREA)
    shift, flipped = np.array([100, 0, 100, 0]), 512 - place[[2, 1, 0, 3]]
    flipped[[1, 3]] = place[[1, 3]]
    for picture, expected in (
        (rgb, place), (rgb[:, ::-1], flipped), (wide, place * 300 / 512 + shift),
        (np.ascontiguousarray(rgb[:300, 60:400]), place - np.array([60, 0, 60, 0])),
    ):  # fmt: skip
        (found,) = find(model, picture)
        assert found.score > 0.9
        assert overlap(found.places[:4], expected) > 0.5
        eyes, nose, mouth = found.places[4:8].reshape(2, 2), found.places[8:10], found.places[10:12]
        assert eyes[0, 0] < nose[0] < eyes[1, 0], "the right eye is on the left of a picture"
        assert eyes[:, 1].max() < nose[1] < mouth[1]


def test_faces_are_where_the_cpu_finds_them(
    find: Callable[..., list[Detection]], photograph: Photograph, model_path: ModelPath
) -> None:
    model, rgb = model_path("face_detection_front"), photograph("astronaut", 200, 150)
    interpreter = litert.Interpreter(model_path=str(model))
    interpreter.allocate_tensors()
    crop = fitted((200, 150), (128, 128))
    assert crop == (0, -25, 200, 200)
    small = resample(rgb, (128, 128), crop)
    small[:16] = small[112:] = 0  # MediaPipe's graphs put the picture before black
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], (small[None] / 255 - 0.5) / np.float32(0.5))
    interpreter.invoke()
    values = {d["shape"][-1]: interpreter.get_tensor(d["index"])[0] for d in interpreter.get_output_details()}
    best = int(values[1].argmax())
    places = decode_faces(values[16][best : best + 1], ssd.face_anchors()[best : best + 1])
    expected = places.reshape(8, 2) * 200 - [0, 25]
    (found,) = find(model, rgb)
    np.testing.assert_allclose(found.places.reshape(8, 2), expected, atol=0.05)
    assert found.score == pytest.approx(float(ssd.sigmoid(values[1]).max()), abs=1e-4)


def test_faces_of_many_people_and_pictures_without_any(
    find: Callable[..., list[Detection]], photograph: Photograph, model_path: ModelPath
) -> None:
    model = model_path("face_detection_front")
    people = np.load(photograph_path().with_name("lfw_subset.npy"))  # the first 100 are faces of 25 x 25 pixels
    found: list[int] = []
    for face in people[:100:10]:
        large = np.clip(cv2.resize(face, (96, 96), interpolation=cv2.INTER_CUBIC) * 255, 0, 255).astype(np.uint8)
        framed = np.repeat(np.pad(large, 80, mode="edge")[..., None], 3, axis=2)
        boxes = [each.places[:4] for each in find(model, framed)]
        found.append(len(boxes))
        assert all(overlap(box, (80, 80, 176, 176)) > 0.4 for box in boxes)
    assert found.count(1) >= 9 and max(found) == 1, found
    for name in ("chelsea", "coffee"):
        assert find(model, photograph(name)) == []


@pytest.mark.parametrize("logits", [False, True])
def test_objects_are_decoded_suppressed_named_and_drawn(
    find: Callable[..., list[Detection]], tmp_path: Path, logits: bool
) -> None:
    model = object_model(tmp_path / "objects.tflite", logits)
    labels = tmp_path / "coco.txt"
    labels.write_text("\n".join(f"thing {n}" for n in range(1, 91)))
    found = find(model, np.full((200, 400, 3), 90, np.uint8), labels=labels)
    assert [(each.number, round(each.score, 3)) for each in found] == [(3, 0.9), (7, 0.8), (7, 0.6)]
    # Stretched: of 400 x 200, the middle 47.5 % each way.
    np.testing.assert_allclose(found[0].places, [105, 52.5, 295, 147.5], rtol=1e-5)
    wide = 0.95 * np.sqrt(2)
    np.testing.assert_allclose(
        found[1].places, [200 * (1 - wide), 100 * (1 - wide / 2), 200 * (1 + wide), 100 * (1 + wide / 2)], rtol=1e-5
    )
    picture = cv2.imread(str(tmp_path / "a.png"))
    assert picture is not None
    edge = np.array(palette(91)[3])[::-1] * 255
    np.testing.assert_allclose(picture[100, [105, 295]], [edge, edge], atol=1)
    assert (picture[120:140, 120:280] == 90).all(), "elsewhere is the frame"


def test_the_summary_says_what_was_read(tmp_path: Path) -> None:
    model = object_model(tmp_path / "objects.tflite", logits=False)
    report = run(detect.TASK.prepare, Options(str(model), frames=3, size="64x64", headless=True))
    assert (report.copied, report.uploaded) == (0, 2 * 64 * 64 * 3)
    nbytes = 4 * CANDIDATES * (3 + 4)
    assert report.detected == 2 * nbytes, "score, class, number and box of the best anchors"
    assert f"{nbytes:,} bytes of results, nothing else" in str(report)


def test_other_models_and_labels_of_other_models(tmp_path: Path, model_path: ModelPath) -> None:
    options = Options(str(model_path("selfie_segmentation")), frames=1, size="64x64", headless=True)
    with pytest.raises(fb.ModelError, match=r"no model of the task 'detect'.*PostProcess.*YOLO"):
        run(detect.TASK.prepare, options)
    (tmp_path / "two.txt").write_text("a\nb\n")
    assert read_labels(tmp_path / "two.txt", 3) == ["background", "a", "b"]
    assert read_labels(None, 2) == ["class 0", "class 1"]
    with pytest.raises(fb.SourceError, match="have 2 lines, but the model has 91 classes"):
        read_labels(tmp_path / "two.txt", 91)
    with pytest.raises(fb.SourceError, match="cannot be read as lines of text"):
        read_labels(tmp_path / "three.txt", 91)


def test_boxes_are_smoothed_with_those_of_the_same_object() -> None:
    def seen(*boxes: tuple[float, ...]) -> list[Detection]:
        filters = [OneEuro(detect.MIN_CUTOFF, 0.1) for _ in boxes]
        places = [np.array(box[:4], np.float32) for box in boxes]
        return [Detection(p, 0.9, int(b[4]), f) for p, b, f in zip(places, boxes, filters, strict=True)]

    before = detect.match(seen((0, 0, 100, 100, 1), (200, 0, 300, 100, 1)), [])
    places = [each.places.tolist() for each in before]
    assert places == [[0, 0, 100, 100], [200, 0, 300, 100]]
    # The second comes first now, has moved, the first is of another class, and there is a third.
    after = detect.match(seen((210, 0, 310, 100, 1), (4, 0, 104, 100, 2), (0, 200, 50, 250, 1)), before)
    assert after[0].smooth is before[1].smooth
    assert 200 < after[0].places[0] < 210 and after[0].places[1] == 0
    assert after[1].places.tolist() == [4, 0, 104, 100] and after[2].places.tolist() == [0, 200, 50, 250]
    # Two on one place: only one of them is the object of before.
    twice = detect.match(seen((0, 0, 100, 100, 1), (1, 0, 101, 100, 1)), before[:1])
    assert twice[0].smooth is before[0].smooth and twice[1].smooth is not before[0].smooth


@pytest.fixture
def ssd_model(tmp_path: Path) -> Path:
    """A stand-in for SSD MobileNet v1, whose last operator selects the boxes on the CPU."""
    path = tmp_path / "ssd.tflite"
    path.write_bytes(stand_ins.ssd_mobilenet(blocks=3, width=0.25))
    return path


def test_a_detector_that_selects_its_boxes_gives_what_litert_gives(
    find: Callable[..., list[Detection]], photograph: Photograph, ssd_model: Path, tmp_path: Path
) -> None:
    rgb = photograph()
    height, width = rgb.shape[:2]
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(["???", *(f"thing {number}" for number in range(90))]))
    found = find(ssd_model, rgb, score=0.0, labels=labels)
    interpreter = litert.Interpreter(str(ssd_model))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, (resample(rgb, (300, 300)) / 127.5 - 1)[None].astype(np.float32))
    interpreter.invoke()
    boxes, classes, scores, _ = (interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details())
    assert [each.number for each in found] == classes[0].astype(int).tolist()
    np.testing.assert_allclose([each.score for each in found], scores[0], rtol=1e-3)
    np.testing.assert_allclose(
        [each.places for each in found], boxes[0][:, [1, 0, 3, 2]] * [width, height, width, height], atol=0.5
    )
    assert detect.as_row(found[0], [f"thing {number}" for number in range(90)])["class"].startswith("thing ")


@pytest.mark.parametrize("save", ["jsonl", "jsonl,video"])
def test_videos_go_through_a_detector_that_selects_its_boxes(save: str, ssd_model: Path, tmp_path: Path) -> None:
    write_clip(tmp_path / "a.mp4", size=(64, 48), frames=2)
    given = ["--model", str(ssd_model), "--save", save, "--backend", "gl"]
    done = CliRunner().invoke(
        app, ["process", "--task", "detect", str(tmp_path / "a.mp4"), "--output", str(tmp_path / "out"), *given]
    )
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (tmp_path / "out" / "a.jsonl").read_text().splitlines()]
    assert {row["frame"] for row in rows} == {0, 1}
