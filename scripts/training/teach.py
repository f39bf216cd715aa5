"""Trains a small network to imitate a large model: PYTHONPATH=scripts python -m training.teach style_transfer

It needs PyTorch, and nothing else here does: pip install torch scikit-learn matplotlib.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
import typer
from torch.nn import functional

from . import scenes, student, teachers
from .student import Convolution, DepthToSpace, Layer, Modulation
from .write_tflite import write_tflite

SEED = 6
PAIRS = 1200
STEPS = 6000
BATCH = 8
RATE = 2e-3
AVERAGING = 0.998
"""The decay of the exponential moving average of the trained weights, which is written to the file."""
REPORT = 250
Weights = dict[str, Any]
"""Tensors (torch.Tensor) by name."""


@dataclass(frozen=True)
class Task:
    """The subject: the network, its teacher, the side of the teacher's pictures, and of the parts trained on."""

    layers: Sequence[Layer]
    teacher: Callable[[], teachers.Answer]
    size: int
    crop: int
    loss: Callable[[Any, Any, float], Any]
    people: int = 0
    """Number of extra times that the photographs of people are among those that scenes are made of."""


def initial(layers: Sequence[Layer], device: Any) -> Weights:
    """Random weights of the size that keeps variances (He et al. 2015), small ones in layers that add to another."""
    generator = torch.Generator().manual_seed(SEED)
    weights: Weights = {}

    def convolution(name: str, layer: Convolution, gain: float, bias: float = 0.0) -> None:
        shape = (layer.outputs, layer.inputs, layer.kernel, layer.kernel)
        spread = gain * (2 / (layer.inputs * layer.kernel**2)) ** 0.5
        weights[f"{name}.weight"] = torch.randn(shape, generator=generator) * spread
        weights[f"{name}.bias"] = torch.full((layer.outputs,), bias)

    for number, layer in enumerate(layers):
        if isinstance(layer, Convolution):
            convolution(str(number), layer, 0.2 if layer.skip else 1.0)
        if isinstance(layer, Modulation):
            square = Convolution(layer.channels, layer.channels, kernel=1)
            for part, gain, bias in (("hidden", 1.0, 0.0), ("scale", 0.1, 1.0), ("shift", 0.1, 0.0)):
                convolution(f"{number}.{part}", square, gain, bias)
    return {name: value.to(device).requires_grad_() for name, value in weights.items()}


def run(layers: Sequence[Layer], weights: Weights, picture: Any) -> Any:
    """The network's result for a batch (B, 3, H, W), as TFLite computes it."""
    value = before = picture
    for number, layer in enumerate(layers):
        entered = value
        if isinstance(layer, Convolution):
            value = _convolution(layer, weights, str(number), value)
            value = value + before if layer.skip else value
        elif isinstance(layer, DepthToSpace):
            value = _depth_to_space(value)
        elif isinstance(layer, Modulation):
            square = Convolution(layer.channels, layer.channels, kernel=1, relu=False)
            mean = value.mean((2, 3), keepdim=True)
            hidden = _convolution(square, weights, f"{number}.hidden", mean).relu()
            scale, shift = (_convolution(square, weights, f"{number}.{part}", hidden) for part in ("scale", "shift"))
            value = value * scale + shift
        else:
            value = value.sigmoid()
        before = entered
    return value


def _convolution(layer: Convolution, weights: Weights, name: str, value: Any) -> Any:
    # TFLite's SAME padding puts the odd pixel below and to the right; PyTorch's own padding is the same on all sides.
    total = max(layer.kernel - layer.stride, 0)
    padding = (total // 2, total - total // 2) * 2
    if total % 2:
        value, total = functional.pad(value, padding), 0
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    value = functional.conv2d(value, weight, bias, stride=layer.stride, padding=total // 2)
    return value.relu() if layer.relu else value


def _depth_to_space(value: Any) -> Any:
    # PyTorch's pixel_shuffle has the block's place in the fast part of the channel number, TFLite in the slow one.
    batch, channels, height, width = value.shape
    blocks = value.reshape(batch, 2, 2, channels // 4, height, width)
    return blocks.permute(0, 3, 4, 1, 5, 2).reshape(batch, channels // 4, 2 * height, 2 * width)


def values_and_edges(result: Any, target: Any, progress: float) -> Any:
    """Mean absolute error of the values and of their differences to the right and below, which keep edges sharp.

    The edges come in over the first tenth of the training: earlier they favour a plain gray, and some runs stay there.
    """
    across = functional.l1_loss(result.diff(dim=3), target.diff(dim=3))
    down = functional.l1_loss(result.diff(dim=2), target.diff(dim=2))
    return functional.l1_loss(result, target) + min(1.0, 10 * progress) * (across + down)


def cross_entropy(result: Any, target: Any, progress: float) -> Any:
    """Binary cross-entropy of a mask; ``progress`` does not matter."""
    return functional.binary_cross_entropy(result.clamp(1e-4, 1 - 1e-4), target)


TASKS = {
    "style_transfer": Task(student.style_transfer(), teachers.style_transfer, 384, 256, values_and_edges),
    "segmentation": Task(student.segmentation(), teachers.segmentation, 256, 256, cross_entropy, people=5),
}


def train(task: Task, pictures: scenes.Picture, targets: scenes.Picture, steps: int, device: Any) -> Weights:
    """Train with Adam at a rate that rises over the first 5% of the steps and falls to zero along a cosine."""
    weights = initial(task.layers, device)
    average = {name: value.detach().clone() for name, value in weights.items()}
    optimizer = torch.optim.Adam(weights.values(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.05)
    rng, started, running = np.random.default_rng(SEED), time.perf_counter(), 0.0
    known = [torch.from_numpy(part).to(device) for part in (pictures, targets)]
    for step in range(steps):
        chosen = rng.integers(len(pictures), size=BATCH)
        # The teacher's answer changes with the picture's place on its grid of 4 pixels, which makes moving pictures
        # flicker. Parts from any place hide that grid from the student, so it learns the mean over the places.
        places = rng.integers(task.size - task.crop + 1, size=(BATCH, 2))
        picture, target = (_batch(part, chosen, places, task.crop) for part in known)
        error = task.loss(run(task.layers, weights, picture), target, step / steps)
        optimizer.zero_grad()
        error.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            decay = min(AVERAGING, (1 + step) / (10 + step))
            torch._foreach_lerp_(list(average.values()), [value.detach() for value in weights.values()], 1 - decay)
        running += error.detach()
        if (step + 1) % REPORT == 0:
            seconds = time.perf_counter() - started
            print(f"step {step + 1} of {steps}: loss {float(running) / REPORT:.4f}, {seconds:.0f} s", flush=True)
            running = 0.0
    return average


def _batch(known: Any, chosen: npt.NDArray[np.int64], places: npt.NDArray[np.int64], crop: int) -> Any:
    parts = [known[n, y : y + crop, x : x + crop] for n, (y, x) in zip(chosen.tolist(), places.tolist(), strict=True)]
    return torch.stack(parts).permute(0, 3, 1, 2).float() / 255


def main(
    name: Annotated[str, typer.Argument(help="style_transfer or segmentation.")],
    output: Annotated[Path, typer.Option(help="The .tflite file to write.")],
    steps: Annotated[int, typer.Option(min=50, help="Training steps.")] = STEPS,
    pairs: Annotated[int, typer.Option(min=1, help="Pictures that the teacher is asked about.")] = PAIRS,
) -> None:
    """Ask the teacher, train, and write the model."""
    task = TASKS[name]
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    photographs = scenes.load(scenes.PHOTOGRAPHS) + scenes.load(scenes.PEOPLE) * task.people
    textures = scenes.load(scenes.TEXTURES)
    started = time.perf_counter()
    make = partial(_scene, photographs=photographs, textures=textures, size=task.size)
    pictures, targets = teachers.pairs(task.teacher(), make, pairs)
    print(f"{pairs} answers of the teacher: {time.perf_counter() - started:.0f} s", flush=True)
    started = time.perf_counter()
    weights = train(task, pictures, targets, steps, device)
    print(f"{steps} steps on {device.type}: {time.perf_counter() - started:.0f} s", flush=True)
    arrays = {key: value.float().cpu().numpy() for key, value in weights.items()}
    output.write_bytes(write_tflite(task.layers, arrays, f"{name}, taught by framebind: scripts/training"))
    print(f"wrote {output}, {output.stat().st_size} bytes")


def _scene(number: int, photographs: list[scenes.Picture], textures: list[scenes.Picture], size: int) -> scenes.Picture:
    return scenes.scene((SEED, number), photographs, textures, size)


if __name__ == "__main__":
    typer.run(main)
