"""Clips of things that MediaPipe finds: a photograph that moves, turns, grows, leaves and comes back over grey, or two.

A module for the benchmarks beside MediaPipe.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from framebind.video.assets import HAND_PICTURE
from framebind.video.vision.pictures import photographs_of_skimage, read_picture

Array = npt.NDArray[Any]
SIZE = 640, 480
"""Width and height of a clip."""
DIAGONAL = math.hypot(*SIZE)
MILLISECONDS = 33


class Clip(NamedTuple):
    """A photograph and its movement."""

    task: str
    photograph: str
    focus: tuple[float, float]
    """The place in the photograph that moves, from 0 to 1."""
    scale: float
    """Pixels of the clip per width of the photograph, in widths of the clip."""
    movement: str
    most: int = 1
    """The most things that the task looks for."""


CLIPS = {
    "face moves": Clip("face", "astronaut", (0.43, 0.25), 1.2, "sway"),
    "face turns": Clip("face", "astronaut", (0.43, 0.25), 1.4, "turn"),
    "face leaves": Clip("face", "astronaut", (0.43, 0.25), 1.2, "leave"),
    "two faces": Clip("face", "astronaut", (0.43, 0.25), 0.9, "pair", 2),
    "hand moves": Clip("hand", "hand", (0.5, 0.5), 0.7, "sway", 2),
    "hand turns": Clip("hand", "hand", (0.5, 0.5), 0.8, "turn"),
    "two hands": Clip("hand", "hand", (0.5, 0.5), 0.5, "pair", 2),
    "body moves": Clip("pose", "astronaut", (0.45, 0.5), 0.8, "sway"),
    "body leaves": Clip("pose", "astronaut", (0.45, 0.5), 0.8, "leave"),
    "two bodies": Clip("pose", "astronaut", (0.45, 0.5), 0.5, "pair", 2),
    "street": Clip("pose", "bus", (0.5, 0.6), 0.9, "sway"),
    "whole body": Clip("pose", "man", (0.5, 0.5), 0.25, "sway"),
    "two whole bodies": Clip("pose", "man", (0.5, 0.5), 0.22, "pair", 2),
    "person moves": Clip("holistic", "astronaut", (0.45, 0.5), 0.8, "sway"),
    "person leaves": Clip("holistic", "astronaut", (0.45, 0.5), 0.8, "leave"),
    "whole person": Clip("holistic", "man", (0.5, 0.5), 0.25, "sway"),
    "portraits": Clip("face", "zidane", (0.6, 0.4), 1.2, "sway", 2),
    "background": Clip("selfie_segmentation", "astronaut", (0.45, 0.5), 0.8, "leave"),
    "background, wide": Clip("selfie_segmentation_landscape", "astronaut", (0.45, 0.5), 0.8, "leave"),
}


MAN = slice(360, 940), slice(30, 270)
"""Rows and columns of a man in bus.jpg who is wholly in the picture."""


def man_of(photograph: Array) -> Array:
    """The man of bus.jpg (1080, 810, 3)."""
    return np.ascontiguousarray(photograph[MAN])


def frames(clip: Clip, photograph: Array, count: int) -> Iterator[Array]:
    """The frames (height, width, 3) of a clip; their number is a period of the movement."""
    for number in range(count):
        angle = 2 * math.pi * number / count
        frame = np.full((SIZE[1], SIZE[0], 3), 128, np.uint8)
        for mirrored, x, y, turn, grow in _places(clip.movement, angle):
            picture = photograph[:, ::-1] if mirrored else photograph
            focus = np.array([1 - clip.focus[0] if mirrored else clip.focus[0], clip.focus[1]])
            scale = clip.scale * grow * SIZE[0] / photograph.shape[1]
            matrix = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]) * scale
            origin = np.array([x, y]) * SIZE - matrix @ (focus * photograph.shape[1::-1])
            cv2.warpAffine(
                np.ascontiguousarray(picture), np.column_stack([matrix, origin]), SIZE, frame,
                cv2.INTER_LINEAR, cv2.BORDER_TRANSPARENT,
            )  # fmt: skip
        yield frame


def _places(movement: str, angle: float) -> list[tuple[bool, float, float, float, float]]:
    """The pictures of a frame: mirrored, x and y of the focus, rotation, growth."""
    swing = math.sin(angle)
    if movement == "sway":
        return [(False, 0.5 + 0.15 * swing, 0.5 + 0.1 * math.sin(2 * angle), 0.2 * swing, 1 + 0.15 * math.cos(angle))]
    if movement == "turn":
        return [(False, 0.5, 0.5, 0.9 * swing, 1 + 0.2 * math.sin(3 * angle))]
    if movement == "leave":
        return [(False, 0.5 + 0.9 * swing, 0.5, 0.1 * swing, 1.0)]
    return [(False, 0.27 + 0.05 * swing, 0.5, 0.1 * swing, 1.0), (True, 0.75, 0.5 + 0.9 * max(swing, 0), -0.15, 0.9)]


def photographs_in(folder: Path | None) -> dict[str, Array]:
    """The photographs of clips by name: framebind's, scikit-image's if it is installed, and those in a folder."""
    found: dict[str, Any] = {"hand": read_picture(HAND_PICTURE)}
    if others := photographs_of_skimage():
        found["astronaut"] = read_picture(others / "astronaut.png")
    for path in folder.glob("*.[jp]*g") if folder is not None else ():
        found[path.stem] = read_picture(path)
    if (bus := found.get("bus")) is not None:
        found["man"] = man_of(bus)
    return found
