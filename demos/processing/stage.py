"""The work on one video: each frame through a task's model, painted to a video with the source's sound, and rows."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import framebind as fb

from .. import classification, detection, landmarks, poses, segmentation, style_transfer
from ..flags import GpuFlags
from ..models import DEFAULT_STYLE, find_model
from ..player.network import Network
from ..player.report import ALLOWED_COPIES
from ..player.task import Scene, Task

TaskName = Literal["style", "segment", "matte", "detect", "landmarks", "poses", "classify"]
Save = Literal["video", "jsonl"]
TASKS: dict[str, tuple[Callable[[Scene], Task], str]] = {
    "style": (style_transfer.prepare, DEFAULT_STYLE),
    "segment": (segmentation.prepare, "deeplabv3_257_mv_gpu"),
    "matte": (segmentation.prepare, "selfie_segmentation"),
    "detect": (detection.prepare, "face_detection_front"),
    "landmarks": (landmarks.prepare, "pose_landmark_lite"),
    "poses": (poses.prepare, "multi_person_mobilenet_v1_075_float"),
    "classify": (classification.prepare, "mobilenet_v1_1.0_224"),
}
"""Tasks by name: how each is prepared, and its model unless another is named."""

UNFINISHED = ".framebind-unfinished-"
"""Prefix of the folders in which outputs are written before they take their places."""


@dataclass(frozen=True)
class VideoStage:
    """A plain description of the work on each video. Call it with a video and the path of its results without a suffix.

    It can be pickled. Raises SourceError and ModelError for what cannot be read, written or run.
    """

    task: TaskName
    model: str = ""
    save: tuple[Save, ...] = ("video",)
    suffix: str = ".mp4"
    codec: str | None = None
    quality: int | None = None
    every: int = 1
    start: float = 0.0
    end: float | None = None
    """Seconds of the first frame, and of the first one that is left out."""
    flags: GpuFlags = field(default_factory=GpuFlags)

    def outputs(self, place: Path) -> list[Path]:
        """The files that it writes for a place without a suffix."""
        suffixes = {"video": self.suffix, "jsonl": ".jsonl"}
        return [place.with_name(place.name + suffixes[each]) for each in self.save]

    def __call__(self, source: Path, place: Path) -> dict[str, Any]:
        """Process one video; see ``Session.process``. For many videos a Session compiles the model once."""
        with Session(self) as session:
            return session.process(source, place)


class Session:
    """The GL context and the networks that the videos of a stage share: a model is compiled once for each size."""

    def __init__(self, stage: VideoStage) -> None:
        self.stage = stage
        self._networks: dict[str, Network] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Session:
        self._context = self._stack.enter_context(fb.GlContext.headless())
        self._timer = fb.GlTimer()
        return self

    def __exit__(self, *exception: object) -> None:
        self._networks.clear()
        self._stack.close()

    def process(
        self, source: Path, place: Path, advance: Callable[[float], None] = lambda seconds: None
    ) -> dict[str, Any]:
        """Process one video; ``advance`` gets the seconds of each frame on the video's clock.

        Outputs take their places together when all are complete; after an error there is none. Returns frames, seconds,
        CPU seconds, and bytes between host and GPU after the first frame, which compiles and loads weights.
        """
        began, cpu = time.perf_counter(), time.process_time()
        fb.transfers.reset()
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=place.parent) as folder:
            unfinished = Path(folder) / place.name
            frames = self._run(source, unfinished, advance)
            for made, wanted in zip(self.stage.outputs(unfinished), self.stage.outputs(place), strict=True):
                made.replace(wanted)
        return {
            "frames": frames, "seconds": round(time.perf_counter() - began, 3),
            "cpu_seconds": round(time.process_time() - cpu, 3), "bytes": fb.transfers.bytes,
            "outputs": [str(path) for path in self.stage.outputs(place)],
        }  # fmt: skip

    def _run(self, source: Path, place: Path, advance: Callable[[float], None]) -> int:
        """Draw and write each frame. Returns their number."""
        frames = 0
        with contextlib.ExitStack() as stack:
            reader = stack.enter_context(fb.open_source(source, start=self.stage.start, end=self.stage.end))
            picture = stack.enter_context(fb.GlTexture(*reader.size, "rgba8", label="the picture"))
            prepare, model = TASKS[self.stage.task]
            # A task of its own for each video: it remembers where things were in the frame before.
            task = prepare(Scene(self._network(self.stage.model or model), picture, self._network))
            overlay = fb.Overlay()
            put = stack.enter_context(self._open(source, place, picture, reader))
            for number, frame in enumerate(reader.textures(self._context)):
                if number % self.stage.every:
                    continue
                task.draw(frame)
                if task.overlay is not None:
                    task.overlay(overlay)
                    overlay.draw(picture)
                put(task)
                self._timer.end()
                advance(reader.time or 0.0)
                if not frames:
                    fb.transfers.reset()
                    stack.enter_context(fb.transfer_guard("disallow", exempt=ALLOWED_COPIES))
                frames += 1
        return frames

    def _network(self, name: str) -> Network:
        """The network of that name, made once."""
        if name not in self._networks:
            path = find_model(name)
            self._networks[name] = Network(path, self.stage.flags.options(path), self._timer)
        return self._networks[name]

    @contextlib.contextmanager
    def _open(
        self, source: Path, place: Path, picture: fb.GlTexture, reader: fb.Source
    ) -> Iterator[Callable[[Task], None]]:
        """Open the outputs. Yields the function that writes the last frame to each."""
        files = dict(zip(self.stage.save, self.stage.outputs(place), strict=True))
        with contextlib.ExitStack() as stack:
            sink, rows = None, None
            if "video" in files:
                rate = (reader.fps or 25.0) / self.stage.every
                sink = fb.open_sink(
                    files["video"], picture.context, picture.size, fps=rate,
                    codec=self.stage.codec, quality=self.stage.quality,
                    sound_of=source, sound_part=(self.stage.start, self.stage.end),
                )  # fmt: skip
                stack.enter_context(sink)
            if "jsonl" in files:
                rows = stack.enter_context(files["jsonl"].open("w", encoding="utf-8"))

            def put(task: Task) -> None:
                if sink is not None:
                    # A source without a clock, by OpenCV: pictures follow one another.
                    sink.put(picture, None if reader.time is None else reader.time - self.stage.start)
                if rows is not None:
                    found = task.results() if task.results else []
                    rows.write(json.dumps({"source": str(source), "time": reader.time, "found": found}) + "\n")

            yield put
