"""The photographs that scikit-image, scikit-learn and matplotlib ship, and endless variations of them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]
"""RGB, (height, width, 3)."""

PHOTOGRAPHS = {
    "skimage/data": ("chelsea.png", "rocket.jpg", "motorcycle_left.png"),
    "sklearn/datasets/images": ("china.jpg", "flower.jpg"),
    "matplotlib/mpl-data/sample_data": ("grace_hopper.jpg",),
}
PEOPLE = {"matplotlib/mpl-data/sample_data": ("grace_hopper.jpg",)}
"""The files of PHOTOGRAPHS that show a person."""
TEXTURES = {
    "skimage/data": (
        "hubble_deep_field.jpg", "ihc.png", "retina.jpg", "brick.png", "grass.png", "gravel.png", "camera.png",
        "coins.png",
    ),
}  # fmt: skip
"""Pictures that are less like a camera's. They are taken less often."""
HELD_BACK = {"skimage/data": ("astronaut.png", "coffee.png")}
"""Pictures that are not trained on: the figures are measured on these."""
HELD_BACK_PEOPLE = {"skimage/data": ("astronaut.png",)}
PHOTOGRAPH_SHARE = 0.7
"""The share of scenes that show a photograph and no texture."""


def load(names: dict[str, tuple[str, ...]]) -> list[Picture]:
    """The pictures, as RGB. Raises FileNotFoundError, which names the package to install, if one is missing."""
    pictures = []
    for folder, files in names.items():
        package, _, below = folder.partition("/")
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"no pictures of {package}: pip install scikit-image scikit-learn matplotlib")
        for file in files:
            path = Path(spec.origin).parent / below / file
            bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
            if bgr is None:
                raise FileNotFoundError(f"{path} is no picture: this release of {package} may ship other ones")
            pictures.append(bgr[..., ::-1].astype(np.uint8))
    return pictures


def square(picture: Picture, size: int) -> Picture:
    """The middle of a picture, scaled to ``size`` x ``size``."""
    height, width = picture.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    part = picture[top : top + side, left : left + side]
    return cv2.resize(part, (size, size), interpolation=cv2.INTER_AREA).astype(np.uint8)


def scene(seed: tuple[int, ...], photographs: list[Picture], textures: list[Picture], size: int) -> Picture:
    """A variation of the pictures: a part of one, often with a part of another in front, in other light and colours.

    The same seed gives the same scene. ``textures`` may be empty.
    """
    rng = np.random.default_rng(seed)
    picture = _part(rng, _pick(rng, photographs, textures), size)
    if rng.random() < 0.4:
        height, width = rng.integers(size // 5, size * 3 // 4, 2)
        top, left = rng.integers(0, size - height), rng.integers(0, size - width)
        other = _part(rng, _pick(rng, photographs, textures), size)
        picture[top : top + height, left : left + width] = other[:height, :width]
    return _develop(rng, picture)


def _pick(rng: np.random.Generator, photographs: list[Picture], textures: list[Picture]) -> Picture:
    chosen = photographs if not textures or rng.random() < PHOTOGRAPH_SHARE else textures
    return chosen[rng.integers(len(chosen))]


def _part(rng: np.random.Generator, picture: Picture, size: int) -> Picture:
    """A part of the picture of 40 to 100% of its side, mirrored half of the time, sometimes turned."""
    side = min(picture.shape[:2]) * rng.uniform(0.4, 1.0)
    height, width = (int(min(side * rng.uniform(0.85, 1.2), full)) for full in picture.shape[:2])
    top, left = rng.integers(0, picture.shape[0] - height + 1), rng.integers(0, picture.shape[1] - width + 1)
    part = cv2.resize(picture[top : top + height, left : left + width], (size, size), interpolation=cv2.INTER_AREA)
    if rng.random() < 0.5:
        part = part[:, ::-1]
    if rng.random() < 0.15:
        part = np.rot90(part, int(rng.integers(1, 4)))
    return np.ascontiguousarray(part, np.uint8)


def _develop(rng: np.random.Generator, picture: Picture) -> Picture:
    """Other white balance, saturation, contrast, gamma and exposure; sometimes out of focus; grain."""
    values = picture.astype(np.float32) / 255
    values = values * np.exp(rng.normal(0, 0.12, 3)).astype(np.float32)
    gray = values.mean(axis=2, keepdims=True)
    values = gray + (values - gray) * np.float32(rng.uniform(0.3, 1.5))
    mean = values.mean()
    values = mean + (values - mean) * np.float32(rng.uniform(0.5, 1.25)) + np.float32(rng.normal(0, 0.08))
    values = np.clip(values, 0, 1) ** np.float32(np.exp(rng.normal(0, 0.3)))
    if rng.random() < 0.2:
        values = cv2.GaussianBlur(values, (0, 0), rng.uniform(0.5, 2.0))
    values = values + rng.normal(0, rng.uniform(0, 0.03), values.shape).astype(np.float32)
    return (np.clip(values, 0, 1) * 255).round().astype(np.uint8)
