"""Demos as a person uses them: windows on a screen of their own, real key presses, what is then on screen and disk."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from framebind.tools.player.hud import ACCENT, GROUND, bar_height, line_height, with_bar
from framebind.video.models import BUNDLED
from framebind.video.tasks.classify import BAR, DIM
from framebind.video.vision.captions import text_height
from support import live_demo
from support.demo_models import color_classifier, object_model
from support.screen import WAIT_SECONDS, Picture, Program, Screen
from support.tiny_models import chain

LIVE_DEMO = live_demo.__file__
GREEN, RED = 1, 0


@pytest.fixture
def screen(tmp_path: Path, tool: Callable[[str], str]) -> Iterator[Screen]:
    for name in ("xvfb-run", "xdotool"):
        tool(name)  # skips, or fails if it is promised
    (tmp_path / "screen").mkdir()
    with Screen(tmp_path / "screen") as screen:
        yield screen


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """A picture, dark on the left and bright on the right."""
    picture = np.full((48, 64, 3), 60, np.uint8)
    picture[:, 32:] = 200
    path = tmp_path / "halves.png"
    cv2.imwrite(str(path), picture)
    return path


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    path = tmp_path / "identity.tflite"
    path.write_bytes(chain("ABS", shape=(1, 48, 64, 3)))
    return path


def files(folder: Path, suffix: str) -> list[Path]:
    """The complete files that keys made."""
    return sorted(path for path in folder.glob(f"framebind-*{suffix}") if ".unfinished." not in path.name)


def unfinished(folder: Path, least: int = 0) -> list[Path]:
    """The recordings that go on and have at least so many bytes."""
    return [path for path in folder.glob("*.unfinished.*") if path.stat().st_size >= least]


def frames_of(video: Path) -> list[Picture]:
    """All frames of a video that plays."""
    capture = cv2.VideoCapture(str(video))
    frames: list[Picture] = []
    while (found := capture.read())[0]:
        frames.append(found[1])
    return frames


def bar(screen: Screen) -> int:
    """Height in pixels of the bar with the figures."""
    ground = np.rint(np.array(GROUND) * 255)
    return int((np.abs(screen.picture()[:, 1] - ground).max(axis=-1) <= 1).sum())


def screenshot(program: Program, folder: Path) -> Picture:
    """Press s; the picture that was saved."""
    before = len(files(folder, ".png"))
    program.press("s")
    program.until(lambda: len(files(folder, ".png")) > before, "screenshot")
    (picture,) = program.until(lambda: readable(files(folder, ".png")[-1]), "readable screenshot")
    return picture[..., ::-1]


def readable(path: Path) -> list[Picture]:
    """The picture, once all of it is written."""
    picture = cv2.imread(str(path)) if path.stat().st_size else None
    return [] if picture is None else [picture]


def test_keys_do_what_the_help_line_says(screen: Screen, tmp_path: Path, identity: Path, halves: Path) -> None:
    command = (sys.executable, LIVE_DEMO, "--model", identity, "--source", halves, "--window")
    with screen.run(*command, "--record", "all.avi", cwd=tmp_path) as program:

        def pixel(x: int, y: int) -> list[int]:
            return screen.picture()[y, x].tolist()

        program.until(lambda: pixel(10, 24) == [60] * 3 and pixel(50, 24) == [200] * 3, "picture")
        assert pixel(2, 2) == [0, 255, 0], "the demo's overlay"
        assert pixel(100, 24) == [0] * 3, "beside the window"
        program.press("m")
        program.until(lambda: pixel(10, 24) == [200] * 3 and pixel(50, 24) == [60] * 3, "mirrored picture")
        program.press("2")
        program.until(lambda: pixel(10, 24) == [200, 0, 0], "second choice")
        program.press("1")
        program.until(lambda: pixel(10, 24) == [200] * 3, "first choice")
        program.press("9", "x")  # nothing
        program.press("c")
        plain = screenshot(program, tmp_path)
        assert plain.shape == (48, 64, 3) and plain[24, 10].tolist() == [200] * 3
        program.press("c")
        program.press("i")  # without the figures the picture fills the window
        program.resize(720, 540)
        program.until(lambda: pixel(180, 360) == [200] * 3 and pixel(540, 360) == [60] * 3, "larger picture")
        program.press("i")
        program.until(lambda: bar(screen) >= 3 * 17, "figures")

        def names_of_keys() -> int:
            """Pixels in their colour."""
            return int((np.abs(screen.picture() - np.rint(np.array(ACCENT) * 255)).max(axis=-1) <= 3).sum())

        few, many = range(1, 140), range(180, 1000)
        program.until(lambda: names_of_keys() in few, "variants, and no note of the screenshot any more")
        program.press("question")
        program.until(lambda: names_of_keys() in many, "keys")
        assert pixel(300, 539 - bar(screen)) == [200] * 3, "the picture ends where the bar begins"
        program.press("h")
        program.until(lambda: names_of_keys() in few, "figures without keys")
        program.press("f")
        program.until(lambda: pixel(690, 200) == [60] * 3, "full screen")
        program.press("f")
        program.until(lambda: pixel(690, 200) == [0] * 3, "window again")
        program.press("r")
        program.until(lambda: len(unfinished(tmp_path)) == 2, "recording beside --record's")
        screenshot(program, tmp_path)
        program.press("r")
        (video,) = program.until(lambda: files(tmp_path, ".mp4"), "finished recording")
        program.press("q")
        code, output = program.wait()
    assert code == 0 and "Traceback" not in output
    assert "frames after the first" in output
    assert sorted(re.findall(r"wrote (\S+)", output)) == sorted(
        path.name for path in (*tmp_path.glob("*.avi"), *tmp_path.glob("framebind-*"))
    )
    everything = frames_of(tmp_path / "all.avi")
    assert everything[0].shape == (48, 64, 3) and len(everything) > len(frames_of(video))


@pytest.mark.parametrize("dots_per_inch", [96, 192])
def test_on_a_dense_display_window_and_text_have_more_pixels(
    tmp_path: Path, tool: Callable[[str], str], identity: Path, halves: Path, dots_per_inch: int
) -> None:
    for name in ("xvfb-run", "xdotool"):
        tool(name)
    command = (sys.executable, LIVE_DEMO, "--model", identity, "--source", halves, "--window")
    scale = dots_per_inch // 96
    with Screen(tmp_path, dots_per_inch) as screen, screen.run(*command, cwd=tmp_path) as program:

        def right_edge() -> int:
            """The right end of the picture's bright half, in pixels of the screen."""
            return int(np.flatnonzero((screen.picture()[24 * scale] == 200).all(axis=-1)).max(initial=0)) + 1

        program.until(lambda: right_edge() == 64 * scale, "window")
        program.press("i")  # without the figures the picture fills the window
        program.resize(800, 600)
        program.until(lambda: right_edge() == 800, "larger picture")
        program.press("i")
        heights = [bar_height(lines, line_height((800, 600), scale)) for lines in range(3, 9)]
        program.until(lambda: bar(screen) in heights, f"bar of one of {heights} pixels")
        program.press("q")
        assert program.wait()[0] == 0


def test_pausing_holds_the_picture_and_what_is_recorded(screen: Screen, tmp_path: Path, identity: Path) -> None:
    command = (sys.executable, LIVE_DEMO, "--model", identity, "--size", "64x48", "--no-vsync", "--window")
    with screen.run(*command, "--output", "a.avi", "--profile", "trace.json", cwd=tmp_path) as program:
        program.press("space")
        still = screenshot(program, tmp_path)
        assert (screenshot(program, tmp_path) == still).all()
        program.press("c")
        copied = screenshot(program, tmp_path)
        assert np.abs(copied.astype(int) - still).max() <= 1, "the copying mode draws the same"
        program.press("c", "space")
        program.until(lambda: (screenshot(program, tmp_path) != still).any(), "motion")
        program.press("Escape")
        code, output = program.wait()
    assert code == 0 and "Traceback" not in output
    bound, _, copying = output.partition("copying mode: ")
    assert "without copies: " in bound and "nothing else" in bound
    assert re.search(r" [1-9][\d,]* bytes for the model", copying), "the summary says what each mode copies"
    frames = frames_of(tmp_path / "a.avi")
    same = [bool((a == b).all()) for a, b in itertools.pairwise(frames)]
    assert len(frames) > 1 and not any(same), "no frame was recorded twice"
    events = json.loads((tmp_path / "trace.json").read_text())
    names = {event["name"] for event in events if event.get("tid") == 2}
    assert names == {"thread_name", "upload", "draw", "copy", "inference", "record", "show"}


def test_a_window_closed_while_recording_leaves_a_recording_that_plays(
    screen: Screen, tmp_path: Path, identity: Path
) -> None:
    command = (sys.executable, LIVE_DEMO, "--model", identity, "--size", "64x48")
    with screen.run(*command, cwd=tmp_path) as program:
        program.press("r")
        program.until(lambda: unfinished(tmp_path), "recording")
        screenshot(program, tmp_path)
        program.click_close()
        code, output = program.wait()
    assert code == 0 and "Traceback" not in output
    assert len(frames_of(files(tmp_path, ".mp4")[0])) > 1


def test_a_recording_of_a_slow_gpu_lasts_as_long_as_it_took(screen: Screen, tmp_path: Path) -> None:
    """The model takes a software GPU a good part of a second for each frame."""
    command = (sys.executable, "-m", "framebind", "demo", "style_transfer", "--size", "512x384", "--window")
    with screen.run(*command, cwd=tmp_path) as program:
        began = time.monotonic()
        program.press("r")
        program.until(lambda: unfinished(tmp_path), "recording")
        time.sleep(3)
        program.press("r")
        (video,) = program.until(lambda: files(tmp_path, ".mp4"), "finished recording")
        took = time.monotonic() - began
        program.press("q")
        assert program.wait()[0] == 0
    with av.open(str(video)) as container:
        assert container.duration is not None
        stream, seconds = container.streams.video[0], container.duration / 1e6
        assert (stream.codec_context.name, stream.codec_context.format.name) == ("h264", "yuv420p"), "browsers play it"
    assert 2.5 < seconds < took, f"{seconds} s, of {took} s from the first key to the file"


def test_files_that_cannot_be_written_are_said_and_the_demo_goes_on(
    screen: Screen, identity: Path, halves: Path
) -> None:
    nowhere = Path("/proc")  # where not even root makes files
    command = (sys.executable, LIVE_DEMO, "--model", identity, "--source", halves, "--window")
    with screen.run(*command, cwd=nowhere) as program:
        program.press("i")
        program.until(lambda: screen.picture()[30, 1].tolist() == [60] * 3 and not bar(screen), "picture")
        for key in ("s", "r"):
            program.press(key)
            program.until(lambda: bar(screen), "message")
            program.until(lambda: not bar(screen), "picture without the message")
        program.press("q")
        code, output = program.wait()
    assert code == 0 and "Traceback" not in output


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, None], ids=["ctrl c", "kill", "closed terminal"])
def test_a_signal_ends_a_recording_that_plays(tmp_path: Path, identity: Path, sent: signal.Signals | None) -> None:
    command = [sys.executable, LIVE_DEMO, "--model", identity, "--headless", "--record", "a.avi"]
    environment = {**os.environ, "EGL_PLATFORM": "surfaceless"}
    terminal, stderr = os.openpty()
    program = subprocess.Popen(
        [*command, "--size", "64x48", "--frames", "100000"], cwd=tmp_path, env=environment, stderr=stderr,
        preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0), start_new_session=True,
    )  # fmt: skip
    os.close(stderr)
    output, closing = bytearray(), threading.Event()

    def read() -> None:
        with contextlib.suppress(OSError):  # EIO at the end on Linux
            while not closing.is_set() and (text := os.read(terminal, 4096)):
                output.extend(text)

    reader = threading.Thread(target=read)
    reader.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while not unfinished(tmp_path, 20_000):
        assert program.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    if sent is None:
        closing.set()  # the progress bar's next text lets the reader go
        reader.join()
        os.close(terminal)
    else:
        program.send_signal(sent)
    assert program.wait(60) == 0
    if sent is not None:
        reader.join()
        os.close(terminal)
        assert b"Traceback" not in output and b"frames after the first" in output
    assert len(frames_of(tmp_path / "a.avi")) > 3 and not unfinished(tmp_path)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("style_transfer", "style_transfer"), ("segmentation", "selfie_segmentation"),
        ("segmentation", "deeplabv3_257_mv_gpu"), ("classification", "colors.tflite"),
        ("detection", "face_detection_front"), ("detection", "objects.tflite"), ("face", "face_landmarker"),
    ],
)  # fmt: skip
def test_each_demo_shows_moving_frames_and_answers_keys(
    screen: Screen, tmp_path: Path, model_path: Callable[[str], Path], name: str, model: str
) -> None:
    if model == "colors.tflite":
        (tmp_path / model).write_bytes(color_classifier())
    elif model == "objects.tflite":
        object_model(tmp_path / model, logits=False)
    elif model not in BUNDLED:
        model_path(model)  # skips if there are no models
    command = (sys.executable, "-m", "framebind", "demo", name, "--model", model, "--size", "160x120")
    with screen.run(*command, cwd=tmp_path) as program:
        program.press("i")
        program.until(lambda: screen.picture()[:150, :160].std() > 20, "picture")
        first = screen.picture()[:150, :160]
        program.until(lambda: np.abs(screen.picture()[:150, :160].astype(int) - first).mean() > 2, "motion")
        bound = screenshot(program, tmp_path)
        assert bound.std() > 20
        program.press("space", "c")  # test_copying.py compares the pictures of these modes
        screenshot(program, tmp_path)
        program.press("p")
        on_cpu = screenshot(program, tmp_path)
        assert on_cpu.std() > 20
        program.press("q")
        code, output = program.wait()
    assert code == 0 and "Traceback" not in output
    assert "bytes of the source" in output and "copying mode: " in output and "on the CPU: " in output


def test_the_likeliest_classes_are_drawn_over_moving_frames(screen: Screen, tmp_path: Path) -> None:
    (tmp_path / "colors.tflite").write_bytes(color_classifier())
    command = (sys.executable, "-m", "framebind", "demo", "classification", "--model", "colors.tflite")
    with screen.run(*command, "--size", "240x200", cwd=tmp_path) as program:
        program.press("i")
        top, height = (with_bar((240, 200))[1] - 200) // 2, text_height((240, 200))
        line, margin = height + height // 4, height // 2

        def bars() -> list[int]:
            """Lengths in pixels of the bars of the five lines, from the likeliest on."""
            rows = [screen.picture()[top + round(margin * 1.5 + line * (number + 0.5))] for number in range(5)]
            ends = range(2 * margin, 2 * margin + 4 * height)
            colors = [
                np.abs(row[ends] - np.array(color) * 255) for row, color in zip(rows, (BAR, *[DIM] * 4), strict=True)
            ]
            return [int((each.max(axis=-1) < 6).sum()) for each in colors]

        program.until(lambda: (found := bars())[0] > 10 and found == sorted(found, reverse=True), "bars")
        first = screen.picture()[:100, :240]
        program.until(lambda: np.abs(screen.picture()[:100, :240].astype(int) - first).mean() > 2, "motion")
        program.press("q")
        code, output = program.wait()
    assert code == 0 and "Traceback" not in output and "24 bytes of results, nothing else" in output


def test_keys_switch_between_effects(screen: Screen, tmp_path: Path, model_path: Callable[[str], Path]) -> None:
    model = model_path("selfie_segmentation")
    command = (sys.executable, "-m", "framebind", "demo", "segmentation", "--model", model, "--size", "160x120")
    with screen.run(*command, "--background", "#00ff00", cwd=tmp_path) as program:
        program.press("i")

        def green() -> float:
            return float((screen.picture()[:120, :160] == [0, 255, 0]).all(axis=-1).mean())

        program.until(lambda: green() > 0.1, "background in green")
        program.press("2")
        program.until(lambda: green() == 0 and screen.picture()[:120, :160].std() > 20, "background blurred")
        program.press("1")
        program.until(lambda: green() > 0.1, "background in green again")
        program.press("q")
        code, output = program.wait()
    assert code == 0 and "Traceback" not in output
