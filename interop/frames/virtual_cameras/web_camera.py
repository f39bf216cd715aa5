"""A camera in a browser: a page that shows the frames by WebRTC, or, if that does not work, as MJPEG.

The server is aiohttp's and WebRTC is aiortc's, in an event loop on a thread of its own; both are of the extra
``browser``. All viewers get the same packets, which ``LiveEncoder`` made once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import threading
import time
from collections.abc import Coroutine, Iterator
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import numpy.typing as npt

from ...errors import SourceError
from .. import virtual_cameras
from ..decode.addresses import is_loopback, masked_address
from .camera import FrameLayout, HostCamera
from .live_encoder import LiveEncoder

log = logging.getLogger("framebind.cameras")

VIEWERS = 32
"""Most viewers at once; the next one is told to come later."""
_OFFER_BYTES = 64 << 10
_SECONDS = 10.0
"""Seconds that a step of the server may take, before an error."""
_LINGER = 3.0
_BOUNDARY = "framebind-picture"
_PAGE = {"/": ("camera.html", "text/html"), "/camera.js": ("camera.js", "text/javascript")}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; media-src 'self' blob:; script-src 'self'; "
    "style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""No other site may read what is here, and the page loads nothing from elsewhere."""
_MISSING = "a camera in a browser needs two packages: pip install aiohttp aiortc ({error})"


class WebCamera(HostCamera):
    """Frames of ``size`` (width, height) at ``http://[HOST]:PORT``. Implements VirtualCamera.

    The host is 127.0.0.1 if it is not named. At another one, viewers need a token: ``http://0.0.0.0:8080/?token=WORD``.

    Raises SourceError if the place cannot be had, a token is missing, or aiohttp is not installed.
    """

    def __init__(self, address: str, size: tuple[int, int], fps: float, seconds: float = _SECONDS) -> None:
        """``seconds`` is the time that a viewer may take for a picture, or wait for one."""
        host, port, self._token = _place(address)
        self._seconds = seconds
        self.layout = FrameLayout("nv12", size)
        self._is_local = not self._token
        self._viewers, self._asked = 0, float("-inf")
        self._changed = threading.Condition()
        self._encoder = LiveEncoder(self.layout, fps)
        self._connections = set[Any]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="framebind camera page", daemon=True)
        self._thread.start()
        self._runner: Any = None
        try:
            self.address = self._run(self._serve(host, port))
        except BaseException:
            self.close()
            raise

    @property
    def is_watched(self) -> bool:
        """Whether somebody looks: a page, or a picture that was asked for a moment ago."""
        return self._viewers > 0 or time.monotonic() - self._asked < _LINGER

    def wait(self, seconds: float) -> bool:
        """Wait until somebody looks, at most so long. Returns whether somebody does."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_watched, seconds)

    @contextlib.contextmanager
    def frame(self, captured: float) -> Iterator[npt.NDArray[np.uint8]]:
        """Give the memory of the next frame, which is the newest one from the end of the block on."""
        with self._encoder.frames.write(captured) as memory:
            yield memory

    def close(self) -> None:
        """End all connections. May be called more than once."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(Exception):  # what does not end by itself ends with the loop
            self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._encoder.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SECONDS)

    async def _serve(self, host: str, port: int) -> str:
        try:
            from aiohttp import web
        except ImportError as error:
            raise SourceError(_MISSING.format(error=error)) from error

        @web.middleware
        async def guard(request: Any, handler: Any) -> Any:
            return await self._guard(request, handler)

        application = web.Application(client_max_size=_OFFER_BYTES, middlewares=[guard])
        application.add_routes(
            [
                *(web.get(path, self._page) for path in _PAGE),
                web.get("/camera.jpg", self._picture),
                web.get("/camera.mjpg", self._pictures),
                web.post("/offer", self._offer),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise SourceError(
                f"nothing can be served at {host}:{port}: {error.strerror or error}; name another port, or 0 for any "
                f"free one"
            ) from error
        port = self._runner.addresses[0][1]
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}/" + (f"?token={self._token}" if self._token else "")

    async def _stop(self) -> None:
        for connection in list(self._connections):
            await connection.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _guard(self, request: Any, handler: Any) -> Any:
        """Refuse requests of other sites' pages, which could not read an answer but turn on a webcam, and those without
        the token.
        """
        from aiohttp import web

        if self._is_local and not is_loopback(request.host):
            raise web.HTTPForbidden(text="not the name of this server")
        if self._token and not hmac.compare_digest(request.query.get("token", "").encode(), self._token.encode()):
            raise web.HTTPForbidden(text="the address needs its ?token=")
        if request.path not in _PAGE and request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise web.HTTPForbidden(text="not for pages of other sites")
        response = await handler(request)
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    async def _page(self, request: Any) -> Any:
        from aiohttp import web

        name, kind = _PAGE[request.path]
        content = files(virtual_cameras).joinpath(name).read_text("utf-8")
        return web.Response(text=content, content_type=kind, headers=_HEADERS)

    @contextlib.contextmanager
    def _looking(self) -> Iterator[None]:
        """Count a viewer within the block. Raises aiohttp's HTTPServiceUnavailable if there are too many."""
        from aiohttp import web

        if self._viewers >= VIEWERS:
            raise web.HTTPServiceUnavailable(text="too many viewers", headers={"Retry-After": "5"})
        with self._changed:
            self._viewers += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            self._viewers -= 1

    async def _picture(self, request: Any) -> Any:
        """The next frame as a JPEG file."""
        from aiohttp import web

        newest = _Newest(self._loop)
        with self._looking():
            self._asked = time.monotonic()
            self._encoder.add_jpegs(newest.put)
            try:
                content = await asyncio.wait_for(newest.get(), self._seconds)
            except asyncio.TimeoutError:
                raise web.HTTPServiceUnavailable(text="no picture yet") from None
            finally:
                self._encoder.remove(newest.put)
        return web.Response(body=content, content_type="image/jpeg")

    async def _pictures(self, request: Any) -> Any:
        """JPEG files until the client goes away (MJPEG). One that takes them slowly misses some."""
        from aiohttp import web

        kind = f"multipart/x-mixed-replace; boundary={_BOUNDARY}"
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": kind})
        newest = _Newest(self._loop)
        with self._looking():
            await response.prepare(request)
            self._encoder.add_jpegs(newest.put)
            try:
                while True:
                    jpeg = await newest.get()
                    head = f"--{_BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
                    await asyncio.wait_for(response.write(head.encode() + jpeg + b"\r\n"), self._seconds)
            except (ConnectionError, asyncio.TimeoutError):
                if request.transport is not None:
                    request.transport.abort()  # else the end of the answer waits for a client that takes nothing
                return response
            finally:
                self._encoder.remove(newest.put)

    async def _offer(self, request: Any) -> Any:
        """Answer the offer of a page's RTCPeerConnection."""
        from aiohttp import web

        try:
            from .webrtc import answer
        except ImportError as error:
            raise web.HTTPNotImplemented(text=_MISSING.format(error=error)) from error
        try:
            sdp = str((await request.json())["sdp"])
            with contextlib.ExitStack() as seat:
                seat.enter_context(self._looking())
                described = await answer(self._encoder, sdp, self._connections, seat)
        except (ValueError, KeyError, TypeError) as error:
            raise web.HTTPBadRequest(text=f"this is no offer of WebRTC: {error}") from error
        return web.json_response(described)


class _Newest:
    """The newest value that the encoder's thread gave to a coroutine."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._arrived = loop, asyncio.Event()
        self._value = b""

    def put(self, value: bytes) -> None:
        self._value = value
        with contextlib.suppress(RuntimeError):  # the loop ends
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def get(self) -> bytes:
        await self._arrived.wait()
        self._arrived.clear()
        return self._value


def _place(address: str) -> tuple[str, int, str]:
    """Host, port and token of an address. Raises SourceError."""
    shown = masked_address(address)
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise SourceError(f"'{shown}' is no address to serve at, such as http://:8080: {error}") from None
    host = parts.hostname or "127.0.0.1"
    token = "".join(parse_qs(parts.query).get("token", []))
    if port is None or parts.path not in ("", "/"):
        raise SourceError(f"'{shown}' is no address to serve at, such as http://:8080")
    if not is_loopback(host) and len(token) < 8:
        raise SourceError(
            f"others can reach {host}: name a token of 8 characters or more, which the address that you give them has "
            f"too: http://{host}:{port}/?token=..."
        )
    return host, port, token
