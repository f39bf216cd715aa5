"""Classes of pixels by the GPU: those of the formula in NumPy, and few bytes read."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice
from framebind.video.answers.classes import STAY, class_graph, together_of
from framebind.video.apis import api_of
from framebind.video.copies import DETECTIONS, copied_for
from framebind.video.layouts import Layout, PictureShape
from framebind.video.model_file import read_model_file
from framebind.video.network import Network
from framebind.video.session.session import Session
from framebind.video.tasks import matte
from framebind.video.vision.class_mask import ClassMask
from framebind.video.work import Work
from support.demo_models import brightness, largest_color
from support.video.outputs import outputs_on

Array = npt.NDArray[Any]


def best(scores: Array, before: Array | None) -> Array:
    """The class (height, width) with most of ``scores`` (classes, height, width), or the one before if it is near."""
    if before is not None:
        scores = scores + np.float32(STAY) * (np.arange(len(scores))[:, None, None] == before)
    return scores.argmax(axis=0)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_the_classes_of_a_video(layout: Layout, gpu: Device) -> None:
    random, shape = np.random.default_rng(0), PictureShape(27, 44, 21, layout)
    frames = [random.normal(0, 1, (21, 27, 44)).astype(np.float32).round(1) for _ in range(3)]
    stored = [
        np.ascontiguousarray(each[None] if layout == "nchw" else each.transpose(1, 2, 0)[None]) for each in frames
    ]
    wanted, before = list[Array](), None
    for each in frames:
        wanted.append(before := best(each, before))
    assert (wanted[1] != frames[1].argmax(axis=0)).any() and (wanted[1] != wanted[0]).any()
    with outputs_on(gpu, stored[:1]) as outputs:
        mask = ClassMask(shape)
        for values, numbers in zip(stored, wanted, strict=True):
            outputs.buffers[0].write(values)
            mask.smooth(outputs)
            fb.transfers.reset()
            np.testing.assert_array_equal(mask.shares(), np.bincount(numbers.ravel(), minlength=21) / numbers.size)
            assert copied_for(DETECTIONS) == fb.transfers.bytes == 4 * 21
            np.testing.assert_array_equal(mask.small, numbers)
            assert fb.transfers.bytes - 4 * 21 <= numbers.size
        on_cpu = ClassMask(shape)
        for values in stored:
            on_cpu.smooth([values])
        np.testing.assert_array_equal(on_cpu.small, wanted[-1])


def test_numbers_that_a_model_has_chosen_stay_as_they_are(gpu: Device) -> None:
    numbers = np.random.default_rng(0).integers(0, 21, (128, 129))
    wanted = np.bincount(numbers.ravel(), minlength=21) / numbers.size
    with outputs_on(gpu, [numbers[None].astype(np.float32)]) as outputs:
        assert outputs.are_on_gpu(0)
        for given in (outputs, [numbers[None].astype(np.int32)]):
            mask = ClassMask(PictureShape(128, 129, 1), 21)
            mask.smooth(given)
            np.testing.assert_array_equal(mask.shares(), wanted)
            np.testing.assert_array_equal(mask.small, numbers)


def test_a_model_that_chooses_finds_no_people(tmp_path: Path) -> None:
    (path := tmp_path / "model.tflite").write_bytes(largest_color())
    with pytest.raises(fb.ModelError, match=r"model\.tflite has 3 classes: with it, --effect is classes"):
        matte.finder(read_model_file(path), (64, 48))


@pytest.mark.parametrize(
    ("content", "classes", "name"),
    [(brightness(21), 21, "person"), (largest_color(), 3, "class 2")],
    ids=["scores", "numbers"],
)
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_painted_video_reads_counts_alone(
    tmp_path: Path, context: fb.GlContext, content: bytes, classes: int, name: str
) -> None:
    (model := tmp_path / "model.tflite").write_bytes(content)
    (folder := tmp_path / "frames").mkdir()
    for number in range(3):
        cv2.imwrite(str(folder / f"{number}.png"), np.full((48, 64, 3), (220, 200, 200), np.uint8))
    work = Work("segment", str(model), save=("video",), suffix=".png")
    with Session(work, road="textures") as session:
        (*_, last) = session.frames(work, str(folder), tmp_path / "out")
    assert [(row["class"], row["share"]) for row in last] == [(name, 1.0)]
    assert copied_for(DETECTIONS) == (3 + 1) * 4 * classes, "the counts of each frame, and once those of the legend"


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_streams_share_a_network_and_no_states(tmp_path: Path, context: fb.GlContext) -> None:
    """A pixel that is black in one stream would stay a person, if that were the state of another one."""
    (model := tmp_path / "model.tflite").write_bytes(brightness(21))
    for name, value in (("bright", 200), ("black", 0)):
        (tmp_path / name).mkdir()
        for number in range(3):
            cv2.imwrite(str(tmp_path / name / f"{number}.png"), np.full((48, 64, 3), value, np.uint8))
    found = dict[str, list[Any]]()
    streams = [str(tmp_path / name) for name in ("bright", "black")]
    with fb.video.Watch(streams, model=str(model), task="segment", backend="gl") as watch:
        for result in itertools.islice(watch, 4):
            found.setdefault(Path(result.stream).name, []).append([each["class"] for each in result.found])
    assert set(map(str, found["bright"])) == {"['person']"} and set(map(str, found["black"])) == {"[]"}


def test_a_video_takes_over_the_program_of_the_one_before_without_its_state(tmp_path: Path, gpu: Device) -> None:
    (model := tmp_path / "model.tflite").write_bytes(brightness(21))
    api = api_of("auto")
    network, shape = Network(model, fb.GpuDelegateOptions(backend=api.name), api=api), PictureShape(48, 64, 21)
    outputs, scores = network.bind_outputs(), np.zeros(shape.shape, np.float32)
    (buffer,) = outputs.buffers.values()
    first, second = ClassMask(shape), ClassMask(shape)
    for number, mask in ((3, first), (4, second)):
        scores[..., number] = 2 * number
        buffer.write(scores)
        mask.smooth(outputs)
        assert set(mask.small.ravel()) == {number}
    programs = [mask._on_gpu._postprocess for mask in (first, second) if mask._on_gpu is not None]
    assert len({*map(id, programs)}) == 2
    del first
    scores[:] = 0
    scores[..., 7] = 0.5  # less than a class that stays would have
    buffer.write(scores)
    third = ClassMask(shape)
    third.smooth(outputs)
    assert third._on_gpu is not None and third._on_gpu._postprocess is programs[0]
    assert set(third.small.ravel()) == {7}
    network.close()


def test_several_classes_are_digits_of_one_float() -> None:
    assert [together_of(classes) for classes in (2, 19, 21, 64, 150, 256)] == [24, 5, 5, 4, 3, 3]


@pytest.mark.parametrize("shape", [PictureShape(320, 320, 21, "nchw"), PictureShape(65, 33, 150)])
def test_the_graph_is_one_program_on_every_device(shape: PictureShape, device: Device) -> None:
    content, feedback = class_graph(shape)
    with fb.GpuDelegate("null" if isinstance(device, NullDevice) else "auto", feedback=feedback) as delegate:
        interpreter = fb.Interpreter(model_content=content)
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        assert all(operator.runs_on == "gpu" for operator in interpreter.delegated_ops())
        assert len(delegate.partitions()) == 1
