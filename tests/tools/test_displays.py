"""The display of ``watch`` on terminals of several sizes."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyte
import pytest

from framebind.tools.common.console import make_console
from framebind.tools.displays.streams import as_display
from framebind.video.live.figures import Snapshot
from support.terminal import screen_of
from support.tiny_models import chain

CAMERA = "rtsp://192.168.1.20:554/Streaming/Channels"
REASON = "no packet came for 5 seconds: connecting again: Connection refused"


def stream(name: str, state: str = "live", status: str = "", since: float | None = None) -> Snapshot:
    counts = (123_456, 14, 2) if state == "waiting" else (0, 0, 0)
    return Snapshot(name, state, status, (1920, 1080), "nvdec", 99_999, 1388.1, 38.2, 123.4, *counts, since)


def shown(snapshots: list[Snapshot], capsys: pytest.CaptureFixture[str], width: int, height: int) -> list[str]:
    """The lines of a terminal on which the display is."""
    console = make_console(width=width, height=height, force_terminal=True, legacy_windows=False)
    console.print(as_display(snapshots, width, height))
    screen = pyte.Screen(width, height)
    pyte.Stream(screen).feed(capsys.readouterr().out.replace("\n", "\r\n"))
    return [line.rstrip() for line in screen.display]


def test_the_figures_fit_into_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    since = time.mktime((2026, 11, 26, 11, 7, 39, 0, 0, -1))
    streams = [stream("camera 0"), stream(f"{CAMERA}/101", "waiting", REASON, since), stream(f"{CAMERA}/102")]
    lines = shown(streams, capsys, 80, 24)
    assert lines[0].split() == ["stream", "state", "frames/s", "ms", "95%", "ms", "dropped"]
    assert lines[2].split() == ["camera", "0", "live", "1388.1", "38.2", "123.4", "0"]
    assert lines[3].endswith("/Channels/101  waiting    1388.1  38.2   123.4   123456"), "the end of its address"
    assert lines[5] == "2 of 3 streams live, 4164.3 frames/s"
    note = " ".join(lines[6:9])
    assert f"since 11:07:39; {REASON}; 14 damaged packets, 2 reconnects" in note and "Channels/101" in note
    assert not any(lines[9:])


def test_a_wide_terminal_has_all_figures(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown([stream(f"{CAMERA}/101"), stream(f"{CAMERA}/102", "waiting", REASON)], capsys, 140, 24)
    assert lines[0].split()[-4:] == ["results", "dropped", "damaged", "reconnects"]
    assert lines[2].startswith(f"{CAMERA}/101") and "1920x1080" in lines[2]
    assert lines[3].split()[-4:] == ["99999", "123456", "14", "2"]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 16), (200, 50)])
def test_streams_that_have_no_room_are_counted(capsys: pytest.CaptureFixture[str], width: int, height: int) -> None:
    streams = [stream(f"{CAMERA}/{number}") for number in range(100)]
    streams[70] = stream("yard", "failed", REASON)
    lines = shown(streams, capsys, width, height)
    assert lines[0].startswith("stream") and lines[2].startswith("yard"), "what is in trouble comes first"
    rows = 1 + sum(line.startswith("rtsp") for line in lines)
    assert f"and {100 - rows} more streams, for which there is no room" in lines
    assert "99 of 100 streams live, 138810.0 frames/s" in lines
    assert any(line.startswith("yard: no packet") for line in lines)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_watch_on_a_terminal_of_80_columns(tmp_path: Path) -> None:
    (model := tmp_path / "colours.tflite").write_bytes(chain("SOFTMAX", shape=(1, 1, 1, 3)))
    command = [sys.executable, "-m", "framebind", "watch", "synthetic", "http://127.0.0.1:1/a/long/address/of/a/door"]
    lines = screen_of(
        [*command, "--task", "classify", "--model", str(model)],
        size=(80, 24),
        until=lambda lines: any(line.startswith("1 of 2 streams live") for line in lines),
    )
    header = next(number for number, line in enumerate(lines) if line.startswith("stream"))
    assert lines[header].split() == ["stream", "state", "frames/s", "ms", "95%", "ms", "dropped"]
    assert lines[header + 2].split()[:2] == ["synthetic", "live"]
    assert lines[header + 3].split()[1] == "opening" and "of/a/door" in lines[header + 3]
    assert "refused" in " ".join(lines[header + 5 :])
