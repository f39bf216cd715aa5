"""The copying mode against the bound one, and against what it says it copies; the figures and the lines on screen."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
import typer

import framebind as fb
from framebind.interop.frames.read.worker import Waits
from framebind.tools.player import run as runner
from framebind.tools.player.figures import Figures
from framebind.tools.player.hud import BRIGHT, bar_height, draw_bar, flow, line_height, with_bar
from framebind.tools.player.keys import KEYS, LEGEND
from framebind.tools.player.options import Options
from framebind.tools.player.report import Report
from framebind.tools.player.run import run
from framebind.video.network import Mode, Network
from framebind.video.sampling import resample
from framebind.video.task import Drawing, Scene
from framebind.video.tasks import find_task
from support.environment import absent
from support.recording_driver import RecordingDriver
from support.tiny_models import chain
from support.webcam import Webcam

ModelPath = Callable[[str], Path]
FLOAT = 4

pytestmark = [pytest.mark.usefixtures("context"), pytest.mark.parametrize("context", ["gl"], indirect=True)]


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    path = tmp_path / "identity.tflite"
    path.write_bytes(chain("ABS", shape=(1, 24, 40, 3)))
    return path


def test_what_runs_the_model_has_a_name_on_cuda(identity: Path, recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        network = Network(identity, fb.GpuDelegateOptions(backend="cuda"), fb.GlTimer())
        network._interpreter.allocate_tensors()
        network.run()
        assert network.runs_on == "on the GPU (CUDA)"


def network_of(path: Path) -> Network:
    return Network(path, fb.GpuDelegateOptions(backend="opengl"), fb.GlTimer())


@pytest.mark.parametrize(
    "place",
    [
        {}, {"mean": 0.5, "std": 0.25}, {"mean": (0.1, 0.2, 0.3), "std": (0.5, 0.6, 0.7)}, {"rotation": 90.0},
        {"crop": (10.0, 5.0, 30.5, 20.25)}, {"crop": (-9, -5, 80, 60), "std": (0.5, 0.6, 0.7), "pad": 114 / 255},
        {"crop": (-8.0, 3.0, 60.0, 50.0), "rotation": 33.0, "mean": 0.5},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("size", [(57, 43), (40, 24), (20, 12)])
def test_numpy_samples_as_the_gpu_does(identity: Path, size: tuple[int, int], place: dict[str, Any]) -> None:
    random = np.random.default_rng(3)
    frame = fb.GlTexture.from_array(random.integers(0, 256, (size[1], size[0], 4), np.uint8))
    network, results = network_of(identity), []
    ((image, _),), ((output, _),) = network.inputs.items(), network.outputs.items()
    buffer = fb.GlBuffer(24 * 40 * 3 * FLOAT)
    network.bind(output, buffer)
    network.bind(image, frame, **place)
    modes: tuple[Mode, ...] = ("gpu", "copying", "cpu")
    for mode in modes:
        network.mode = mode
        network.run()
        results.append(buffer.read())
        buffer.write(np.zeros(24 * 40 * 3, np.float32))
    assert results[0].std() > 0.1
    # A GPU's sampler rounds each weight to 1/256, so it is off by 1/512 across and down; a CPU's is as exact as NumPy.
    step = 0 if fb.GlContext.current().software else 2 / 512 / np.min(place.get("std", 1.0))
    np.testing.assert_allclose(results[1], results[0], atol=2e-5 + step)
    np.testing.assert_array_equal(results[2], results[1], "LiteRT's CPU interpreter")


def test_halving_a_picture_takes_means_of_four() -> None:
    texels = np.arange(4 * 6 * 2, dtype=np.float32).reshape(4, 6, 2)
    means = texels.reshape(2, 2, 3, 2, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(resample(texels, (2, 3)), means)
    np.testing.assert_array_equal(resample(texels, (4, 6)), texels)


def pictures(prepare: Callable[[Scene], Drawing], options: Options, folder: Path) -> list[npt.NDArray[np.int64]]:
    """The last picture in the bound and in the copying mode."""
    found: list[npt.NDArray[np.int64]] = []
    for copying in (False, True):
        path = folder / f"{copying}.png"
        report = run(prepare, replace(options, output=[path], copying=copying))
        assert bool(report.copied) is copying
        found.append(load(path))
    return found


def load(path: Path) -> npt.NDArray[np.int64]:
    picture = cv2.imread(str(path))
    assert picture is not None and picture.std() > 20
    return picture.astype(np.int64)


def test_style_transfer_copied_is_style_transfer_bound(tmp_path: Path) -> None:
    options = Options("style_transfer", "synthetic", frames=2, size="200x120")
    bound, copied = pictures(find_task("style").prepare, options, tmp_path)
    assert np.abs(bound - copied).max() <= 1


@pytest.mark.parametrize("name", ["selfie_segmentation", "deeplabv3_257_mv_gpu"])
def test_segmentation_copied_is_segmentation_bound(tmp_path: Path, model_path: ModelPath, name: str) -> None:
    options = Options(str(model_path(name)), "synthetic", frames=3, size="200x120")
    bound, copied = pictures(find_task("segment").prepare, options, tmp_path)
    assert np.abs(bound - copied).max() <= 1


def test_on_opencl_the_same_is_drawn_without_copies(tmp_path: Path) -> None:
    try:
        fb.cl.ClContext("pocl").close()
    except fb.DeviceError as error:
        absent("cl:pocl", str(error))
    found: list[npt.NDArray[np.int64]] = []
    for backend in ("opengl", "opencl"):
        path = tmp_path / f"{backend}.png"
        options = Options("style_transfer", "synthetic", [path], frames=2, size="200x120", backend=backend)
        with fb.cl.ClContext("pocl") if backend == "opencl" else nullcontext():
            report = run(find_task("style").prepare, options)
        assert report.copied == 0 and report.uploaded == 200 * 120 * 3
        found.append(load(path))
    assert np.abs(found[0] - found[1]).max() <= 1


def test_what_is_detected_copied_is_what_is_detected_bound(tmp_path: Path, model_path: ModelPath) -> None:
    options = Options(str(model_path("face_detection_front")), "synthetic", frames=2, size="240x200")
    bound, copied = pictures(find_task("detect").prepare, options, tmp_path)
    assert np.abs(bound - copied).max() <= 1


def test_the_copying_mode_counts_all_that_it_copies(identity: Path) -> None:
    prepare: Callable[[Scene], Drawing] = plain
    report = run(prepare, Options(str(identity), "synthetic", frames=4, size="64x32", copying=True, headless=True))
    frame, tensor, texture = 64 * 32 * 4, 24 * 40 * 3 * FLOAT, 24 * 40 * 4
    assert (report.frames, report.uploaded, report.recorded) == (3, 3 * 64 * 32 * 3, 0)
    # read the frame, set the input, get the output, write the texture
    assert report.copied == 3 * (frame + tensor + tensor + texture)
    assert f"{frame + 2 * tensor + texture:,} bytes for the model." in str(report)
    report = run(prepare, Options(str(identity), "synthetic", frames=4, size="64x32", headless=True))
    assert (report.uploaded, report.copied) == (3 * 64 * 32 * 3, 0)


def test_the_summary_tells_the_modes_apart() -> None:
    bytes_of = {"source": 300, "recording": 0, "camera": 0, "results": 0, "else": 0}
    report, copying = Report(), Report()
    report.add(2, 0.1, bytes_of)
    report.add(1, 0.05, {**bytes_of, "source": 150})
    copying.add(1, 0.2, {**bytes_of, "else": 7000})
    report.others = {"copying": copying, "cpu": copying}
    assert str(report).split("\n") == [
        "without copies: 3 frames after the first: 20.0 per second, 50.0 ms each.",
        "Copied per frame: 150 bytes of the source, nothing else.",
        "copying mode: 1 frame after the first: 5.0 per second, 200.0 ms each.",
        "Copied per frame: 300 bytes of the source, 7,000 bytes for the model.",
        "on the CPU: 1 frame after the first: 5.0 per second, 200.0 ms each.",
        "Copied per frame: 300 bytes of the source, 7,000 bytes for the model.",
    ]


def plain(scene: Scene) -> Drawing:
    """Shows what the model gives, without any change."""
    network = scene.network
    ((image, _),), ((output, (_, height, width, _)),) = network.inputs.items(), network.outputs.items()
    shown = fb.GlTexture(width, height)
    network.bind(output, shown)
    show = fb.FragmentProgram("uniform sampler2D shown;\nvoid main() { color = texture(shown, uv); }")

    def draw(frame: fb.GlTexture) -> None:
        network.bind(image, frame)
        network.run()
        show.draw(scene.picture, {"shown": shown})

    return Drawing(draw)


# What is on screen ----------------------------------------------------------------------------------------------------


def test_the_figures_say_bytes_stages_and_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = fb.GlTimer()
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    fb.transfers.reset()
    figures = Figures(timer, runs_on=lambda: "on the GPU (OpenGL)", clock="gpu")
    for number in range(10):
        now[0] += 0.05
        fb.transfers.count("upload", 3000, "camera frame")
        fb.transfers.count("download", 500, "copying mode")
        end = int((now[0] - 0.02) * 1e9)  # of the frame four before
        stage = fb.StageTime("inference", (end - 9_000_000, end), (end - 7_000_000, end))
        figures.add([stage] if number >= timer.depth else [], now[0] - 0.03)
    assert figures.text[0] == "20.0 frames per second. The model takes 7.0 ms on the GPU (OpenGL)."
    assert figures.text[1] == "Copied per frame: 3,000 bytes of the source, 500 bytes for the model."
    # Taken 0.03 s before its own frame ended, four frames of 0.05 s ago; done 0.02 s ago.
    assert figures.text[2] == f"{1000 * (0.05 * timer.depth + 0.03 - 0.02):.0f} ms from camera to screen."
    on_cpu = Figures(timer, runs_on=lambda: "on the CPU", clock="cpu")
    for _ in range(5):
        now[0] += 0.06
        on_cpu.add([fb.StageTime("copy", (0, 500_000), (0, 1)), stage], None)
    assert on_cpu.text[0] == "16.7 frames per second. The model takes 9.0 ms on the CPU, copying 0.50 ms."


@pytest.mark.parametrize("size", [(200, 150), (640, 538), (1280, 720), (1920, 1080)])
def test_the_bar_holds_all_lines_in_windows_of_any_size(size: tuple[int, int]) -> None:
    overlay = fb.video.Overlay()
    picture = fb.GlTexture(*size, "rgba8", np.full((size[1], size[0], 4), 255, np.uint8))
    height = line_height(size, 1.0)
    paragraphs = [[(("one sentence of many words. " * 5, BRIGHT),)], LEGEND]
    lines = flow(overlay, paragraphs, size[0] - height, height)
    words = " ".join(text for line in lines for _, (text, _) in line).split()
    for key in KEYS:
        assert key.names[0] in words and set(key.label.split()) <= set(words), "nothing is left out"
    for line in lines:
        ends = [x + overlay.text_width(text, height) for x, (text, _) in line]
        assert all(end <= x for end, (x, _) in zip(ends, line[1:], strict=False)), "no text lies over another"
        assert ends[-1] <= size[0] - height / 2, "and none is cut off"
    tall = bar_height(len(lines), height)
    draw_bar(overlay, size, lines, tall=tall, height=height)
    overlay.draw(picture)
    texels = picture.read()[..., 0]
    top = max(size[1] - tall, 0)
    assert (texels[:top] == 255).all(), "the bar covers nothing above it"
    assert (texels[top:] < 80).mean() > 0.7 and (texels[top:, -height // 4 :] < 80).all()


@pytest.mark.parametrize("size", [(64, 48), (640, 480), (1280, 720), (1920, 1080)])
def test_a_window_has_room_for_the_picture_and_the_bar(size: tuple[int, int]) -> None:
    width, height = with_bar(size)
    assert width == size[0]
    for scale in (1, 2, 3):
        pixels = (width * scale, height * scale)
        room = pixels[1] - bar_height(3, line_height(pixels, scale))
        assert 0 <= room - size[1] * scale <= 3, "each pixel is shown as so many"


# Sources that fail in the middle --------------------------------------------------------------------------------------


def frames_of(video: Path) -> int:
    capture, count = cv2.VideoCapture(str(video)), 0
    while capture.read()[0]:
        count += 1
    return count


def main(
    identity: Path,
    capsys: pytest.CaptureFixture[str],
    prepare: Callable[[Scene], Drawing] = plain,
    **options: Any,
) -> tuple[int, str]:
    """Run a demo as a program: exit code and what it prints."""
    try:
        runner.main(prepare, Options(str(identity), headless=True, **options))
    except typer.Exit as ended:
        return ended.exit_code, " ".join(capsys.readouterr().err.split())
    return 0, " ".join(capsys.readouterr().err.split())


def test_a_camera_unplugged_while_recording(
    identity: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capture, webcam = cv2.VideoCapture, Webcam()

    def unplugged(number: int) -> Any:
        webcam.plugged = number < 8
        return np.full((32, 48, 3), 10 * number, np.uint8)

    webcam.frame, webcam.delay = unplugged, 0.01
    monkeypatch.setattr(cv2, "VideoCapture", webcam.capture)
    monkeypatch.setattr(fb.video.Source, "waits", Waits(silence=0.1, lost=0.5, retry=0.05))
    video = tmp_path / "a.avi"
    code, output = main(identity, capsys, source="0", frames=1000, output=[video])
    assert code == 1 and "SourceError: camera 0 (48x32 MJPG, 25 fps) gave no frame for" in output
    assert "Traceback" not in output
    monkeypatch.setattr(cv2, "VideoCapture", capture)
    assert frames_of(video) > 3


def test_a_damaged_video_while_recording(
    identity: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], photograph: Callable[..., Any]
) -> None:
    path, video = tmp_path / "damaged.avi", tmp_path / "a.mp4"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 25, (64, 48))
    for _ in range(12):
        writer.write(photograph("astronaut", 64, 48))
    writer.release()
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    path.write_bytes(data)
    code, output = main(identity, capsys, source=str(path), output=[video])
    assert code == 1 and "is damaged:" in output and "Get the file again" in output
    assert f"wrote {video}" in output
    assert 3 < frames_of(video) < 9


def test_a_file_that_no_picture_went_to_is_not_left_there(
    identity: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("a.avi", "b.mp4", "c.png", "before.png")]
    files[-1].write_bytes(b"of an earlier run")

    def fails_at_once(scene: Scene) -> Drawing:
        def draw(frame: fb.GlTexture) -> None:
            raise fb.SourceError("nothing to draw")

        return Drawing(draw)

    code, output = main(identity, capsys, fails_at_once, frames=3, output=files)
    assert code == 1 and "nothing to draw" in output and "wrote" not in output
    assert [file.name for file in files if file.exists()] == ["before.png"]
