"""Measures a virtual camera of PipeWire: CPU time by thread, beside a viewer in a process of its own.

    python benchmarks/video/virtual_camera.py [--put planes|arrays|texture] [--seconds 20] [--size 1280x720] [--fps 30]
        [--json FILE]

Planes are NV12 on the CPU, so that no GPU works and nothing is converted; arrays are converted by swscale; a texture is
packed by the GPU and read. A daemon of its own runs, and a viewer is linked by hand, as in the tests. A sample is that
of a quarter of the time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

import framebind as fb

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))

import samples
from samples import Series
from thread_seconds import thread_seconds

from support.pipewire import Daemon, Viewer

PARTS = 4


def view(folder: Path, size: tuple[int, int], fps: int, stop: Any, results: Any) -> None:
    """A process that takes frames in NV12 until it is stopped, and says how many it got."""
    with Viewer(Daemon(folder), "nv12", size, keeps=False, fps=fps) as viewer:
        viewer.watch("framebind.measured")
        stop.wait()
        results.put(len(viewer.seen))


def pictures(put: str, size: tuple[int, int]) -> list[Any]:
    """Eight pictures that differ."""
    width, height = size
    rng = np.random.default_rng(0)
    if put == "planes":
        lumas = [rng.integers(16, 235, (height, width), np.uint8) for _ in range(8)]
        chroma = np.full((height // 2, width // 2, 2), 128, np.uint8)
        return [fb.YuvPicture([luma, chroma], format="nv12", matrix="bt709", range="limited") for luma in lumas]
    arrays = [rng.integers(0, 256, (height, width, 4), np.uint8) for _ in range(8)]
    if put == "arrays":
        return arrays
    textures = [fb.GlTexture(*size) for _ in arrays]
    for texture, array in zip(textures, arrays, strict=True):
        texture.write(array)
    return textures


def run(put: Callable[[Any], None], shown: list[Any], seconds: float, fps: int) -> int:
    """Put pictures at a rate. Returns how many."""
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        put(shown[count % len(shown)])
        count += 1
        time.sleep(max(began + count / fps - time.perf_counter(), 0))
    return count


def main(
    put: Literal["planes", "arrays", "texture"] = "planes",
    seconds: Annotated[float, typer.Option(min=1)] = 20.0,
    size: str = "1280x720",
    fps: Annotated[int, typer.Option(min=1)] = 30,
    json: Path | None = None,
) -> None:
    """Show pictures to a viewer, and print the CPU time that this process took; ``json`` gets its samples."""
    width, height = map(int, size.split("x"))
    context = multiprocessing.get_context("spawn")
    stop, results = context.Event(), context.Queue()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ.update(PIPEWIRE_RUNTIME_DIR=str(folder), XDG_RUNTIME_DIR=str(folder))
        daemon = Daemon(folder)
        daemon.start()
        stack.callback(daemon.kill)
        if put == "texture":
            stack.enter_context(fb.GlContext.headless())
        camera = stack.enter_context(fb.video.VideoWriter("pipewire:measured", (width, height), fps))
        process = context.Process(target=view, args=(folder, (width, height), fps, stop, results))
        process.start()
        camera.wait_until_watched(60)
        shown = pictures(put, (width, height))
        run(camera.put, shown, 1.0, fps)
        took, count = dict[str, list[float]](), 0
        for _ in range(PARTS):
            before = thread_seconds()
            count += run(camera.put, shown, seconds / PARTS, fps)
            for name, spent in thread_seconds(before).items():
                took.setdefault(name, []).append(100 * spent / seconds * PARTS)
        stop.set()
        seen = results.get(timeout=60)
        process.join()
    print(f"{size} at {fps} frames per second, {put}: {count} put in {seconds:g} s, {seen} seen with those before")
    for name, shares in sorted(took.items(), key=lambda each: -sum(each[1])):
        print(f"{sum(shares) / PARTS:5.1f}% of a core: {name}")
    print(f"{sum(map(sum, took.values())) / PARTS:5.1f}% of a core: all threads")
    if json is not None:
        series = [Series({"put": put, "size": size, "thread": name}, shares) for name, shares in took.items()]
        samples.write(json, samples.measured("virtual_camera", [], "% of a core", series))


if __name__ == "__main__":
    typer.run(main)
