"""Compares ``framebind process`` of ten videos with decoding, the model and encoding measured apart.

    python benchmarks/video/process.py --task style,detect,matte --frames 30 --json process.json

The videos have 1280x720 pixels, H.264, of the bundled photograph in motion. Apart are measured:

* decode: PyAV alone, to the decoder's planes;
* model: the model alone, bound to a picture of that size on the GPU (or what stands for it), waited for each frame;
* encode: PyAV alone, to finished H.264 files, from what the task's road has in CPU memory: planes of 4:2:0 for tasks
  that the CPU paints on the source's frames, RGBA pictures for the others.

*upload*, what a frame costs from the decoder to a texture beside *decode*, is printed too, and is not in the sum.

``process`` is the whole command in a process of its own, with Python's start and the compilation of the model, but with
Python's bytecode: a first run in a folder makes it, and is not measured. *CPU* is the CPU time of all threads, *wall*
the clock's; both in ms per frame. The ratio is that of ``process`` to the sum of the three, which is to be at most 1.15
on 2 cores without a GPU. On a busy machine only CPU times mean something.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from av.video.reformatter import VideoReformatter

import framebind as fb
from framebind.interop.frames.decode.tags import say_colours, wanted_colours
from framebind.interop.frames.read.frame_reader import Pixels
from framebind.interop.frames.read.picture_files import load_picture
from framebind.interop.frames.read.synthetic import MotionReader
from framebind.interop.frames.write.av_file import AvFile, VideoSettings
from framebind.video.assets import PHOTOGRAPH
from framebind.video.model_options import ModelOptions
from framebind.video.models import find_model
from framebind.video.network import Network
from framebind.video.task import Scene
from framebind.video.tasks import find_task, task_names

SIZE = (1280, 720)
RATE = 25
MODEL_FRAMES = 20
"""Frames that the model alone runs, after two that compile it."""


class Cost(NamedTuple):
    """Milliseconds per frame."""

    cpu: float
    wall: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="style,detect,matte", help=f"some of {', '.join(task_names())}")
    parser.add_argument("--videos", type=int, default=10)
    parser.add_argument("--frames", type=int, default=30, help="frames of each video")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{given.videos} videos of {given.frames} frames, {SIZE[0]}x{SIZE[1]}; ms per frame, CPU / wall")
    with tempfile.TemporaryDirectory() as folder:
        clips = Path(folder) / "clips"
        clips.mkdir()
        for number in range(given.videos):
            _write(clips / f"{number}.mp4", _pictures(given.frames, 24 * number))
        frames = given.videos * given.frames
        decode, encode = _measured(lambda: _decode(clips), frames), _encodings(Path(folder), given.videos, given.frames)
        both = _measured(lambda: _upload(clips), frames)
        print(f"upload {both.cpu - decode.cpu:.1f} / {both.wall - decode.wall:.1f}")
        for task in given.task.split(","):
            model = _model_alone(task)
            whole = _process(clips, Path(folder) / f"out-{task}", task, frames)
            rows.append(_row(task, decode=decode, model=model, encode=encode[find_task(task).is_painted], whole=whole))
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


def _row(task: str, *, decode: Cost, model: Cost, encode: Cost, whole: Cost) -> dict[str, Any]:
    """A row of figures, which is printed."""
    cpu, wall = (sum(part) for part in zip(decode, model, encode, strict=True))
    parts = {"decode": decode, "model": model, "encode": encode, "process": whole}
    print(f"{task:10}" + "".join(f" {name} {cost.cpu:.1f} / {cost.wall:.1f}," for name, cost in parts.items()), end="")
    print(f" ratio {whole.cpu / cpu:.2f} / {whole.wall / wall:.2f}", flush=True)
    figures = {f"{name} {kind}": round(getattr(cost, kind), 2) for name, cost in parts.items() for kind in cost._fields}
    ratios = {"ratio cpu": round(whole.cpu / cpu, 3), "ratio wall": round(whole.wall / wall, 3)}
    return {"task": task, **figures, **ratios}


def _measured(work: Callable[[], None], frames: int) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost(1e3 * (time.process_time() - cpu) / frames, 1e3 * (time.perf_counter() - wall) / frames)


def _pictures(frames: int, phase: int) -> Iterator[Pixels]:
    """RGBA pictures of the photograph in motion; the next one overwrites it."""
    reader, bgr = MotionReader(load_picture(PHOTOGRAPH), SIZE, "motion"), np.empty((SIZE[1], SIZE[0], 3), np.uint8)
    rgba = np.full((SIZE[1], SIZE[0], 4), 255, np.uint8)
    for number in range(phase + frames):
        reader.read(bgr)
        if number >= phase:
            rgba[..., :3] = bgr[..., ::-1]
            yield rgba


def _write(path: Path, pictures: Iterable[Pixels]) -> None:
    file = AvFile(path, SIZE, VideoSettings(RATE))
    for picture in pictures:
        file.write(picture)
    file.finish()


def _encodings(folder: Path, videos: int, frames: int) -> dict[bool, Cost]:
    """The cost to encode as many videos, all of the same pictures: of RGBA, and, by True, of planes."""
    pictures = [each.copy() for each in _pictures(frames, 0)]
    rgba = _measured(lambda: _encode(folder, videos, pictures, AvFile.write), videos * frames)
    converter: Any = VideoReformatter()
    planes = [_planes_of(each, converter) for each in pictures]
    pictures.clear()
    return {False: rgba, True: _measured(lambda: _encode(folder, videos, planes, AvFile.write_planes), videos * frames)}


def _planes_of(rgba: Pixels, converter: Any) -> Any:
    colours = wanted_colours("bt709", "limited")
    frame = converter.reformat(av.VideoFrame.from_ndarray(rgba, format="rgba"), format="yuv420p", **colours)
    say_colours(frame, "bt709", "limited")
    return frame


def _encode(folder: Path, videos: int, pictures: list[Any], write: Callable[[AvFile, Any], None]) -> None:
    for number in range(videos):
        file = AvFile(folder / f"encoded-{number}.mp4", SIZE, VideoSettings(RATE))
        for picture in pictures:
            write(file, picture)
        file.finish()


def _decode(clips: Path) -> None:
    for path in clips.iterdir():
        with av.open(str(path)) as container:
            container.streams.video[0].thread_type = "AUTO"
            for _ in container.decode(video=0):
                pass


def _upload(clips: Path) -> None:
    """Decode, and make a texture of each frame."""
    with fb.GlContext.headless() as context:
        for path in clips.iterdir():
            with fb.open_source(path) as source:
                for _ in source.frames(context):
                    context.finish()


def _model_alone(task: str) -> Cost:
    """The task's model, bound as the task binds it, without what is drawn around it."""
    video_task = find_task(task)
    model = video_task.model
    with fb.GlContext.headless() as context:
        timer, networks = fb.GlTimer(), list[Network]()

        def load(name: str) -> Network:
            path = find_model(name)
            networks.append(Network(path, ModelOptions().options(path), timer))
            return networks[-1]

        frame = fb.GlTexture.from_array(next(_pictures(1, 0)))
        drawn = video_task.prepare(Scene(load(model), fb.GlTexture(*SIZE), load))
        for _ in range(2):
            drawn.draw(frame)
            timer.end()

        def run() -> None:
            for _ in range(MODEL_FRAMES):
                networks[0].run()
                timer.end()
                context.finish()

        cost = _measured(run, MODEL_FRAMES)
        networks.clear()
    return cost


def _process(clips: Path, output: Path, task: str, frames: int) -> Cost:
    """The command in a process of its own."""
    words = ["-m", "framebind", "process", str(clips), "--output", str(output), "--task", task]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(output.with_name("bytecode"))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(*arguments: str) -> None:
        command = [sys.executable, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)

    one = next(clips.iterdir())
    run("-m", "framebind", "process", str(one), "--output", str(output.with_name(f"first-{task}")), "--task", task)
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run(*words)
    wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(1e3 * cpu / frames, 1e3 * wall / frames)


if __name__ == "__main__":
    main()
