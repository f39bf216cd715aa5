"""Measures `process --gpus`: rows of videos on one GPU and on all GPUs of a machine, a few processes on each.

    python benchmarks/video/gpus.py --json ROWS.json detect matte

A clip of 1080p H.264 is made (as in measure.py) and processed ``--units`` times per GPU, by its path. NVDEC decodes,
rows of what was found are written as JSONL. The task "decode" is the decoder alone, by PyAV, in as many processes and
sessions. *whole* counts from the start of the workers to their end, with Python, contexts and the last videos, when
sessions run out of work. *steady* counts between two moments: every session has finished a video, and no video waits
any more. A first run of one unit fills the folder of compiled programs.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from alone import decode_alone
from measure import command_line, write_clip

import framebind as fb
from framebind.video.model_options import ModelOptions
from framebind.video.work import Work
from framebind.video.workers.jobs import Event, Finished, Job, Lost
from framebind.video.workers.processes import run_in_processes
from framebind.video.workers.runners import slots_on
from framebind.video.workers.worker import Slot


@dataclass(frozen=True)
class Row:
    """Figures of one run. Rates are in frames per second, cores in CPU seconds per 1,000 frames.

    ``samples`` has the seconds after which each video was finished, and its CPU seconds.
    """

    task: str
    gpus: int
    processes: int
    frames: int
    whole: float | None
    steady: float | None
    cores: float | None
    steady_cores: float | None
    bytes_per_frame: float
    samples: dict[str, list[float]] = field(default_factory=dict)

    def __str__(self) -> str:
        figures = (self.whole, self.cores, self.steady, self.steady_cores)
        whole, cores, steady, steady_cores = ("" if each is None else f"{each:.5g}" for each in figures)
        return (
            f"{self.task:10} {self.gpus} GPUs {self.processes} processes {self.frames:6} frames "
            f"{whole:>8} whole, {cores:>8} cores; steady {steady:>8}, {steady_cores:>8} cores; "
            f"{self.bytes_per_frame:8.0f} bytes"
        )


def measure(work: Work, clip: Path, output: Path, units: int, slots: list[Slot]) -> Row:
    """Process the clip so many times. Raises DeviceError if a video fails or a worker dies."""
    finished: list[tuple[float, dict[str, Any]]] = []

    def report(event: Event) -> None:
        if isinstance(event, Lost) or (isinstance(event, Finished) and "error" in event.result):
            raise fb.DeviceError(f"a run failed: {event}")
        if isinstance(event, Finished):
            finished.append((time.perf_counter(), event.result))

    began = time.perf_counter()
    run_in_processes(work, [Job(clip, output / f"{number}") for number in range(units)], report, slots=slots)
    seconds = time.perf_counter() - began
    frames, cpu, copied = (sum(result[name] for _, result in finished) for name in ("frames", "cpu_seconds", "bytes"))
    steady, steady_cores = steady_figures(finished, sum(slot.sessions for slot in slots))
    return Row(
        work.task, count_gpus(slots), len(slots), frames, whole=frames / seconds, steady=steady,
        cores=1000 * cpu / frames, steady_cores=steady_cores, bytes_per_frame=copied / frames,
        samples={
            "finished": [when - began for when, _ in finished],
            "cpu_seconds": [result["cpu_seconds"] for _, result in finished],
        },
    )  # fmt: skip


def count_gpus(slots: list[Slot]) -> int:
    """The number of different GPUs."""
    return len({slot.environment or slot.egl for slot in slots})


def measure_decoder(clip: Path, slots: list[Slot]) -> Row:
    """The decoder alone, in as many processes and sessions."""
    rate, cores = decode_alone(clip, slots)
    samples = {"steady": [rate], "steady_cores": [cores]}
    return Row("decode", count_gpus(slots), len(slots), 0, None, rate, None, cores, 0, samples)


def steady_figures(
    finished: list[tuple[float, dict[str, Any]]], sessions: int
) -> tuple[float, float] | tuple[None, None]:
    """The rate and the cores while all sessions have work: videos are alike, so that the first and last ``sessions`` of
    them are the first and last of each. None for too few videos.
    """
    within = finished[sessions - 1 : len(finished) - sessions]
    if len(within) < 2:
        return None, None
    frames, cpu = (sum(result[name] for _, result in within[1:]) for name in ("frames", "cpu_seconds"))
    return frames / (within[-1][0] - within[0][0]), 1000 * cpu / frames


def print_ratio(one: Row, every: Row) -> None:
    """Print how many times as fast all GPUs are as one."""
    steady = f", steady {every.steady / one.steady:.2f}" if every.steady and one.steady else ""
    whole = f"{every.whole / one.whole:.2f}" if every.whole and one.whole else ""
    print(f"{every.task:10} {every.gpus} GPUs are {whole} times one{steady}", flush=True)


def main(
    tasks: Annotated[list[str], typer.Argument(help="Of detect, landmarks, matte and others, and decode.")],
    units: Annotated[int, typer.Option(help="Times that the clip is processed, per GPU.")] = 48,
    frames: Annotated[int, typer.Option(help="Frames of the clip.")] = 600,
    sessions: Annotated[int, typer.Option(help="Videos at once per GPU.")] = 8,
    processes: Annotated[
        str, typer.Option(help="Processes per GPU, each number in turn; they share the sessions.")
    ] = "4",
    one_gpu: Annotated[bool, typer.Option("--one-gpu", help="Measure one GPU only.")] = False,
    backend: Annotated[str, typer.Option(help="cuda or gl.")] = "cuda",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
) -> None:
    found, rows = fb.find_gpus(), list[Row]()
    print("\n".join(map(str, found)), flush=True)
    machine = {
        "machine": f"{len(found)} x {found[0].name}, {os.cpu_count()} CPU cores", "gpus": len(found),
        "sessions": sessions, "clip_frames": frames, "units": units, "command": command_line(),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_clip(folder / "clip.mp4", frames)
        delegate = fb.GpuDelegateOptions(is_precision_loss_allowed=True)
        options = ModelOptions(backend, delegate=delegate, cache=folder / "kept")
        for task in tasks:
            work = None if task == "decode" else Work(task, save=("jsonl",), options=options)
            if work is not None:
                measure(work, folder / "clip.mp4", folder / "first", 1, slots_on(found, "0", 1, backend))
            for count in map(int, processes.split(",")):
                for gpus in ("0", "all")[: 1 if one_gpu else len(found)]:
                    slots = slots_on(found, gpus, sessions, backend, processes=count)
                    times = units * (len(found) if gpus == "all" else 1)
                    rows.append(
                        measure_decoder(folder / "clip.mp4", slots)
                        if work is None
                        else measure(work, folder / "clip.mp4", folder / gpus, times, slots)
                    )
                    print(rows[-1], flush=True)
                    if json_file is not None:  # now, as this may be ended before the last row
                        json_file.write_text(json.dumps({**machine, "rows": [asdict(row) for row in rows]}, indent=1))
                if len(found) > 1 and not one_gpu:
                    print_ratio(*rows[-2:])


if __name__ == "__main__":
    typer.run(main)
