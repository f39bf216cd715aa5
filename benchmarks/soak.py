"""Runs a demo for a long time on a looping video, and reports growth of memory and GL objects, and uneven frames.

Example: python benchmarks/soak.py --seconds 1800 --output soak.txt

It runs in a window if there is a display, else headless. Exit code 1: something grows, or the 99th percentile of frame
times is more than twice their median.
"""

from __future__ import annotations

import gc
import os
import time
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import numpy as np
import typer

import framebind as fb
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from framebind.video.assets import PHOTOGRAPH
from framebind.video.task import Drawing, Scene
from framebind.video.tasks import find_task

VIDEO_FRAMES = 120
WARM_UP = 0.2
"""Share of the time after which memory must not grow: drivers and allocators fill their caches first."""
MAX_GROWTH = 4.0
"""Largest growth of resident memory after the warm-up, in MiB: three frames of 640x480."""
MAX_RATIO = 2.0
"""Largest ratio of the 99th percentile of frame times to their median."""
DEMOS: dict[str, tuple[Callable[[Scene], Drawing], str]] = {
    "style_transfer": (find_task("style").prepare, "style_transfer"),
    "segmentation": (find_task("matte").prepare, "selfie_segmentation"),
}


@dataclass(frozen=True)
class Sample:
    """Memory and objects of the process at one moment: ``resident`` in MiB, GL objects by kind."""

    seconds: float
    frames: int
    resident: float
    python_objects: int
    gl_objects: dict[str, int]


@dataclass
class Soak:
    """Wraps a task's draw: notes the start of each frame, and takes 20 samples over the whole time."""

    seconds: float
    times: array[float]
    samples: list[Sample] = field(default_factory=list)
    frames: int = 0
    started: float = 0.0

    def prepare(self, prepare: Callable[[Scene], Drawing], scene: Scene) -> Drawing:
        """Make the task, and wrap its draw."""
        task, context = prepare(scene), scene.picture.context

        def draw(frame: fb.GlTexture) -> None:
            now = time.perf_counter()
            self.started = self.started or now
            self.times[self.frames % len(self.times)] = now
            self.frames += 1
            if now - self.started >= len(self.samples) * self.seconds / 20:
                self.samples.append(self._sample(context, now - self.started))
            task.draw(frame)

        return Drawing(draw, task.variants, task.mark)

    def _sample(self, context: fb.GlContext, seconds: float) -> Sample:
        gc.collect()
        context.objects.drain()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        resident = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        return Sample(seconds, self.frames, resident, len(gc.get_objects()), dict(+Counter(context.objects.live)))


def write_video(path: Path, size: tuple[int, int]) -> None:
    """Write a video of motion over a photograph."""
    source = fb.open_source(f"synthetic:{PHOTOGRAPH}", size=size)
    with fb.GlContext.headless() as context, source, fb.video.VideoWriter(path, like=source) as video:
        for frame in islice(source.frames(context), VIDEO_FRAMES):
            video.put(frame)


def judge(soak: Soak) -> tuple[list[str], bool]:
    """The lines to print, and whether all is well."""
    times = np.array(soak.times[: min(soak.frames, len(soak.times))])
    order = np.sort(times) if soak.frames > len(times) else times
    intervals = np.diff(order)[5:] * 1e3
    median, p99, longest = np.percentile(intervals, [50, 99, 100])
    settled = [s for s in soak.samples if s.seconds >= WARM_UP * soak.seconds]
    growth = settled[-1].resident - settled[0].resident
    same = all(sample.gl_objects == settled[0].gl_objects for sample in settled)
    lines = [
        f"{s.seconds:8.0f} s {s.frames:8d} frames {s.resident:8.1f} MiB {s.python_objects:8d} Python objects   "
        + ", ".join(f"{count} {kind}" for kind, count in sorted(s.gl_objects.items()))
        for s in soak.samples
    ]
    lines += [
        f"resident memory since {settled[0].seconds:.0f} s: {growth:+.1f} MiB (at most {MAX_GROWTH:.0f})",
        f"GL objects since then: {'the same' if same else 'not the same'}",
        f"frame time: median {median:.2f} ms, p99 {p99:.2f} ms, longest {longest:.2f} ms; p99 is "
        f"{p99 / median:.2f} times the median (at most {MAX_RATIO:.0f})",
    ]
    return lines, growth <= MAX_GROWTH and same and p99 <= MAX_RATIO * median


def main(
    seconds: Annotated[float, typer.Option(min=5, help="How long.")] = 1800.0,
    demo: Annotated[Literal["style_transfer", "segmentation"], typer.Option(help="Which demo.")] = "style_transfer",
    size: Annotated[str, typer.Option(help="WIDTHxHEIGHT of the video.")] = "640x480",
    vsync: Annotated[bool, typer.Option(help="At the video's own speed, or as fast as it goes.")] = True,
    output: Annotated[Path | None, typer.Option(help="Write the figures to this file as well.")] = None,
) -> None:
    """Run a demo for a long time on a looping video, and watch memory, GL objects and frame times."""
    prepare, model = DEMOS[demo]
    width, _, height = size.partition("x")
    soak = Soak(seconds, array("d", [0.0]) * int(min(seconds * 1000, 4e6)))
    window = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    with TemporaryDirectory() as folder:
        video = Path(folder) / "loop.avi"
        write_video(video, (int(width), int(height)))
        options = Options(
            model, str(video), window=window, headless=not window, duration=seconds, loop=True, vsync=vsync
        )
        report = run(partial(soak.prepare, prepare), options)
    lines, well = judge(soak)
    lines = [f"{demo} at {size}, {'in a window' if window else 'headless'}", *lines, str(report)]
    print("\n".join(lines))
    if output is not None:
        output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    raise typer.Exit(0 if well else 1)


if __name__ == "__main__":
    typer.run(main)
