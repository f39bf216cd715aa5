"""Recurrent models in videos and streams: which outputs are states, and whose they are."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import pytest

import framebind as fb
from framebind.tools.commands import inspect
from framebind.tools.common.flags import DelegateFlags
from framebind.video.apis import GL
from framebind.video.feedback import AUTO, NONE, feedback_of
from framebind.video.live.networks import Networks
from framebind.video.live.planes import PlanesViewer
from framebind.video.model_options import ModelOptions
from framebind.video.network import Mode, Network
from framebind.video.sampling import Sampling
from framebind.video.session.session import Session
from framebind.video.tflite_writer import G, Op, T
from framebind.video.work import Work, task_for
from framebind.video.workers.division import divide
from framebind.video.workers.jobs import Job
from support.recurrent import Array, recurrent, reference
from support.tiny_models import build

PLAIN = Sampling(0.0, 1.0, None, 0.0)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "recurrent.tflite"
    path.write_bytes(recurrent(signature="serve"))
    return path


@pytest.fixture(scope="module")
def pixels() -> list[Any]:
    random = np.random.default_rng(3)
    return [random.integers(0, 256, (6, 10, 3), np.uint8) for _ in range(3)]


@pytest.fixture
def clip(tmp_path: Path, pixels: list[Array]) -> Path:
    """A folder of three pictures."""
    (folder := tmp_path / "clip").mkdir()
    for number, each in enumerate(pixels):
        cv2.imwrite(str(folder / f"{number}.png"), each[..., ::-1])
    return folder


@pytest.fixture(scope="module")
def expected(pixels: list[Array]) -> list[Array]:
    """The results "y" of a loop on the CPU that copies the states."""
    given = [np.float32(1 / 255) * each[None].astype(np.float32) for each in pixels]
    return [values["y"] for values in reference(recurrent(), given)]


def textures(pixels: list[Array]) -> list[fb.GlTexture]:
    return [fb.GlTexture.from_array(np.dstack([each, np.full((6, 10), 255, np.uint8)])) for each in pixels]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("road", ["textures", "planes"])
def test_each_clip_begins_with_zeros(
    road: Literal["textures", "planes"], model: Path, clip: Path, expected: list[Array]
) -> None:
    assert task_for("", str(model)) == "style", "the states are no pictures, and no results"
    work = Work("raw", str(model), save=("npz",))
    with Session(work, road=road) as session:
        first, second = (outputs_of(session, work, clip) for _ in range(2))
    assert np.array_equal(first, second) and np.abs(first[1] - first[0]).max() > 0.01
    if road == "textures":  # the other one converts colours
        np.testing.assert_allclose(first, np.concatenate(expected), rtol=0, atol=1e-5)


def outputs_of(session: Session, work: Work, clip: Path) -> Any:
    """The only outputs of each frame, "y"."""
    rows: list[Any] = [row for rows in session.frames(work, str(clip), None) for row in rows]
    assert [list(row["outputs"]) for row in rows] == [["y"]] * 3
    return np.concatenate([row["outputs"]["y"] for row in rows])


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("mode", ["gpu", "copying", "cpu"])
def test_modes_with_copies_have_states_too(
    context: fb.GlContext, mode: Mode, model: Path, pixels: list[Array], expected: list[Array]
) -> None:
    network = Network(model, ModelOptions().options(model))
    (output,) = network.outputs
    network.mode = mode
    with contextlib.closing(network):
        outputs = network.bind_outputs()
        for _ in range(2):
            network.reset_feedback()
            for texture, values in zip(textures(pixels), expected, strict=True):
                network.run_on(texture, PLAIN)
                np.testing.assert_allclose(outputs.buffers[output].read(), values.ravel(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_each_stream_has_states_of_its_own(
    context: fb.GlContext, model: Path, pixels: list[Array], expected: list[Array]
) -> None:
    """Two streams whose frames alternate; one comes back."""
    networks = Networks(ModelOptions(), fb.GlTimer())
    streams = [networks.for_stream(str(model), name) for name in ("a", "b")]
    for texture, values in zip(textures(pixels), expected, strict=True):
        for stream in streams:
            found = stream.run_on(texture, PLAIN)[0]
            np.testing.assert_allclose(found, values, rtol=0, atol=1e-5)
    again = networks.for_stream(str(model), "a")
    assert again.shared is streams[0].shared is not streams[1].shared
    np.testing.assert_allclose(again.run_on(textures(pixels)[0], PLAIN)[0], expected[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_streams_of_planes_have_states_of_their_own(
    context: fb.GlContext, model: Path, clip: Path, expected: list[Array]
) -> None:
    work = Work("raw", str(model), save=("npz",), options=ModelOptions())
    viewer = PlanesViewer(context, work, api=GL)
    with contextlib.closing(viewer), fb.open_source(str(clip)) as source:
        views = [viewer.view(source, name) for name in ("a", "b")]
        for frame, values in zip(source.frames(context), expected, strict=True):
            for view in views:
                ((found,),) = (each["outputs"].values() for each in view.find(frame))
                np.testing.assert_allclose(found, values, rtol=0, atol=1e-5)


def test_a_video_of_a_recurrent_model_is_not_divided(model: Path, tmp_path: Path) -> None:
    work = Work("raw", str(model), save=("npz",))
    assert not work.video_task.has_memory and work.has_memory
    assert divide(Job(tmp_path / "a.mp4", tmp_path / "a", part_seconds=1.0), work) == ()


def test_inspect_shows_the_states_that_videos_feed_back(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspect.inspect(str(model), flags=DelegateFlags())
    assert "--feedback r2o:r2i,r1o:r1i" in " ".join(capsys.readouterr().out.split())


def found_of(inputs: list[T], outputs: list[T], option: str = AUTO) -> dict[str, str]:
    """The pairs that are fed back in a model of these inputs and outputs, by names. Operators do not matter."""
    tensors = [*inputs, *outputs]
    count = len(inputs)
    operators = [Op("ABS", [0], [count + number]) for number in range(len(outputs))]
    content = build(G(tensors, operators, list(range(count)), list(range(count, len(tensors))), signature="serve"))
    interpreter = fb.Interpreter(model_content=content, delegate="cpu")
    return {tensors[o].name: tensors[i].name for o, i in feedback_of(interpreter, option).items()}


X, Y = T("x", (1, 8, 8, 3)), T("y", (1, 8, 8, 3))


def state(name: str, channels: int = 8) -> T:
    return T(name, (1, 8, 8, channels))


@pytest.mark.parametrize(
    "inputs, outputs, found",
    [
        ([X, state("r1i"), state("r2i", 5)], [Y, state("r1o"), state("r2o", 5)], {"r1o": "r1i", "r2o": "r2i"}),
        ([X, state("state_in")], [state("state_out"), Y], {"state_out": "state_in"}),
        ([X, state("serving_default_h_input:0")], [state("h_output"), Y], {"h_output": "serving_default_h_input:0"}),
        ([X, state("r1i"), T("downsample_ratio", (1,))], [Y, state("r1o")], {"r1o": "r1i"}),
        ([X, state("args_1"), state("args_2", 5)], [Y, state("a"), state("b", 5)], {"a": "args_1", "b": "args_2"}),
        ([X, state("args_1"), state("args_2", 5)], [Y, state("b", 5), state("a")], {}),
        ([X, state("r1i", 5)], [Y, state("r1o", 6)], {}),
        ([X, state("style")], [state("picture")], {}),
        ([T("x", (1, 3, 16, 8)), T("h", (1, 64, 4, 4))], [T("y", (1, 1, 16, 8)), T("o", (1, 64, 4, 4))], {"o": "h"}),
        ([T("x", (1, 3, 16, 8)), T("h", (1, 4, 8, 4))], [T("y", (1, 1, 16, 8)), T("o", (1, 4, 8, 4))], {"o": "h"}),
        ([X, T("h", (1, 4, 8, 64))], [Y, T("o", (1, 4, 8, 64))], {"o": "h"}),
        ([T("x", (1, 3, 16, 8)), T("t", (1, 1, 16, 8))], [T("y", (1, 3, 16, 8)), T("a", (1, 1, 16, 8))], {}),
        ([X, T("second", (1, 8, 8, 3))], [T("mask", (1, 8, 8, 1)), Y], {}),
        ([X], [Y], {}),
    ],
)  # fmt: skip
def test_the_rule(inputs: list[T], outputs: list[T], found: dict[str, str]) -> None:
    assert found_of(inputs, outputs) == found


def test_pairs_are_named_by_the_user() -> None:
    model = [X, state("r1i")], [Y, state("r1o"), state("other")]
    assert found_of(*model, NONE) == {} and found_of(*model, "other:r1i") == found_of(*model, "4:1") == {"other": "r1i"}
    for wrong in ("r1o", "r1o:x9", "y9:r1i", ""):
        with pytest.raises(fb.ModelError, match=r"is no output:input.*r1o.*r1i"):
            found_of(*model, wrong)
