"""Times frames from one process to another (fb.export_texture), and compares some of them.

    python benchmarks/between_processes.py [--frames 10000] [--size 1920x1080] [--slots 3] [--json FILE]

The exporter draws a colour for each frame. The importer compares every fiftieth and the first four, texel by texel.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import samples
import typer
from samples import Series

import framebind as fb

EACH = 20
"""Frames of one sample."""

READER = """
import sys
import numpy as np
import framebind as fb
from between_processes import colour

compared = wrong = 0
with fb.GlContext.headless(), fb.import_texture(sys.argv[1], timeout=60) as imported:
    for number, texture in enumerate(imported):
        assert imported.number == number, "a frame is missing"
        if number % 50 == 0 or number < 4:
            compared += 1
            wrong += not (texture.read() == np.array(colour(number), np.uint8)).all()
print(f"{imported.number + 1} frames read, {compared} compared, {wrong} wrong")
"""


def colour(number: int) -> tuple[int, int, int, int]:
    """The bytes of each texel of a frame."""
    return number % 256, number // 256 % 256, (3 * number) % 256, 255


def timed(exported: fb.ExportedTexture, frames: int) -> list[float]:
    """Publish frames. Returns milliseconds per frame, each the mean of EACH frames."""
    drawing = fb.FragmentProgram("uniform vec4 tint; void main() { color = tint; }")
    times, began = list[float](), time.perf_counter()
    for number in range(frames):
        drawing.draw(exported.texture, uniforms={"tint": tuple(part / 255 for part in colour(number))})
        if not exported.publish(timeout=60):
            raise SystemExit("the other process reads no frames")
        if number % EACH == EACH - 1:
            now = time.perf_counter()
            times.append((now - began) / EACH * 1e3)
            began = now
    return times


def main(frames: int = 10_000, size: str = "1920x1080", slots: int = 3, json: Path | None = None) -> None:
    """Draw the frames, and print how long they took and what the other process found; ``json`` gets the times."""
    width, height = map(int, size.split("x"))
    with fb.GlContext.headless() as context, fb.export_texture(fb.GlTexture(width, height), slots=slots) as exported:
        command = [sys.executable, "-c", READER, exported.address]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=sys.path[0])
        while not exported.importers:
            time.sleep(0.01)
        fb.transfers.reset()
        times = timed(exported, frames)
        exported.close()
        found = Series({"size": size, "slots": slots, "road": exported.road, "order": exported.order}, times)
        print(f"{context.renderer}, {exported.road}, {exported.order}")
        mean = sum(times) / len(times)
        print(f"{slots} slots: {frames} frames of {size}, {mean:.3f} ms per frame, median {found.median:.3f} ms")
        print(reader.communicate()[0].strip())
        print(fb.transfers)
        if json is not None:
            devices = [(context.renderer, context.gl.version)]
            samples.write(json, samples.measured("between_processes", devices, "ms", [found]))


if __name__ == "__main__":
    typer.run(main)
