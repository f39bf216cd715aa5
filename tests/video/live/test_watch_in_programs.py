"""``fb.video.Watch``: results of streams in a program, with pictures, rows, a page, and recordings of what is found."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest

import framebind as fb
from framebind.video.assets import PHOTOGRAPH
from framebind.video.live.textures import TexturesViewer
from framebind.video.live.watcher import Watcher
from framebind.video.model_options import ModelOptions
from framebind.video.work import Work


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """Ten pictures, of which the fourth and the fifth have a face."""
    folder = tmp_path / "faces"
    folder.mkdir()
    face = cv2.imread(str(PHOTOGRAPH))
    assert face is not None
    face = cv2.resize(face, (128, 128))
    for number in range(10):
        cv2.imwrite(str(folder / f"{number}.png"), face if number in (3, 4) else face * 0)
    return folder


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_results_pictures_and_recordings(
    context: fb.GlContext, tmp_path: Path, faces: Path, model_path: Callable[[str], Path]
) -> None:
    model = model_path("face_detection_front")
    with fb.video.Watch([faces], "detect", model, backend="opengl", record=tmp_path / "kept") as watch:
        results, pictures = [], list[np.ndarray]()
        for result in watch:
            results.append(result)
            pictures.append(result.picture())
        (figures,) = watch.figures()
        assert repr(watch) == f"<Watch: detect with {model} on faces>"
    assert fb.GlContext.current() is context, "the one before"
    assert [(result.stream, result.frame, len(result.found)) for result in results] == [
        ("faces", number, int(number in (3, 4))) for number in range(10)
    ]
    assert (figures.state, figures.results) == ("ended", 10) and figures.since is not None
    assert all(result.latency > 0 and str(result.at).endswith("+00:00") for result in results)
    assert [row["class"] for row in results[3].rows] == ["face"]
    assert pictures[0].shape == (128, 128, 4) and not pictures[0][32:96, 32:96, :3].any(), "no box"
    plain = cv2.imread(str(faces / "3.png"))
    assert plain is not None
    assert (np.abs(pictures[3][..., 2::-1].astype(int) - plain).max(-1) > 40).any(), "the box"
    (file,) = (tmp_path / "kept").iterdir()
    with av.open(str(file)) as container:
        seen = [frame.to_ndarray(format="gray")[32:96, 32:96].mean() > 40 for frame in container.decode(video=0)]
    assert any(seen) and not seen[0], "the face, and what came before; a fast GPU is done before a next one is wanted"


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("all_frames", [False, True])
def test_frames_have_rows_if_something_is_there(
    context: fb.GlContext, tmp_path: Path, faces: Path, model_path: Callable[[str], Path], all_frames: bool
) -> None:
    work = Work("detect", str(model_path("face_detection_front")), save=(), options=ModelOptions())
    file = tmp_path / "found.jsonl"
    watcher = Watcher(TexturesViewer(context, work), [str(faces)], fb.video.StreamOptions())
    watcher.run(file, lambda: None, all_frames=all_frames)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["frame"] for row in rows] == (list(range(10)) if all_frames else [3, 4])
    assert [row["class"] for row in rows if row["frame"] in (3, 4)] == ["face"] * 2


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_the_page_of_a_program_can_be_embedded_where_it_is_allowed(
    faces: Path, model_path: Callable[[str], Path]
) -> None:
    model = model_path("face_detection_front")
    with fb.video.Watch([faces], "detect", model, backend="opengl") as watch:
        policies = list[str]()
        for sites in ([], ["https://example.org", "http://localhost:3000/"]):
            with urllib.request.urlopen(watch.serve(embed=sites), timeout=5) as answer:
                policies.append(answer.headers["Content-Security-Policy"])
        first = next(watch)
        with pytest.raises(ValueError, match="is no site"):
            watch.serve(embed=["example.org; script-src *"])
    assert first.frame == 0 and not list(watch), "it is closed"
    assert policies[0].endswith("frame-ancestors 'none'")
    assert policies[1].endswith("frame-ancestors https://example.org http://localhost:3000")
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(answer.url, timeout=5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"streams": "0"}, "is no list of streams"),
        ({"streams": []}, "is no list of streams"),
        ({"task": "raw"}, "finds nothing"),
        ({"task": "paint"}, "task 'paint' is none of"),
        ({"task": "style", "record": "kept"}, "finds nothing"),
        ({"backend": "metal"}, "backend 'metal' is none of"),
    ],
)
def test_what_cannot_be_watched_is_said(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fb.video.Watch(**dict[str, Any]({"streams": ["0"], **arguments}))


def test_other_names_are_not_in_the_library() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Look'"):
        _ = fb.video.Look
