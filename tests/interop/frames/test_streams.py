"""Live network streams: starts in the middle of a group of pictures, losses, stalls, limits, and what is not opened."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import framebind as fb
from framebind.interop.frames.read.streams import StreamReader, open_stream
from support.video.clips import write_clip
from support.video.live_server import LiveServer
from support.video.textures import textures

IMPATIENT = fb.video.StreamOptions(stall=0.3, attempts=2)
PACKET = 188
"""Bytes of a packet of an MPEG transport stream."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A transport stream of 50 frames, with a key frame each 10, each frame of one brightness at its left edge."""
    path = tmp_path_factory.mktemp("stream") / "clip.ts"
    options = {"g": "10", "bf": "0", "preset": "ultrafast"}
    return write_clip(path, frames=50, options=options).read_bytes()


def opened(server: LiveServer, options: fb.video.StreamOptions = IMPATIENT) -> StreamReader:
    reader = open_stream(server.address, options)
    assert isinstance(reader, StreamReader) and reader.live
    return reader


def read_all(reader: StreamReader) -> list[float]:
    """The times of the frames until the connection is lost."""
    view, times = np.empty(reader.layout.shape, np.uint8), list[float]()
    while reader.read(view):
        assert reader.time is not None and reader.captured is not None
        times.append(reader.time)
    return times


def test_a_video_behind_a_server_without_byte_ranges(live_server: LiveServer, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4").read_bytes()
    index = clip.index(b"moov") - 4
    far = (1 << 22).to_bytes(4, "big") + b"free" + bytes((1 << 22) - 8)  # FFmpeg keeps what it read last
    live_server.files["/clip.mp4"] = clip[:index] + far + clip[index:]
    with pytest.raises(fb.SourceError, match="A video whose index is at its end needs a server"):
        open_stream(live_server.address.replace("live.ts", "clip.mp4"), IMPATIENT)


def test_a_stream_that_is_lost_is_connected_again_on_one_clock(
    live_server: LiveServer, recording: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    live_server.data = recording
    reader = opened(live_server)
    first = read_all(reader)
    assert first == pytest.approx([number / 25 for number in range(50)], abs=2e-3)
    assert "is lost: Input/output error; the next attempt is in 0.5 s" in reader.status
    # The recording came at once: the next connection's clock is that of its arrival.
    assert reader.reopen()
    again = read_all(reader)
    assert len(again) == 50 and np.all(np.diff(again) > 0) and again[0] > 0
    assert ["is lost", "is back after", "is lost"] == [
        next(part for part in ("is lost", "is back after") if part in message) for message in caplog.messages
    ]
    reader.close()


def test_a_start_in_the_middle_waits_for_a_key_frame(live_server: LiveServer, recording: bytes) -> None:
    tables, middle = recording[: 3 * PACKET], len(recording) // 2 // PACKET * PACKET
    live_server.data = tables + recording[middle:]
    reader = opened(live_server)
    times = read_all(reader)
    assert 20 < 50 - len(times) <= 35 and (50 - len(times)) % 10 == 0
    assert times[0] == 0.0 and reader.damaged == 0
    reader.close()


def test_damaged_packets_of_a_stream_are_counted(live_server: LiveServer, recording: bytes) -> None:
    packets = [recording[at : at + PACKET] for at in range(0, len(recording), PACKET)]
    lost = range(len(packets) // 3, len(packets) // 2, 5)
    live_server.data = b"".join(packet for number, packet in enumerate(packets) if number not in lost)
    reader = opened(live_server)
    assert 20 < len(read_all(reader)) <= 50
    before = reader.damaged
    assert before > 0
    reader.reopen()
    read_all(reader)
    assert reader.damaged == 2 * before, "of all connections"
    reader.close()


def test_a_stall_ends_the_wait(live_server: LiveServer, recording: bytes) -> None:
    live_server.data, live_server.stalls = recording, True
    reader = opened(live_server)
    assert len(read_all(reader)) >= 48
    assert "is lost: no packet came for 0.3 seconds" in reader.status
    reader.close()


def test_attempts_have_a_limit_and_pauses_grow(live_server: LiveServer, recording: bytes) -> None:
    live_server.data = recording
    reader = opened(live_server, replace(IMPATIENT, attempts=3))
    read_all(reader)
    live_server.is_there = False
    pauses = [reader.retry]
    for _ in range(2):
        assert not reader.reopen()
        pauses.append(reader.retry)
    assert pauses == [0.5, 1.0, 2.0]
    with pytest.raises(fb.SourceError, match=r"is lost for 0 seconds, and 3 attempts to connect failed: .*404"):
        reader.reopen()
    live_server.is_there = True
    reader = opened(live_server, replace(IMPATIENT, seconds=0.0))
    read_all(reader)
    live_server.is_there = False
    with pytest.raises(fb.SourceError, match="and 1 attempts to connect failed"):
        reader.reopen()


def test_frames_of_another_size_are_scaled_to_the_first(
    live_server: LiveServer, recording: bytes, tmp_path: Path
) -> None:
    live_server.data = recording
    reader = opened(live_server)
    read_all(reader)
    live_server.data = write_clip(tmp_path / "larger.ts", size=(128, 96), frames=10, options={"bf": "0"}).read_bytes()
    assert reader.reopen() and len(read_all(reader)) == 10
    assert reader.size == (64, 48)
    reader.close()


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_source_gives_a_stream_s_newest_frame_without_waiting(
    context: fb.GlContext, live_server: LiveServer, recording: bytes
) -> None:
    live_server.data, live_server.stalls = recording, True
    with fb.open_source(live_server.address) as source:
        assert source.live and source.length is None
        frames, count = source.frames(context, wait=False), 0
        while source.time is None or source.time < 1.8:
            count += next(frames) is not None
        while next(frames) is not None:
            count += 1
        assert count + source.dropped >= 46
        source.end_soon()
        live_server.stalls = False  # the read that waits for a packet ends


def test_only_schemes_that_were_allowed(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(
        fb.SourceError, match=r"addresses begin with one of http, .*, not 'udp' \(StreamOptions.schemes"
    ):
        fb.open_source("udp://127.0.0.1:9")
    with pytest.raises(fb.SourceError, match=r"begin with one of rtsp, not 'http'"):
        fb.open_source("http://127.0.0.1:9/a", stream=fb.video.StreamOptions(schemes=("rtsp",)))
    with pytest.raises(ValueError, match="'file' is no scheme of streams"):
        fb.video.StreamOptions(schemes=("file",))
    with pytest.raises(ValueError, match="stall is 0 seconds"):
        fb.video.StreamOptions(stall=0)


def test_a_scheme_in_capitals(live_server: LiveServer, recording: bytes) -> None:
    live_server.data = recording
    with fb.open_source(live_server.address.replace("http", "HTTP"), stream=IMPATIENT) as source:
        assert source.live and source.size == (64, 48)


def test_a_protocol_that_this_build_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*given: Any, **more: Any) -> None:
        raise av.error.ProtocolNotFoundError(-0x74727008, "Protocol not found")

    monkeypatch.setattr(av, "open", absent)  # PyAV's wheels of some versions have srt
    with pytest.raises(fb.SourceError, match=r"'srt://127.0.0.1:9' cannot be opened: this build of PyAV has no srt"):
        fb.open_source("srt://127.0.0.1:9")


def test_no_message_has_a_password(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(fb.SourceError) as raised:
        fb.open_source("rtsp://me:secret@127.0.0.1:1/door?token=hidden&size=2")
    said = " ".join([str(raised.value), *caplog.messages])
    assert "rtsp://***@127.0.0.1:1/door?token=***&size=***" in said
    assert "secret" not in said and "hidden" not in said


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_frames_that_come_in_bursts_are_shown_by_the_stream_s_clock(
    context: fb.GlContext, live_server: LiveServer, tmp_path: Path
) -> None:
    """A live playlist (HLS), which then ends."""
    with av.open(str(tmp_path / "all.m3u8"), "w", format="hls", options={"hls_time": "0.4"}) as container:
        stream: Any = container.add_stream("libx264", rate=25, options={"g": "10", "bf": "0", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(40):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 5 * number, np.uint8), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    complete = (tmp_path / "all.m3u8").read_bytes()
    live_server.files = {f"/{path.name}": path.read_bytes() for path in tmp_path.glob("*.ts")}
    live_server.files["/live.m3u8"] = complete.replace(b"#EXT-X-ENDLIST", b"")
    address = live_server.address.replace("live.ts", "live.m3u8")
    captured: list[float] = []
    with fb.open_source(address, stream=IMPATIENT) as source:
        assert source.live
        for _ in textures(source, context):
            captured.append(source.captured)
            live_server.files["/live.m3u8"] = complete
    assert len(set(captured)) >= 25, "three pieces of ten frames"
    np.testing.assert_allclose(np.diff(sorted(set(captured)))[:20], 0.04, atol=0.021)
    with fb.open_source(address) as source:
        assert not source.live and source.length == 40
        assert len(list(textures(source, context))) == 40


def test_reconnections_leave_nothing(live_server: LiveServer, recording: bytes) -> None:
    live_server.data = recording

    def held() -> tuple[int, int]:
        """Open files and threads of this process, once the server has seen that its clients went away."""
        counts = [(len(os.listdir("/proc/self/fd")), threading.active_count())]
        while len(counts) < 5 or len(set(counts[-5:])) > 1:
            time.sleep(0.02)
            counts.append((len(os.listdir("/proc/self/fd")), threading.active_count()))
        return counts[-1]

    reader = opened(live_server)
    read_all(reader)
    after = list[tuple[int, int]]()
    for number in range(30):
        assert reader.reopen()
        read_all(reader)
        if number in (2, 29):
            after.append(held())
    assert after[0] == after[1]
    reader.close()
