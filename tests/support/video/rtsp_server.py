"""An RTSP server on loopback, GStreamer's own (gst-rtsp-server), with live streams ``/0`` to ``/3``.

As a script, by the system's Python that has GStreamer's bindings, it serves at the port that is its first argument, and
writes what is sent to ``/in`` to the file that is its second one.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

PYTHON = "/usr/bin/python3"
"""The Python of Debian's package python3-gi."""
STREAMS = 4
LAUNCH = (
    "( videotestsrc is-live=true pattern={pattern} ! video/x-raw,width=64,height=48,framerate=25/1 "
    "! openh264enc gop-size=25 ! h264parse ! rtph264pay name=pay0 pt=96 config-interval=-1 )"
)
RECORD = (
    "( rtph264depay name=depay0 ! h264parse ! video/x-h264,stream-format=byte-stream,alignment=au "
    "! filesink location={place} buffer-mode=unbuffered sync=false )"
)
PATTERNS = ("white", "red", "green", "blue")
"""GStreamer's test pictures, by stream."""


class RtspServer:
    """The server as a process, which a test may stall, kill and start again at the same port."""

    def __init__(self, recording: str = "/dev/null") -> None:
        self.port, self._recording = 0, recording
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def address(self, number: int) -> str:
        """The address of a stream: 0 is white, 1 red, 2 green, 3 blue."""
        return f"rtsp://127.0.0.1:{self.port}/{number}"

    def start(self) -> None:
        """Start it, at the port that it had before."""
        self._process = subprocess.Popen(
            [PYTHON, __file__, str(self.port), self._recording],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        """Cut all connections."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def stall(self) -> None:
        """Send nothing more, and keep the connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End a stall."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def why_absent() -> str:
    """The reason why the server cannot run here, or ""."""
    if not Path(PYTHON).exists():
        return f"there is no {PYTHON}"
    code = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else "gir1.2-gst-rtsp-server-1.0 or python3-gi is not installed"


def serve(port: str, recording: str) -> None:
    """Serve until killed. Prints the port."""
    import gi

    gi.require_version("GstRtspServer", "1.0")
    from gi.repository import GLib, Gst, GstRtspServer

    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(port)
    for number, pattern in enumerate(PATTERNS):
        factory = GstRtspServer.RTSPMediaFactory()
        factory.set_shared(True)
        factory.set_launch(LAUNCH.format(pattern=pattern))
        server.get_mount_points().add_factory(f"/{number}", factory)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_transport_mode(GstRtspServer.RTSPTransportMode.RECORD)
    factory.set_launch(RECORD.format(place=recording))
    server.get_mount_points().add_factory("/in", factory)
    server.attach(None)
    print(server.get_bound_port(), flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    serve(*sys.argv[1:])
