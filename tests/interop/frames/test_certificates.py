"""Servers behind TLS: their certificates are checked, by all versions of PyAV, against those that are trusted."""

from __future__ import annotations

import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import framebind as fb
from framebind.interop.frames.virtual_cameras.stream_camera import StreamCamera
from support.video.clips import write_clip

FRAMES = 5
FILES = {path.stem: path for path in (Path(__file__).parents[2] / "support" / "certificates").iterdir()}
"""Certificates that nobody signed but themselves, with their keys, by the name of their server.

``openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj /CN=localhost -addext
subjectAltName=DNS:localhost,IP:127.0.0.1`` made one.
"""


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Write nothing of requests."""


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust the certificate goes away."""


def encrypted(server: socket.socket, file: Path) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context.wrap_socket(server, server_side=True)


@pytest.fixture(params=["localhost", "example.org"])
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a clip, and the name in its server's certificate."""
    write_clip(tmp_path / "clip.mp4", frames=FRAMES)
    with _Server(("127.0.0.1", 0), partial(_Handler, directory=str(tmp_path))) as server:
        server.socket = encrypted(server.socket, FILES[request.param])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"https://localhost:{server.server_address[1]}/clip.mp4", request.param
        server.shutdown()
        thread.join()


def test_a_video_behind_https_is_read_if_the_certificate_is_trusted_and_names_the_server(
    page: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, name = page
    with pytest.raises(fb.SourceError, match=r"certificate is not trusted \(self-signed certificate\).*SSL_CERT_FILE"):
        fb.open_source(address)
    monkeypatch.setenv("SSL_CERT_FILE", str(FILES[name]))
    if name == "localhost":
        with fb.open_source(address) as source:
            assert sum(1 for _ in source.frames("cpu")) == FRAMES
    else:
        with pytest.raises(fb.SourceError, match=r"certificate is not trusted .*[Hh]ostname"):
            fb.open_source(address)


@pytest.fixture
def heard() -> Iterator[tuple[int, list[bytes]]]:
    """The port of a server that says nothing, and what its clients said behind TLS."""
    said, listening = list[bytes](), socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client = listening.accept()[0]
                client.settimeout(5)
                with encrypted(client, FILES["localhost"]) as connection:
                    said.append(connection.recv(7))
            except ssl.SSLError:
                continue
            except OSError:
                return

    thread = threading.Thread(target=serve)
    thread.start()
    yield listening.getsockname()[1], said
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


@pytest.mark.parametrize("writes", [False, True], ids=["stream", "camera"])
def test_rtsps_says_nothing_to_a_server_that_is_not_trusted(
    heard: tuple[int, list[bytes]], monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    port, said = heard

    def use() -> None:
        with pytest.raises(fb.SourceError) as caught:
            if writes:
                StreamCamera(f"rtsps://localhost:{port}/in", (64, 48), 30.0, seconds=0.5)
            else:
                fb.open_source(f"rtsps://localhost:{port}/in")
        errors.append(str(caught.value))

    errors = list[str]()
    use()
    assert "certificate is not trusted (self-signed certificate)" in errors[0]
    assert not any(said)
    monkeypatch.setenv("SSL_CERT_FILE", str(FILES["localhost"]))
    use()
    assert "trusted" not in errors[1]
    assert b"OPTIONS" in said
