"""A server of live streams over HTTP on loopback, whose connections a test cuts and stalls."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator

import pytest


class LiveServer:
    """A server that answers every request with ``data``, without a length; then it ends the stream, or stalls."""

    def __init__(self) -> None:
        self.data, self.stalls, self.is_there = b"", False, True
        self.files: dict[str, bytes] = {}
        """Further answers, with a length, by path."""
        live, self._closing = self, threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path in live.files:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(live.files[self.path])))
                    self.end_headers()
                    self.wfile.write(live.files[self.path])
                    return
                if not live.is_there:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.end_headers()
                self.wfile.write(live.data)
                self.wfile.flush()
                while live.stalls and not live._closing.is_set():
                    time.sleep(0.01)

            def log_message(self, format: str, *arguments: object) -> None:
                """Print nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def address(self) -> str:
        """The address of its stream, an MPEG transport stream."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/live.ts"

    def close(self) -> None:
        """End all connections."""
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def live_server() -> Iterator[LiveServer]:
    server = LiveServer()
    yield server
    server.close()
