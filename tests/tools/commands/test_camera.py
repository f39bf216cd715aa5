"""``framebind camera``: an effect on a source, shown to a viewer of PipeWire; idle while there is none."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import app
from framebind.interop.frames.virtual_cameras.camera import FrameLayout
from framebind.tools.commands.camera import GREEN
from framebind.video.vision.effects import color_of
from support.demo_models import brightness
from support.pipewire import Daemon, Seen, Viewer, until
from support.webcam import Webcam

SIZE = (64, 48)
CAMERA = "framebind.Seen"


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["camera", *map(str, arguments)], catch_exceptions=False)


def end_after_three(viewer: Viewer) -> None:
    """End the command as Ctrl-C does when the viewer has three frames."""
    until(lambda: len(viewer.seen) >= 3, "3 frames")
    os.kill(os.getpid(), signal.SIGINT)


class Show(NamedTuple):
    """A run of the command: frames of a viewer that came late, whether one was uploaded before, and what it printed."""

    seen: list[Seen]
    was_copied_before: bool
    printed: str


def shown(pipewire: Daemon, *arguments: object) -> Show:
    """Run the command until a viewer, which comes later, has got three frames."""
    copies = list[bool]()
    with Viewer(pipewire, "nv12", SIZE) as viewer:

        def look() -> None:
            until(lambda: pipewire.ports(CAMERA, "-o"), "camera")
            time.sleep(0.2)
            copies.append(("upload", fb.transfers.CAMERA_FRAME) in fb.transfers.by_reason)
            viewer.watch(CAMERA)
            end_after_three(viewer)

        fb.transfers.reset()
        looking = threading.Thread(target=look)
        looking.start()
        result = run("--to", "pipewire:Seen", *arguments)
        looking.join()
        assert result.exit_code == 0, result.output
        return Show(viewer.seen, copies[0], re.sub(r"\s+", " ", result.output))


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """A picture that is black on the left and white on the right."""
    picture = np.zeros((*SIZE[::-1], 3), np.uint8)
    picture[:, SIZE[0] // 2 :] = 255
    cv2.imwrite(str(tmp_path / "halves.png"), picture)
    return tmp_path / "halves.png"


@pytest.fixture
def mask_model(tmp_path: Path) -> Path:
    """A model for which white is a person."""
    (tmp_path / "mask.tflite").write_bytes(brightness(1))
    return tmp_path / "mask.tflite"


def ends(seen: Seen) -> tuple[int, int]:
    """Luma at the left and at the right edge of a frame."""
    rows = seen.frame.reshape(-1, FrameLayout("nv12", SIZE).stride)
    return int(rows[24, 0]), int(rows[24, SIZE[0] - 1])


@pytest.mark.parametrize("effect", ["background", "matte"])
def test_a_program_sees_people_before_another_background(
    pipewire: Daemon, halves: Path, mask_model: Path, effect: str
) -> None:
    given = ("--background", "#800000") if effect == "background" else ()
    colour = "#800000" if given else GREEN
    show = shown(pipewire, "--effect", effect, *given, "--model", mask_model, halves)
    luma = round(FrameLayout("nv12", SIZE).colours.numbers(*color_of(colour))[0])
    left, right = ends(show.seen[-1])
    assert abs(left - luma) <= 1 and right == 235
    assert not show.was_copied_before, "no frame is taken before somebody looks"
    assert "the camera 'Seen' of pipewire is there for other programs" in show.printed
    assert f"{SIZE[0] * SIZE[1] * 3 // 2:,} bytes of the virtual camera, nothing else" in show.printed


def test_without_an_effect_no_model_is_needed(pipewire: Daemon, halves: Path) -> None:
    show = shown(pipewire, "--effect", "none", halves)
    assert {ends(seen) for seen in show.seen} == {(16, 235)}


def test_a_webcam_is_open_while_somebody_looks(pipewire: Daemon, webcam: Webcam) -> None:
    with Viewer(pipewire, "nv12", webcam.size, fps=25) as viewer:

        def look() -> None:
            until(lambda: pipewire.ports(CAMERA, "-o") and not webcam.used, "end of the webcam's use")
            viewer.watch(CAMERA)
            end_after_three(viewer)

        looking = threading.Thread(target=look)
        looking.start()
        result = run("--effect", "none", "--to", "pipewire:Seen", "--mirror", 0)
        looking.join()
        assert result.exit_code == 0, result.output
    assert webcam.opened == 2 and not webcam.used, "once for its size, and once for the viewer"


def test_the_places_are_listed(pipewire: Daemon) -> None:
    assert "pipewire: PipeWire answers" in run("--list").output
    pipewire.kill()
    assert re.search(r"pipewire: no, no daemon of PipeWire answers \(.*\): 'systemctl", run("--list").output)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "vlc"), "'vlc' is none of pipewire, v4l2, http, rtsp, rtsps, srt, whip and window"),
        (("--to", "pipewire", "--to", "v4l2"), "a run makes one camera"),
        (("--effect", "blur", "--background", "#ffffff"), "a background is for --effect background or matte"),
        (("--effect", "none", "--model", "x.tflite"), "the effect none runs no model"),
    ],
)
def test_what_contradicts_itself_is_refused(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and said in re.sub(r"[\s│]+", " ", result.output)
