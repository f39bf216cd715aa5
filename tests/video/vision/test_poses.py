"""The poses demo: people whose key points are known are decoded exactly; the real model's key points are LiteRT's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from framebind.video.network import Network, resample
from framebind.video.tasks import poses
from framebind.video.vision import posenet
from framebind.video.vision.posenet import Outputs
from framebind.video.vision.regions import fitted
from support import tiny_models
from support.demo_models import BODY, NAMES, SIDE, STRIDE, moved, outputs_of

Array = npt.NDArray[Any]
QUANTIZED = "posenet_mobilenet_v1_100_257x257_multi_kpt_stripped_integer_quant"


def test_one_person_is_decoded_exactly_from_the_best_scores() -> None:
    person = moved(40, 30)
    found = posenet.decode_one(posenet.from_tensors(*outputs_of(person), STRIDE))
    np.testing.assert_allclose(found.places, person, atol=1e-4)
    assert found.score == pytest.approx(float(np.mean(1 / (1 + np.exp(-(4 - 0.1 * np.arange(17)))))), rel=1e-5)


def test_several_people_are_decoded_exactly_the_likeliest_first() -> None:
    people = [moved(5, 10), moved(75, 40, 1.2)]
    outputs = posenet.from_tensors(*outputs_of(*people), STRIDE)
    found = posenet.decode_people(outputs, 0.5)
    assert len(found) == 2 and found[0].score > found[1].score
    for person, expected in zip(found, people, strict=True):
        np.testing.assert_allclose(person.places, expected, atol=1e-4)
    assert posenet.decode_people(outputs, 0.93)[0].score == found[0].score
    assert posenet.decode_people(outputs, 0.99) == []


def test_a_hidden_key_point_is_found_along_the_bones_with_a_low_score() -> None:
    person = moved(40, 30)
    tensors = outputs_of(person)
    tensors[0][..., 9] = -8  # the left wrist
    (found,) = posenet.decode_people(posenet.from_tensors(*tensors, STRIDE), 0.3)
    np.testing.assert_allclose(found.places[9], person[9], atol=1e-4)
    assert found.scores[9] < 0.01 < 0.9 < found.scores[7]


def test_the_number_of_people_is_bounded() -> None:
    noise = np.random.default_rng(0)
    shape = (1, 40, 40)
    tensors = [noise.normal(0, 3, (*shape, channels)).astype(np.float32) for channels in (17, 34, 32, 32)]
    found = posenet.decode_people(posenet.from_tensors(*tensors, STRIDE), 0.01)
    assert len(found) == posenet.MOST_PEOPLE


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
class TestOnTheGpu:
    def test_key_points_of_the_real_model_are_where_the_cpu_finds_them(
        self, photograph: Callable[..., npt.NDArray[np.uint8]], model_path: Callable[[str], Path]
    ) -> None:
        rgb, path = (
            photograph("astronaut"),
            model_path("posenet_mobilenet_v1_100_257x257_multi_kpt_stripped_integer_quant"),
        )
        network = Network(path, fb.GpuDelegateOptions(backend="opengl"), fb.GlTimer())
        outputs, ((image, shape),) = network.bind_outputs(), network.inputs.items()
        crop = fitted((512, 512), (shape[2], shape[1]))
        network.bind(image, fb.GlTexture.from_array(rgb), mean=0.5, std=0.5, crop=crop)
        network.run()
        tensors, numbers = poses.output_parts(network), list(network.outputs)
        found = posenet.from_tensors(*[outputs[numbers.index(tensors[part][0])] for part in NAMES], stride=32.0)
        expected = on_cpu(path, resample(rgb, shape[1:3], crop, 0.0) / np.float32(127.5) - 1)
        # The model is quantized: a rounded step of its heat map is 0.1 to 0.2.
        assert np.abs(found.scores - expected.scores).mean() < 0.1
        confident = expected.scores.max(axis=(0, 1)) > -2.5
        places = [posenet.decode_one(each).places[confident] for each in (found, expected)]
        assert confident.sum() >= 4
        assert np.abs(places[0] - places[1]).max() < 8

    def test_the_demo_draws_each_person_and_one_if_asked(self, tmp_path: Path) -> None:
        people = [moved(5, 10), moved(75, 40, 1.2)]
        model = tmp_path / "people.tflite"
        model.write_bytes(tiny_models.constants(*outputs_of(*people), side=SIDE, names=NAMES))
        cv2.imwrite(str(tmp_path / "frame.png"), np.full((2 * SIDE, 3 * SIDE, 3), 90, np.uint8))
        drawn = [draw(tmp_path, model, mode) for mode in ("several", "one")]
        for picture, shown in zip(drawn, (people, people[:1]), strict=True):
            painted = (picture != 90).any(axis=-1)
            for person in people:
                # The picture is twice as high as the model's input, and wider: 1.5 pixels a pixel on each side.
                x, y = np.rint(person * 3 - (0, SIDE / 2)).astype(int).T
                inside = (y >= 0) & (y < picture.shape[0])
                assert painted[y[inside], x[inside]].all() == any(person is each for each in shown)

    def test_a_model_with_other_outputs_is_refused(self, tmp_path: Path) -> None:
        tensors = outputs_of(BODY)
        model = tmp_path / "other.tflite"
        model.write_bytes(tiny_models.constants(*tensors[:3], side=SIDE, names=NAMES[:3]))
        with pytest.raises(fb.ModelError, match=r"other.tflite is no PoseNet: it needs .* displacement_bwd"):
            run(poses.TASK.prepare, Options(str(model), frames=1, size="64x48", headless=True))


def draw(folder: Path, model: Path, people: poses.People) -> Array:
    options = Options(str(model), str(folder / "frame.png"), output=[folder / f"{people}.png"])
    run(partial(poses.TASK.prepare, people=people), options)
    picture = cv2.imread(str(folder / f"{people}.png"))
    assert picture is not None
    return picture


def on_cpu(path: Path, picture: Array) -> Outputs:
    interpreter = litert.Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], picture[None].astype(np.float32))
    interpreter.invoke()
    found = {
        str(each["name"]): np.array(interpreter.get_tensor(each["index"])) for each in interpreter.get_output_details()
    }
    scores, offsets, forward, backward = (
        next(values for name, values in found.items() if part in name) for part in NAMES
    )
    return posenet.from_tensors(scores, offsets, forward, backward, 32.0)
