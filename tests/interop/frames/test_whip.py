"""A camera that is sent by WHIP (RFC 9725): a small endpoint hands the offer to Chromium, which decodes the frames.

PyAV 18, the last one for Python 3.11, fails in the handshake of DTLS, with Chromium as with aiortc, and is refused.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import pytest

import framebind as fb
from support.browser import Browser

COLOUR = (200, 60, 30)
SENDER = f"""
import sys, time
import numpy as np
import framebind as fb

picture = np.full((96, 128, 4), ({", ".join(map(str, COLOUR))}, 255), np.uint8)
with fb.video.VideoWriter(sys.argv[1], (128, 96), 30) as camera:
    while not sys.stdin.closed:
        camera.put(picture)
        time.sleep(1 / 30)
"""
"""The sender is a process of its own, as PyAV keeps other Python threads waiting while FFmpeg opens a stream."""
ANSWER = """(async (sdp) => {
    window.connection = new RTCPeerConnection();
    connection.addEventListener("track", (event) => {
        window.video = document.createElement("video");
        Object.assign(video, { srcObject: new MediaStream([event.track]), autoplay: true, muted: true });
        document.body.append(video);
    });
    await connection.setRemoteDescription({ type: "offer", sdp });
    await connection.setLocalDescription(await connection.createAnswer());
    while (connection.iceGatheringState !== "complete") { await new Promise((resolve) => setTimeout(resolve, 10)); }
    return connection.localDescription.sdp;
})"""
DECODED = "window.video?.getVideoPlaybackQuality().totalVideoFrames ?? 0"
PIXEL = """(() => {
    const canvas = document.createElement("canvas");
    const context = canvas.getContext("2d");
    context.drawImage(video, 0, 0);
    return [...context.getImageData(64, 48, 1, 1).data.slice(0, 3), video.videoWidth, video.videoHeight];
})()"""


@contextlib.contextmanager
def endpoint(browser: Browser) -> Iterator[tuple[str, threading.Event]]:
    """The address of a WHIP endpoint, whose session is the browser's page, and when that is the caller's again."""
    is_answered = threading.Event()

    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            offer = self.rfile.read(int(self.headers["Content-Length"])).decode()
            assert self.headers["Content-Type"] == "application/sdp"
            # Chromium refuses FFmpeg's group of streams (packets sent again); it finds the stream by its packets.
            offer = "".join(line for line in offer.splitlines(keepends=True) if not line.startswith("a=ssrc"))
            self._answer(201, browser.value(f"{ANSWER}({json.dumps(offer)})"))
            is_answered.set()

        def do_DELETE(self) -> None:
            self._answer(200, "")

        def _answer(self, status: int, sdp: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/sdp")
            self.send_header("Location", "/session")
            self.send_header("Content-Length", str(len(sdp)))
            self.end_headers()
            self.wfile.write(sdp.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing of requests."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"whip://127.0.0.1:{server.server_address[1]}/whip", is_answered
        server.shutdown()
        thread.join()


def test_a_whip_endpoint_gets_the_frames(tmp_path: Path, tool: Callable[[str], str]) -> None:
    if int(av.__version__.partition(".")[0]) < 19:
        check_refused()
        return
    with Browser(tool("chromium"), tmp_path) as browser, endpoint(browser) as (address, is_answered):
        sender = subprocess.Popen([sys.executable, "-c", SENDER, address], stderr=subprocess.PIPE, text=True)
        try:
            assert is_answered.wait(30), "no offer came"
            browser.until(lambda: sender.poll() is not None or browser.value(DECODED) >= 60, "60 frames")
        finally:
            sender.kill()
            _, errors = sender.communicate()
        assert browser.value(DECODED) >= 60, errors
        red, green, blue, *size = browser.value(PIXEL)
        assert size == [128, 96]
        assert max(abs(red - COLOUR[0]), abs(green - COLOUR[1]), abs(blue - COLOUR[2])) < 8


def check_refused() -> None:
    """An older PyAV is refused: if the server fell silent later, no thread of Python would go on."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.handle_request, daemon=True)
        thread.start()
        with pytest.raises(fb.SourceError, match=r"takes no frames: .* PyAV 19 does"):
            fb.video.VideoWriter(f"whip://127.0.0.1:{server.server_address[1]}/whip", (128, 96), 30)
        thread.join()
