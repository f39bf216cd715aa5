"""Measures a camera in browsers: viewers by WebRTC (aiortc, in processes of their own), frames, delays and CPU time.

    python benchmarks/video/browser.py [--viewers 20] [--seconds 10] [--size 1280x720] [--fps 30] [--json FILE]

The pictures are arrays, so that no GPU works. CPU seconds are those of this process, which converts, encodes and sends;
those of the encoder are its thread's and the native ones, which are its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import numpy as np
import typer

import framebind as fb

sys.path.insert(0, str(Path(__file__).parents[1]))

import samples
from samples import Series
from thread_seconds import NATIVE, thread_seconds


async def view(address: str, seconds: float) -> tuple[int, float]:
    """The number of frames that one viewer decoded, and the seconds from its offer to the first."""
    from aiortc import RTCPeerConnection, RTCSessionDescription
    from aiortc.mediastreams import MediaStreamError

    connection, times = RTCPeerConnection(), list[float]()
    connection.addTransceiver("video", direction="recvonly")

    async def take(track: Any) -> None:
        with contextlib.suppress(MediaStreamError):  # the connection ends
            while True:
                await track.recv()
                times.append(time.perf_counter())

    connection.on("track", lambda track: asyncio.ensure_future(take(track)))
    await connection.setLocalDescription(await connection.createOffer())
    asked, parts = time.perf_counter(), urlsplit(address)
    page = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    offer = json.dumps({"sdp": connection.localDescription.sdp, "type": "offer"})
    page.request("POST", "/offer", offer, {"Content-Type": "application/json"})
    answer = json.loads(page.getresponse().read())
    await connection.setRemoteDescription(RTCSessionDescription(**answer))
    await asyncio.sleep(seconds)
    await connection.close()
    return len(times), times[0] - asked if times else float("nan")


def view_all(address: str, count: int, seconds: float, results: Any) -> None:
    """A process of several viewers."""

    async def run() -> list[tuple[int, float]]:
        return await asyncio.gather(*(view(address, seconds) for _ in range(count)))

    results.put(asyncio.run(run()))


def main(
    viewers: Annotated[int, typer.Option(min=1)] = 20,
    seconds: float = 10.0,
    size: str = "1280x720",
    fps: float = 30.0,
    json_file: Annotated[Path | None, typer.Option("--json")] = None,
) -> None:
    """Show moving pictures to the viewers, and print what they got; ``--json`` gets it, too."""
    width, height = map(int, size.split("x"))
    rng = np.random.default_rng(0)
    still = np.repeat(np.repeat(rng.integers(0, 256, (height // 8 + 1, width // 8 + 1, 4), np.uint8), 8, 0), 8, 1)
    pictures = [np.roll(still[:height, :width], 8 * shift, 1) for shift in range(8)]
    context, results = multiprocessing.get_context("spawn"), multiprocessing.get_context("spawn").Queue()
    with fb.video.VideoWriter("http://:0", (width, height), fps) as camera:
        process = context.Process(target=view_all, args=(camera.address, viewers, seconds, results))
        process.start()
        camera.wait_until_watched(60)
        began, before, count = time.perf_counter(), thread_seconds(), 0
        while process.is_alive() and results.empty():
            camera.put(pictures[count % 8])
            count += 1
            time.sleep(max(began + count / fps - time.perf_counter(), 0))
        wall, took = time.perf_counter() - began, thread_seconds(before)
        found = results.get(timeout=60)
        process.join()
    frames, first = [row[0] for row in found], [row[1] for row in found]
    print(f"{size} at {fps:g} frames per second, {viewers} viewers in one process, {wall:.1f} s, {count} pictures put")
    print(f"frames per viewer: {min(frames)} to {max(frames)}; first after {min(first):.2f} to {max(first):.2f} s")
    encoder = 100 * (took.get(NATIVE, 0.0) + took["framebind encodes a camera"]) / wall
    rest = 100 * sum(took.values()) / wall - encoder
    print(f"CPU of the encoder: {encoder:.0f}% of a core; of all else: {rest:.0f}%")
    if json_file is not None:
        decoded = f"{min(frames)} to {max(frames)} of {count}"
        labels = {"viewers": viewers, "size": size, "decoded": decoded, "first_ms": round(1e3 * max(first))}
        parts = {"encoder": encoder, "all else": rest}
        series = [Series({**labels, "thread": thread}, [share]) for thread, share in parts.items()]
        samples.write(json_file, samples.measured("browser", [], "% of a core", series))


if __name__ == "__main__":
    typer.run(main)
