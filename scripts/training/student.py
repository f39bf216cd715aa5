"""The small networks that are trained, as lists of layers. ``teach.py`` runs them, ``write_tflite.py`` writes them.

Every layer works at any size, and the picture is enlarged by DEPTH_TO_SPACE, whose block is a constant: a RESIZE
operator would fix the size in the file.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Convolution:
    """A convolution with bias and TFLite's SAME padding; ``skip`` adds the input of the layer before it."""

    inputs: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    relu: bool = True
    skip: bool = False


@dataclass(frozen=True)
class DepthToSpace:
    """Twice the height and width, a quarter of the channels."""


@dataclass(frozen=True)
class Modulation:
    """Scales and shifts each channel, by factors that a layer computes from the channels' means."""

    channels: int


@dataclass(frozen=True)
class Logistic:
    """Values from 0 to 1."""


Layer = Convolution | DepthToSpace | Modulation | Logistic


def style_transfer(channels: int = 32, blocks: int = 5) -> tuple[Layer, ...]:
    """BHWC picture from 0 to 1 in and out, height and width multiples of 4; most work at a quarter of the size."""
    block = (Convolution(channels, channels), Convolution(channels, channels, relu=False, skip=True))
    return (
        Convolution(3, 16, kernel=5, stride=2),
        Convolution(16, channels, stride=2),
        Modulation(channels),
        *block * blocks,
        Convolution(channels, 64),
        DepthToSpace(),
        Convolution(16, 16),
        DepthToSpace(),
        Convolution(4, 3, kernel=5, relu=False),
        Logistic(),
    )


def segmentation(channels: int = 48, blocks: int = 3) -> tuple[Layer, ...]:
    """BHWC picture from 0 to 1 in, mask out, height and width multiples of 16; most work at a sixteenth."""
    block = (Convolution(channels, channels), Convolution(channels, channels, relu=False, skip=True))
    return (
        Convolution(3, 16, kernel=5, stride=2),
        Convolution(16, 24, stride=2),
        Convolution(24, 32, stride=2),
        Convolution(32, channels, stride=2),
        Modulation(channels),
        *block * blocks,
        Convolution(channels, 64),
        DepthToSpace(),
        Convolution(16, 32),
        DepthToSpace(),
        Convolution(8, 32),
        DepthToSpace(),
        Convolution(8, 16),
        DepthToSpace(),
        Convolution(4, 1, relu=False),
        Logistic(),
    )
