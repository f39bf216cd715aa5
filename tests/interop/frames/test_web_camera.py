"""A camera in browsers and on servers: real WebRTC peers (aiortc), real HTTP clients, a real RTSP server."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.frames.virtual_cameras.stream_camera import StreamCamera
from framebind.interop.frames.virtual_cameras.web_camera import VIEWERS, WebCamera
from support.environment import absent
from support.video.rtsp_server import RtspServer, why_absent

SIZE = (96, 64)
WAIT = 30.0
RATE = 30.0
COLOUR = (200, 60, 30)
Array = npt.NDArray[np.uint8]


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.005)


@contextmanager
def page(size: tuple[int, int] = SIZE) -> Iterator[fb.video.VideoWriter]:
    pytest.importorskip("aiohttp")
    with fb.GlContext.headless(), fb.video.VideoWriter("http://:0", size, RATE) as camera:
        yield camera


@contextmanager
def shown(camera: fb.video.VideoWriter, size: tuple[int, int] = SIZE) -> Iterator[Callable[[Callable[[], Any]], None]]:
    """A function that shows pictures in one colour at RATE until a condition holds, on this thread, whose GL it is."""
    texture = fb.GlTexture(*size)
    texture.write(np.full((size[1], size[0], 4), (*COLOUR, 255), np.uint8))

    def show(ends: Callable[[], Any]) -> None:
        deadline = time.monotonic() + WAIT
        while not ends():
            assert time.monotonic() < deadline
            camera.put(texture)
            time.sleep(1 / RATE)

    yield show


def get(camera: fb.video.VideoWriter, path: str, **headers: str) -> http.client.HTTPResponse:
    parts = urlsplit(camera.address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


class Viewer(threading.Thread):
    """A peer of WebRTC, on a thread of its own: it notes each frame that it decodes. ``stalls``: it does nothing."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.address, self.frames, self.asked = address, list[av.VideoFrame](), 0.0
        self.first, self.stalls = 0.0, False
        self.is_done = threading.Event()
        self.start()

    def run(self) -> None:
        asyncio.run(self._view())

    async def _view(self) -> None:
        from aiortc import RTCPeerConnection, RTCSessionDescription

        connection = RTCPeerConnection()
        connection.addTransceiver("video", direction="recvonly")
        tasks = list[Any]()
        connection.on("track", lambda track: tasks.append(asyncio.ensure_future(self._take(track))))
        await connection.setLocalDescription(await connection.createOffer())
        self.asked = time.monotonic()
        offer = json.dumps({"sdp": connection.localDescription.sdp, "type": "offer"})
        answer = await asyncio.get_running_loop().run_in_executor(None, self._post, offer)
        await connection.setRemoteDescription(RTCSessionDescription(**answer))
        while not self.is_done.is_set():
            while self.stalls:
                time.sleep(0.02)  # the loop does not run, so that nothing is taken or answered
            await asyncio.sleep(0.02)
        await connection.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _post(self, offer: str) -> dict[str, str]:
        parts = urlsplit(self.address)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT)
        connection.request("POST", "/offer", offer, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())

    async def _take(self, track: Any) -> None:
        while True:
            self.frames.append(await track.recv())
            self.first = self.first or time.monotonic()


def test_webrtc_viewers_see_all_frames_within_three_seconds_and_one_that_stalls_slows_nobody(tier: str) -> None:
    """Three viewers, and 20 in the longest tier, beside one that stalls and goes on later."""
    pytest.importorskip("aiortc")
    with page() as camera, shown(camera) as show:
        viewers = [Viewer(camera.address) for _ in range(20 if tier == "all" else 3)]
        stalled = Viewer(camera.address)
        show(lambda: stalled.frames and all(viewer.frames for viewer in viewers))
        stalled.stalls = True
        seen = len(stalled.frames)
        counts = [len(viewer.frames) for viewer in viewers]
        fb.transfers.reset()
        sent = 0

        def has_sent() -> bool:
            nonlocal sent
            sent += 1
            return sent > 60

        show(has_sent)
        until(lambda: all(len(v.frames) - n >= 58 for v, n in zip(viewers, counts, strict=True)), "58 of 60 frames")
        assert fb.transfers.by_reason["download", "video frame"].bytes == 60 * SIZE[0] * SIZE[1] * 3 // 2
        assert len(stalled.frames) - seen < 10, "it stalls"
        stalled.stalls = False
        show(lambda: len(stalled.frames) - seen > 10)
        for viewer in (*viewers, stalled):
            assert viewer.first - viewer.asked < 3.0
            picture = viewer.frames[-1].to_ndarray(format="rgb24")
            assert picture.shape == (SIZE[1], SIZE[0], 3)
            assert np.abs(picture.reshape(-1, 3).mean(0) - COLOUR).max() < 4
            viewer.is_done.set()
        for viewer in (*viewers, stalled):
            viewer.join(WAIT)
        until(lambda: not camera.is_watched, "end of watching")


def test_while_nobody_looks_nothing_is_read_and_the_page_is_there() -> None:
    with page() as camera, shown(camera) as show:
        fb.transfers.reset()
        count = iter(range(5))
        show(lambda: next(count, None) is None)
        assert not camera.is_watched and fb.transfers.bytes_except("texture upload") == 0
        response = get(camera, "/")
        assert b"<video" in response.read() and "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert b"RTCPeerConnection" in get(camera, "/camera.js").read()
        assert get(camera, "/secret").status == 404


def test_mjpeg_has_the_frame_s_colours_and_a_viewer_that_stalls_slows_nobody() -> None:
    with page((640, 720)) as camera, shown(camera, (640, 720)) as show:
        stalled = connected(camera.address, "/camera.mjpg")
        found = list[bytes]()
        reader = threading.Thread(target=lambda: found.extend(parts(get(camera, "/camera.mjpg"), 20)), daemon=True)
        reader.start()
        show(lambda: len(found) >= 20)
        stalled.close()
        for jpeg in found:
            picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
            assert picture is not None and picture.shape == (720, 640, 3)
            assert np.abs(picture[:, :, ::-1].reshape(-1, 3).mean(0) - COLOUR).max() < 4


def parts(response: http.client.HTTPResponse, count: int) -> list[bytes]:
    """The first JPEG files of an MJPEG stream, so many."""
    found = list[bytes]()
    while len(found) < count:
        length = 0
        while (line := response.readline().strip()) or not length:
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        found.append(response.read(length))
    return found


def test_a_single_picture_is_made_when_it_is_asked_for() -> None:
    with page() as camera, shown(camera) as show:
        found = list[bytes]()
        thread = threading.Thread(target=lambda: found.append(get(camera, "/camera.jpg").read()), daemon=True)
        thread.start()
        assert camera.wait_until_watched(WAIT)
        show(lambda: found)
        assert cv2.imdecode(np.frombuffer(found[0], np.uint8), cv2.IMREAD_COLOR) is not None


def test_other_names_wrong_offers_and_one_viewer_too_many_are_refused() -> None:
    pytest.importorskip("aiortc")
    with page() as camera:
        assert get(camera, "/", Host="evil.example").status == 403
        other = {"Sec-Fetch-Site": "cross-site"}
        assert [get(camera, path, **other).status for path in ("/", "/camera.jpg", "/camera.mjpg")] == [200, 403, 403]
        assert not camera.is_watched
        parts = urlsplit(camera.address)
        for body, status in ((b"{}", 400), (b"no json", 400), (b'{"sdp": "v=0"}', 400), (b"x" * 70_000, 413)):
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT)
            connection.request("POST", "/offer", body, {"Content-Type": "application/json"})
            assert connection.getresponse().status == status, body[:20]
        looking = [get(camera, "/camera.mjpg") for _ in range(VIEWERS)]
        assert get(camera, "/camera.mjpg").status == 503
        for response in looking:
            response.close()


def test_there_are_no_more_viewers_than_allowed_however_many_ask_at_once() -> None:
    with page() as camera, shown(camera) as show:
        clients = [connected(camera.address, "/camera.jpg") for _ in range(VIEWERS + 8)]
        assert camera.wait_until_watched(WAIT)
        answers = list[bytes]()
        reader = threading.Thread(target=lambda: answers.extend(client.recv(13)[9:12] for client in clients))
        reader.start()
        show(lambda: len(answers) == len(clients))
        assert sorted(answers) == [b"200"] * VIEWERS + [b"503"] * 8
        for client in clients:
            client.close()


def test_a_viewer_that_takes_nothing_is_cut_off() -> None:
    pytest.importorskip("aiohttp")
    camera = WebCamera("http://:0", (640, 480), RATE, seconds=0.3)
    client = connected(camera.address, "/camera.mjpg")
    noise = np.random.default_rng(1).integers(0, 256, camera.layout.shape, np.uint8)
    try:
        assert camera.wait(WAIT)

        def is_over() -> bool:
            with camera.frame(time.perf_counter()) as memory:
                memory[...] = noise
            return not camera.is_watched

        until(is_over, "end of watching")
        until(lambda: not camera._runner.server.connections, "end of the connection")
    finally:
        client.close()
        camera.close()


def connected(address: str, path: str) -> socket.socket:
    """A client that has asked for a path, and reads nothing yet."""
    client = socket.create_connection(("127.0.0.1", urlsplit(address).port or 0))
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return client


def test_others_than_this_machine_need_a_token() -> None:
    pytest.importorskip("aiohttp")
    with pytest.raises(fb.SourceError, match=r"others can reach 0\.0\.0\.0: name a token"):
        WebCamera("http://0.0.0.0:0", SIZE, RATE)
    camera = WebCamera("http://0.0.0.0:0/?token=abcdefgh", SIZE, RATE)
    try:
        port = urlsplit(camera.address).port
        for query, status in (("", 403), ("?token=abcdefgi", 403), ("?token=abcdefgh", 200)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
            connection.request("GET", f"/{query}")
            assert connection.getresponse().status == status
    finally:
        camera.close()


@pytest.mark.parametrize("address", ["http://", "http://:99999", "http://:8080/path", "http://[::1"])
def test_addresses_where_nothing_can_be_served_are_refused(address: str) -> None:
    with fb.GlContext.headless(), pytest.raises(fb.SourceError, match="no address to serve at"):
        fb.video.VideoWriter(address, SIZE)


def test_a_place_that_is_taken_is_said_and_nothing_is_left_behind() -> None:
    before = threading.active_count()
    with page() as camera:
        with pytest.raises(fb.SourceError, match="nothing can be served at 127"):
            fb.video.VideoWriter(camera.address.rstrip("/"), SIZE)
    until(lambda: threading.active_count() <= before, "end of threads")


def test_a_server_gets_the_frames_and_another_one_after_it_was_killed(tmp_path: Path) -> None:
    if reason := why_absent():
        absent("rtsp", reason)
    place = tmp_path / "sent.h264"
    server = RtspServer(str(place))
    try:
        address = f"rtsp://127.0.0.1:{server.port}/in"
        with fb.GlContext.headless(), fb.video.VideoWriter(address, SIZE, RATE) as camera, shown(camera) as show:
            show(lambda: _decoded(place) >= 20)
            server.kill()
            place.unlink()
            server.start()
            show(lambda: place.exists() and _decoded(place) >= 20)
    finally:
        server.kill()


def test_a_camera_whose_server_is_silent_is_closed_after_one_try(caplog: pytest.LogCaptureFixture) -> None:
    """The camera's queue is full of packets, and none of them begins another try."""
    if reason := why_absent():
        absent("rtsp", reason)
    server = RtspServer()
    try:
        camera = StreamCamera(f"rtsp://127.0.0.1:{server.port}/in", SIZE, RATE, seconds=2.1)
    finally:
        server.kill()
    tries = list[socket.socket]()
    with socket.create_server(("127.0.0.1", server.port), backlog=64) as silent:

        def has(condition: Callable[[], bool]) -> Callable[[], bool]:
            def shows() -> bool:
                with camera.frame(time.perf_counter()) as memory:
                    memory[...] = 128
                return condition()

            return shows

        until(has(lambda: "takes no more frames" in caplog.text), "sentence")
        until(has(camera._packets.full), "full queue")
        silent.setblocking(False)
        before = time.monotonic()
        camera.close()
        with contextlib.suppress(BlockingIOError):
            while True:
                tries.append(silent.accept()[0])
    for each in tries:
        each.close()
    assert len(tries) <= 2, f"{time.monotonic() - before} s"


def _decoded(place: Path) -> int:
    """The number of frames in the file so far, all of the right colour."""
    if not place.exists() or place.stat().st_size < 2000:
        return 0
    count = 0
    with av.open(str(place), format="h264") as video:
        for frame in video.decode(video=0):
            picture = frame.to_ndarray(format="rgb24")
            assert np.abs(picture.reshape(-1, 3).mean(0) - COLOUR).max() < 4
            count += 1
    return count


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("rtsp://127.0.0.1:9/in", "Connection refused"),
        ("srt://127.0.0.1:9", "has no srt: install PyAV from source|Connection|Input/output"),  # wheels have no SRT
        ("whip://127.0.0.1:9/in", "Connection refused"),
    ],
)
def test_servers_that_take_nothing_are_said(address: str, reason: str) -> None:
    with fb.GlContext.headless(), pytest.raises(fb.SourceError, match=f"takes no frames: .*({reason})"):
        fb.video.VideoWriter(address, SIZE, RATE)


@pytest.mark.parametrize("address", ["rtsp://me:S3CRET#a@127.0.0.1:9/in", "whip://me:S3CRET/a@127.0.0.1:9/in"])
def test_no_part_of_a_password_is_in_an_error(address: str) -> None:
    with pytest.raises(fb.SourceError, match=r"takes no frames: ValueError$") as caught:
        fb.video.VideoWriter(address, SIZE, RATE)
    assert "S3CRET" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["rtsp", "rtsps", "whip"])
@pytest.mark.parametrize("takes", [False, True], ids=["takes nobody", "says nothing"])
def test_a_server_that_does_not_answer_stops_no_other_thread(scheme: str, takes: bool) -> None:
    """The server takes no connection, or takes it and is silent: Python's other threads run meanwhile."""
    with socket.create_server(("127.0.0.1", 0), backlog=4 if takes else 0) as server:
        port, waiting = server.getsockname()[1], list[socket.socket]()
        for _ in range(0 if takes else 4):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(("127.0.0.1", port))
        ticks, is_over = list[float](), threading.Event()

        def tick() -> None:
            while not is_over.wait(0.02):
                ticks.append(time.monotonic())

        thread = threading.Thread(target=tick)
        thread.start()
        with pytest.raises(fb.SourceError, match="takes no frames: timed out"):
            StreamCamera(f"{scheme}://127.0.0.1:{port}/in", SIZE, RATE, seconds=0.4)
        is_over.set()
        thread.join()
        for each in waiting:
            each.close()
    assert len(ticks) >= 10
