"""``fb.video.VideoStage``: rows of real videos, in this process and in others, beside the caller's own GL context."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framebind as fb
from support.video.clips import write_clip


@pytest.fixture
def model(model_path: Callable[[str], Path]) -> str:
    return str(model_path("face_detection_front"))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_rows_of_a_part_beside_the_callers_context(
    context: fb.GlContext, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # as in an actor of Ray: contexts are made to find the GPU
    source, output = write_clip(tmp_path / "a.mp4", frames=10), tmp_path / "out"
    stage = fb.video.VideoStage("detect", model, save=["jsonl"], output=output, every=2)
    with pickle.loads(pickle.dumps(stage)) as stage:
        rows = []
        for row in stage(source, start=0.2, end=0.36):
            assert fb.GlContext.current() is context
            fb.GlBuffer(16).write(np.zeros(4, np.float32))  # no guard of the stage's is in force here
            assert not list(output.glob("*.jsonl")), "files take their places at the end"
            rows.append(row)
        assert [(row["frame"], row["class"]) for row in rows] == [(0, None), (2, None)]
        assert [row["time"] for row in rows] == pytest.approx([0.2, 0.28], abs=1e-3)
        assert [json.loads(line) for line in (output / "a.jsonl").read_text().splitlines()] == rows
        with pytest.raises(fb.SourceError, match="is there: overwrite=True"):
            stage.rows(source)
        stopped = stage(source, place=tmp_path / "stopped")
        next(stopped)
        stopped.close()
        assert not list(tmp_path.glob("stopped*")), "a video that was left in the middle leaves nothing"


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_two_videos_at_once_and_a_batch_of_columns(tmp_path: Path, model: str) -> None:
    source = str(write_clip(tmp_path / "a.mp4", frames=3))
    with fb.video.VideoStage("detect", model) as stage:
        assert stage.times() == {}
        pairs = list(zip(stage(source), stage(source), strict=True))
        assert {"decode", "model", "cpu"} <= {name for track in stage.times().values() for name in track}
        assert [(one["frame"], two["frame"]) for one, two in pairs] == [(0, 0), (1, 1), (2, 2)]
        (broken := tmp_path / "broken.mp4").write_bytes(b"no video")
        batch: dict[str, Any] = {"path": np.array([source, str(broken)]), "end": np.array([0.08, np.nan])}
        batch["start"] = np.array([np.nan, 1.0])  # as columns of floats have None
        good, bad = stage(batch)
    assert stage.times() == {}, "nothing is kept"
    assert good.select(["source", "frame", "error"]).to_pylist() == [
        {"source": source, "frame": number, "error": None} for number in range(2)
    ]
    (row,) = bad.to_pylist()
    assert row["source"] == str(broken) and row["error"].startswith("SourceError: ") and row["frame"] is None
    assert good.schema == bad.schema, "columns without a value have a type too"


@pytest.mark.usefixtures("model")
def test_a_pool_of_processes(tmp_path: Path, model: str) -> None:
    paths = [str(write_clip(tmp_path / f"{number}.mp4", frames=2)) for number in range(3)]
    stage = fb.video.VideoStage("detect", model)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map(stage.rows, [*paths])
    assert [[(row["source"], row["frame"]) for row in rows] for rows in found] == [[(p, 0), (p, 1)] for p in paths]


def test_descriptions_that_mean_nothing() -> None:
    with pytest.raises(ValueError, match=r"task 'nothing' is none of .*classify"):
        fb.video.VideoStage("nothing")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"task 'poses' was replaced in framebind 0\.2\.0: take 'pose', with"):
        fb.video.VideoStage("poses")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs the folder"):
        fb.video.VideoStage("detect", save=["jsonl"])
    with pytest.raises(ValueError, match="output='' is no folder"):
        fb.video.VideoStage("detect", save=["jsonl"], output="")
    with pytest.raises(ValueError, match="is none of video, masks, jsonl, parquet, npz"):
        fb.video.VideoStage("detect", save=["csv"], output="out")  # type: ignore[list-item]
    with pytest.raises(ValueError, match="from second 3 to 1"):
        fb.video.VideoStage("detect", start=3, end=1.0)
    with pytest.raises(ValueError, match="every is 0"):
        fb.video.VideoStage("detect", every=0)
