"""HolisticLandmarker and ``mp.solutions.holistic`` on pictures in the GPU's memory, beside the same on pixels."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind import mp
from framebind.video.answers.graph import AnswerGraph
from framebind.video.apis import BY_NAME
from framebind.video.mediapipe.calculators import recrops
from framebind.video.mediapipe.core.chain import Chain
from framebind.video.mediapipe.graphs import holistic, tracks
from framebind.video.mediapipe.graphs.detecting import Settings
from framebind.video.mediapipe.graphs.pose import Steady
from framebind.video.mediapipe.vision.holistic_chain import holistic_models
from support.recording_driver import RecordingDriver
from support.video.task_bundles import varied_whole

Array = np.ndarray[Any, Any]
vision = mp.tasks.vision
Mode = vision.RunningMode
SIZE = 64, 48
PARTS = (
    "pose_landmarks", "pose_world_landmarks", "face_landmarks", "left_hand_landmarks", "right_hand_landmarks",
    "left_hand_world_landmarks", "right_hand_world_landmarks",
)  # fmt: skip
LIGHTS = 0, 1, 2, -40, 5, 13
"""The light of each picture; nobody is seen in the dark one."""


def pictures() -> list[Array]:
    """Slopes of colours, (48, 64, 4): a region's light says where it is."""
    random, (y, x) = np.random.default_rng(1), np.mgrid[:48, :64]
    alpha = np.full((48, 64, 1), 255)
    slopes = np.stack([x * 3, y * 4, 180 - x * 2], -1)
    made = [slopes + 4 * light + random.integers(0, 20, (48, 64, 3)) for light in LIGHTS]
    return [np.concatenate([each, alpha], -1).clip(0, 255).astype(np.uint8) for each in made]


def image_of(pixels: Array) -> Any:
    return mp.Image(image_format=mp.ImageFormat.SRGB, data=pixels[..., :3])


def landmarker(mode: Any, **given: Any) -> Any:
    base = mp.tasks.BaseOptions(model_asset_buffer=varied_whole(), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    options = {"min_pose_landmarks_confidence": 0.8, "output_face_blendshapes": True, **given}
    return vision.HolisticLandmarker.create_from_options(vision.HolisticLandmarkerOptions(base, mode, **options))


def values_of(landmarks: Any) -> Array:
    return np.array([(point.x, point.y, point.z, point.visibility or 0.0) for point in landmarks])


def assert_masks_alike(found: Array, expected: Array) -> None:
    apart = np.abs(found.reshape(expected.shape) - expected)  # a coordinate may be rounded to the other side
    assert np.percentile(apart, 99) <= 1e-5 and apart.max() < 0.05 and 0.05 < (expected > 0).mean() < 1


@pytest.mark.parametrize("name", ["gl", "cl"])
def test_a_whole_person_is_followed_as_in_its_pixels(name: str) -> None:
    api, seen = BY_NAME[name], list[bool]()
    with (
        api.open_context(),
        landmarker(Mode.VIDEO, output_segmentation_mask=True) as cpu,
        landmarker(Mode.VIDEO, output_segmentation_mask=True) as gpu,
    ):
        mask = api.new_buffer(np.ones(64 * 48, np.float32))
        gpu.bind_masks([mask])
        for time, pixels in enumerate(pictures()[: 6 if name == "gl" else 2], 1):
            expected, texture = cpu.detect_for_video(image_of(pixels), 33 * time), api.new_texture(pixels)
            fb.transfers.reset()
            result = gpu.detect_for_video(texture, 33 * time)
            copied = fb.transfers.by_reason["download", "detections"]
            assert (copied.calls, copied.bytes) == (1, 4 * 2011)
            for part in PARTS:
                ours, theirs = values_of(getattr(result, part)), values_of(getattr(expected, part))
                np.testing.assert_allclose(ours, theirs, atol=1e-4, err_msg=f"{part} of frame {time}")
            seen.append(len(expected.pose_landmarks) > 0)
            if seen[-1]:
                assert result.segmentation_mask is mask and len(result.face_blendshapes) == 52
                assert_masks_alike(mask.read(), expected.segmentation_mask.numpy_view()[..., 0])
                for one, other in zip(result.face_blendshapes, expected.face_blendshapes, strict=True):
                    assert (one.category_name, one.score) == (other.category_name, pytest.approx(other.score, abs=1e-5))
            else:
                assert result.segmentation_mask is result.face_blendshapes is None and not mask.read().any()
            texture.release()
    assert seen == [True, True, True, False, True, True][: len(seen)]


def test_single_pictures_follow_each_other() -> None:
    pixels = pictures()[0]
    with BY_NAME["gl"].open_context(), landmarker(Mode.IMAGE) as cpu, landmarker(Mode.IMAGE) as gpu:
        texture = BY_NAME["gl"].new_texture(pixels)
        for _ in range(2):
            expected, result = cpu.detect(image_of(pixels)), gpu.detect(texture)
            for part in PARTS:
                np.testing.assert_allclose(
                    values_of(getattr(result, part)), values_of(getattr(expected, part)), atol=1e-4, err_msg=part
                )


@pytest.mark.parametrize("is_static", [False, True])
def test_the_solution_is_on_the_gpu_as_on_pixels(
    is_static: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("holistic_landmarker", "pose_landmarker_full"):
        (tmp_path / f"{name}.task").write_bytes(varied_whole())
    monkeypatch.setenv("FRAMEBIND_MODELS", str(tmp_path))
    make, given = mp.solutions.holistic.Holistic, {"static_image_mode": is_static, "min_tracking_confidence": 0.8}
    counts = list[list[int]]()
    with (
        BY_NAME["gl"].open_context(),
        make(enable_segmentation=True, **given) as cpu,
        make(enable_segmentation=True, **given) as gpu,
    ):
        mask = fb.GlTexture(*SIZE, "r32f")
        gpu.bind_masks([mask])
        for pixels in pictures()[:4:3] if is_static else pictures()[:4]:
            expected, result = cpu.process(pixels[..., :3]), gpu.process(fb.GlTexture.from_array(pixels))
            counts.append([0 if part is None else len(part.landmark) for part in expected[:5]])
            for ours, theirs in zip(result[:5], expected[:5], strict=True):
                if theirs is None:
                    assert ours is None
                else:
                    np.testing.assert_allclose(values_of(ours.landmark), values_of(theirs.landmark), atol=1e-4)
            assert result.segmentation_mask is (None if expected.segmentation_mask is None else mask)
            if expected.segmentation_mask is not None:
                assert_masks_alike(mask.read(), expected.segmentation_mask)
    assert counts == [[33, 33, 21, 21, 468]] * (len(counts) - 1) + [[0] * 5]


def test_a_followed_frame_is_three_graphs_of_cuda(recorder: RecordingDriver) -> None:
    with zipfile.ZipFile(io.BytesIO(varied_whole())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with fb.cuda.CudaContext():
        models = holistic_models(
            files, Settings(is_smooth=True), holistic.PartSettings(has_blendshapes=True), SIZE,
            masks=False, steady=Steady(masks=True), suppression=0.3,
        )  # fmt: skip
        chain = Chain(models, SIZE, BY_NAME["cuda"])
        images = [fb.cuda.CudaImage.from_array(each) for each in pictures()[:2]]
        for image in (*images, *images):  # compiles, and records
            chain.submit(image)
        recorder.calls.clear()
        with fb.transfer_guard("disallow"):
            for image in images:
                chain.submit(image, detect=False)
        assert recorder.names() == ["cuGraphLaunch"] * 6
        chain.close()


@pytest.mark.parametrize("most", [recrops.FACE, recrops.HAND])
def test_regions_of_the_frame_before_hold_as_in_the_calculator(most: recrops.Requirements) -> None:
    random, count, graph = np.random.default_rng(4), 200, AnswerGraph()
    named = np.column_stack(
        [random.uniform(0.2, 0.8, (count, 2)), random.uniform(0.2, 0.6, (count, 2)), random.uniform(-4, 4, count)]
    ).astype(np.float32)
    change = np.column_stack([random.normal(0, 0.02, (count, 4)), random.normal(0, math.radians(most.degrees), count)])
    followed = (named + change).astype(np.float32)
    points = named[:, None, :2] + random.normal(0, 0.04, (count, 5, 2)).astype(np.float32)
    expected = [recrops.still_holds(*each, SIZE, most) for each in zip(points, followed, named, strict=True)]
    inputs = graph.input((count, 5, 2)), graph.input((count, 8)), graph.input((count, 8))
    interpreter = fb.Interpreter(model_content=graph.build(holistic.held(graph, *inputs, most)), delegate="cpu")
    interpreter.allocate_tensors()
    rows = points * np.float32(SIZE), tracks_of(followed), tracks_of(named)
    details: list[dict[str, Any]] = interpreter.get_input_details()
    for detail, value in zip(details, rows, strict=True):
        interpreter.set_tensor(detail["index"], value.astype(np.float32))
    interpreter.invoke()
    outputs: list[dict[str, Any]] = interpreter.get_output_details()
    wanted = np.where(np.array(expected)[:, None], rows[1], rows[2])
    np.testing.assert_allclose(interpreter.get_tensor(outputs[0]["index"]), wanted, rtol=1e-6)
    assert 20 < sum(expected) < count - 20


def tracks_of(rectangles: Array) -> Array:
    """Rectangles (n, 5) as tracks."""
    x, y, width, height, angle = rectangles.T
    sides = [x * SIZE[0], y * SIZE[1], width * SIZE[0], height * SIZE[1]]
    rows = np.column_stack([*sides, np.cos(angle), np.sin(angle), np.ones((len(x), 2))])
    assert rows.shape[1] == tracks.COLUMNS
    return rows
