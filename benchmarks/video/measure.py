"""Measures videos that NVDEC decodes and models read: frames per second, beside the decoder alone, and CPU time.

    python benchmarks/video/measure.py --json ROWS.json --compare nvdec-torch,cv2-litert-cpu,cv2-litert-gpu

A clip of 1080p H.264 is made (x264, ultrafast; the bundled photograph moves). So many sessions process it side by
side, a thread each: decoding alone, then with a model on each frame, whose outputs stay on the GPU ("framebind") or
are read back while the next frame is decoded ("framebind, read"). Models are compiled before the time begins; opening
the file is part of it. A row is the median of ``--repeats`` runs. *share* is the rate as a part of the decoder's alone,
the mean of before and after. *cores* are CPU seconds of the whole process per 1,000 frames: cores per 1,000 frames/s.
*bytes* cross the bus per frame, counted by ``fb.transfers``. *error* is the mean difference of the last frame's outputs
from LiteRT's CPU kernels, whose frame FFmpeg converted and OpenCV scaled, as a share of the largest value.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import av
import cv2
import numpy as np
import typer
from av.video.reformatter import Colorspace
from peers import PEERS
from sessions import (
    MODELS,
    Array,
    DecodeOnly,
    Framebind,
    MakeSession,
    Model,
    Session,
    last_inputs,
    litert_outputs,
    mean_error,
)

import framebind as fb
from framebind.demos.assets import PHOTOGRAPH
from framebind.demos.models import find_model

SIZE, RATE = (1920, 1080), 30
ALONE, NO_MODEL = "decoder alone", Model("", 0.0, 1.0)


@dataclass(frozen=True)
class Run:
    """One run of all sessions: what was counted, and one session's last outputs."""

    frames: int
    seconds: float
    cpu_seconds: float
    nbytes: int
    outputs: list[Array] | None


@dataclass(frozen=True)
class Row:
    """Figures of one way to process the clip: see the top of this file. ``rate`` is in frames per second."""

    model: str
    on: str
    sessions: int
    rate: float
    cores: float
    bytes_per_frame: float
    error: float | None = None
    share: float | None = None
    why_not: str = ""

    def __str__(self) -> str:
        if self.why_not:
            return f"{self.model:24} {self.on:18} {self.why_not}"
        share = "" if self.share is None else f"{self.share:.1%}"
        error = "" if self.error is None else f"{self.error:.1e}"
        return (
            f"{self.model:24} {self.on:18} {self.sessions:3} {self.rate:8.0f} {share:>7} {self.cores:7.3f} "
            f"{self.bytes_per_frame:10.0f} {error:>8}"
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


def run_sessions(
    make: Callable[[], Session], clip: Path, sessions: int, repeats: int, wait: Callable[[], object] | None = None
) -> list[Run]:
    """Run so many sessions side by side, ``repeats`` times. Raises the first error of a session.

    ``wait`` is called before each run, when all sessions are ready.
    """
    counts, made, errors = [0] * sessions, list[Session](), list[Exception]()
    making, begin, end = threading.Lock(), threading.Barrier(sessions + 1), threading.Barrier(sessions + 1)

    def work(number: int) -> None:
        try:
            with making:  # the first one compiles what the others take over
                session = make()
                session.warm_up(clip)
                made.append(session)
            for _ in range(repeats):
                begin.wait()
                counts[number] = session.run(clip)
                end.wait()
            session.close()
        except threading.BrokenBarrierError:
            return
        except Exception as error:
            errors.append(error)
            begin.abort()
            end.abort()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(sessions)]
    for thread in threads:
        thread.start()
    runs = list[Run]()
    try:
        for _ in range(repeats):
            while wait is not None and begin.n_waiting < sessions and not begin.broken:
                time.sleep(0.01)
            if wait is not None:
                wait()
            begin.wait()
            fb.transfers.reset()
            started, cpu = time.perf_counter(), time.process_time()
            end.wait()
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
            runs.append(Run(sum(counts), seconds, cpu, fb.transfers.bytes, made[0].outputs))
    except threading.BrokenBarrierError:
        pass
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return runs


def run_in_processes(make: MakeSession, model: Model, clip: Path, sessions: int, count: int, repeats: int) -> list[Run]:
    """The same in so many processes, with an equal part of the sessions each. A run is the sum of their runs."""
    if count == 1:
        return run_sessions(partial(make, model), clip, sessions, repeats)
    spawned = multiprocessing.get_context("spawn")
    with (
        spawned.Manager() as manager,
        ProcessPoolExecutor(count, mp_context=spawned) as pool,
    ):
        wait = manager.Barrier(count).wait
        started = [
            pool.submit(run_sessions, partial(make, model), clip, sessions // count, repeats, wait)
            for _ in range(count)
        ]
        parts = zip(*[each.result() for each in started], strict=True)
        return [_sum(list(part)) for part in parts]


def _sum(parts: list[Run]) -> Run:
    """Runs of several processes at the same time: rates, CPU time and bytes are added."""
    frames = sum(part.frames for part in parts)
    rate = sum(part.frames / part.seconds for part in parts)
    cpu, nbytes = sum(part.cpu_seconds for part in parts), sum(part.nbytes for part in parts)
    return Run(frames, frames / rate, cpu, nbytes, parts[0].outputs)


def row_of(model: Model, on: str, sessions: int, runs: list[Run], expected: list[Array] | None = None) -> Row:
    """The medians of runs."""
    outputs = runs[-1].outputs
    return Row(
        model.name, on, sessions,
        rate=statistics.median(run.frames / run.seconds for run in runs),
        cores=statistics.median(1000 * run.cpu_seconds / run.frames for run in runs),
        bytes_per_frame=statistics.median(run.nbytes / run.frames for run in runs),
        error=None if outputs is None or expected is None else mean_error(outputs, expected),
    )  # fmt: skip


def with_shares(rows: list[Row]) -> list[Row]:
    """The rows with their rates as a part of the decoder's alone."""
    alone = statistics.mean(row.rate for row in rows if row.on == ALONE)
    return [replace(row, share=None if row.why_not else row.rate / alone) for row in rows]


def described(context: fb.CudaContext) -> dict[str, Any]:
    """The machine, and the command."""
    with fb.GpuDelegate("cuda") as delegate:
        fb.Interpreter(find_model(MODELS["face"].name), experimental_delegates=[delegate]).allocate_tensors()
        driver = delegate.statistics().driver
    given = [each for before, each in zip(sys.argv, sys.argv[1:], strict=False) if "--json" not in (before, each)]
    command = f"benchmarks/video/measure.py {' '.join(given)}"
    return {
        "machine": context.name, "driver": driver, "pyav": av.__version__, "cpus": os.cpu_count(), "command": command,
    }  # fmt: skip


def main(
    models: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(MODELS)}.")] = None,
    sessions: Annotated[int, typer.Option(help="Sessions side by side.")] = 8,
    processes: Annotated[int, typer.Option(help="Processes that share the sessions of framebind and NVDEC.")] = 1,
    frames: Annotated[int, typer.Option(help="Frames of the clip.")] = 600,
    repeats: Annotated[int, typer.Option(help="Runs of each row; peers have one.")] = 3,
    read: Annotated[bool, typer.Option(help="Measure outputs that are read, too.")] = True,
    compare: Annotated[str, typer.Option(help=f"Peers: {','.join(PEERS)}.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
) -> None:
    rows, began, machine = list[Row](), time.perf_counter(), dict[str, Any]()

    def add(row: Row) -> None:
        rows.append(row)
        print(f"{with_shares(rows)[-1]}  after {time.perf_counter() - began:.0f} s", flush=True)
        if json_file is not None:  # now, as a peer may take the process with it
            shown = [asdict(each) for each in with_shares(rows)]
            json_file.write_text(json.dumps({**machine, "frames": frames, "rows": shown}, indent=1))

    with tempfile.TemporaryDirectory() as folder, fb.CudaContext(independent=True) as context:
        clip = Path(folder) / "clip.mp4"
        write_clip(clip, frames)
        machine.update(described(context))
        print(f"{context.name}, {frames} frames of {SIZE[0]}x{SIZE[1]}, {clip.stat().st_size / 1e6:.1f} MB")
        keep = Path(folder) / "kept"
        ways: dict[str, MakeSession] = {"framebind": partial(Framebind, reads=False, keep=keep)}
        if read:
            ways["framebind, read"] = partial(Framebind, reads=True, keep=keep)
        peers = {name: PEERS[name] for name in compare.split(",") if name}
        chosen = [MODELS[name] for name in models or MODELS]
        expected = {model: litert_outputs(model, last_inputs(clip, model)) for model in chosen}
        alone = (ALONE, NO_MODEL, DecodeOnly)
        rows_wanted = [
            alone, *[(name, model, make) for name, make in ways.items() for model in chosen],
            alone, *[(name, model, make) for model in chosen for name, make in peers.items()],
        ]  # fmt: skip
        for name, model, make in rows_wanted:
            try:
                times = 1 if name in peers else repeats
                runs = run_in_processes(make, model, clip, sessions, 1 if name in peers else processes, times)
            except Exception as error:  # a peer that does not run here is a row that says so
                add(Row(model.name, name, sessions, 0, 0, 0, why_not=f"{type(error).__name__}: {error}"))
                continue
            add(row_of(model, name, sessions, runs, expected.get(model)))


if __name__ == "__main__":
    typer.run(main)
