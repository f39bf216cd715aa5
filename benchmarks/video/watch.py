"""Measures `watch`: live streams of 1080p over HTTP on loopback, all at once through one model on one context.

    python benchmarks/video/watch.py --json WATCH.json 4 8 16

A clip (as in measure.py, as an MPEG transport stream) is served at its own rate, 30 frames per second, to each stream.
The figures are those of the last five seconds: results per second of each stream (the least one), latency from a
frame's packet to its result, frames that were dropped, and CPU seconds per second of this process without the server.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import multiprocessing
import tempfile
import time
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any, cast

import av
import typer
from measure import write_clip

import framebind as fb
from framebind.demos.flags import GpuFlags
from framebind.demos.processing.work import TaskName, Work
from framebind.demos.watching.watcher import Watcher

FPS, SECONDS = 30, 12.0
"""Rate of the clip, of one minute, and seconds of a measurement."""


@dataclass(frozen=True)
class Row:
    """Figures of all streams: the least rate, the largest median and 95% latency in ms, and sums."""

    task: str
    streams: int
    least_rate: float
    latency_median: float
    latency_p95: float
    dropped: int
    results: int
    cores: float
    renderer: str


def serve(path: Path, port: Connection) -> None:
    """Serve the packets of a transport stream at its own rate; the server process's function."""
    data = path.read_bytes()
    with av.open(str(path)) as container:
        places = [
            (packet.pos, float(packet.dts * packet.time_base)) for packet in container.demux(video=0) if packet.dts
        ]
    places = [(at, seconds) for at, seconds in places if at is not None]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):  # the client goes away when its measurement is over
                self.send_packets()

        def send_packets(self) -> None:
            began = time.perf_counter()
            for (at, seconds), (end, _) in zip(places, [*places[1:], (len(data), 0.0)], strict=True):
                time.sleep(max(began + seconds - places[0][1] - time.perf_counter(), 0))
                self.wfile.write(data[at:end])

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    port.send(server.server_address[1])
    server.serve_forever()


def measure(task: str, streams: int, address: str, flags: GpuFlags) -> Row:
    """Watch for SECONDS after each stream has had its first result."""
    with fb.GlContext.headless() as context:
        work = Work(cast("TaskName", task), save=(), flags=flags)
        watcher = Watcher(context, work, [address] * streams, fb.StreamOptions())
        found: list[dict[str, Any]] = []
        began, cpu, used = 0.0, 0.0, 0.0

        def look() -> None:
            nonlocal began, cpu, used
            now = time.perf_counter()
            if not began and all(stream.latencies.count for stream in watcher.streams):
                began, cpu = now, time.process_time()
            elif began and now - began > SECONDS:
                used = (time.process_time() - cpu) / (now - began)
                found.extend(watcher.figures())
                raise KeyboardInterrupt

        try:
            watcher.run(None, look, every=0.1)
        except KeyboardInterrupt:
            pass
        return Row(
            task, streams, min(each["fps"] for each in found), max(each["latency_median"] for each in found),
            max(each["latency_p95"] for each in found), sum(each["dropped"] for each in found),
            sum(each["results"] for each in found), round(used, 2), context.renderer,
        )  # fmt: skip


def main(
    streams: Annotated[list[int], typer.Argument(help="Numbers of streams.")],
    task: Annotated[list[str] | None, typer.Option(help="Tasks; by default detect and matte.")] = None,
    backend: Annotated[str, typer.Option(help="gl, cl or cuda.")] = "gl",
    out: Annotated[Path | None, typer.Option("--json", help="The file for the figures.")] = None,
) -> None:
    """Print a row for each task and number of streams."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "clip.ts"
        write_clip(clip, FPS * 60)
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(clip, theirs), daemon=True)
        server.start()
        address = f"http://127.0.0.1:{ours.recv()}/live.ts"
        for name in task or ["detect", "matte"]:
            for number in streams:
                rows.append(measure(name, number, address, GpuFlags(backend=backend, f16=True)))
                print(rows[-1], flush=True)
                if out is not None:
                    out.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
        server.terminate()


if __name__ == "__main__":
    typer.run(main)
