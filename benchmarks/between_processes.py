"""Times frames from one process to another (fb.export_texture), and compares some of them.

    python benchmarks/between_processes.py [--frames 10000] [--size 1920x1080] [--slots 3]

The exporter draws a colour for each frame. The importer compares every fiftieth and the first four, texel by texel.
"""

from __future__ import annotations

import subprocess
import sys
import time

import typer

import framebind as fb

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


def main(frames: int = 10_000, size: str = "1920x1080", slots: int = 3) -> None:
    """Draw the frames, and print how long they took and what the other process found."""
    width, height = map(int, size.split("x"))
    with fb.GlContext.headless() as context, fb.export_texture(fb.GlTexture(width, height), slots=slots) as exported:
        drawing = fb.FragmentProgram("uniform vec4 tint; void main() { color = tint; }")
        command = [sys.executable, "-c", READER, exported.address]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=sys.path[0])
        while not exported.importers:
            time.sleep(0.01)
        fb.transfers.reset()
        began = time.perf_counter()
        for number in range(frames):
            drawing.draw(exported.texture, uniforms={"tint": tuple(part / 255 for part in colour(number))})
            if not exported.publish(timeout=60):
                raise SystemExit("the other process reads no frames")
        seconds = time.perf_counter() - began
        exported.close()
        print(f"{context.renderer}, {exported.road}, {exported.order}")
        print(f"{slots} slots: {frames} frames of {size} in {seconds:.2f} s, {seconds / frames * 1e3:.2f} ms per frame")
        print(reader.communicate()[0].strip())
        print(fb.transfers)


if __name__ == "__main__":
    typer.run(main)
