"""The web page of the streams: a server of the standard library with a few fixed routes, bounded clients and no files.

``http.server`` is enough: it serves GET requests of some tens of clients. Each one has a thread, as a stream of
pictures needs it.
"""

from __future__ import annotations

import contextlib
import http.server
import io
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, cast

import framebind as fb

from .. import live as watching
from .pictures import Pictures

CLIENTS = 32
"""Most connections at once. The next one takes the place of the one that has kept its request back for longest, or is
told to come later.
"""
SECONDS = 10.0
"""Seconds until a client's whole request must be there, and for it to take a piece of what it gets."""
_PAGE = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
_PICTURE = re.compile(r"/streams/(\d{1,4})\.(jpg|mjpg)")
_BOUNDARY = "framebind-picture"
_DELIMITER = f"--{_BOUNDARY}\r\n".encode()
_POLICY = (
    "default-src 'none'; img-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "frame-ancestors "
)
_HEADERS = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""No other site may read what is here. By the policy, which is sent too, the page loads nothing from elsewhere, and no
site shows it in a frame but those that are named.
"""


_ORIGIN = re.compile(r"https?://[\w.-]+(:\d{1,5})?|https?://\[[0-9a-fA-F:]+\](:\d{1,5})?")


def check_origin(text: str) -> str:
    """A site that may show the page in a frame, such as ``http://localhost:3000``. Raises ValueError."""
    if not _ORIGIN.fullmatch(text.rstrip("/")):
        raise ValueError(f"'{text}' is no site, for instance https://example.org or http://localhost:3000")
    return text.rstrip("/")


def parse_place(text: str) -> tuple[str, int]:
    """The host and port of ``[HOST:]PORT``; the host is loopback unless it is named. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"'{text}' is no [HOST:]PORT, for instance 8080 or 0.0.0.0:8080")
    return host.strip("[]") or "127.0.0.1", int(port)


_SECOND_TIME = 0.2
"""Seconds without a new picture after which the last one is sent again: Chromium shows one when the next one comes."""


class Page:
    """The running server. ``figures`` gives what ``/figures.json`` has."""

    def __init__(
        self,
        host: str,
        port: int,
        figures: Callable[[], list[dict[str, Any]]],
        pictures: Sequence[Pictures],
        *,
        embed: Sequence[str] = (),
        seconds: float = SECONDS,
    ) -> None:
        """Begin to serve. ``seconds``: those of a request. ``embed``: sites that may show the page in a frame.

        Raises SourceError if the place cannot be had.
        """
        self.figures, self.pictures, self.seconds = figures, pictures, seconds
        self.policy = _POLICY + (" ".join(embed) or "'none'")
        self.is_closing = threading.Event()
        self.is_public = not fb.video.is_loopback(host)
        self.contents = {
            path: (kind, files(watching).joinpath(name).read_bytes()) for path, (name, kind) in _PAGE.items()
        }
        try:
            self._server = _Server(host, port, self)
        except OSError as error:
            raise fb.SourceError(
                f"the page cannot be served at {host}:{port}: {error.strerror or error}. Take another port"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="web page", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """The page's address."""
        host, port = self._server.server_address[:2]
        return f"http://{f'[{host!s}]' if ':' in str(host) else host!s}:{port}/"

    def close(self) -> None:
        """End all connections."""
        self.is_closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def admits(self, host: str) -> bool:
        """True if a request for that host is for us: on loopback no other name, which a foreign page could have."""
        return self.is_public or fb.video.is_loopback(host)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False
    request_queue_size = CLIENTS

    def __init__(self, host: str, port: int, page: Page) -> None:
        self.page = page
        self._changing = threading.Lock()
        self._clients: set[socket.socket] = set()
        self._waiting: dict[socket.socket, None] = {}
        """The clients whose request is not there yet, the one that came first at the beginning."""
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._takes(request):
            super().process_request(request, client_address)
        else:
            try:
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 5\r\n\r\n")
            finally:
                self.shutdown_request(request)

    def _takes(self, client: socket.socket) -> bool:
        """True if there is room for another client, for which one that keeps its request back has to go."""
        with self._changing:
            if len(self._clients) >= CLIENTS:
                late = next(iter(self._waiting), None)
                if late is None:
                    return False
                del self._waiting[late]
                self._clients.discard(late)
                with contextlib.suppress(OSError):  # it has gone by itself
                    late.shutdown(socket.SHUT_RDWR)  # its thread reads the end
            self._clients.add(client)
            self._waiting[client] = None
            return True

    def has_asked(self, client: socket.socket) -> None:
        """Note that a client's request is there."""
        with self._changing:
            self._waiting.pop(client, None)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._changing:
                self._clients.discard(request)
                self._waiting.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""


class _Request(io.RawIOBase):
    """The bytes that a client sends until a moment. A timeout of the socket begins anew with each byte."""

    def __init__(self, client: socket.socket, seconds: float) -> None:
        self._client, self._end = client, time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Wait for bytes. Raises TimeoutError when the time is over."""
        self._client.settimeout(max(self._end - time.monotonic(), 1e-3))
        return self._client.recv_into(buffer)


class _Handler(http.server.BaseHTTPRequestHandler):
    server_version, sys_version = "framebind", ""

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Request(self.connection, self._page.seconds))

    def parse_request(self) -> bool:
        is_good = super().parse_request()
        cast("_Server", self.server).has_asked(self.connection)
        self.connection.settimeout(self._page.seconds)
        return is_good

    def do_GET(self) -> None:
        page, path = self._page, self.path.partition("?")[0]
        if not page.admits(self.headers.get("Host", "")):
            self.send_error(403, "Not the name of this server")
        elif path in page.contents:
            self._send(*page.contents[path])
        elif path == "/figures.json":
            self._send("application/json", json.dumps(page.figures()).encode())
        elif (found := _PICTURE.fullmatch(path)) and int(found[1]) < len(page.pictures):
            pictures = page.pictures[int(found[1])]
            if found[2] == "jpg":
                self._send_picture(pictures)
            else:
                self._send_pictures(pictures)
        else:
            self.send_error(404)

    @property
    def _page(self) -> Page:
        return cast("_Server", self.server).page

    def _send_picture(self, pictures: Pictures) -> None:
        made = pictures.next_jpeg(0, 2.0)
        if made is None:
            self.send_error(503, "No picture yet")
        else:
            self._send("image/jpeg", made[1])

    def _send_pictures(self, pictures: Pictures) -> None:
        """Send pictures until the client goes away (MJPEG)."""
        self._begin(f"multipart/x-mixed-replace; boundary={_BOUNDARY}")
        self.wfile.write(_DELIMITER)
        number, part, again = 0, b"", False
        with pictures.looking():
            while not self._page.is_closing.is_set() and not self._has_gone():
                made = pictures.next_jpeg(number, _SECOND_TIME)
                if made is not None:
                    number, jpeg = made
                    head = f"Content-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
                    part, again = head.encode() + jpeg + b"\r\n" + _DELIMITER, True
                    self.wfile.write(part)
                elif again:
                    self.wfile.write(part)
                    again = False

    def _has_gone(self) -> bool:
        """True if the client closed the connection: without new pictures nothing is sent, which would fail."""
        try:
            self.connection.settimeout(0)
            return self.connection.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        finally:
            self.connection.settimeout(self._page.seconds)

    def _send(self, kind: str, content: bytes) -> None:
        self._begin(kind, len(content))
        self.wfile.write(content)

    def _begin(self, kind: str, length: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Content-Security-Policy", self._page.policy)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing of requests."""
