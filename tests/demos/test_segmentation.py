"""The segmentation demo: its filters against their formulas in NumPy, its pictures against LiteRT's CPU interpreter."""

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
from framebind.video.answers.classes import STAY
from framebind.video.layouts import PictureShape
from framebind.video.tasks import segment
from framebind.video.tasks.segment import Effect
from framebind.video.vision import masks
from framebind.video.vision.class_mask import ClassMask
from framebind.video.vision.palette import palette

Array = npt.NDArray[Any]
Photograph = Callable[..., npt.NDArray[np.uint8]]
ModelPath = Callable[[str], Path]

pytestmark = [pytest.mark.usefixtures("context"), pytest.mark.parametrize("context", ["gl"], indirect=True)]


def spread(small: Array, frame: Array, values: Callable[[Array, Array], Array]) -> Array:
    """Joint bilateral upsampling (Kopf et al., 2007) as ``masks.SPREAD`` has it, in float64.

    ``small`` (h, w, 4) has colours and a value, ``frame`` (H, W, 3) colours, both from 0 to 1.
    """
    (height, width), (rows, columns) = frame.shape[:2], small.shape[:2]
    y, x = np.mgrid[0:height, 0:width]
    places = [(y + 0.5) / height * rows - 0.5, (x + 0.5) / width * columns - 0.5]
    total, weights = 0.0, 0.0
    for down in range(-masks.RADIUS, masks.RADIUS + 1):
        for across in range(-masks.RADIUS, masks.RADIUS + 1):
            v, u = np.floor(places[0] + 0.5) + down, np.floor(places[1] + 0.5) + across
            at = np.clip(v, 0, rows - 1).astype(int), np.clip(u, 0, columns - 1).astype(int)
            there = small[at].astype(np.float64)
            distance = ((v - places[0]) ** 2 + (u - places[1]) ** 2) / masks.SPATIAL**2
            difference = np.square((there[..., :3] - frame) / masks.RANGE).sum(axis=-1)
            weight = np.exp(-0.5 * distance) * np.maximum(np.exp(-0.5 * difference), masks.FLOOR)
            total = total + weight[..., None] * values(there[..., 3], frame)
            weights = weights + weight
    return total / np.asarray(weights)[..., None]


def as_mask(value: Array, _: Array) -> Array:
    return value[..., None]


def enlarged(small: Array, frame: npt.NDArray[np.uint8]) -> Array:
    target = fb.GlTexture(frame.shape[1], frame.shape[0], "r32f")
    textures = {"frame": fb.GlTexture.from_array(frame), "small": fb.GlTexture.from_array(small.astype(np.float32))}
    fb.FragmentProgram(masks.enlarger(None)).draw(target, textures)
    return target.read()[..., 0]


def disc(height: int, width: int) -> tuple[npt.NDArray[np.uint8], Array]:
    """A noisy picture of a disc before a background, and where the disc is."""
    y, x = np.mgrid[0:height, 0:width] + 0.5
    inside = np.hypot(x - 0.45 * width, y - 0.55 * height) < 0.3 * height
    noise = np.random.default_rng(0).normal(0, 0.02, (height, width, 3))
    picture = np.where(inside[..., None], [0.8, 0.5, 0.3], [0.2, 0.4, 0.6]) + noise
    return np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8), inside


def shrunk(picture: Array, size: tuple[int, int]) -> Array:
    return cv2.resize(picture.astype(np.float32), size, interpolation=cv2.INTER_AREA)


def test_the_enlarged_mask_is_that_of_the_formula() -> None:
    frame, inside = disc(36, 52)
    small = np.dstack([shrunk(frame / 255, (13, 9)), shrunk(inside, (13, 9))])
    expected = spread(small.astype(np.float32), frame / 255, as_mask)[..., 0]
    assert 0.1 < expected.mean() < 0.9
    np.testing.assert_allclose(enlarged(small, frame), expected, atol=1e-5)


def test_the_enlarged_mask_follows_the_pictures_edge_and_bilinear_upsampling_does_not() -> None:
    frame, inside = disc(96, 128)
    small = np.dstack([shrunk(frame / 255, (16, 12)), shrunk(inside, (16, 12))])
    bilinear = cv2.resize(small[..., 3], (128, 96), interpolation=cv2.INTER_LINEAR)
    wrong_by = [np.abs(mask - inside).mean() for mask in (enlarged(small, frame), bilinear)]
    assert wrong_by[0] < 0.25 * wrong_by[1], wrong_by
    wrong = [((mask > 0.5) != inside).sum() for mask in (enlarged(small, frame), bilinear)]
    assert wrong[0] < 0.25 * wrong[1], wrong


def entropy(p: Array) -> Array:
    return -(p * np.log2(p) + (1 - p) * np.log2(1 - p))


def test_a_mask_keeps_the_one_before_where_the_new_one_does_not_know() -> None:
    rng, frame = np.random.default_rng(1), fb.GlTexture.from_array(np.zeros((8, 8, 3), np.uint8))
    first, second = (rng.uniform(0.01, 0.99, (6, 5)).astype(np.float32) for _ in range(2))
    second[0, :3] = 0.5, 0.999, 0.001
    scores = fb.GlBuffer(first.nbytes, first)
    smooth = masks.GlMask(scores, PictureShape(6, 5, 1), (8, 8), person=segment.PERSON).smooth
    np.testing.assert_allclose(smooth(frame)["small"].read()[..., 3], first, atol=1e-3)
    scores.write(second)
    mixed = second + masks.MEMORY * entropy(second) * (first - second)
    assert np.abs(mixed - second).max() > 0.2
    # The texture keeps halves: 11 bits.
    np.testing.assert_allclose(smooth(frame)["small"].read()[..., 3].astype(np.float32), mixed, atol=1e-3)


def test_the_mask_of_a_model_with_classes_is_the_probability_of_a_person() -> None:
    values = np.random.default_rng(2).normal(0, 3, (4, 5, 21)).astype(np.float32)
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    person = masks.GlMask(fb.GlBuffer(values.nbytes, values), PictureShape(4, 5, 21), (8, 8), person=segment.PERSON)
    mask = person.smooth(fb.GlTexture.from_array(np.zeros((8, 8, 3), np.uint8)))["small"].read()[..., 3]
    expected = powers[..., 15] / powers.sum(axis=-1)
    np.testing.assert_allclose(mask.astype(np.float32), expected, atol=1e-3)
    np.testing.assert_allclose(person.small(), expected, atol=0.5 / 255 + 1e-3)


def test_a_class_stays_until_another_is_clearly_better() -> None:
    def found(*best: tuple[int, float]) -> list[int]:
        values = np.zeros((1, 1, len(best), 4), np.float32)
        for number, (channel, score) in enumerate(best):
            values[0, 0, number, channel] = score
        classes.smooth([values])
        return classes.small[0].tolist()

    classes = ClassMask(PictureShape(1, 3, 4))
    assert found((1, 3.0), (2, 3.0), (3, 3.0)) == [1, 2, 3]
    assert found((2, 0.9 * STAY), (3, 1.1 * STAY), (3, 1.0)) == [1, 3, 3]
    assert found((2, 1.1 * STAY), (3, 0.1), (3, 1.0)) == [2, 3, 3]


# The demo -------------------------------------------------------------------------------------------------------------


def on_cpu(path: Path, image: Array) -> Array:
    interpreter = litert.Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image[None].astype(np.float32))
    interpreter.invoke()
    return np.array(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))[0]


def painted(path: Path, rgb: Array, folder: Path, effect: Effect, background: str = "#205080") -> Array:
    cv2.imwrite(str(folder / "frame.png"), rgb[..., ::-1])
    prepare = partial(segment.TASK.prepare, effect=effect, background=background)
    run(prepare, Options(str(path), str(folder / "frame.png"), output=[folder / "a.png"]))
    picture = cv2.imread(str(folder / "a.png"))
    assert picture is not None
    return picture[..., ::-1].astype(np.float64)


def test_a_person_is_cut_out_as_the_cpus_mask_says(
    tmp_path: Path, photograph: Photograph, model_path: ModelPath
) -> None:
    rgb, path = photograph("astronaut", 256, 256), model_path("selfie_segmentation")
    small = on_cpu(path, rgb / 255)
    assert 0.2 < (small > 0.5).mean() < 0.8
    mask = spread(np.dstack([rgb / 255, small]), rgb / 255, as_mask)
    t = np.clip((mask - 0.3) / 0.4, 0, 1)
    person = t * t * (3 - 2 * t)
    expected = np.array([0x10, 0xC0, 0x40]) * (1 - person) + rgb * person
    # The mask is rounded to 256 steps; smoothstep's slope of 3.75 makes that 1.9 steps of the picture.
    np.testing.assert_allclose(painted(path, rgb, tmp_path, "cutout", "#10c040"), expected, atol=3)


def test_classes_are_coloured_as_the_cpu_finds_them(
    tmp_path: Path, photograph: Photograph, model_path: ModelPath
) -> None:
    rgb, path = photograph("astronaut", 257, 257), model_path("deeplabv3_257_mv_gpu")
    scores = on_cpu(path, (rgb / 255 - 0.5) / 0.5)
    classes = scores.argmax(axis=-1)
    assert (classes == segment.PERSON).mean() > 0.2
    colors = np.array(palette(21))

    def colored(number: Array, frame: Array) -> Array:
        found = number.astype(int)[..., None]
        return np.where(found == 0, frame, 0.4 * frame + 0.6 * colors[found[..., 0]])

    expected = spread(np.dstack([rgb / 255, classes]), rgb / 255, colored) * 255
    best = np.sort(scores, axis=-1)
    unclear = (best[..., -1] - best[..., -2] < 1e-3 * np.abs(scores).max()).astype(np.uint8)
    clear = cv2.dilate(unclear, np.ones((5, 5), np.uint8)) == 0
    clear[:40, :110] = False  # the legend
    assert clear.mean() > 0.5
    picture = painted(path, rgb, tmp_path, "classes")
    np.testing.assert_allclose(picture[clear], expected[clear], atol=1.5)
    shares = np.bincount(classes.ravel(), minlength=21) / classes.size
    rows = segment.present(shares)
    assert rows == [segment.PERSON]
    swatch = np.abs(picture[:40, :110] - colors[segment.PERSON] * 255).max(axis=-1) < 2
    assert 40 < swatch.sum() < 150, "a legend of what is in the picture"


def test_classes_of_a_picture_are_counted() -> None:
    numbers = np.zeros((256, 256), np.uint8)
    numbers[:64], numbers[64:, :128] = 2, 4
    mask = ClassMask(PictureShape(256, 256, 5))
    mask.smooth([np.eye(5, dtype=np.float32)[numbers][None]])
    shares = mask.shares()
    np.testing.assert_allclose(shares, [0.375, 0, 0.25, 0, 0.375], atol=1e-6)
    assert segment.present(shares) == [4, 2], "the largest first, without the background"
    assert segment.present(np.array([0.99, 0.003, 0.007])) == [2]


def test_the_blurred_background_has_no_edges_and_the_person_all(
    tmp_path: Path, photograph: Photograph, model_path: ModelPath
) -> None:
    rgb, path = photograph("astronaut", 256, 256), model_path("selfie_segmentation")
    small = on_cpu(path, rgb / 255)[..., 0]
    picture = painted(path, rgb, tmp_path, "blur")
    inside = cv2.erode((small > 0.9).astype(np.uint8), np.ones((9, 9), np.uint8)) == 1
    outside = cv2.dilate((small > 0.1).astype(np.uint8), np.ones((9, 9), np.uint8)) == 0
    assert inside.mean() > 0.2 and outside.mean() > 0.1
    np.testing.assert_allclose(picture[inside], rgb[inside], atol=3)
    before, after = (
        np.abs(np.diff(p.astype(float), axis=0))[outside[1:] & outside[:-1]].mean() for p in (rgb, picture)
    )
    assert after < 0.5 * before, "neighbours differ less"
    assert np.abs(picture[outside].mean(axis=0) - rgb[outside].mean(axis=0)).max() < 12, "the colours are the same"


@pytest.mark.parametrize("name", ["selfie_segmentation", "deeplabv3_257_mv_gpu"])
def test_each_effect_copies_nothing_but_the_upload(name: str, model_path: ModelPath) -> None:
    pictures: dict[str, Array] = {}

    def prepare(scene: Any) -> Any:
        task = segment.TASK.prepare(scene, background="#000000")
        left = [*task.variants, task.variants[0]]

        def draw(frame: fb.GlTexture) -> None:
            choice = left.pop(0)
            choice.choose()
            task.draw(frame)
            if left:
                with fb.transfer_guard("allow"):
                    pictures[choice.name] = scene.picture.read(reason="a test")

        return type(task)(draw, task.variants, task.mark)

    frames = 4 if name == "deeplabv3_257_mv_gpu" else 3
    report = run(prepare, Options(str(model_path(name)), frames=frames, size="96x64", headless=True))
    assert report.frames == frames - 1 and report.uploaded == (frames - 1) * 96 * 64 * 3
    assert report.copied == (frames - 2) * 96 * 64 * 4, "what the test itself reads"
    names = [segment.EFFECTS[name] for name in ("classes", "cutout", "blur")]
    assert list(pictures) == names[-(frames - 1) :]
    assert all(picture.std() > 20 for picture in pictures.values())


def test_backgrounds_and_effects_that_are_none(tmp_path: Path, model_path: ModelPath) -> None:
    for given, message in (
        (("cutout", "#12345"), "'#12345' is no colour: write it as #rrggbb"),
        (("cutout", str(tmp_path / "no.png")), "no.png' is no picture that can be read"),
        (("classes", "#123456"), "with it, --effect is cutout or blur"),
    ):
        options = Options(str(model_path("selfie_segmentation")), frames=1, size="64x64", headless=True)
        with pytest.raises(fb.FramebindError, match=message):
            run(partial(segment.TASK.prepare, effect=given[0], background=given[1]), options)
    options = Options(str(model_path("pose_landmark_lite")), frames=1, size="64x64", headless=True)
    with pytest.raises(
        fb.ModelError, match=r"pose_landmark_lite\.tflite is no segmentation: .* inspect names its task"
    ):
        run(partial(segment.TASK.prepare, effect=None, background="#123456"), options)


def test_a_picture_behind_fills_the_frame(tmp_path: Path, photograph: Photograph, model_path: ModelPath) -> None:
    stripes = np.zeros((32, 96, 3), np.uint8)
    stripes[:, 32:64, 1], stripes[:, :32, 0], stripes[:, 64:, 2] = 255, 255, 255
    cv2.imwrite(str(tmp_path / "stripes.png"), stripes)
    black = np.zeros((64, 64, 3), np.uint8)
    picture = painted(model_path("selfie_segmentation"), black, tmp_path, "cutout", str(tmp_path / "stripes.png"))
    np.testing.assert_allclose(picture[8:56, 8:56, 1], 255, atol=40)
    assert picture[..., [0, 2]][8:56, 8:56].max() < 40, "the left and the right third are cut off"
