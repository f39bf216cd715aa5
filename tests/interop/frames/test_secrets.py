"""Secrets in addresses: no message, log, traceback, name or line on stderr has them."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import framebind as fb
from framebind.interop.frames.read.camera import CameraReader
from framebind.interop.frames.read.streams import StreamReader, open_stream
from support.video.clips import write_clip
from support.video.live_server import LiveServer

FIELDS = (
    "token", "key", "sig", "password", "auth", "X-Amz-Signature", "access_token", "apikey", "code", "sid", "jwt", "u",
    "streamid", "Token", "to%6ben", "a;token", "a=1#token", "a=1&b",
)  # fmt: skip
ADDRESSES = (
    *(f"http://127.0.0.1:1/x?{field}=S3CRET" for field in FIELDS),
    "http://127.0.0.1:1/x?S3CRET", "http://127.0.0.1:1/x?S3CRET==", "http://127.0.0.1:1/x#S3CRET",
    "http://127.0.0.1:1/x?a#S3CRET", "http://127.0.0.1:1/token=S3CRET/x.m3u8", "HTTP://127.0.0.1:1/x?a=S3CRET",
    "http://user:S3CRET@127.0.0.1:1/x", "http://S3CRET@127.0.0.1:1/x", "rtsp://S3CRET:@127.0.0.1:1/x",
    "http://user:p@S3CRET@127.0.0.1:1/", "http://user:a/S3CRET@127.0.0.1:1/", "http://user:S3CRET/a@127.0.0.1:1/",
    "http://user:a?S3CRET@127.0.0.1:1/", "http://user:S3CRET#a@127.0.0.1:1/", "http://[S3CRET@127.0.0.1:1/",
    "srt://127.0.0.1:1?passphrase=S3CRETS3CRET", "srt://127.0.0.1:1?streamid=#!::r=S3CRET,m=publish",
    "rtmp://127.0.0.1:1/live/S3CRET", "rtmps://127.0.0.1:1/live/now/S3CRET", "rtmp://127.0.0.1:1/S3CRET",
    "rtmp://127.0.0.1:1/live/S3CRET?a=b", "RTMP://127.0.0.1:1/live/S3CRET", "rtmp://127.0.0.1:1/live playpath=S3CRET",
    "gopher://S3CRET@127.0.0.1/", "rtsp:/me:S3CRET@127.0.0.1:1/x",
)  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_masked(address: str) -> None:
    masked = fb.video.masked_address(address)
    assert "S3CRET" not in masked and "***" in masked
    assert fb.video.masked_address(masked) == masked
    assert fb.video.masked_address(f"'{address.replace(' ', '')}' is lost").count("S3CRET") == 0
    assert "S3CRET" not in fb.video.masked_address(Path(address))


@pytest.mark.parametrize(
    "text",
    ["clip.mp4", "/a/b@c.mp4", "C:/a/b=c.mp4", "http://example.com:80/door@home/x.m3u8", "rtsp://[::1]:554/a",
     "file:///a/b=c", "synthetic:/a/b", "is it there? a=b", "0", "udp://@239.0.0.1:1234"],
)  # fmt: skip
def test_what_stays(text: str) -> None:
    assert fb.video.masked_address(text) == text


def test_what_is_shown_of_an_address() -> None:
    assert fb.video.masked_address("rtsp://me:a@10.0.0.2/door?c=1&d") == "rtsp://***@10.0.0.2/door?c=***&***"
    assert fb.video.masked_address("cannot open 'http://a:b@c/d?e=f': no") == "cannot open 'http://***@c/d?e=***': no"
    assert fb.video.masked_address("rtmp://a/live/key?b=c") == "rtmp://a/live/***?b=***"


DOORS: dict[str, Callable[[str], object]] = {
    "open_source": fb.open_source,
    "open_source by OpenCV": CameraReader,
    "open_source from a second on": lambda address: fb.open_source(address, start=1),
    "open_source by a decoder": lambda address: fb.open_source(address, decoder="cpu"),
    "video_seconds": fb.video.video_seconds,
    "divide_video": lambda address: fb.video.divide_video(address, 3),
    "join_videos": lambda address: fb.video.join_videos([(Path(address), 0.0)], Path("out.mp4")),
    "VideoWriter": lambda address: fb.video.VideoWriter(address, (64, 48)),
}
CHOSEN = (
    "http://me:S3CRET@127.0.0.1:1/x?token=S3CRET#S3CRET", "rtmp://127.0.0.1:1/live/S3CRET", "HTTP://127.0.0.1:1/?S3CRET",
    "gopher://S3CRET@127.0.0.1:1?token=S3CRET", "rtsp:/me:S3CRET@127.0.0.1:1/x",
)  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("address", CHOSEN)
def test_no_error_has_a_secret(
    door: str,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.DEBUG), pytest.raises(fb.FramebindError) as raised:
        DOORS[door](address)
    said = "".join([*traceback.format_exception(raised.value), *caplog.messages, *capfd.readouterr()])
    source_lines = [line for line in said.splitlines() if "S3CRET" in line]
    assert not source_lines
    assert "***" in str(raised.value) or "takes" in str(raised.value)


def test_a_pipeline_has_no_secret() -> None:
    with pytest.raises(fb.SourceError, match=r"user-pw=\*\*\* ! fakesink") as raised:
        fb.open_source('rtspsrc location="rtsp://me:S3CRET@a/b c" user-pw=S3CRET ! fakesink')
    assert "S3CRET" not in str(raised.value)


def test_no_status_of_a_lost_stream_has_a_secret(
    live_server: LiveServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live_server.data = write_clip(tmp_path / "a.ts", frames=10, options={"bf": "0"}).read_bytes()
    address = live_server.address.replace("://", "://me:S3CRET@") + "?token=S3CRET"
    with caplog.at_level(logging.DEBUG):
        source = fb.open_source(address, stream=fb.video.StreamOptions(stall=0.3, attempts=1))
        reader = source._reader
        assert isinstance(reader, StreamReader)
        while reader._next() is not None:
            pass
        said = [source.name, repr(source), reader.status, *(thread.name for thread in threading.enumerate())]
        live_server.is_there = False
        with pytest.raises(fb.SourceError) as raised:
            open_stream(address, fb.video.StreamOptions())
        with pytest.raises(fb.SourceError) as lost:
            reader.reopen()
    said += [*caplog.messages, *traceback.format_exception(raised.value), *traceback.format_exception(lost.value)]
    assert "is lost" in reader.status and "S3CRET" not in "".join(said)
    source.close()
