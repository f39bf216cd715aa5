"""Synthetic motion over one picture, as a source that needs no camera."""

from __future__ import annotations

import math

import numpy as np

from .frame_reader import BgrReader, Pixels
from .opencv import load_cv2


class MotionReader(BgrReader):
    """A camera that pans, zooms and turns over one picture, without end: the same frames on every run.

    The top of the picture, where the heads of people are, stays in the frame.
    """

    length, fps = None, 30.0
    PERIOD = 240
    """Number of frames after which the motion repeats."""

    def __init__(self, picture: Pixels, size: tuple[int, int], name: str) -> None:
        self.name, self.size, self._picture, self._number = name, size, picture, 0

    def read(self, view: Pixels) -> bool:
        cv2, (height, width) = load_cv2(), self._picture.shape[:2]
        phase = 2 * math.pi * self._number / self.PERIOD
        # Without the zoom the picture just covers the frame. Outside of it, at turned corners, it is mirrored.
        zoom = 1.08 - 0.06 * math.cos(2 * phase)
        scale = max(self.size[0] / width, self.size[1] / height) * zoom
        seen = self.size[0] / scale, self.size[1] / scale
        top = min(0.01 * (1 - math.cos(phase)) * height, height - seen[1])
        pan = min(0.04 * width, (width - seen[0]) / 2)
        centre = width / 2 + pan * math.sin(phase), top + seen[1] / 2
        matrix = cv2.getRotationMatrix2D(centre, 3 * math.sin(phase), scale)
        matrix[:, 2] += (self.size[0] / 2 - centre[0], self.size[1] / 2 - centre[1])
        cv2.warpAffine(
            self._picture, matrix, self.size, dst=view, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101
        )
        self._number += 1
        return True

    def reopen(self) -> bool:
        self._number = 0
        return True

    def close(self) -> None:
        self._number = 0


def painted_picture(width: int = 960, height: int = 720) -> Pixels:
    """A picture that needs no file, for synthetic motion: waves of colour, discs and a checkered floor."""
    cv2 = load_cv2()
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    u, v = x / width, y / height
    waves = [np.sin(9 * u + 5 * v + k) * np.cos(7 * v - 4 * u * u + 2 * k) for k in range(3)]
    picture = np.stack([128 + 100 * wave for wave in waves], axis=-1)
    random = np.random.default_rng(7)
    for _ in range(60):
        centre = (int(random.integers(width)), int(random.integers(height)))
        colour = [float(c) for c in random.integers(0, 256, 3)]
        cv2.circle(picture, centre, int(random.integers(8, 70)), colour, -1, cv2.LINE_AA)
    squares = (x // 48 + y // 48) % 2 * 60 - 30
    return np.clip(picture + squares[..., None] * (v[..., None] > 0.6), 0, 255).astype(np.uint8)
