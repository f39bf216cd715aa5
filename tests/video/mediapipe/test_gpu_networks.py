"""Tasks of one network on pictures in the GPU's memory, beside themselves on their pixels; and what refuses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind import mp
from framebind.video.apis import GL
from support.recording_driver import RecordingDriver
from support.tiny_models import constants
from support.video.task_bundles import (
    echoed_strokes,
    found_at_anchors,
    one_face,
    selecting_detector,
    weighted,
)

vision = mp.tasks.vision
Mode = vision.RunningMode
PIXELS = np.random.default_rng(0).integers(0, 256, (96, 128, 4), np.uint8)
IMAGE = mp.Image(image_format=mp.ImageFormat.SRGB, data=PIXELS[..., :3])


def face_detector() -> bytes:
    seen = found_at_anchors(896, 16, {16 * 8 * 2 + 8 * 2: (3.0, [0, 0, 32, 32, -5, -5, 5, -5, *[0] * 8])})
    return constants(*seen, side=128, gain=0.5)


def scores() -> bytes:
    return constants(np.linspace(0, 1, 8, dtype=np.float32)[None], side=16, gain=2)


def echo() -> bytes:
    """A segmenter whose two masks are colours of what it sees: they show which pixels it samples."""
    return weighted([(1, 24, 32, 3)], 0, np.eye(3)[:2])


MAKERS: dict[str, tuple[Callable[[], bytes], str]] = {
    "FaceDetector": (face_detector, "detect"),
    "ImageClassifier": (scores, "classify"),
    "ImageEmbedder": (scores, "embed"),
    "ImageSegmenter": (echo, "segment"),
    "ObjectDetector": (selecting_detector, "detect"),
}


def task(name: str, mode: Any = Mode.IMAGE, **given: Any) -> Any:
    base = mp.tasks.BaseOptions(model_asset_buffer=MAKERS[name][0](), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    return getattr(vision, name).create_from_options(getattr(vision, f"{name}Options")(base, mode, **given))


def numbers_of(result: Any) -> np.ndarray[Any, Any]:
    """The numbers of a result in a row."""
    if hasattr(result, "classifications"):
        found = [[each.index, each.score] for each in result.classifications[0].categories]
        return np.array(sorted(found)).ravel()
    if hasattr(result, "embeddings"):
        return result.embeddings[0].embedding
    if hasattr(result, "confidence_masks"):
        return np.stack([mask.numpy_view() for mask in result.confidence_masks]).ravel()
    boxes = [
        (each.bounding_box.origin_x, each.bounding_box.width, each.categories[0].score) for each in result.detections
    ]
    return np.array(boxes).ravel()


@pytest.fixture
def gl() -> Iterator[None]:
    with GL.open_context():
        yield


def kinds() -> list[Any]:
    """The picture of ``IMAGE`` as a texture; and a grey one as planes, as a frame, and as its pixels."""
    planes = fb.YuvPicture([PIXELS[..., 0], np.full((48, 64, 2), 128, np.uint8)], matrix="bt709", range="full")
    grey = np.repeat(PIXELS[..., :1], 3, axis=2)
    return [fb.GlTexture.from_array(PIXELS), planes, fb.Frame(planes), mp.Image(mp.ImageFormat.SRGB, grey)]


@pytest.mark.usefixtures("gl")
@pytest.mark.parametrize("name", MAKERS)
def test_a_picture_of_any_kind_gives_what_its_pixels_give(name: str) -> None:
    texture, planes, frame, grey = kinds()
    with task(name) as single:
        find = getattr(single, MAKERS[name][1])
        for picture, image in ((texture, IMAGE), (planes, grey), (frame, grey), (texture, IMAGE)):
            expected = numbers_of(find(image))
            np.testing.assert_allclose(numbers_of(find(picture)), expected, atol=1e-5)
            assert len(expected) and np.ptp(expected) > 0
        fb.transfers.reset()
        find(texture)
        assert {direction for direction, _ in fb.transfers.by_reason} == {"download"}


@pytest.mark.usefixtures("gl")
@pytest.mark.parametrize("name", MAKERS)
def test_videos_and_live_streams_take_pictures_on_the_gpu(name: str) -> None:
    texture, seen, verb = fb.GlTexture.from_array(PIXELS), list[Any](), MAKERS[name][1]
    with task(name, Mode.VIDEO) as video:
        expected = numbers_of(getattr(video, f"{verb}_for_video")(texture, 5))

    def heard(result: Any, image: Any, milliseconds: int) -> None:
        assert image is texture
        seen.append((milliseconds, numbers_of(result)))

    with task(name, Mode.LIVE_STREAM, result_callback=heard) as live:
        for time in (5, 40):
            getattr(live, f"{verb}_async")(texture, time)
        assert [time for time, _ in seen] == [5]
    assert [time for time, _ in seen] == [5, 40]
    assert all((found == expected).all() for _, found in seen)


@pytest.mark.usefixtures("gl")
def test_solutions_of_one_network_take_pictures_on_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "face_landmarker.task").write_bytes(one_face())
    (tmp_path / "selfie_segmentation.tflite").write_bytes(weighted([(1, 24, 32, 3)], 0, np.eye(3)[:1]))
    monkeypatch.setenv("FRAMEBIND_MODELS", str(tmp_path))
    texture, rgb = fb.GlTexture.from_array(PIXELS), PIXELS[..., :3]
    with mp.solutions.face_detection.FaceDetection() as faces:
        assert faces.process(texture) == faces.process(rgb)
    with mp.solutions.selfie_segmentation.SelfieSegmentation() as selfie:
        found, expected = (selfie.process(each).segmentation_mask for each in (texture, rgb))
        np.testing.assert_allclose(found, expected, atol=1e-5)
        selfie.reset()
        with pytest.raises(ValueError, match="Input image must contain three channel rgb data"):
            selfie.process(PIXELS)


def test_arrays_of_cuda_are_read_only_in_their_outputs(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext(), task("ImageClassifier") as classifier:
        image = fb.cuda.CudaImage.from_array(PIXELS)
        for _ in range(3):
            recorder.calls.clear()
            fb.transfers.reset()
            classifier.classify(image)
        assert recorder.names().count("cuGraphLaunch") == 1
        assert {reason: total.bytes for reason, total in fb.transfers.by_reason.items()} == {
            ("download", "detections"): 32
        }


@pytest.mark.usefixtures("gl")
def test_tasks_that_take_pixels_only_say_so() -> None:
    texture = fb.GlTexture.from_array(PIXELS)
    base = mp.tasks.BaseOptions(model_asset_buffer=echoed_strokes(1, [1, 0, 0]))
    with vision.InteractiveSegmenter.create_from_options(vision.InteractiveSegmenterOptions(base)) as strokes:
        with pytest.raises(ValueError, match="this is GlTexture: read its pixels"):
            strokes.set_image(texture)
    base = mp.tasks.BaseOptions(model_asset_buffer=weighted([(1, 8, 8, 4)], 0, np.ones((1, 4))))
    legacy = vision.InteractiveSegmenterLegacy
    region = vision.InteractiveSegmenterLegacyRegionOfInterest
    place = region(region.Format.KEYPOINT, mp.tasks.components.containers.NormalizedKeypoint(0.5, 0.5))
    with legacy.create_from_options(vision.InteractiveSegmenterLegacyOptions(base)) as marked:
        with pytest.raises(ValueError, match=r"takes an mp\.Image, in the CPU's memory; this is GlTexture: read its"):
            marked.segment(texture, place)
    others = [name for name in vision.__all__ if getattr(getattr(vision, name), "takes_gpu_pictures", None) is False]
    assert others == ["InteractiveSegmenterLegacy"]
