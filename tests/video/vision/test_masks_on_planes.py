"""Masks on decoded planes against the formula of the joint bilateral filter, pixel by pixel in float64."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.kernels.colours import YuvColours
from framebind.video.vision import masks
from framebind.video.vision.masks import NOBODY, OPACITY, PERSON_FROM
from framebind.video.vision.masks_on_planes import MaskPainter
from framebind.video.vision.palette import palette

Array = npt.NDArray[Any]
COLOR = (0.1, 0.7, 0.3)
FORMATS = {"420": (2, 2, 8), "422": (2, 1, 8), "444 of 10 bits": (1, 1, 10)}
CASES = [("420", (36, 52), (9, 13)), ("422", (50, 46), (17, 9)), ("444 of 10 bits", (24, 32), (40, 50))]
"""A format, the picture's size, and the mask's: smaller by a whole number, by another one, and larger."""


def picture(name: str, size: tuple[int, int]) -> fb.video.Planes:
    """A dark disc before a bright ground, with noise."""
    columns, rows, bits = FORMATS[name]
    random, planes = np.random.default_rng(0), list[Array]()
    for plane, (inside, outside) in enumerate(((60, 170), (140, 110), (120, 150))):
        shape = size if plane == 0 else (size[0] // rows, size[1] // columns)
        y, x = ((np.arange(side) + 0.5) / side for side in shape)
        disc = np.hypot(x - 0.45, y[:, None] - 0.55) < 0.3
        numbers = np.where(disc, inside, outside) + random.normal(0, 6, shape)
        planes.append((numbers * 2 ** (bits - 8)).astype(np.uint8 if bits == 8 else np.uint16))
    return fb.video.Planes(planes, columns, rows, YuvColours("bt709", "limited", bits))


def colours_of(planes: fb.video.Planes, numbers: list[Array]) -> Array:
    """Red, green and blue, not clipped."""
    rows = np.array(planes.colours.rows())
    return np.stack(numbers, -1) / planes.colours.largest @ rows[:, :3].T + rows[:, 3]


def means(planes: fb.video.Planes, values: Array) -> Array:
    """The values (height, width, n) at the picture's size, by the formula in ``masks.SPREAD``."""
    (height, width), (rows, columns) = planes.planes[0].shape, values.shape[:2]
    repeats = [(1, 1), (planes.rows, planes.columns), (planes.rows, planes.columns)]
    whole = [np.kron(plane, np.ones(each)) for plane, each in zip(planes.planes, repeats, strict=True)]
    small = [cv2.resize(plane, (columns, rows), interpolation=cv2.INTER_LINEAR) for plane in planes.planes]
    here, there = colours_of(planes, whole), colours_of(planes, small)
    place = [(np.arange(height)[:, None] + 0.5) / height * rows - 0.5, (np.arange(width) + 0.5) / width * columns - 0.5]
    nearest = [np.floor(each + 0.5) for each in place]
    total = weights = np.zeros((height, width, 1))
    for down, across in np.ndindex(2 * masks.RADIUS + 1, 2 * masks.RADIUS + 1):
        v, u = nearest[0] + down - masks.RADIUS, nearest[1] + across - masks.RADIUS
        at = np.clip(v, 0, rows - 1).astype(int), np.clip(u, 0, columns - 1).astype(int)
        distance = ((v - place[0]) ** 2 + (u - place[1]) ** 2) / masks.SPATIAL**2
        difference = np.square((there[at] - here) / masks.RANGE).sum(-1)
        weight = np.exp(-0.5 * distance) * np.maximum(np.exp(-0.5 * difference), masks.FLOOR)
        total, weights = total + weight[..., None] * values[at], weights + weight[..., None]
    return np.asarray(total / weights)


def check_painted(before: list[Array], planes: fb.video.Planes, shares: Array, colors: list[Any]) -> None:
    """Compare with planes that have so much (height, width, n) of n colours mixed into them."""
    numbers = np.array([planes.colours.numbers(*color) for color in colors])
    for plane, (old, new) in enumerate(zip(before, planes.planes, strict=True)):
        rows, columns = (1, 1) if plane == 0 else (planes.rows, planes.columns)
        share = shares.reshape(old.shape[0], rows, old.shape[1], columns, -1).mean((1, 3))
        expected = old * (1 - share.sum(-1)) + share @ numbers[:, plane]
        # A coverage has 8 bits, and each colour is rounded.
        steps = 2 ** (planes.colours.bits - 8)
        np.testing.assert_allclose(new, expected, atol=1 + 0.5 * steps * len(colors))


@pytest.mark.parametrize(("name", "size", "small"), CASES)
def test_people_are_cut_out_along_the_edges_of_luma_and_chroma(
    name: str, size: tuple[int, int], small: tuple[int, int]
) -> None:
    planes = picture(name, size)
    y, x = ((np.arange(side) + 0.5) / side for side in small)
    mask = np.clip(3 - 8 * np.hypot(x - 0.45, y[:, None] - 0.55), 0, 1).astype(np.float32)
    share = np.clip((means(planes, mask[..., None]) - NOBODY) / (PERSON_FROM - NOBODY), 0, 1)
    share = 1 - share * share * (3 - 2 * share)
    assert 0.3 < (share == 1).mean() < 0.9 and (share == 0).any() and ((share > 0.1) & (share < 0.9)).any()
    before = [plane.copy() for plane in planes.planes]
    MaskPainter().cut_out(mask, COLOR, planes)
    check_painted(before, planes, share, [COLOR])


@pytest.mark.parametrize(("name", "size", "small"), CASES)
def test_classes_have_their_colours_along_the_edges(name: str, size: tuple[int, int], small: tuple[int, int]) -> None:
    planes, colors = picture(name, size), palette(5)
    numbers = np.zeros(small, np.int64)
    numbers[: small[0] // 2, small[1] // 3 :], numbers[small[0] // 2 :, small[1] // 2 :] = 2, 4
    shares = OPACITY * means(planes, np.stack([numbers == 2, numbers == 4], -1).astype(np.float64))
    before = [plane.copy() for plane in planes.planes]
    painter = MaskPainter()
    painter.color_classes(np.zeros_like(numbers), colors, planes)
    assert all(np.array_equal(old, new) for old, new in zip(before, planes.planes, strict=True)), "class 0 has none"
    painter.color_classes(numbers, colors, planes)
    check_painted(before, planes, shares, [colors[2], colors[4]])


def test_a_coverage_that_does_not_fit() -> None:
    with pytest.raises(fb.BindingError, match=r"a coverage is uint8 of luma's \(4, 6\), not float32 of \(4, 6\)"):
        picture("420", (4, 6)).cover(np.zeros((4, 6), np.float32), COLOR)  # type: ignore[arg-type]
