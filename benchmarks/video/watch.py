"""Measures `watch`: live streams of 1080p over HTTP on loopback, all at once through one model on one context.

    python benchmarks/video/watch.py --backend cuda --json WATCH.json 8 16 32 64

A clip (as in measure.py, as an MPEG transport stream) is served at its own rate, 30 frames per second, to each stream.
The figures are those of SECONDS after each stream has had its first result: results per second of all streams, and in
the last five seconds of the least one; latency from a frame's packet to its result; the share of the frames that were
dropped; and CPU seconds per second of this process, without those of the servers.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import av
import typer
from measure import write_clip

import framebind as fb
from framebind.video.apis import BY_NAME
from framebind.video.live.watcher import Watcher, open_viewer
from framebind.video.model_options import ModelOptions
from framebind.video.work import Work

FPS, SECONDS = 30, 20
"""Rate of the clip, and its length: a stream that ends is connected again."""
STREAMS_PER_SERVER = 32
"""Streams that one process serves: Python's lock lets one thread of it run."""


@dataclass(frozen=True)
class Row:
    """Figures of all streams: rates per second, the largest median and 95% latency in ms, the share of lost frames.

    ``samples`` has those of each stream, by the name of the field that is the worst of them.
    """

    task: str
    streams: int
    decoder: str
    rate: float
    least_rate: float
    latency_median: float
    latency_p95: float
    dropped: float
    cores: float
    samples: dict[str, list[float]] = field(default_factory=dict)


def serve(path: Path, port: Connection) -> None:
    """Serve the packets of a transport stream at its own rate; the server process's function."""
    data = path.read_bytes()
    with av.open(str(path)) as container:
        places = [
            (packet.pos, float(packet.dts * packet.time_base))
            for packet in container.demux(video=0)
            if packet.dts is not None and packet.pos is not None
        ]
    places[0] = 0, places[0][1]  # with the tables before the first packet

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


@contextlib.contextmanager
def servers(clip: Path, count: int) -> Iterator[list[str]]:
    """Run server processes until the block ends. Yields their addresses."""
    spawned, pipes = multiprocessing.get_context("spawn"), [multiprocessing.Pipe() for _ in range(count)]
    started = [spawned.Process(target=serve, args=(clip, theirs), daemon=True) for _, theirs in pipes]
    try:
        for each in started:
            each.start()
        yield [f"http://127.0.0.1:{ours.recv()}/live.ts" for ours, _ in pipes]
    finally:
        for each in started:
            each.terminate()


def measure(task: str, addresses: list[str], options: ModelOptions, seconds: float) -> Row:
    """Watch so many seconds after each stream has had its first result."""
    work = Work(task, save=(), options=options)
    with open_viewer(work) as viewer:
        watcher = Watcher(viewer, addresses, fb.video.StreamOptions())
        before: list[dict[str, Any]] = []
        after: list[dict[str, Any]] = []
        began, cpu, used, passed = 0.0, 0.0, 0.0, 0.0

        def look() -> None:
            nonlocal began, cpu, used, passed
            now = time.perf_counter()
            if not began and all(stream.latencies.count for stream in watcher.streams):
                began, cpu = now, time.process_time()
                before.extend(watcher.figures())
            elif began and now - began > seconds:
                used, passed = time.process_time() - cpu, now - began
                after.extend(watcher.figures())
                raise KeyboardInterrupt

        try:
            watcher.run(None, look, every=0.1)
        except KeyboardInterrupt:
            pass

        def passed_of(key: str) -> int:
            return sum(each[key] for each in after) - sum(each[key] for each in before)

        samples = {"least_rate": [each["fps"] for each in after]}
        samples |= {name: [each[name] for each in after] for name in ("latency_median", "latency_p95")}
        return Row(
            task, len(addresses), after[0]["decoder"], round(passed_of("results") / passed, 1),
            min(samples["least_rate"]), max(samples["latency_median"]), max(samples["latency_p95"]),
            round(passed_of("dropped") / max(passed_of("dropped") + passed_of("results"), 1), 4),
            round(used / passed, 2), samples,
        )  # fmt: skip


def machine_of(backend: str) -> str:
    """The name of the GPU on which the models run."""
    with BY_NAME[backend].new_context("") as context:
        return getattr(context, "name", "") or context.renderer


def main(
    streams: Annotated[list[int], typer.Argument(help="Numbers of streams.")],
    task: Annotated[list[str] | None, typer.Option(help="Tasks; by default detect and matte.")] = None,
    backend: Annotated[str, typer.Option(help="gl, cl or cuda.")] = "gl",
    seconds: Annotated[float, typer.Option(help="Seconds of a row.")] = 12.0,
    out: Annotated[Path | None, typer.Option("--json", help="The file for the figures.")] = None,
) -> None:
    """Print a row for each task and number of streams."""
    rows: list[Row] = []
    given = [each for last, each in zip(sys.argv, sys.argv[1:], strict=False) if "--json" not in (last, each)]
    measured = {
        "machine": machine_of(backend), "pyav": av.__version__, "cpus": os.cpu_count(), "seconds": seconds,
        "command": f"benchmarks/video/watch.py {' '.join(given)}",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "clip.ts"
        write_clip(clip, FPS * SECONDS)
        with servers(clip, -(-max(streams) // STREAMS_PER_SERVER)) as addresses:
            for name in task or ["detect", "matte"]:
                for number in streams:
                    chosen = [addresses[each // STREAMS_PER_SERVER] for each in range(number)]
                    rows.append(
                        measure(
                            name,
                            chosen,
                            ModelOptions(backend, delegate=fb.GpuDelegateOptions(is_precision_loss_allowed=True)),
                            seconds,
                        )
                    )
                    print(rows[-1], flush=True)
                    if out is not None:
                        shown = {**measured, "rows": [asdict(row) for row in rows]}
                        out.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
