"""A camera that is pushed to a server: RTSP, SRT or WHIP, in H.264, by FFmpeg's own writers (PyAV)."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

import av
import numpy as np
import numpy.typing as npt
from av.error import FFmpegError

from ...errors import SourceError
from ..decode.addresses import is_loopback, masked_address
from ..decode.certificates import WHEELS_FILE, connect, tls_options, untrusted
from .camera import FrameLayout, HostCamera
from .live_encoder import CLOCK, OPTIONS, LiveEncoder

log = logging.getLogger("framebind.cameras")

_FORMATS = {"rtsp": "rtsp", "rtsps": "rtsp", "srt": "mpegts", "whip": "whip"}
"""FFmpeg's muxers by the scheme of the address."""
_PORTS = {"rtsp": 554, "rtsps": 322, "http": 80, "https": 443}
"""The ports of protocols over TCP, by the scheme that FFmpeg sees."""
_SECONDS = 10.0
"""Seconds that connecting, opening and a write may take each."""
_RETRY_SECONDS = 2.0
_QUEUE = 60


class StreamCamera(HostCamera):
    """Frames of ``size`` (width, height) that are sent to the server of an address. Implements VirtualCamera.

    Raises SourceError if the server does not take them. If it goes away later, one sentence says so, and the camera
    tries again every two seconds; the frames meanwhile are lost.
    """

    is_watched = True

    def __init__(self, address: str, size: tuple[int, int], fps: float, seconds: float = _SECONDS) -> None:
        """Connect within ``seconds``."""
        self.layout, self._fps, self._address, self._seconds = FrameLayout("nv12", size), fps, address, seconds
        self.shown = masked_address(address)
        self._packets, self._ends = queue.Queue[av.Packet | None](_QUEUE), threading.Event()
        self._tried = 0.0
        self._encoder = LiveEncoder(self.layout, fps)
        try:
            self._output: _Output | None = _Output(address, self.layout, fps, seconds)
        except SourceError:
            self._encoder.close()
            raise
        self._encoder.add(self._put)
        self._thread = threading.Thread(target=self._send, name="framebind sends a camera", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Return True: a server takes frames always."""
        return True

    @contextlib.contextmanager
    def frame(self, captured: float) -> Iterator[npt.NDArray[np.uint8]]:
        """Give the memory of the next frame, which is encoded and sent from the end of the block on."""
        with self._encoder.frames.write(captured) as memory:
            yield memory

    def close(self) -> None:
        """End the stream. May be called more than once."""
        self._encoder.close()
        self._ends.set()
        with contextlib.suppress(queue.Full):  # else it looks at the event with the next packet
            self._packets.put_nowait(None)
        self._thread.join()

    def _put(self, packet: av.Packet) -> None:
        with contextlib.suppress(queue.Full):  # the server stalls: what comes after a gap begins with a key frame
            self._packets.put_nowait(packet)
            return
        self._encoder.ask_for_key()

    def _send(self) -> None:
        while (packet := self._packets.get()) is not None:
            if self._output is None:
                self._open_again()
            if self._output is not None:
                self._write(self._output, packet)
            if self._ends.is_set() and (self._output is None or self._packets.empty()):
                break
        if self._output is not None:
            self._output.close()

    def _write(self, output: _Output, packet: av.Packet) -> None:
        try:
            output.write(packet)
        except FFmpegError as error:
            log.warning("%s takes no more frames (%s): trying again", self.shown, error.strerror or error)
            output.close()
            self._output = None

    def _open_again(self) -> None:
        if self._ends.is_set() or time.monotonic() - self._tried < _RETRY_SECONDS:
            return
        self._tried = time.monotonic()
        try:
            self._output = _Output(self._address, self.layout, self._fps, self._seconds)
        except SourceError:
            return
        log.info("%s takes frames again", self.shown)
        self._encoder.ask_for_key()


class _Output:
    """FFmpeg's writer of a stream, from the first key frame on."""

    def __init__(self, address: str, layout: FrameLayout, fps: float, seconds: float) -> None:
        scheme = urlsplit(address).scheme
        place = _whip_place(address) if scheme == "whip" else address
        try:
            _ask(place, seconds)
            _check_whip(scheme, address)
            self._container: Any = av.open(place, "w", format=_FORMATS[scheme], options=_options(scheme, seconds))
            width, height = layout.padded
            # Its encoder is opened, but encodes nothing: WHIP and RTSP describe a stream by what an encoder says of it.
            self._stream = self._container.add_stream(
                "libx264", rate=Fraction(fps).limit_denominator(1000), width=width, height=height, pix_fmt="nv12",
                options=dict(OPTIONS["libx264"]),
            )  # fmt: skip
            self._stream.codec_context.time_base = self._stream.time_base = Fraction(1, CLOCK)
            _within(seconds, self._container.start_encoding)
        except (FFmpegError, OSError, ValueError) as error:
            # Without its cause, which has the whole address.
            raise SourceError(f"{masked_address(address)} takes no frames: {_reason(error, scheme, place)}") from None
        self._has_begun = False

    def write(self, packet: av.Packet) -> None:
        """Send a packet. Raises FFmpegError if the server does not take it."""
        if not (self._has_begun or packet.is_keyframe):
            return
        self._has_begun = True
        packet.stream = self._stream
        self._container.mux(packet)

    def close(self) -> None:
        """End the stream, as well as may be."""
        with contextlib.suppress(FFmpegError):
            self._container.close()


def _whip_place(address: str) -> str:
    """The HTTP address of a WHIP endpoint: TLS, but on this machine."""
    host = urlsplit(address).hostname or ""
    return ("http" if is_loopback(host) else "https") + address.removeprefix("whip")


def _check_whip(scheme: str, address: str) -> None:
    """Raise SourceError if PyAV is too old for WHIP: if the server fell silent, no other thread would ever go on."""
    if scheme == "whip" and int(av.__version__.partition(".")[0]) < 19:
        raise SourceError(
            f"{masked_address(address)} takes no frames: the FFmpeg of PyAV {av.__version__} agrees with no WHIP "
            "server that was tried. PyAV 19 does, which needs Python 3.12 or later"
        )


def _options(scheme: str, seconds: float) -> dict[str, str]:
    """FFmpeg's options of RTSP: TCP, whose waits end, and certificates that are checked. Others pass none on."""
    if not scheme.startswith("rtsp"):
        return {}
    return {"rtsp_transport": "tcp", "timeout": str(round(seconds * 1e6)), **tls_options(scheme)}


def _ask(place: str, seconds: float) -> None:
    """Ask a server of TCP what it can do, and wait for its answer. Raises OSError if none comes.

    Before PyAV 19 no other Python thread runs while FFmpeg opens a stream, so that it had better not wait then.
    """
    parts = urlsplit(place)
    if parts.scheme not in _PORTS:
        return
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme.startswith("rtsp"):
        request = f"OPTIONS {parts.scheme}://{host}{parts.path} RTSP/1.0\r\nCSeq: 1\r\n\r\n"
    else:
        request = f"OPTIONS {parts.path or '/'} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    with connect(place, _PORTS, seconds) as connection:
        connection.sendall(request.encode())
        connection.recv(1)


def _within(seconds: float, open_it: Callable[[], None]) -> None:
    """Call a function on a thread, and raise what it raises, or TimeoutError if it takes longer: WHIP has no limit."""
    done = queue.SimpleQueue[Exception | None]()

    def work() -> None:
        try:
            open_it()
        except (FFmpegError, OSError, ValueError) as error:
            done.put(error)
        else:
            done.put(None)

    threading.Thread(target=work, name="framebind opens a stream", daemon=True).start()
    try:
        error = done.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error


def _reason(error: Exception, scheme: str, place: str) -> str:
    if "Protocol not found" in str(error):
        return f"the FFmpeg of this PyAV has no {scheme}: install PyAV from source beside an FFmpeg that has"
    # Of other errors only the kind: a text may have a part of the address, such as its password.
    if isinstance(error, ssl.SSLCertVerificationError):
        return untrusted(error)
    kind = "timed out" if isinstance(error, TimeoutError) else type(error).__name__
    reason = getattr(error, "strerror", None) or kind
    if scheme != "whip" or not isinstance(error, FFmpegError):
        return reason
    if place.startswith("https") and sys.platform == "linux" and not os.path.exists(WHEELS_FILE):
        return f"{reason}. For WHIP, PyAV's wheels trust the certificates in {WHEELS_FILE} alone, which is not there"
    return reason
