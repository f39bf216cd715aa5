"""Draws video/assets/hand.jpg, the picture of the demo of hands: ``python scripts/draw_hand.py``.

The packages that the demos need have no photograph of a hand. This one is drawn: limbs are tapered round bars, lit from
the left, and lines of the palm are drawn over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

FILE = Path(__file__).parent.parent / "video" / "assets" / "hand.jpg"
WIDTH, HEIGHT = 960, 720
ROWS, COLUMNS = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)

Array = npt.NDArray[Any]
Points = Sequence[tuple[float, float]]

LIMBS: Sequence[tuple[Points, Sequence[float]]] = (
    ([(395, 395), (372, 270), (362, 195), (357, 140)], [42, 33, 29, 24]),
    ([(462, 385), (460, 240), (459, 155), (458, 95)], [42, 34, 30, 25]),
    ([(525, 395), (545, 262), (553, 185), (558, 130)], [40, 32, 28, 23]),
    ([(580, 425), (625, 325), (645, 262), (657, 212)], [36, 27, 24, 20]),
    ([(420, 590), (330, 500), (275, 425), (240, 365)], [62, 46, 36, 27]),
    ([(400, 400), (410, 600)], [52, 75]),
    ([(462, 395), (465, 600)], [52, 80]),
    ([(525, 405), (520, 600)], [50, 75]),
    ([(572, 440), (540, 600)], [44, 62]),
    ([(470, 600), (478, 980)], [92, 84]),
)
"""Four fingers, thumb, palm and arm: the joints of each as x and y, and its radius there."""
LINES: Sequence[tuple[Points, float]] = (
    ([(352, 452), (400, 470), (470, 455), (540, 425), (582, 442)], 0.45),
    ([(352, 468), (410, 500), (480, 506), (562, 500)], 0.45),
    ([(360, 460), (410, 520), (428, 575), (430, 645)], 0.45),
    ([(395, 690), (470, 701), (545, 688)], 0.35),
)
"""Lines of palm and wrist, and how dark they are."""
JOINTS = ((0, 0.28, 30), (0, 1.0, 24), (1, 1.0, 20))
"""Lines across a finger: the bone, the place along it, and half the line's length in pixels."""


def place(points: Points) -> Array:
    """The points in the picture, (n, 2): the hand is in its upper part, where wide frames see it as well."""
    return np.array(points, np.float32) * 0.8 + [110, -26]


def heights() -> Array:
    """Height of the hand's surface above the ground in pixels, (HEIGHT, WIDTH)."""
    height = np.zeros((HEIGHT, WIDTH), np.float32)
    for joints, radii in LIMBS:
        chain = list(zip(place(joints), 0.8 * np.array(radii), strict=True))
        for (start, first), (end, last) in pairwise(chain):
            way = end - start
            along = np.clip(((COLUMNS - start[0]) * way[0] + (ROWS - start[1]) * way[1]) / (way @ way), 0, 1)
            distance = np.hypot(COLUMNS - start[0] - along * way[0], ROWS - start[1] - along * way[1])
            radius = first + (last - first) * along
            np.maximum(height, np.sqrt(np.clip(radius**2 - distance**2, 0, None)), out=height)
    return cv2.GaussianBlur(height, (0, 0), 4)


def skin(height: Array) -> Array:
    """Colours (BGR) of the surface, lit from the upper left; the middle of the palm is flat."""
    y, x = np.gradient(cv2.GaussianBlur(np.minimum(height, 37), (0, 0), 3))
    normals = np.dstack([-x, -y, np.ones_like(x)])
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    lit = np.clip(normals @ (np.array([-0.45, -0.6, 0.66]) / np.linalg.norm([0.45, 0.6, 0.66])), 0, 1)
    dark, bright = np.array([70, 92, 150]), np.array([140, 172, 224])
    return dark + (bright - dark) * np.clip(0.25 + 0.85 * lit, 0, 1.1)[..., None]


def draw_line(picture: Array, points: Array, share: float) -> None:
    """Darken a line through the points, rounded off, by a share."""
    for _ in range(3):  # Chaikin's corner cutting
        cut = np.stack([0.75 * points[:-1] + 0.25 * points[1:], 0.25 * points[:-1] + 0.75 * points[1:]], 1)
        points = np.concatenate([points[:1], cut.reshape(-1, 2), points[-1:]])
    layer = np.zeros((HEIGHT, WIDTH), np.float32)
    cv2.polylines(layer, [np.rint(points * 16).astype(np.int32)], False, 1.0, 3, cv2.LINE_AA, shift=4)
    layer = share * cv2.GaussianBlur(layer, (0, 0), 1.6)[..., None]
    picture[...] = picture * (1 - layer) + np.array([70, 85, 140]) * layer


def draw_hand() -> npt.NDArray[np.uint8]:
    """The picture, BGR."""
    height = heights()
    hand = skin(height)
    for points, share in LINES:
        draw_line(hand, place(points), share)
    for joints, _ in LIMBS[:4]:
        for bone, along, reach in JOINTS:
            start, end = place(joints)[bone : bone + 2]
            way = (end - start) / np.hypot(*(end - start))
            middle, across = start + along * (end - start), 0.8 * reach * np.array([-way[1], way[0]])
            draw_line(hand, np.stack([middle - across, middle - 3 * way, middle + across]), 0.5)
    down, right = ROWS[..., None] / HEIGHT, COLUMNS[..., None] / WIDTH
    ground = np.array([150, 135, 120]) - np.array([50, 45, 40]) * down + np.array([20, 10, 0]) * right
    cover = np.clip((height - 4) / 8, 0, 1)
    move = np.array([[1, 0, 20], [0, 1, 17]], np.float32)
    ground *= 1 - 0.45 * cv2.GaussianBlur(cv2.warpAffine(cover, move, (WIDTH, HEIGHT)), (0, 0), 18)[..., None]
    grain = np.random.default_rng(1).normal(0, 1, (HEIGHT, WIDTH)).astype(np.float32)
    picture = ground + (hand - ground) * cover[..., None] + 6 * cv2.GaussianBlur(grain, (0, 0), 1.2)[..., None]
    return np.clip(picture, 0, 255).astype(np.uint8)


if __name__ == "__main__":
    cv2.imwrite(str(FILE), draw_hand(), [cv2.IMWRITE_JPEG_QUALITY, 88])
