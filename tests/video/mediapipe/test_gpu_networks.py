"""Tasks of one network on pictures in the GPU's memory, beside themselves on their pixels; and what refuses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind import mp
from framebind.video.answers.graph import AnswerGraph
from framebind.video.apis import BY_NAME, GL
from support.recording_driver import RecordingDriver
from support.tiny_models import constants
from support.video.task_bundles import (
    bundle,
    found_at_anchors,
    one_face,
    selecting_detector,
    strokes_files,
    weighted,
)

vision = mp.tasks.vision
Mode = vision.RunningMode
PIXELS = np.random.default_rng(0).integers(0, 256, (96, 128, 4), np.uint8)
BYTE = 0.6 / 255
"""The most by which a GPU rounds a number to a byte of a texture. OpenGL allows either byte beside it (4.6, section
2.3.5.2), Direct3D 11 0.6 steps; an H200 was off by 0.55.
"""
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


def classes() -> bytes:
    """A segmenter of three classes, which are the colours of what it sees."""
    return weighted([(1, 24, 32, 3)], 0, np.eye(3))


def alone() -> bytes:
    """A segmenter of one class."""
    return weighted([(1, 24, 32, 3)], 0, np.eye(3)[:1])


def segmenter(content: bytes, **given: Any) -> Any:
    base = mp.tasks.BaseOptions(model_asset_buffer=content, delegate=mp.tasks.BaseOptions.Delegate.CPU)
    return vision.ImageSegmenter.create_from_options(vision.ImageSegmenterOptions(base, **given))


@pytest.mark.parametrize(("api", "content", "form"), [("gl", classes, "r8"), ("cl", alone, "")])
def test_masks_are_written_to_objects_of_the_caller(api: str, content: Callable[[], bytes], form: str) -> None:
    backend = BY_NAME[api]
    with backend.open_context(), segmenter(content(), output_category_mask=True) as task:
        expected, texture = task.segment(IMAGE), backend.new_texture(PIXELS)
        confidence = [mask_on(backend, form) for _ in expected.confidence_masks]
        category = mask_on(backend, form)
        task.bind_masks(confidence, category)
        task.segment(texture)  # it uploads constants
        fb.transfers.reset()
        with fb.transfer_guard("disallow"):
            result = task.segment(texture)
        assert not fb.transfers.by_reason
        assert result.confidence_masks == confidence and result.category_mask is category
        for mask, other in zip(confidence, expected.confidence_masks, strict=True):
            np.testing.assert_allclose(shares_of(mask), other.numpy_view()[..., 0], atol=2e-5 + (form == "r8") * BYTE)
        found = np.rint(255 * shares_of(category)).astype(np.uint8)
        assert (found != expected.category_mask.numpy_view()[..., 0]).mean() < 0.001  # two classes may be equal
        assert len(np.unique(found)) == max(len(confidence), 2)


def mask_on(api: fb.Backend, form: str) -> Any:
    height, width = PIXELS.shape[:2]
    return fb.GlTexture(width, height, form) if form else api.new_buffer(np.ones(width * height, np.float32))


def shares_of(mask: Any) -> Any:
    """The values of a mask, from 0 to 1."""
    found = mask.read()
    return (found / np.float32(255) if found.dtype == np.uint8 else found).reshape(PIXELS.shape[:2])


@pytest.mark.usefixtures("gl")
def test_masks_are_those_that_were_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texture, masks = fb.GlTexture.from_array(PIXELS), [mask_on(GL, "r8") for _ in range(3)]
    with segmenter(classes()) as task:
        for given in ([], [masks[:2]], [masks, masks[0]]):
            with pytest.raises(ValueError, match="the options ask for 3 confidence masks and 0 category mask: give"):
                task.bind_masks(*given)
        task.bind_masks(masks)
        assert task.segment(texture).category_mask is None
        large = fb.GlTexture.from_array(np.zeros((200, 300, 4), np.uint8))
        with pytest.raises(fb.BindingError):  # the masks have another size
            task.segment(large)
        task.bind_masks([fb.GlTexture(300, 200, "r8") for _ in masks])
        assert task.segment(large).confidence_masks[0].read().shape[:2] == (200, 300)
    (tmp_path / "selfie_segmentation.tflite").write_bytes(alone())
    monkeypatch.setenv("FRAMEBIND_MODELS", str(tmp_path))
    with mp.solutions.selfie_segmentation.SelfieSegmentation() as selfie:
        expected = selfie.process(PIXELS[..., :3]).segmentation_mask
        selfie.bind_masks(masks[:1])
        assert selfie.process(texture).segmentation_mask is masks[0]
        np.testing.assert_allclose(shares_of(masks[0]), expected, atol=2e-5 + BYTE)


@pytest.mark.usefixtures("gl")
def test_a_thing_at_a_place_is_found_in_pictures_on_the_gpu() -> None:
    """The network's mask is what it gets: a colour, and the dot."""
    content = weighted([(1, 24, 32, 4)], 0, np.array([[0.5, 0, 0, 1.0], [0, 0, 0, 1.0]]))
    base = mp.tasks.BaseOptions(model_asset_buffer=content, delegate=mp.tasks.BaseOptions.Delegate.CPU)
    legacy, region = vision.InteractiveSegmenterLegacy, vision.InteractiveSegmenterLegacyRegionOfInterest
    place = region(region.Format.KEYPOINT, mp.tasks.components.containers.NormalizedKeypoint(33 / 128, 0.5))
    texture, masks = fb.GlTexture.from_array(PIXELS), [mask_on(GL, "r32f") for _ in range(2)]
    task: Any = legacy.create_from_options(vision.InteractiveSegmenterLegacyOptions(base))
    with task:
        expected = [mask.numpy_view()[..., 0] for mask in task.segment(IMAGE, place).confidence_masks]
        assert 0.2 < expected[1].max() <= 1 and np.ptp(expected[0]) > 0.1
        for mask, other in zip(task.segment(texture, place).confidence_masks, expected, strict=True):
            np.testing.assert_allclose(mask.numpy_view()[..., 0], other, atol=2e-5)
        task.bind_masks(masks)
        fb.transfers.reset()
        assert task.segment(texture, place).confidence_masks == masks
        assert [(way, count.bytes) for (way, _), count in fb.transfers.by_reason.items()] == [("upload", 24 * 32 * 4)]
        for mask, other in zip(masks, expected, strict=True):
            np.testing.assert_allclose(shares_of(mask), other, atol=2e-5)
    base = mp.tasks.BaseOptions(model_asset_buffer=weighted([(1, 8, 8, 3)], 0, np.ones((1, 3))))
    with pytest.raises(fb.ModelError, match=r"the segmenter has the input \[\(1, 8, 8, 3\)\]"):
        legacy.create_from_options(vision.InteractiveSegmenterLegacyOptions(base))


def both_in_one_mask() -> bytes:
    """A bundle whose mask is the heat map of the strokes, enlarged, and a colour of the picture."""
    graph = AnswerGraph()
    heat, seen = graph.input((1, 32, 32, 3)), graph.input((1, 48, 64, 3))
    shape = graph.shape(seen)
    larger = graph.apply("RESIZE_BILINEAR", [heat, graph.integers(*shape[1:3])], shape, halfPixelCenters=True)
    mask = graph.linear(graph.join([larger, seen], 3), np.array([[0.5], [0], [0], [0.5], [0], [0]]))
    files = strokes_files(0, [1, 1, 1])
    return bundle({**files, "interactive_segmentation_decoder.int8.tflite": graph.build(mask)})


@pytest.mark.parametrize("api", ["gl"])
def test_strokes_are_taken_on_pictures_on_the_gpu(api: str) -> None:
    base = mp.tasks.BaseOptions(model_asset_buffer=both_in_one_mask())
    points = [vision.InteractiveSegmenterStrokePoint(*at) for at in ((0.2, 0.3), (0.7, 0.6))]
    strokes = [vision.InteractiveSegmenterStroke(vision.InteractiveSegmenterBrushMode.POSITIVE, points, True)]
    backend = BY_NAME[api]
    with (
        backend.open_context(),
        vision.InteractiveSegmenter.create_from_options(vision.InteractiveSegmenterOptions(base)) as task,
    ):
        task.set_image(IMAGE)
        expected = task.segment(strokes).numpy_view()[..., 0]
        assert expected.max() > 0.9 and np.ptp(expected[-10:]) > 0.1
        texture, mask = backend.new_texture(PIXELS), mask_on(backend, "r32f" if api == "gl" else "")
        task.set_image(texture)
        np.testing.assert_allclose(task.segment(strokes).numpy_view()[..., 0], expected, atol=2e-5)
        task.bind_masks([mask])
        fb.transfers.reset()
        assert task.segment(strokes) is mask
        assert [(way, count.bytes) for (way, _), count in fb.transfers.by_reason.items()] == [("upload", 32 * 32 * 12)]
        np.testing.assert_allclose(shares_of(mask), expected, atol=2e-5)
        task.set_image(IMAGE)
        np.testing.assert_allclose(task.segment(strokes).numpy_view()[..., 0], expected, atol=1e-6)
        with pytest.raises(ValueError, match=r"an image is an mp\.Image, or a picture in the GPU's memory"):
            task.set_image("a.png")
        with pytest.raises(ValueError, match="2 objects for masks, and a picture has 1"):
            task.bind_masks([mask, mask])


def test_all_tasks_take_pictures_on_the_gpu() -> None:
    assert not [name for name in vision.__all__ if getattr(getattr(vision, name), "takes_gpu_pictures", None) is False]
