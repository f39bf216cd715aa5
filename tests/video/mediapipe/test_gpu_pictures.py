"""Tasks on pictures in the GPU's memory: what they take, and what they refuse."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind import mp
from framebind.delegate.plan.binding import Binding
from framebind.video.apis import BY_NAME, GL
from framebind.video.mediapipe.core.chain import Chain
from framebind.video.mediapipe.core.chain_models import ChainModels
from framebind.video.mediapipe.core.gpu_picture import gpu_picture
from framebind.video.mediapipe.graphs.detecting import Settings
from framebind.video.mediapipe.vision.hand_chain import hand_models
from framebind.video.mediapipe.vision.pose_chain import pose_models
from support.recording_driver import Foreign, RecordingDriver
from support.video.task_bundles import one_face, one_gesture, one_hand, varied_persons

vision = mp.tasks.vision
Mode = vision.RunningMode
PIXELS = np.random.default_rng(0).integers(0, 256, (48, 64, 4), np.uint8)


def landmarker(mode: Any = Mode.IMAGE, **given: Any) -> Any:
    base = mp.tasks.BaseOptions(model_asset_buffer=one_face(), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    return vision.FaceLandmarker.create_from_options(
        vision.FaceLandmarkerOptions(base, mode, output_face_blendshapes=True, **given)
    )


def points_of(landmarks: Any) -> list[tuple[float, float, float]]:
    return [(point.x, point.y, point.z) for point in landmarks]


@pytest.fixture
def gl() -> Iterator[None]:
    with GL.open_context():
        yield


@pytest.mark.usefixtures("gl")
def test_a_picture_of_any_kind_gives_what_its_pixels_give() -> None:
    image = mp.Image(image_format=mp.ImageFormat.SRGB, data=PIXELS[..., :3])
    planes = fb.YuvPicture([PIXELS[..., 0], np.full((24, 32, 2), 128, np.uint8)], matrix="bt709", range="full")
    stored = fb.YuvPicture([np.ascontiguousarray(PIXELS[..., 0].T), np.full((32, 24, 2), 128, np.uint8)])
    pictures = [fb.GlTexture.from_array(PIXELS), planes, fb.Frame(planes), fb.Frame(stored, rotation=90)]
    with landmarker() as task:
        expected = task.detect(image)
        for picture in pictures:
            result = task.detect(picture)
            (found,), (face,) = result.face_landmarks, expected.face_landmarks
            np.testing.assert_allclose(points_of(found), points_of(face), atol=1e-5)
            (shapes,), (wanted,) = result.face_blendshapes, expected.face_blendshapes
            assert [one.category_name for one in shapes] == [one.category_name for one in wanted]
            assert [one.score for one in shapes] == pytest.approx([one.score for one in wanted], abs=1e-5)


@pytest.mark.usefixtures("gl")
def test_a_hand_is_followed_as_in_its_pixels() -> None:
    base = mp.tasks.BaseOptions(model_asset_buffer=one_hand(), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    options = vision.HandLandmarkerOptions(base, Mode.VIDEO)
    image, texture = mp.Image(image_format=mp.ImageFormat.SRGB, data=PIXELS[..., :3]), fb.GlTexture.from_array(PIXELS)
    with (
        vision.HandLandmarker.create_from_options(options) as cpu,
        vision.HandLandmarker.create_from_options(options) as gpu,
    ):
        for time in (1, 2, 3):  # each region follows from the one before
            expected, result = cpu.detect_for_video(image, time), gpu.detect_for_video(texture, time)
            for ours, theirs in (
                (result.hand_landmarks, expected.hand_landmarks),
                (result.hand_world_landmarks, expected.hand_world_landmarks),
            ):
                np.testing.assert_allclose(points_of(ours[0]), points_of(theirs[0]), rtol=1e-4, atol=1e-4)
            assert result.handedness[0][0].category_name == expected.handedness[0][0].category_name == "Right"


@pytest.mark.usefixtures("gl")
def test_a_gesture_is_named_by_rows_alone() -> None:
    options = vision.GestureRecognizerOptions(mp.tasks.BaseOptions(model_asset_buffer=one_gesture()), Mode.VIDEO)
    image, texture = mp.Image(image_format=mp.ImageFormat.SRGB, data=PIXELS[..., :3]), fb.GlTexture.from_array(PIXELS)
    recognize = vision.GestureRecognizer.create_from_options
    with recognize(options) as cpu, recognize(options) as gpu:
        gpu.recognize_for_video(texture, 1)  # compiles
        fb.transfers.reset()
        with fb.transfer_guard("disallow", exempt=("detections",)):
            found = gpu.recognize_for_video(texture, 2)
        assert fb.transfers.by_reason["download", "detections"].bytes == fb.transfers.bytes == 516
        cpu.recognize_for_video(image, 1)
        expected = cpu.recognize_for_video(image, 2)
    assert found.gestures == expected.gestures and found.gestures[0][0].category_name == "Closed_Fist"
    np.testing.assert_allclose(points_of(found.hand_landmarks[0]), points_of(expected.hand_landmarks[0]), atol=1e-4)
    assert found.handedness[0][0].category_name == expected.handedness[0][0].category_name == "Right"


@pytest.mark.usefixtures("gl")
def test_frames_of_other_sizes_begin_anew() -> None:
    with landmarker(Mode.VIDEO) as task:
        for time, size in enumerate([(48, 64), (48, 64), (30, 40), (48, 64)]):
            texture = fb.GlTexture.from_array(PIXELS[: size[0], : size[1]])
            assert len(task.detect_for_video(texture, time + 1).face_landmarks) == 1


@pytest.mark.usefixtures("gl")
def test_what_a_task_does_not_take_is_refused() -> None:
    texture = fb.GlTexture.from_array(PIXELS)
    turned = mp.tasks.vision.ImageProcessingOptions(rotation_degrees=90)
    with landmarker() as task:
        with pytest.raises(ValueError, match=r"an image is an mp\.Image, or a picture in the GPU's memory"):
            task.detect(PIXELS)
        with pytest.raises(ValueError, match=r"a turned one is a fb\.Frame"):
            task.detect(texture, turned)
        assert len(task.detect(texture, mp.tasks.vision.ImageProcessingOptions()).face_landmarks) == 1


@pytest.mark.parametrize(
    ("shape", "size"), [((48, 64, 3), (64, 48)), ((1, 48, 64, 4), (64, 48)), ((3, 48, 64), (64, 48)), ((48, 64), None)]
)
def test_an_array_says_its_size_by_its_shape(shape: tuple[int, ...], size: Any) -> None:
    array = Foreign(shape=shape, typestr="|u1")
    if size is None:
        with pytest.raises(ValueError, match="is no picture of colours"):
            gpu_picture(array)
        return
    picture = gpu_picture(array)
    assert (picture.size, picture.api.short, picture.obj) == (size, "cuda", array)


def on_cuda(bundle: bytes, models_of: Callable[..., ChainModels], settings: Settings) -> Chain:
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return Chain(models_of(files, settings, (64, 48)), (64, 48), BY_NAME["cuda"])


@pytest.mark.parametrize(
    ("bundle", "models_of", "settings"),
    [
        (one_hand, hand_models, Settings(1)),
        (one_hand, hand_models, Settings(2)),
        (varied_persons, pose_models, Settings(1, is_smooth=True)),
        (varied_persons, pose_models, Settings(2)),
    ],
)
def test_a_followed_frame_is_one_graph_of_cuda(
    bundle: Callable[[], bytes], models_of: Callable[..., ChainModels], settings: Settings, recorder: RecordingDriver
) -> None:
    with fb.cuda.CudaContext():
        chain = on_cuda(bundle(), models_of, settings)
        pictures = [fb.cuda.CudaImage.from_array(PIXELS) for _ in range(2)]
        for picture in (*pictures, *pictures):  # compiles, and records
            chain.submit(picture)
        recorder.calls.clear()
        with fb.transfer_guard("disallow"):
            for picture in pictures:
                chain.submit(picture, detect=False)
        assert recorder.names() == ["cuGraphLaunch"] * 2
        recorder.calls.clear()
        chain.submit(pictures[0])
        assert recorder.names() == ["cuGraphLaunch"] * 2, "the detector's, and that of the landmarks"
        chain.close()


def test_the_next_frames_regions_are_bound_while_the_gpu_works(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        chain = on_cuda(one_hand(), hand_models, Settings(2))
        pictures, look = [fb.cuda.CudaImage.from_array(PIXELS) for _ in range(2)], chain._look
        memory, (picture, regions) = look._delegate.engine.boundary.memory, look._inputs
        for number in range(4):
            chain.submit(pictures[number % 2])
            chain.push()
            chain.prepare()
            bound = look._delegate.engine.partitions[0].bound
            assert bound.program is not None and not bound.changed and not bound.program.needs_check
            read, seen = (memory.source((0, tensor)) for tensor in (regions, picture))
            assert isinstance(read, Binding) and isinstance(seen, Binding)
            assert read.resource is chain._places[0].buffer is seen.frames[0].region[0]
            chain.take()
            chain.submit(pictures[0], detect=False)
            assert memory.source((0, regions)) is read, "only the picture was bound"
            assert not bound.changed and not bound.program.needs_check, "no binding was compared with others"
            chain.push()
            chain.take()
        chain.close()


def test_two_chains_are_on_the_gpu_before_either_is_waited_for(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext() as first, fb.cuda.CudaContext() as second:
        chains, picture = list[Chain](), fb.cuda.CudaImage.from_array(PIXELS)
        for context in (first, second):
            with context.made_current():
                chains.append(on_cuda(one_hand(), hand_models, Settings(2)))
                chains[-1].warm(picture)
        for detect in (True, False, False):
            recorder.calls.clear()
            for chain in chains:
                chain.submit(picture, detect=detect)
                chain.push()
            for chain in chains:
                chain.take()
        launches = ["cuGraphLaunch", "cuMemcpyDtoHAsync_v2", "cuEventRecord"]
        names = [name for name in recorder.names() if not name.startswith("cuCtx")]
        assert names == [*launches, *launches, *["cuEventSynchronize"] * 2]
        streams = [arguments[1] for name, arguments in recorder.calls if name == "cuGraphLaunch"]
        assert streams == [first.stream, second.stream]
        for chain in chains:
            chain.close()


def test_each_single_picture_is_searched(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        chain = on_cuda(one_hand(), hand_models, Settings(follows=False))
        picture = fb.cuda.CudaImage.from_array(PIXELS)
        chain.submit(picture)
        recorder.calls.clear()
        chain.submit(picture, detect=False)  # one was found, and is not followed
        assert recorder.names() == ["cuGraphLaunch"] * 2
        chain.close()
