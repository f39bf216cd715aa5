"""Models with channels first (NCHW), as PyTorch's exports are, give what their twins with channels last give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from framebind.video.apis import BY_NAME, DECODING
from framebind.video.network import Network
from framebind.video.sampling import Sampling
from framebind.video.session.session import Session
from framebind.video.task import maps_of
from framebind.video.tasks import find_task
from framebind.video.work import Save, Work, task_for
from support.demo_models import brightness, color_classifier
from support.recording_driver import RecordingDriver
from support.tiny_models import chain, channels_first

Array = npt.NDArray[Any]
Road = Literal["textures", "planes"]


class Case(NamedTuple):
    """A model with channels last, and what is saved of it."""

    make: Callable[[], bytes]
    save: tuple[Save, ...] = ("video", "masks", "jsonl")
    roads: tuple[Road, ...] = ("textures", "planes")
    mean: tuple[float, ...] | None = None


CASES = {
    "style": Case(lambda: chain("ABS", shape=(1, 24, 32, 3)), ("video",), ("textures",), mean=(0.5, 0.4, 0.3)),
    "matte": Case(lambda: brightness(1)),
    "segment": Case(lambda: brightness(21)),
    "classify": Case(color_classifier, ("video", "jsonl")),
    "raw": Case(lambda: chain("ABS", shape=(1, 24, 32, 4)), ("npz",), ("textures",)),
}


def twins(folder: Path, make: Callable[[], bytes]) -> tuple[Path, Path]:
    """The files of a model with channels last, and of the same with channels first."""
    paths = folder / "last.tflite", folder / "first.tflite"
    for path, content in zip(paths, (make(), channels_first(make())), strict=True):
        path.write_bytes(content)
    return paths


def made(work: Work, road: Road, source: Path, folder: Path) -> tuple[list[Any], dict[str, bytes]]:
    """The rows and the files that a session makes, without the names of the models."""
    folder.mkdir()
    with Session(work, road=road) as session:
        rows = [row for rows in session.frames(work, str(source), folder / "a") for row in rows]
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return rows, files


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder of two pictures of bright and dark places and colours."""
    (folder := tmp_path / "pictures").mkdir()
    for number in range(2):
        random = np.random.default_rng(number)
        picture = cv2.resize(random.integers(0, 256, (6, 8, 3), np.uint8), (64, 48), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / f"{number}.png"), picture)
    return folder


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("task", CASES)
def test_process_makes_the_same(task: str, tmp_path: Path, pictures: Path) -> None:
    case = CASES[task]
    for road in case.roads:
        found = list[tuple[list[Any], dict[str, bytes]]]()
        for path in twins(tmp_path, case.make):
            assert task_for("", str(path)) == task
            form = "png" if "masks" in case.save else "video"
            work = Work(task, str(path), save=case.save, masks=form, mean=case.mean)
            found.append(made(work, road, pictures, tmp_path / f"{road} {path.stem}"))
        (rows, files), (others, same) = found
        if task == "raw":  # as they are: in the model's own order
            last, first = (np.concatenate([row["outputs"]["t1"] for row in each]) for each in (rows, others))
            assert np.ptp(last) > 0.1 and np.array_equal(last, first.transpose(0, 2, 3, 1))
        else:
            assert files and files == same and len(rows) >= 2 and rows == others


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("task", ["style", "segment"])
def test_demos_draw_the_same_bound_and_copied(task: str, tmp_path: Path) -> None:
    """The copying mode resamples with NumPy: it differs from the GPU by one step of a byte."""
    found = list[Array]()
    for path in twins(tmp_path, CASES[task].make):
        for copying in (False, True):
            options = Options(str(path), "synthetic", frames=2, size="64x48", output=[tmp_path / "a.png"])
            run(find_task(task).prepare, replace(options, copying=copying))
            picture = cv2.imread(str(tmp_path / "a.png"))
            assert picture is not None and picture.std() > 10
            found.append(picture.astype(int))
    last, copied_last, first, copied_first = found
    assert np.array_equal(last, first) and np.array_equal(copied_last, copied_first)
    assert np.abs(last - copied_last).max() <= 1


def test_on_opencl_a_picture_of_planes_gives_the_same(cl_context: fb.cl.ClContext, tmp_path: Path) -> None:
    planes = [np.random.default_rng(0).integers(0, 256, shape, np.uint8) for shape in ((48, 64), (24, 32, 2))]
    found = list[list[Array]]()
    for path in twins(tmp_path, lambda: brightness(21)):
        network = Network(path, fb.GpuDelegateOptions(backend="opencl"), api=BY_NAME["cl"])
        outputs = network.run_on(fb.YuvPicture(planes), Sampling(0.5, 0.5, None, 0.0))
        shape = maps_of(network)[0]
        assert shape is not None and shape.size == (64, 48)
        found.append([shape.from_tensor(each).copy() for each in outputs])
        network.close()
    assert np.ptp(found[0]) > 0.1 and np.array_equal(*found)


def test_on_cuda_frames_are_bound_with_the_same_calls(recorder: RecordingDriver, tmp_path: Path) -> None:
    calls = list[list[str]]()
    with DECODING.new_context():
        planes = [np.zeros(shape, np.uint8) for shape in ((48, 64), (24, 32, 2))]
        picture = fb.YuvPicture([fb.cuda.CudaArray.from_array(plane) for plane in planes])
        for path in twins(tmp_path, lambda: brightness(21)):
            network = Network(path, fb.GpuDelegateOptions(backend="cuda"), api=DECODING)
            for _ in range(2):
                recorder.calls.clear()
                fb.transfers.reset()
                network.run_on(picture, Sampling(0.5, 0.5, None, 0.0))
            assert fb.transfers.bytes == 0
            calls.append(recorder.names())
            network.close()
    assert calls[0] and calls[0] == calls[1]
