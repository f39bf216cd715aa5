"""``--ray`` and ``ray.data``: two workers of this machine, and a kill in the middle."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import ray.data

import framebind as fb
from framebind.video.results.outputs import UNFINISHED
from framebind.video.work import Work
from framebind.video.workers.jobs import Event, Finished, Job, Lost
from framebind.video.workers.on_ray import run_on_ray
from support.video.clips import write_clip
from support.video.unfinished import wait_for_work


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, object_store_memory=80 << 20, logging_level="error")
    yield
    ray.shutdown()


@pytest.fixture
def model(model_path: Callable[[str], Path]) -> str:
    return str(model_path("face_detection_front"))


@pytest.mark.usefixtures("cluster")
def test_an_actor_that_is_killed_loses_and_doubles_nothing(tmp_path: Path, model: str) -> None:
    output = tmp_path / "out"
    jobs = [Job(write_clip(tmp_path / f"{n}.mp4", frames=25), output / str(n)) for n in range(4)]
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    jobs.append(Job(tmp_path / "broken.mp4", output / "broken"))
    finished: dict[str, dict[str, Any]] = {}
    lost: list[Job] = []

    def report(event: Event) -> None:
        if isinstance(event, Finished):
            assert event.job.source.name not in finished, "finished twice"
            finished[event.job.source.name] = event.result
            if len(finished) == 1:
                os.kill(wait_for_work(output)[0], signal.SIGKILL)
        lost.extend([event.job] if isinstance(event, Lost) else [])

    run_on_ray(Work("detect", model, save=("jsonl",)), jobs, report, address="auto", sessions=None)
    assert len(lost) == 1 and lost[0].source in [job.source for job in jobs]
    assert "SourceError" in finished.pop("broken.mp4")["error"]
    assert sorted(finished) == [f"{n}.mp4" for n in range(4)] and {each["frames"] for each in finished.values()} == {25}
    for n in range(4):
        rows = [json.loads(line) for line in (output / f"{n}.jsonl").read_text().splitlines()]
        assert [row["frame"] for row in rows] == list(range(25))
    assert not list(output.glob(UNFINISHED + "*"))


@pytest.mark.usefixtures("cluster")
def test_a_stage_in_ray_data(tmp_path: Path, model: str) -> None:
    data: Any = ray.data
    clips = [write_clip(tmp_path / f"{n}.mp4", frames=3) for n in range(3)]
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    videos = data.from_items([{"path": str(path)} for path in [*clips, tmp_path / "broken.mp4"]])
    rows = videos.map_batches(
        fb.video.VideoStage, fn_constructor_args=("detect", model), batch_size=1, compute=data.ActorPoolStrategy(size=2)
    ).take_all()
    assert sorted(row["source"] for row in rows if not row["error"]) == sorted(3 * [str(path) for path in clips])
    (broken,) = [row for row in rows if row["error"]]
    assert broken["source"].endswith("broken.mp4") and "SourceError" in broken["error"]


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:1", "ray://127.0.0.1:1", "localhost:99999"])
def test_no_cluster(tmp_path: Path, address: str) -> None:
    if ray.is_initialized():
        ray.shutdown()
    with pytest.raises(fb.DeviceError, match=f"no Ray cluster answers at '{address}'"):
        run_on_ray(Work("style"), [Job(tmp_path, tmp_path)], print, address=address, sessions=1)
