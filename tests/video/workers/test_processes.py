"""``--jobs``: videos in processes of their own, which may be killed in the middle."""

from __future__ import annotations

import contextlib
import json
import multiprocessing.context
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import av
import pytest

import framebind as fb
from framebind.video.model_options import ModelOptions
from framebind.video.results.outputs import UNFINISHED
from framebind.video.work import Work
from framebind.video.workers.job_queue import MAX_ATTEMPTS
from framebind.video.workers.jobs import Event, Finished, Job, Lost, Progress
from framebind.video.workers.manifest import NAME
from framebind.video.workers.processes import run_in_processes
from framebind.video.workers.runners import choose_runner, run_by_work, slots_by_work, slots_on
from framebind.video.workers.this_process import run_here
from framebind.video.workers.worker import SESSIONS_PER_GPU, Slot
from support.video.clips import write_clip
from support.video.unfinished import wait_for_work

GPUS = [
    fb.FoundGpu("GPU-a", "H200", {"cuda": 0, "opengl": 1}),
    fb.FoundGpu("GPU-b", "H200", {"cuda": 1, "opengl": 0}),
    fb.FoundGpu("GPU-c", "RX", {"opengl": 2}),
]


def test_slots() -> None:
    assert choose_runner(None, "", "", "gl") is run_by_work and choose_runner(1, "", "", "gl") is run_here
    assert cast(Any, choose_runner(3, "", "", "gl")).keywords == {"slots": [Slot()] * 3}
    slots = slots_on(GPUS[:2], "all", SESSIONS_PER_GPU, "cuda", processes=3)
    assert [slot.sessions for slot in slots] == [3, 3, 3, 3, 2, 2] and [slot.egl for slot in slots] == 3 * [1, 0]
    assert [slot.sessions for slot in slots_on(GPUS[:1], "0", 3, "cuda")] == [1, 1, 1]
    assert [slot.sessions for slot in slots_on(GPUS[:1], "0", 13, "cuda")] == [2, 2, 2, 2, 2, 2, 1]
    assert slots[0].environment == (("CUDA_VISIBLE_DEVICES", "GPU-a"),)
    assert slots_on(GPUS, "2,0,2", 1, "gl") == [Slot(1, 2), Slot(1, 1, (("CUDA_VISIBLE_DEVICES", "GPU-a"),))]


def test_rows_alone_of_many_videos_are_made_by_processes_that_share_the_gpu() -> None:
    rows, cuda = Work("detect", save=("jsonl",), options=ModelOptions(backend="cuda")), ModelOptions(backend="cuda")
    assert [slot.sessions for slot in slots_by_work(rows, SESSIONS_PER_GPU)] == [2, 2, 2, 2]
    assert not slots_by_work(rows, SESSIONS_PER_GPU - 1), "a session has no video"
    assert not slots_by_work(Work("detect", save=("video",), options=cuda), 100), "what is drawn is drawn by OpenGL"
    assert not slots_by_work(Work("detect", save=("jsonl",), options=ModelOptions(backend="gl")), 100)


@pytest.mark.parametrize(
    ("found", "gpus", "backend", "message"),
    [([], "all", "gl", "no GPU was found"), (GPUS, "3", "gl", "no GPU '3': this machine has 3"),
     (GPUS, "all", "cuda", r"'RX' \(GPU-c\) has no driver for the backend 'cuda'"),
     (GPUS, "x", "gl", "no GPU 'x'"), (GPUS, "0", "cl", "take --backend cuda or gl")],
)  # fmt: skip
def test_slots_that_there_are_not(found: list[fb.FoundGpu], gpus: str, backend: str, message: str) -> None:
    with pytest.raises(fb.DeviceError, match=message):
        slots_on(found, gpus, 1, backend)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inputs = tmp_path / "in"
    inputs.mkdir()
    for number in range(4):
        write_clip(inputs / f"{number}.mp4", size=(128, 96), frames=30)
    (inputs / "broken.mp4").write_bytes(b"no video")
    return inputs


@pytest.fixture
def start(folder: Path, tmp_path: Path, model_path: Callable[[str], Path]) -> Callable[[], subprocess.Popen[str]]:
    model = str(model_path("face_detection_front"))
    command = ["process", str(folder), "--output", str(tmp_path / "out"), "--task", "detect", "--model", model]

    def run() -> subprocess.Popen[str]:
        arguments = [*command, "--save", "video,jsonl", "--jobs", "2", "--resume"]
        return subprocess.Popen(
            [sys.executable, "-m", "framebind", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return run


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_all_done_once(output: Path) -> None:
    """Every video has its outputs with all frames, and one line in the record that is no error."""
    for number in range(4):
        times = sorted({row["time"] for row in rows_of(output / f"{number}.jsonl")})
        assert times == pytest.approx([frame / 25 for frame in range(30)], abs=1e-3)
        with av.open(str(output / f"{number}.mp4")) as container:
            assert sum(packet.size > 0 for packet in container.demux(video=0)) == 30
    done = [Path(row["video"]["source"]).name for row in rows_of(output / NAME) if not {"error", "begun"} & row.keys()]
    assert sorted(done) == [f"{number}.mp4" for number in range(4)]
    assert not list(output.glob(UNFINISHED + "*"))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_the_jobs_of_a_killed_worker_are_done_by_another_one(tmp_path: Path, model_path: Callable[[str], Path]) -> None:
    """One process with two sessions, killed when both are in the middle. Its jobs come again, one after the other."""
    jobs = [Job(write_clip(tmp_path / f"{n}.mp4", size=(64, 48), frames=20), tmp_path / "out" / str(n)) for n in "ab"]
    work = Work("detect", str(model_path("face_detection_front")), save=("jsonl",))
    finished: list[Finished] = []
    lost: list[Job] = []
    began: set[Job] = set()

    def report(event: Event) -> None:
        if isinstance(event, Progress) and not lost:
            began.add(event.job)
            if len(began) == 2:
                os.kill(wait_for_work(tmp_path / "out")[0], signal.SIGKILL)
        lost.extend([event.job] if isinstance(event, Lost) else [])
        finished.extend([event] if isinstance(event, Finished) else [])

    run_in_processes(work, jobs, report, slots=[Slot(sessions=2)])
    assert len(lost) == len(finished) == 2
    assert {each.place for each in lost} == {each.job.place for each in finished} == {each.place for each in jobs}
    assert [each.result["frames"] for each in finished] == [20, 20]
    for job in jobs:
        assert len({row["frame"] for row in rows_of(job.place.with_suffix(".jsonl"))}) == 20
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.jsonl", "b.jsonl"]


def test_a_job_that_no_worker_survives_is_given_up(tmp_path: Path) -> None:
    job, reported = Job(tmp_path / "a.mp4", tmp_path / "out" / "a"), list[Event]()
    run_in_processes(cast(Any, Poison()), [job], reported.append, slots=[Slot()])
    assert [type(event) for event in reported[:-1]] == [Lost] * (MAX_ATTEMPTS - 1)
    assert isinstance(reported[-1], Finished) and "its worker ended with status 7" in reported[-1].result["error"]


def test_workers_end_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a while to leave its GPU: none waits for another one before it begins to end."""
    dismissed = threading.Barrier(2, timeout=5)

    class Fake:
        """A process that is a thread. It finishes each job at once, and ends when the other one is to end, too."""

        exitcode, pid = 0, 0

        def __init__(self, args: tuple[Any, ...], **_: Any) -> None:
            self._thread = threading.Thread(target=self._serve, args=(os.dup(args[0].fileno()),))
            self.start, self.join = self._thread.start, self._thread.join

        def _serve(self, handle: int) -> None:
            with Connection(handle) as connection:
                for job in iter(connection.recv, None):
                    connection.send(Finished(job, {}))
                with contextlib.suppress(threading.BrokenBarrierError):
                    dismissed.wait()

    monkeypatch.setattr(multiprocessing.context.SpawnContext, "Process", Fake)
    finished = list[Event]()
    run_in_processes(
        Work("detect"), [Job(tmp_path / n, tmp_path / n) for n in "abc"], finished.append, slots=[Slot()] * 2
    )
    assert len(finished) == 3 and not dismissed.broken


class Poison:
    """Work that ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (7,)


def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    start: Callable[[], subprocess.Popen[str]], tmp_path: Path
) -> None:
    with start() as running:
        worker, _ = wait_for_work(tmp_path / "out")
        os.kill(worker, signal.SIGKILL)
        said, _ = running.communicate(timeout=120)
    assert running.returncode == 1, "one video is broken"
    assert "its worker died, and it is done again" in said and "broken.mp4: SourceError" in said
    assert "4 videos, 120 frames" in said and "1 video failed" in said
    check_all_done_once(tmp_path / "out")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_ends_its_workers_and_goes_on(
    start: Callable[[], subprocess.Popen[str]], tmp_path: Path, how: signal.Signals
) -> None:
    with start() as running:
        worker, unfinished = wait_for_work(tmp_path / "out")
        running.send_signal(how)
        running.communicate(timeout=60)
    assert running.returncode != 0
    assert unfinished.exists() == (how == signal.SIGKILL), "nobody is left who could remove it"
    until = time.monotonic() + 10
    while Path(f"/proc/{worker}").exists() and time.monotonic() < until:
        time.sleep(0.05)  # it ends by itself when its parent is gone
    assert not Path(f"/proc/{worker}").exists()
    with start() as again:
        again.communicate(timeout=120)
    check_all_done_once(tmp_path / "out")
