"""Measures videos that NVDEC decodes and models read: frames per second, beside the decoder alone, and CPU time.

    python benchmarks/video/measure.py --json ROWS.json

A clip of 1080p H.264 is made (x264, ultrafast; the bundled photograph moves). So many sessions process it side by side,
a thread each: decoding alone, then with a model on each frame, whose outputs stay on the GPU ("framebind") or are read
back while the next frame is decoded ("framebind, read"). Models are compiled before the time begins. The rate and the
cores are those of the steady part of a run, in which all sessions are under way; of *whole* runs the opening of the
files is a part, and the time in which some sessions have ended. ``--processes 1,4``
measures all of that twice: with all sessions in one process, and with four that share them. A row is the median of
``--repeats`` runs. *share* is the rate as a part of the decoder's alone in as many processes, the mean of before and
after. *cores* are CPU seconds of the processes per 1,000 frames: cores per 1,000 frames/s. *bytes* cross the bus per
frame, counted by ``fb.transfers``. *error* is the mean difference of the last frame's outputs from LiteRT's CPU
kernels, whose frame FFmpeg converted and OpenCV scaled, as a share of the largest value.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import av
import cv2
import numpy as np
import typer
from av.video.reformatter import Colorspace
from runs import ProcessPool, Run
from sessions import (
    MODELS,
    NO_MODEL,
    Array,
    DecodeOnly,
    Framebind,
    MakeSession,
    Model,
    last_inputs,
    litert_outputs,
    mean_error,
)

import framebind as fb
from framebind.video.assets import PHOTOGRAPH
from framebind.video.models import find_model

SIZE, RATE = (1920, 1080), 30
ALONE = "decoder alone"


@dataclass(frozen=True)
class Row:
    """Figures of one way to process the clip: see the top of this file. ``rate`` is in frames per second.

    ``samples`` has those of each run, by the name of the field that is their median.
    """

    model: str
    on: str
    sessions: int
    rate: float
    cores: float
    bytes_per_frame: float
    error: float | None = None
    share: float | None = None
    why_not: str = ""
    processes: int = 1
    whole_rate: float | None = None
    whole_cores: float | None = None
    samples: dict[str, list[float]] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.why_not:
            return f"{self.model:24} {self.on:18} {self.why_not}"
        share = "" if self.share is None else f"{self.share:.1%}"
        error = "" if self.error is None else f"{self.error:.1e}"
        return (
            f"{self.model:24} {self.on:18} {self.sessions:3} in {self.processes:2} {self.rate:8.0f} {share:>7} "
            f"{self.cores:7.3f} {self.bytes_per_frame:10.0f} {error:>8}"
            + ("" if self.whole_rate is None else f"  whole {self.whole_rate:.0f} {self.whole_cores:.3f}")
        )


def write_clip(path: Path, frames: int) -> None:
    """Write the clip: the photograph moves four pixels per frame."""
    photograph = cv2.imread(str(PHOTOGRAPH))
    assert photograph is not None
    bgr = cv2.resize(photograph, SIZE, interpolation=cv2.INTER_LINEAR)
    joined: Any = np.hstack([bgr, bgr[:, ::-1], bgr])
    wide: Any = av.VideoFrame.from_ndarray(joined, format="bgr24")
    wide = wide.reformat(format="yuv420p", dst_colorspace=Colorspace.ITU709)
    planes = [np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:, : plane.width] for plane in wide.planes]
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=RATE, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        stream.codec_context.colorspace = Colorspace.ITU709
        for number in range(frames):
            at = 4 * number % (2 * SIZE[0])
            parts = [
                plane[:, at // step : (at + SIZE[0]) // step].ravel()
                for plane, step in zip(planes, (1, 2, 2), strict=True)
            ]
            picture: Any = np.concatenate(parts).reshape(-1, SIZE[0])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="yuv420p")))
        container.mux(stream.encode(None))


def row_of(
    model: Model, on: str, sessions: int, runs: list[Run], expected: list[Array] | None = None, processes: int = 1
) -> Row:
    """The medians of runs, and their samples."""
    outputs, wholes = runs[-1].outputs, [run.whole for run in runs]
    spans = [run.steady for run in runs if run.steady is not None] or wholes
    samples = {"rate": [span.rate for span in spans], "cores": [span.cores for span in spans]}
    if spans is not wholes:
        samples |= {"whole_rate": [span.rate for span in wholes], "whole_cores": [span.cores for span in wholes]}
    medians = {name: statistics.median(values) for name, values in samples.items()}
    return Row(
        model.name, on, sessions, medians["rate"], medians["cores"],
        bytes_per_frame=statistics.median(run.nbytes / run.whole.frames for run in runs),
        error=None if outputs is None or expected is None else mean_error(outputs, expected),
        processes=processes, whole_rate=medians.get("whole_rate"), whole_cores=medians.get("whole_cores"),
        samples=samples,
    )  # fmt: skip


def with_shares(rows: list[Row]) -> list[Row]:
    """The rows with their rates as a part of the decoder's alone in as many processes.

    Whole runs are compared if one of the two has no steady part.
    """
    return [replace(row, share=None if row.why_not else _share(row, rows)) for row in rows]


def _share(row: Row, rows: list[Row]) -> float | None:
    alone = [each for each in rows if each.on == ALONE and each.processes == row.processes and not each.why_not]
    if not alone:
        return None
    if all(each.whole_rate is not None for each in (row, *alone)):
        return row.rate / statistics.mean(each.rate for each in alone)
    return (row.whole_rate or row.rate) / statistics.mean(each.whole_rate or each.rate for each in alone)


@dataclass
class Report:
    """The rows of a measurement: each is printed when it comes, and kept in ``file`` with those before, as the
    measurement may be ended before its last row. ``frames`` are those of the clip.
    """

    frames: int
    file: Path | None
    machine: dict[str, Any] = field(default_factory=dict)
    """The facts about the machine that ``described`` finds."""
    rows: list[Row] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def add(self, row: Row) -> None:
        """Print a row, and keep it."""
        self.rows.append(row)
        rows = with_shares(self.rows)
        print(f"{rows[-1]}  after {time.monotonic() - self.began:.0f} s", flush=True)
        if self.file is not None:
            shown = {**self.machine, "frames": self.frames, "rows": [asdict(each) for each in rows]}
            self.file.write_text(json.dumps(shown, indent=1))


def described(context: fb.cuda.CudaContext) -> dict[str, Any]:
    """The machine, and the command."""
    with fb.GpuDelegate("cuda") as delegate:
        fb.Interpreter(find_model(MODELS["face"].name), experimental_delegates=[delegate]).allocate_tensors()
        driver = delegate.statistics().driver
    return {
        "machine": context.name, "driver": driver, "pyav": av.__version__, "cpus": os.cpu_count(),
        "command": command_line(),
    }  # fmt: skip


def command_line() -> str:
    """The command of this process, without the file of the rows."""
    given = [each for before, each in zip(sys.argv, sys.argv[1:], strict=False) if "--json" not in (before, each)]
    return f"benchmarks/video/{Path(sys.argv[0]).name} {' '.join(given)}"


def main(
    models: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(MODELS)}.")] = None,
    sessions: Annotated[int, typer.Option(help="Sessions side by side.")] = 8,
    processes: Annotated[
        str, typer.Option(help="Processes that share the sessions of framebind and NVDEC, each number in turn.")
    ] = "1",
    frames: Annotated[int, typer.Option(help="Frames of the clip.")] = 600,
    repeats: Annotated[int, typer.Option(help="Runs of each row.")] = 3,
    read: Annotated[bool, typer.Option(help="Measure outputs that are read, too.")] = True,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
) -> None:
    report = Report(frames, json_file)
    with tempfile.TemporaryDirectory() as folder, fb.cuda.CudaContext(independent=True) as context:
        clip = Path(folder) / "clip.mp4"
        write_clip(clip, frames)
        report.machine = described(context)
        print(f"{context.name}, {frames} frames of {SIZE[0]}x{SIZE[1]}, {clip.stat().st_size / 1e6:.1f} MB", flush=True)
        keep = Path(folder) / "kept"
        ways: dict[str, MakeSession] = {"framebind": partial(Framebind, reads=False, keep=keep)}
        if read:
            ways["framebind, read"] = partial(Framebind, reads=True, keep=keep)
        chosen = [MODELS[name] for name in models or MODELS]
        expected = {model: litert_outputs(model, last_inputs(clip, model)) for model in chosen}
        alone = (ALONE, NO_MODEL, DecodeOnly)
        measured = [alone, *[(name, model, make) for name, make in ways.items() for model in chosen], alone]
        for count in map(int, processes.split(",")):
            with contextlib.closing(ProcessPool(count)) as pool:
                for name, model, make in measured:
                    runs = pool.run(make, model, clip, sessions, repeats)
                    report.add(row_of(model, name, sessions, runs, expected.get(model), count))


if __name__ == "__main__":
    typer.run(main)
