"""Sessions without a picture: their rows are those of sessions that draw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import framebind as fb
from framebind.demos.apis import GL
from framebind.demos.flags import GpuFlags
from framebind.demos.player.network import Crop, Sampling, resample
from framebind.demos.processing.bound_session import BoundSession, in_stored, is_bound
from framebind.demos.processing.rows import Row
from framebind.demos.processing.session import Session
from framebind.demos.processing.work import Work
from support.demo_models import color_classifier
from support.video.clips import turn_track, write_clip


def rows_of(session: Session, path: Path) -> list[Row]:
    with session:
        return [row for rows in session.frames(session.work, str(path), None) for row in rows]


def check_alike(path: Path, work: Work) -> list[Row]:
    """Compare the rows of both kinds of sessions on OpenGL."""
    drawn, bound = rows_of(Session(work), path), rows_of(BoundSession(work, api=GL), path)
    assert [(row["frame"], row["time"], row["class"]) for row in bound] == [
        (row["frame"], row["time"], row["class"]) for row in drawn
    ]
    for row, other in zip(bound, drawn, strict=True):
        assert row["score"] == pytest.approx(other["score"], abs=0.03)
        assert row["share"] == pytest.approx(other["share"], abs=0.01)
    return bound


def test_rows_are_those_of_a_session_that_draws(context: fb.GlContext, tmp_path: Path) -> None:
    (model := tmp_path / "model.tflite").write_bytes(color_classifier())
    path = write_clip(tmp_path / "clip.mp4", pixel_format="yuv444p", size=(66, 48), frames=6)
    turn_track(path, 90)
    rows = check_alike(path, Work("classify", str(model), save=(), every=2, start=0.04))
    assert {row["frame"] for row in rows} == {0, 2, 4}


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_part_of_an_upright_picture_is_found_in_the_stored_one(rotation: int) -> None:
    stored = np.random.default_rng(0).random((40, 30, 1), np.float32)
    upright = np.rot90(stored, rotation // 90)  # a rotation clockwise takes it back
    size = (upright.shape[1], upright.shape[0])
    whole = (0.0, 0.0, float(size[0]), float(size[1]))
    parts: list[tuple[Crop | None, float]] = [((4.0, 6.0, 12.0, 10.0), 20.0), (whole, 0.0), (None, 0.0)]
    for crop, turn in parts:
        seen = Sampling(0.0, 1.0, crop, turn)
        given = in_stored(seen, size, rotation)
        expected = resample(upright, (9, 7), seen.crop, seen.rotation)
        np.testing.assert_allclose(resample(stored, (9, 7), given.crop, given.rotation), expected, atol=1e-5)


def test_sessions_without_a_picture_are_for_rows_on_cuda() -> None:
    work = Work("detect", save=("jsonl",), flags=GpuFlags(backend="cuda"))
    assert is_bound(work)
    assert not is_bound(replace(work, save=("jsonl", "video")))
    assert not is_bound(replace(work, task="style"))
    assert not is_bound(replace(work, flags=GpuFlags(backend="gl")))
