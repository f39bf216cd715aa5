"""The page of ``watch``: its routes, its bounds, and what it refuses."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import framebind as fb
from framebind.video.live.figures import Snapshot
from framebind.video.live.pictures import Pictures
from framebind.video.live.server import CLIENTS, Page, parse_place
from support.screen import Screen


@pytest.fixture
def page() -> Iterator[Page]:
    made = Page("127.0.0.1", 0, lambda: [{"name": "<b>door</b>", "fps": 1.0}], [Pictures(), Pictures()])
    with contextlib.closing(made):
        yield made


def port_of(page: Page) -> int:
    return int(page.address.rstrip("/").rpartition(":")[2])


def get(page: Page, path: str, host: str | None = None, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(page), timeout=5)
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host if host is not None else f"127.0.0.1:{port_of(page)}")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()


def test_routes(page: Page) -> None:
    for path, kind in (("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css?v=1", "text/css")):
        status, headers, content = get(page, path)
        assert status == 200 and headers["Content-Type"].startswith(kind) and len(content) > 100
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    status, _, content = get(page, "/figures.json")
    assert (status, json.loads(content)) == (200, [{"name": "<b>door</b>", "fps": 1.0}])


@pytest.mark.parametrize(
    "path", ["/page.html", "/../server.py", "/%2e%2e/server.py", "//etc/passwd", "/streams/2.jpg", "/streams/0.jpg/..",
             "/streams/00000.jpg", "/figures.json/"]
)  # fmt: skip
def test_there_is_no_other_path(page: Page, path: str) -> None:
    assert get(page, path)[0] == 404


def test_foreign_names_and_methods_are_refused(page: Page) -> None:
    for host in ("evil.example", f"evil.example:{port_of(page)}", ""):  # a name that leads to 127.0.0.1
        assert get(page, "/figures.json", host=host)[0] == 403
    assert get(page, "/", host=f"localhost:{port_of(page)}")[0] == 200
    assert get(page, "/", method="POST")[0] == 501
    assert get(page, "/" + "x" * 70_000)[0] == 414


def test_pictures_come_as_jpeg_and_as_a_stream(page: Page) -> None:
    pictures = page.pictures[1]
    pictures.put(np.full((4, 6, 4), 200, np.uint8))
    status, headers, content = get(page, "/streams/1.jpg")
    assert (status, headers["Content-Type"], content[:2]) == (200, "image/jpeg", b"\xff\xd8")
    assert pictures.are_wanted() or pictures.next_jpeg(1, 0.0) is None
    with socket.create_connection(("127.0.0.1", port_of(page)), timeout=5) as client:
        client.sendall(f"GET /streams/1.mjpg HTTP/1.0\r\nHost: localhost:{port_of(page)}\r\n\r\n".encode())
        with client.makefile("rb") as answer:
            while answer.readline().strip():
                pass
            assert answer.readline() == b"--framebind-picture\r\n"
            for _ in range(2):
                assert answer.readline() == b"Content-Type: image/jpeg\r\n"
                length = int(answer.readline().partition(b":")[2])
                assert answer.readline() == b"\r\n" and answer.read(length)[-2:] == b"\xff\xd9"
                assert answer.readline() == b"\r\n"
                assert answer.readline() == b"--framebind-picture\r\n", "it ends the picture before the next one"
                pictures.put(np.zeros((4, 6, 4), np.uint8))


def connected(page: Page, sent: str = "") -> socket.socket:
    """A client that has sent something."""
    client = socket.create_connection(("127.0.0.1", port_of(page)), timeout=5)
    client.sendall(sent.encode())
    return client


def looking(page: Page) -> socket.socket:
    """A client that looks at a stream which has no picture yet."""
    client = connected(page, f"GET /streams/0.mjpg HTTP/1.0\r\nHost: localhost:{port_of(page)}\r\n\r\n")
    assert client.recv(1) == b"H"
    return client


def until_answered(page: Page) -> None:
    """Ask again until there is room."""
    pause = threading.Event()
    for _ in range(100):
        with contextlib.suppress(OSError, http.client.HTTPException):
            if get(page, "/")[0] == 200:
                return
        pause.wait(0.02)
    pytest.fail("there is no room")


def test_clients_have_a_limit(page: Page) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(CLIENTS):
            stack.enter_context(looking(page))
        last = stack.enter_context(connected(page))
        assert last.recv(100).startswith(b"HTTP/1.0 503")
    until_answered(page)  # those that went away leave room, though there is no picture to send


def test_clients_that_keep_their_requests_back_leave_room(page: Page) -> None:
    slow = [connected(page, "GET / HTTP/1.1\r\nX") for _ in range(CLIENTS)]
    for _ in range(3):
        assert get(page, "/figures.json")[0] == 200
    with contextlib.ExitStack() as stack:
        for client in slow:
            stack.enter_context(client)
        assert slow[0].recv(1) == b"", "it was the first"
        slow[-1].sendall(f": y\r\nHost: localhost:{port_of(page)}\r\n\r\n".encode())
        assert slow[-1].recv(12) == b"HTTP/1.0 200", "it comes late, and in time"


def test_a_request_has_one_deadline_however_its_bytes_come() -> None:
    page, pause = Page("127.0.0.1", 0, list, [], seconds=0.3), threading.Event()
    with contextlib.closing(page), connected(page, "GET / HTTP/1.1\r\nX") as client:
        client.setblocking(False)
        for _ in range(600):
            pause.wait(0.05)
            try:
                client.sendall(b"a")
                if client.recv(1) == b"":
                    return
            except BlockingIOError:
                continue
            except ConnectionError:
                return
    pytest.fail("a byte now and then kept the connection")


def test_places() -> None:
    assert parse_place("8080") == ("127.0.0.1", 8080)
    assert parse_place("0.0.0.0:80") == ("0.0.0.0", 80) and parse_place("[::1]:80") == ("::1", 80)
    for text in ("", "here", "70000", "host:x"):
        with pytest.raises(ValueError, match="is no"):
            parse_place(text)
    with contextlib.closing(Page("127.0.0.1", 0, list, [])) as page, pytest.raises(fb.SourceError, match="in use"):
        Page("127.0.0.1", port_of(page), list, [])
    with contextlib.closing(Page("127.0.0.1", 0, list, [])) as page:
        assert not page.is_public


def test_the_page_in_a_browser(tmp_path: Path, tool: Callable[[str], str]) -> None:
    for name in ("xvfb-run", "xdotool"):
        tool(name)
    chromium = tool("chromium")
    colours = {"red": (230, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 230)}
    streams, pictures = ["door", "<b>yard</b>"], [Pictures(), Pictures()]
    figures = [Snapshot(name, "live", "", (64, 36), "cpu", 9, 24.5, 3.2, 4.8, 0, 0, 1).as_dict() for name in streams]

    def put(number: int, colour: str) -> None:
        pictures[number].put(np.full((36, 64, 4), (*colours[colour], 255), np.uint8))

    put(0, "red")
    put(1, "blue")
    (tmp_path / "screen").mkdir()
    page = Page("127.0.0.1", 0, lambda: figures, pictures)
    options = [
        "--no-sandbox",
        "--no-first-run",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}",
        "--window-size=1600,1200",
    ]
    with contextlib.closing(page), Screen(tmp_path / "screen") as screen:

        def seen(colour: str) -> bool:
            """Whether a picture of the colour, some ten thousand pixels, is on the screen."""
            distance = np.abs(screen.picture().astype(int) - colours[colour]).max(-1)
            return int((distance < 24).sum()) > 10_000

        with screen.run(chromium, *options, f"--app={page.address}", cwd=tmp_path) as browser:
            browser.until(lambda: seen("red") and seen("blue") and not seen("green"), "both pictures")
            put(0, "green")
            browser.until(lambda: seen("green") and seen("blue") and not seen("red"), "the new picture")
