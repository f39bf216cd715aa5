"""Short runs of benchmarks/soak.py, endurance.py and mediapipe_endurance.py, and what soak.py takes for growth."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from array import array
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import framebind as fb
from framebind.interop.device import Device
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from support.recording_driver import RecordingDriver
from support.tiny_models import chain
from support.video.task_bundles import varied_persons

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def soak() -> ModuleType:
    return script("soak")


def test_what_grows_and_what_stutters_is_told(soak: ModuleType) -> None:
    def judged(memory: float = 0.0, textures: int = 0, slow: int = 0) -> tuple[str, bool]:
        times = array("d", [0.0])
        for number in range(1000):
            times.append(times[-1] + (0.05 if number >= 1000 - slow else 0.02))
        samples = [soak.Sample(t, t, 100.0 + t * memory, 1, {"texture": 3 + (t == 9) * textures}) for t in range(10)]
        lines, well = soak.judge(soak.Soak(9.0, times, samples, len(times), 0.0))
        return "\n".join(lines), well

    text, well = judged()
    assert well and "GL objects since then: the same" in text
    assert "median 20.00 ms, p99 20.00 ms, longest 20.00 ms; p99 is 1.00 times" in text
    text, well = judged(memory=1.0)
    assert not well and "resident memory since 2 s: +7.0 MiB" in text
    text, well = judged(textures=1)
    assert not well and "GL objects since then: not the same" in text
    text, well = judged(slow=20)
    assert not well and "p99 50.00 ms" in text
    assert judged(slow=5)[1], "half a percent of slow frames"


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_short_run_is_watched(soak: ModuleType, context: fb.GlContext, tmp_path: Path) -> None:
    soak.write_video(tmp_path / "a.avi", (32, 24))
    watched = soak.Soak(60.0, array("d", [0.0]) * 100)
    options = Options("style_transfer", str(tmp_path / "a.avi"), headless=True, frames=3, loop=True)
    run(lambda scene: watched.prepare(soak.DEMOS["style_transfer"][0], scene), options)
    assert watched.frames == 3 and watched.times[0] < watched.times[1] < watched.times[2]
    assert watched.samples[0].resident > 10 and watched.samples[0].gl_objects["texture"] > 3


def test_a_hundred_bound_frames_of_two_threads(tmp_path: Path) -> None:
    """The models stand in for real ones: a picture in, a picture out, any size."""
    (tmp_path / "a.tflite").write_bytes(chain("EXP", "ABS", shape=(1, 8, 8, 3)))
    models = ["--model", str(tmp_path / "a.tflite"), "--resized", str(tmp_path / "a.tflite")]
    command = [sys.executable, str(BENCHMARKS / "endurance.py"), "--backend", "gl", "--frames", "200", *models]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert "200 of 200 frames" in done.stdout and "200 compared bit by bit, 0 wrong" in done.stdout, (
        done.stdout + done.stderr
    )
    assert "100 resizes" in done.stdout and "Error" not in done.stdout


@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
def test_endurance_counts_each_wrong_frame(gpu: Device, tmp_path: Path) -> None:
    endurance = script("endurance")
    (tmp_path / "a.tflite").write_bytes(chain("EXP", "ABS", shape=(1, 8, 8, 3)))
    worker = endurance.Worker(tmp_path / "a.tflite", endurance.BY_NAME[gpu.traits.api], rate=False)
    for number in range(6):
        worker.frame(number)
    assert worker.check(6) == (6, 0)
    for number in range(6, worker.log.rows + 5):
        worker.frame(number)
    rows = worker.log.rows
    assert worker.check(rows + 6) == (rows, 1), "frame 'rows + 5' was not run: its part is frame 5's"


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_rows_of_followed_persons_are_compared_with_those_of_the_first_round(
    context: fb.GlContext, tmp_path: Path
) -> None:
    (tmp_path / "pose_landmarker_full.task").write_bytes(varied_persons((0.22, 0.4)))
    following, found = script("mediapipe_endurance"), script("endurance").Findings()
    follower = following.Follower("pose", tmp_path, following.BY_NAME["gl"])
    assert [len(rows) for rows in follower.expected] == [1] * 10 + [0, 0, 1, 1, 0]
    follower.expected[3] = follower.expected[3] + 1
    following.follow(follower, 40, found)
    follower.task.close()
    assert (found.frames, found.resizes, found.compared, found.wrong) == (40, 3, 43, 3)


def test_endurance_reads_the_parts_of_a_cuda_array_at_once(recorder: RecordingDriver) -> None:
    endurance = script("endurance")
    with fb.cuda.CudaContext():
        log = endurance.Log(endurance.BY_NAME["cuda"], 6)
        log.parts[2].write(np.arange(6, dtype=np.float32))
        found = log.read()
        assert found[2].tolist() == [0, 1, 2, 3, 4, 5] and not found[[1, 3]].any()
