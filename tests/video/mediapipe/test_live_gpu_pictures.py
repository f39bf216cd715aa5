"""Live streams of pictures in the GPU's memory: results come one frame late, on the thread that submits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind import mp
from framebind.video.apis import BY_NAME
from framebind.video.mediapipe.core.gpu_picture import gpu_picture
from support.recording_driver import RecordingDriver
from support.video.task_bundles import one_face, one_hand, varied_persons

vision = mp.tasks.vision
Mode = vision.RunningMode
RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.integers(0, 256, (3, 48, 64, 4), np.uint8)
ROWS = {"Face": 4 * (478 * 3 + 1), "Hand": 4 * (6 * 21 + 3), "Pose": 4 * (8 * 33 + 2)}
"""Bytes of a thing."""
MAKERS: dict[str, Callable[[], bytes]] = {"Face": one_face, "Hand": one_hand, "Pose": varied_persons}


def landmarker(kind: str, mode: Any, **given: Any) -> Any:
    base = mp.tasks.BaseOptions(model_asset_buffer=MAKERS[kind](), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    options = getattr(vision, f"{kind}LandmarkerOptions")(base, mode, **given)
    return getattr(vision, f"{kind}Landmarker").create_from_options(options)


class Heard:
    """The results that a callback got."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, int]] = []
        self.threads: set[int] = set()

    def __call__(self, result: Any, image: Any, milliseconds: int) -> None:
        self.calls.append((result, image, milliseconds))
        self.threads.add(threading.get_ident())


@pytest.mark.parametrize(("api", "kind"), [("gl", "Face"), ("gl", "Hand"), ("gl", "Pose")])
def test_results_are_those_of_a_video_one_frame_late(api: str, kind: str) -> None:
    heard, times = Heard(), [10, 43, 80, 113]
    with BY_NAME[api].open_context():
        textures = [BY_NAME[api].new_texture(PICTURES[number % 3]) for number in range(4)]
        with landmarker(kind, Mode.VIDEO) as video:
            expected = [video.detect_for_video(each, time) for each, time in zip(textures, times, strict=True)]
        with landmarker(kind, Mode.LIVE_STREAM, result_callback=heard) as live:
            live.detect_async(textures[0], times[0])
            live.detect_async(textures[1], times[1])
            fb.transfers.reset()
            with fb.transfer_guard("disallow", exempt=("detections",)):
                live.detect_async(textures[2], times[1] + 33)
            copied = fb.transfers.by_reason["download", "detections"]
            assert (copied.calls, copied.bytes) == (1, ROWS[kind])
            assert [call[1:] for call in heard.calls] == [*zip(textures[:2], times[:2], strict=True)], "one frame late"
        assert len(heard.calls) == 3, "close gives the last one"
        assert heard.threads == {threading.get_ident()}
        heard.calls.clear()
        with landmarker(kind, Mode.LIVE_STREAM, result_callback=heard) as live:
            for texture, time in zip(textures, times, strict=True):
                live.detect_async(texture, time)
        assert [call[0] for call in heard.calls] == expected


def test_rows_that_nobody_took_are_not_those_of_the_next_frame() -> None:
    with BY_NAME["gl"].open_context(), landmarker("Hand", Mode.VIDEO) as whole, landmarker("Hand", Mode.VIDEO) as other:
        texture = fb.GlTexture.from_array(PICTURES[0])
        expected = [whole.detect_for_video(texture, time) for time in (33, 66, 99, 132)]
        tracker = other._pipeline.on_gpu
        for time in (33, 66):
            tracker.submit(gpu_picture(texture), time)
        assert other.detect_for_video(texture, 99) == expected[2] != expected[1]
        assert other.detect_for_video(texture, 132) == expected[3]


def test_masks_are_those_that_were_bound_for_the_frame() -> None:
    heard = Heard()
    with BY_NAME["gl"].open_context():
        texture, masks = fb.GlTexture.from_array(PICTURES[0]), [fb.GlTexture(64, 48, "r32f") for _ in range(2)]
        given = {"output_segmentation_masks": True, "result_callback": heard}
        with landmarker("Pose", Mode.LIVE_STREAM, **given) as task:
            with pytest.raises(ValueError, match=r"give 1 of 64x48 pixels to bind_masks"):
                task.detect_async(texture, 1)
            for time in (2, 3, 4):
                task.bind_masks([masks[time % 2]])
                task.detect_async(texture, time)
    found = [(call[2], call[0].segmentation_masks) for call in heard.calls]
    assert found == [(time, [masks[time % 2]]) for time in (2, 3, 4)]


def test_what_fails_does_not_end_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    heard, failing = Heard(), [33]

    def callback(result: Any, image: Any, milliseconds: int) -> None:
        heard(result, image, milliseconds)
        assert milliseconds not in failing, "a mistake in the callback"

    raised = list[Exception]()

    def elsewhere(task: Any, texture: Any) -> None:
        try:
            task.detect_async(texture, 70)
        except fb.DeviceError as error:
            raised.append(error)

    with BY_NAME["gl"].open_context():
        texture = fb.GlTexture.from_array(PICTURES[0])
        with landmarker("Hand", Mode.LIVE_STREAM, result_callback=callback) as task:
            task.detect_async(texture, 33)
            with caplog.at_level(logging.ERROR):
                task.detect_async(texture, 66)
            assert "HandLandmarker: the frame at 33 ms failed" in caplog.text
            thread = threading.Thread(target=elsewhere, args=(task, texture))
            thread.start()
            thread.join()
            assert "call from that thread" in str(raised[0])
            with pytest.raises(ValueError, match="Input timestamp must be monotonically increasing"):
                task.detect_async(texture, 66)
            task.detect_async(texture, 99)
            task.detect_async(mp.Image(image_format=mp.ImageFormat.SRGB, data=PICTURES[0][..., :3]), 120)
        assert sorted(call[2] for call in heard.calls) == [33, 66, 99, 120]
        with pytest.raises(ValueError, match="this HandLandmarker is closed"):
            task.detect_async(texture, 200)


def test_no_frame_waits_on_cuda_but_for_the_rows_of_the_one_before(recorder: RecordingDriver) -> None:
    heard = Heard()
    with fb.cuda.CudaContext():
        pictures = [fb.cuda.CudaImage.from_array(each) for each in PICTURES[:2]]
        with landmarker("Hand", Mode.LIVE_STREAM, result_callback=heard) as task:
            for time, picture in enumerate([*pictures, *pictures], 1):
                task.detect_async(picture, time)
            recorder.calls.clear()
            task.detect_async(pictures[0], 5)
            names = [name for name in recorder.names() if not name.startswith("cuCtx")]
            assert names == ["cuEventSynchronize", *["cuGraphLaunch"] * 2, "cuMemcpyDtoHAsync_v2", "cuEventRecord"]
        assert [call[2] for call in heard.calls] == [1, 2, 3, 4, 5] and not recorder.pinned
