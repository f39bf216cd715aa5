"""Paints the picture whose style the model imitates, ``style.png``: a night of brush strokes over woodcut waves."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

SIZE = 512
HORIZON = 300
LIGHTS = ((140, 150, 80, 1), (350, 190, 100, -1), (440, 60, 60, 1), (250, 400, 110, 1))
"""Lights in the sky: x, y, radius and turning direction."""
NIGHT = ((14, 40, 90), (40, 110, 170), (150, 200, 205), (250, 215, 120), (255, 250, 225), (220, 80, 50))
"""Colours from dark to bright; the last one is mixed in here and there."""
SEA = ((20, 50, 95), (45, 95, 140), (120, 165, 185))
FOAM = (240, 235, 220)

Picture = npt.NDArray[np.uint8]
Field = npt.NDArray[np.float64]


def paint_sky(picture: Picture, rng: np.random.Generator) -> None:
    """Paint strokes of 50 pixels that follow whirls around the lights, brighter the nearer they are."""
    y, x = np.mgrid[:SIZE, :SIZE].astype(np.float64)
    flow = np.stack([np.full((SIZE, SIZE), 0.35), np.full((SIZE, SIZE), 0.1)])
    light = np.zeros((SIZE, SIZE))
    for centre_x, centre_y, radius, turn in LIGHTS:
        away_x, away_y = x - centre_x, y - centre_y
        distance = np.hypot(away_x, away_y) / radius
        flow += np.stack([-away_y, away_x]) * np.exp(-(distance**2) / 2) * turn * 3 / radius
        light = np.maximum(light, np.exp(-2 * distance**2) + 0.4 * np.cos(9 * distance) * np.exp(-distance))
    flow /= np.hypot(*flow) + 1e-6
    for _ in range(6000):
        start = rng.random(2) * SIZE
        shade = int(np.clip((light[int(start[1]), int(start[0])] + rng.normal() * 0.12) * 5, 0, 4))
        color = np.clip(NIGHT[shade if rng.random() > 0.06 else 5] + rng.normal(0, 16, 3), 0, 255)
        points = _follow(flow, start, steps=8, length=50 / 8)
        cv2.polylines(picture, [points], False, color.tolist(), int(rng.integers(2, 10)), cv2.LINE_AA)


def _follow(flow: Field, start: Field, steps: int, length: float) -> npt.NDArray[np.int32]:
    points = [start]
    for _ in range(steps):
        x, y = np.clip(points[-1], 0, SIZE - 1).astype(int)
        points.append(points[-1] + flow[:, y, x] * length)
    return np.round(points).astype(np.int32)


def paint_sea(picture: Picture, rng: np.random.Generator) -> None:
    """Paint rows of waves with a line of foam, each in front of the one behind, and drops above them."""
    x = np.arange(0, SIZE + 4, 4)
    for row in range(HORIZON + 22, SIZE + 90, 16):
        crest = np.stack([x, row + 22 * np.sin(x * 0.02 + row * 0.9) + 8 * np.sin(x * 0.06 + row * 0.3)], axis=1)
        crest = crest.astype(np.int32)
        below = np.concatenate([crest, np.array([[SIZE, SIZE + 99], [0, SIZE + 99]], np.int32)])
        cv2.fillPoly(picture, [below], SEA[int(rng.integers(3))], cv2.LINE_AA)
        cv2.polylines(picture, [crest], False, FOAM, 3, cv2.LINE_AA)
        for point in crest[rng.random(len(crest)) < 0.15]:
            cv2.circle(picture, (int(point[0]), int(point[1]) - 6), int(rng.integers(1, 5)), FOAM, -1, cv2.LINE_AA)


def main() -> None:
    rng = np.random.default_rng(1)
    picture = np.empty((SIZE, SIZE, 3), np.uint8)
    picture[:] = NIGHT[0]
    paint_sky(picture, rng)
    paint_sea(picture, rng)
    small = cv2.resize(picture, (256, 256), interpolation=cv2.INTER_AREA)
    cv2.imwrite(str(Path(__file__).with_name("style.png")), small[..., ::-1])


if __name__ == "__main__":
    main()
