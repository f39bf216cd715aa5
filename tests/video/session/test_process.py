"""``process``: folders of real videos through a real model, broken ones among them, and runs that go on."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import av
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

import framebind as fb
from framebind.__main__ import app
from framebind.tools.common.console import printable
from framebind.video.model_file import read_model_file
from framebind.video.models import DEFAULT_STYLE, find_model
from framebind.video.results.outputs import UNFINISHED
from framebind.video.results.rows import make_rows
from framebind.video.results.tables import ParquetFile
from framebind.video.workers.inputs import find_inputs
from framebind.video.workers.manifest import NAME, Manifest
from support.terminal import screen_of
from support.tiny_models import chain
from support.video.clips import damage_jpegs, write_clip

SIZE = (64, 48)


@pytest.fixture
def model(model_path: Callable[[str], Path]) -> str:
    return str(model_path("face_detection_front"))


@pytest.fixture
def process(model: str) -> Callable[..., Result]:
    """Run the command with these arguments."""

    def run(*arguments: str | Path) -> Result:
        return CliRunner().invoke(app, ["process", *map(str, arguments), "--task", "detect", "--model", model])

    return run


def words(result: Result) -> str:
    """The output without the frame that typer draws around errors."""
    return " ".join(result.output.translate(dict.fromkeys(map(ord, "│╭╮╰╯─"), " ")).split())


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two videos, one of them a folder deeper, and a broken one."""
    inputs = tmp_path / "in"
    (inputs / "deeper").mkdir(parents=True)
    write_clip(inputs / "a.mp4", size=SIZE, frames=6, sound=True)
    write_clip(inputs / "deeper" / "a.mkv", size=SIZE, frames=3)
    (inputs / "broken.mp4").write_bytes(b"no video")
    (inputs / "notes.txt").write_text("no video either")
    return inputs


def assert_every_second_is_in_each_track(times: dict[str, dict[str, float]], seconds: float) -> None:
    """Stages and waits of each thread are the whole time: nothing is counted twice, nothing is missing."""
    assert list(times) == ["thread", "painter", "encoder"], "nothing is drawn or uploaded apart"
    wholes = {track: sum(each for name, each in parts.items() if name != "cpu") for track, parts in times.items()}
    assert wholes["thread"] <= seconds + 0.01 and times["thread"]["cpu"] > 0
    for track, whole in wholes.items():
        # The encoder may go on while the next video is drawn.
        assert whole >= wholes["thread"] - 0.01, track
        assert track in ("painter", "encoder") or whole == pytest.approx(wholes["thread"], rel=0.02, abs=0.02), track
    assert {"decode", "model"} <= {name for name, each in times["thread"].items() if each}
    assert times["painter"]["draw"] > 0 and times["encoder"]["encode"] > 0


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_folder_with_a_broken_video_and_a_second_run(
    folder: Path, tmp_path: Path, process: Callable[..., Result]
) -> None:
    output = tmp_path / "out"
    profile = tmp_path / "profile.svg"
    result = process(folder, "--output", output, "--save", "video,jsonl", "--profile", profile)
    assert result.exit_code == 1, "one of them failed"
    drawn = {element.text for element in ElementTree.parse(profile).iter()}
    assert {
        "detect: 9 frames of 2 videos",
        "thread with the GPU's context",
        "painter's thread",
        "encoder's thread",
    } <= drawn
    for row in rows_of(output / NAME):
        if "error" not in row and "begun" not in row:
            assert_every_second_is_in_each_track(row["times"], row["seconds"])
    assert "broken.mp4: SourceError" in result.output and "2 videos, 9 frames" in result.output
    made = sorted(str(path.relative_to(output)) for path in output.rglob("*") if path.is_file())
    assert made == ["a.jsonl", "a.mp4", "deeper/a-mkv.jsonl", "deeper/a-mkv.mp4", NAME]
    times = [row["time"] for row in rows_of(output / "a.jsonl")]
    assert times == pytest.approx([number / 25 for number in range(6)], abs=1e-3)
    with av.open(str(output / "a.mp4")) as container:
        assert len(container.streams.audio) == 1
        assert sum(1 for _ in container.decode(video=0)) == 6

    before = {path: path.stat().st_mtime_ns for path in output.rglob("a.*")}
    (output / "deeper" / "a-mkv.mp4").unlink()
    (output / f"{UNFINISHED}killed").mkdir()
    with (output / NAME).open("a") as manifest:
        manifest.write('{"video": {"sour')  # a process that was killed
    again = process(folder, "--output", output, "--save", "video,jsonl", "--resume")
    assert "1 video, 3 frames" in again.output and "1 video left out" in again.output
    assert (output / "a.mp4").stat().st_mtime_ns == before[output / "a.mp4"]
    assert (output / "deeper" / "a-mkv.mp4").is_file() and not list(output.glob(UNFINISHED + "*"))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_results_are_replaced_only_when_told_and_sources_never(
    folder: Path, tmp_path: Path, process: Callable[..., Result]
) -> None:
    source, output = folder / "a.mp4", tmp_path / "out"
    content = source.read_bytes()
    assert "is read and would be replaced" in words(process(source, "--output", folder, "--overwrite"))
    assert process(source, "--output", output, "--save", "jsonl").exit_code == 0
    assert "is there: --overwrite" in words(process(source, "--output", output, "--save", "jsonl"))
    changed = process(source, "--output", output, "--save", "jsonl", "--every", 2, "--resume")
    assert "is there: --overwrite" in words(changed), "an earlier run's results with other options"
    other = write_clip(folder / "deeper" / "a.mp4", size=SIZE, frames=2)
    assert "is there: --overwrite" in words(process(other, "--output", output, "--save", "jsonl", "--resume"))
    assert process(source, "--output", output, "--save", "jsonl", "--overwrite").exit_code == 0
    assert source.read_bytes() == content


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_damaged_video_leaves_no_output(tmp_path: Path, model: str) -> None:
    source = write_clip(tmp_path / "a.mkv", size=SIZE, frames=40)
    source.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
    stage = pickle.loads(pickle.dumps(fb.video.VideoStage("detect", model, save=["video"], output=tmp_path / "out")))
    with pytest.raises(fb.SourceError, match="is damaged"), stage:
        stage.rows(source)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_damaged_packets_are_in_the_summary_and_in_the_record(tmp_path: Path, process: Callable[..., Result]) -> None:
    source = write_clip(tmp_path / "a.avi", "mjpeg", "yuvj420p", size=SIZE, frames=6)
    damage_jpegs(source, 2, 4)
    result = process(source, "--output", tmp_path / "out", "--save", "jsonl")
    assert "1 video, 4 frames" in result.output and "2 damaged packets skipped" in result.output
    assert [row.get("damaged") for row in rows_of(tmp_path / "out" / NAME)] == [None, 2]


def test_names_of_inputs(folder: Path, tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text(f"# clips\n{folder / 'a.mp4'}\n{folder / 'deeper'}\n")
    assert [str(each.place) for each in find_inputs([str(folder)])] == ["a.mp4", "broken.mp4", "deeper/a.mkv"]
    assert [Path(each.source).name for each in find_inputs([f"@{listed}", str(folder / "a.mp4")])] == ["a.mp4", "a.mkv"]
    assert [Path(each.source).name for each in find_inputs([str(folder / "*.mp4")])] == ["a.mp4", "broken.mp4"]
    (folder / "._a.mp4").write_bytes(b"a hidden file of macOS")
    for number in range(2):  # links that lead in circles
        (folder / "deeper" / f"up{number}").symlink_to(folder)
    assert [str(each.place) for each in find_inputs([str(folder)])] == ["a.mp4", "broken.mp4", "deeper/a.mkv"]
    assert [str(each.place) for each in find_inputs([str(folder / "**" / "*.mk*")])] == ["a.mkv"]
    inside = str(folder / "deeper")
    assert [str(each.place) for each in find_inputs([str(folder)], inside)] == ["a.mp4", "broken.mp4"]
    assert [str(each.place) for each in find_inputs([inside], inside)] == ["a.mkv"]
    listed.write_bytes(b"\xef\xbb\xbf@other.txt\r\n")
    missing = {
        f"@{listed}": "has no name of a video",
        "**.mp4": "no file or folder",
        "missing.mp4": "no file or folder",
        f"@{tmp_path / 'no.txt'}": "list .* cannot be read",
    }
    for name, message in missing.items():
        with pytest.raises(fb.SourceError, match=message):
            find_inputs([name])


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_part_of_a_video_has_the_sound_of_that_part(tmp_path: Path, process: Callable[..., Result]) -> None:
    source, output = write_clip(tmp_path / "a.mp4", size=SIZE, frames=50, sound=True), tmp_path / "out"
    assert "1 video, 13 frames" in process(source, "--output", output, "--start", 0.48, "--end", 1.0).output
    with av.open(str(output / "a.mp4")) as container:
        (video,), (sound,) = container.streams.video, container.streams.audio
        assert float(video.duration * video.time_base) == pytest.approx(0.52, abs=0.02)
        assert float(sound.duration * sound.time_base) == pytest.approx(0.52, abs=0.15)
    assert "--end is not after --start" in words(process(source, "--output", output, "--start", 1, "--end", 1))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_missing_model_or_a_file_of_names_is_said(tmp_path: Path, process: Callable[..., Result]) -> None:
    source, output = write_clip(tmp_path / "a.mp4", size=SIZE, frames=1), tmp_path / "out"
    result = process(source, "--output", output, "--labels", tmp_path / "missing.txt")
    assert isinstance(result.exception, fb.SourceError), "also by a model of one class"
    assert "missing.txt' cannot be read" in str(result.exception) and not output.exists()
    command = [
        "process",
        str(source),
        "--output",
        str(tmp_path / "new"),
        "--task",
        "detect",
        "--model",
        "missing.tflite",
    ]
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, fb.ModelError) and not (tmp_path / "new").exists(), "once, before any work"


def test_a_model_of_another_task_is_one_error_before_the_first_video(
    tmp_path: Path, model_path: Callable[[str], Path]
) -> None:
    for name in ("a.mp4", "b.mp4"):
        write_clip(tmp_path / name)
    given = ("--task", "detect", "--model", model_path("selfie_segmentation"), "--output", tmp_path / "new")
    done = CliRunner().invoke(app, ["process", *map(str, (tmp_path / "a.mp4", tmp_path / "b.mp4", *given))])
    assert isinstance(done.exception, fb.ModelError)
    assert "is no model of the task 'detect' that is known here" in str(done.exception)
    assert not (tmp_path / "new").exists()


def test_a_model_that_only_the_gpu_can_prepare_is_left_to_it(tmp_path: Path) -> None:
    """LiteRT lacks custom operators that the GPU has; shapes of a model for any size are known with the first frame."""
    (custom := tmp_path / "custom.tflite").write_bytes(chain("EXP", "Mine"))
    (known := tmp_path / "known.tflite").write_bytes(chain("EXP"))
    assert not read_model_file(custom).is_certain and not read_model_file(find_model(DEFAULT_STYLE)).is_certain
    model = read_model_file(known)
    assert model.is_certain and list(model.outputs.values()) == [(1, 4, 5, 3)] and model.names == {0: "x", 1: "t1"}


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_folder_that_grows_renames_no_results(folder: Path, tmp_path: Path, process: Callable[..., Result]) -> None:
    """A new video may come before others of its name, and be named one by one from another folder."""
    output, options = tmp_path / "out", ("--save", "jsonl", "--resume")
    (folder / "broken.mp4").unlink()
    assert process(folder, "--output", output, *options).exit_code == 0
    made = {path: path.stat().st_mtime_ns for path in output.rglob("*.jsonl") if path.name != NAME}
    write_clip(folder / "a.avi", size=SIZE, frames=2)
    again = process(folder, "--output", output, *options)
    assert "1 video, 2 frames" in again.output and "2 videos left out" in again.output
    assert len(rows_of(output / "a-avi.jsonl")) == 2
    write_clip(folder / "deeper" / "a.mp4", size=SIZE, frames=4)
    names = [folder / "deeper" / "a.mp4", folder / "a.mp4"]  # both give a.jsonl here; the record has the first of them
    third = process(*names, "--output", output, *options)
    assert "1 video, 4 frames" in third.output and "1 video left out" in third.output
    assert len(rows_of(output / "a-2.jsonl")) == 4
    assert {path: path.stat().st_mtime_ns for path in made} == made


@pytest.mark.parametrize("place", ["../a", "/tmp/a", "", 3, None, ["a"]])
def test_a_record_names_places_in_its_folder_only(tmp_path: Path, place: Any) -> None:
    row = {"video": {"source": "/v/a.mp4"}, "place": place, "begun": []}
    (tmp_path / NAME).write_text(json.dumps(row) + "\n")
    with contextlib.closing(Manifest(tmp_path, {}, resume=True)) as record:
        found = record.place_of(Path("/v/a.mp4"))
        assert found is None or (not found.is_absolute() and ".." not in found.parts)


def test_reasons_of_failures_are_left_on_a_terminal(folder: Path, tmp_path: Path, model: str) -> None:
    """The bars overwrite what is printed beside them, and the summary has each reason again."""
    command = ["process", str(folder / "broken.mp4"), "--task", "detect", "--model", model, "--output", str(tmp_path)]
    screen = "".join(screen_of([sys.executable, "-m", "framebind", *command], status=1))
    assert screen.count("broken.mp4: SourceError") == 2, screen


def test_one_run_at_a_time_writes_into_a_folder(tmp_path: Path) -> None:
    """A second one would remove what the first has not finished."""
    with contextlib.closing(Manifest(tmp_path, {}, resume=False)):
        with pytest.raises(fb.SourceError, match="another run writes into"):
            Manifest(tmp_path, {}, resume=True)
    Manifest(tmp_path, {}, resume=True).close()


def test_what_a_killed_run_had_begun_may_be_replaced(tmp_path: Path) -> None:
    """The run may have died after the files took their places, and before the record had a line for the video."""
    source, made, other = tmp_path / "a.mp4", tmp_path / "a.jsonl", tmp_path / "a.mp4"
    source.write_bytes(b"a video")
    with contextlib.closing(Manifest(tmp_path, {"task": "detect"}, resume=False)) as first:
        first.begin([(source, Path("a"), [made])])
    with contextlib.closing(Manifest(tmp_path, {"task": "poses"}, resume=True)) as second:
        assert second.may_replace(source, made) and not second.may_replace(source, other)
        second.add(source, {"outputs": [str(made)]})
    made.touch()
    with (tmp_path / NAME).open("a") as record:
        record.write('[]\n{"video": 1}\n"\n{"video": {"sour')  # no matter what is there
    with contextlib.closing(Manifest(tmp_path, {"task": "poses"}, resume=True)) as third:
        assert third.is_done(source, [made]) and third.may_replace(source, made)
        third.add(source, {"error": "lost"})
    with contextlib.closing(Manifest(tmp_path, {"task": "poses"}, resume=True)) as third:
        assert not third.is_done(source, [made]), "a line of its own"
    with contextlib.closing(Manifest(tmp_path, {"task": "style"}, resume=True)) as third:
        assert not third.is_done(source, [made]) and not third.may_replace(source, made)


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    """Linux takes any bytes; JSON, Parquet and terminals do not."""
    name = os.fsdecode(b"a\xff.mp4")
    rows = make_rows(name, 0.0, 0, [])
    assert rows[0]["source"] == printable(name) == r"a\udcff.mp4"
    with ParquetFile(tmp_path / f"{name}.parquet") as table:
        table.put(rows)
    assert pyarrow.parquet.ParquetFile((tmp_path / f"{name}.parquet").open("rb")).read()["source"][0].as_py()


def test_a_killed_run_goes_on(tmp_path: Path, model: str) -> None:
    """kill -9 in the middle: then --resume makes every output exactly once, and nothing unfinished is left."""
    inputs, output = tmp_path / "in", tmp_path / "out"
    inputs.mkdir()
    for number in range(4):
        write_clip(inputs / f"{number}.mp4", size=(128, 96), frames=30)
    words_of_it = ["process", str(inputs), "--output", str(output), "--task", "detect", "--model", model, "--resume"]
    command = [sys.executable, "-m", "framebind", *words_of_it]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        until = time.monotonic() + 60
        while not (output / "1.mp4").exists() and time.monotonic() < until:
            time.sleep(0.01)
        running.kill()
    done = {path.name: path.stat().st_mtime_ns for path in output.glob("*.mp4")}
    assert {"0.mp4", "1.mp4"} <= set(done) and len(done) < 4, "killed in the middle"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    made = {path.name: path.stat().st_mtime_ns for path in output.glob("*.mp4")}
    assert sorted(made) == ["0.mp4", "1.mp4", "2.mp4", "3.mp4"] and made["0.mp4"] == done["0.mp4"]
    assert not list(output.glob(UNFINISHED + "*"))
    finished = [row["video"]["source"] for row in rows_of(output / NAME)]
    assert set(finished) == {str(path) for path in inputs.iterdir()}


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("end", [">&-", "2>&-", "<&- >&- 2>&-", "| true"])
def test_what_is_done_is_done_though_nobody_reads_of_it(tmp_path: Path, model: str, end: str) -> None:
    write_clip(tmp_path / "a.mp4", size=SIZE, frames=2)
    command = f"'{sys.executable}' -m framebind process a.mp4 --output out --task detect --model '{model}' --save jsonl"
    script = f"set -o pipefail; {command} {end}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(rows_of(tmp_path / "out" / "a.jsonl")) == 2


def test_an_empty_name_is_not_the_current_folder(
    tmp_path: Path, process: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_clip(tmp_path / "a.mp4", size=SIZE, frames=2)
    refused = process("a.mp4", "--output", "")
    assert refused.exit_code == 2 and "'' is no folder: . is the current one" in words(refused)
    assert "'' is no name of a video" in str(process("", "--output", "out").exception)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


def test_a_refused_command_leaves_no_record(folder: Path, tmp_path: Path, process: Callable[..., Result]) -> None:
    refused = process(folder / "a.mp4", "--output", folder)
    assert refused.exit_code == 2 and "is read and would be replaced" in words(refused)
    assert not (folder / NAME).exists()
    (file := tmp_path / "file").touch()
    with pytest.raises(fb.SourceError, match=r"file' is no folder: results need one, take another --output"):
        Manifest(file, {}, resume=False)


def test_a_device_that_is_not_there_is_one_error(folder: Path, tmp_path: Path, process: Callable[..., Result]) -> None:
    for options, message in (
        (("--backend", "gl", "--device", "77"), "there is no EGL device 77"),
        (("--backend", "gl", "--device", "nvidia"), "named by their EGL number"),
        (("--backend", "cl", "--device", "nothing"), "no OpenCL device 'nothing'"),
    ):
        done = process(folder, "--output", tmp_path / "new", *options)
        assert isinstance(done.exception, fb.DeviceError) and message in str(done.exception), done.output
    done = process(folder, "--output", tmp_path / "new", "--gpus", "all", "--device", "0")
    assert done.exit_code == 2 and "leave --device away" in words(done)
