"""Runs a set of pictures through a model on the CPU and on the GPU, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import framebind as fb

from ...video.layouts import PictureShape
from ...video.model_file import read_model_file
from ...video.task import picture_of
from .preprocessing import to_tensor

Array = npt.NDArray[Any]
Prepare = Callable[[Path, "Side"], Array]
"""Makes the input tensor from a picture file."""


class Collect(Protocol):
    """Takes the outputs of one picture, in the model's order: real numbers, also of a quantized model."""

    def __call__(self, path: Path, outputs: Sequence[Array]) -> None: ...


@dataclass
class Side:
    """An interpreter on the CPU or on the GPU: its name, the collector of results, and the seconds of each invoke."""

    name: str
    interpreter: fb.Interpreter
    input: dict[str, Any]
    """LiteRT's details of the picture's tensor."""
    picture: PictureShape
    """The sizes and the layout of the picture."""
    outputs: Sequence[dict[str, Any]]
    """LiteRT's details of the outputs, in the model's order."""
    collect: Collect
    seconds: list[float] = field(default_factory=list)

    def run(self, path: Path, tensor: Array) -> None:
        """Compute the outputs of one picture and collect them."""
        self.interpreter.set_tensor(self.input["index"], tensor)
        started = time.perf_counter()
        self.interpreter.invoke()
        outputs = [self.interpreter.get_tensor(each["index"]) for each in self.outputs]
        self.seconds.append(time.perf_counter() - started)
        self.collect(path, [_real(values, each) for values, each in zip(outputs, self.outputs, strict=True)])

    def microseconds(self) -> tuple[float, float]:
        """Mean and standard deviation of the time of a picture, without the first, which compiles and loads."""
        counted = np.array(self.seconds[1:] or self.seconds) * 1e6
        return float(counted.mean()), float(counted.std())


def open_side(name: str, model: Path, collect: Collect, delegate: fb.GpuDelegate | None, threads: int | None) -> Side:
    """Make the interpreter of one side. Raises ModelError for a model whose input is not one picture of 3 channels."""
    if delegate is None:
        interpreter = fb.Interpreter(model_path=model, num_threads=threads, delegate="cpu")
    else:
        interpreter = fb.Interpreter(model_path=model, num_threads=threads)
        interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    outputs = interpreter.get_output_details()
    picture = picture_of(read_model_file(model))
    if picture is None or picture.channels != 3:
        shapes = [tuple(int(n) for n in each["shape"]) for each in details]
        raise fb.ModelError(f"{model.name} takes {shapes}, not one picture (1xHxWx3 or 1x3xHxW)")
    return Side(name, interpreter, details[0], picture, outputs, collect)


def run(sides: Sequence[Side], pictures: Iterable[Path], prepare: Prepare, advance: Callable[[], Any]) -> None:
    """Run each picture on each side; ``advance`` is called after each picture."""
    for path in pictures:
        tensor = prepare(path, sides[0])
        for side in sides:
            side.run(path, tensor)
        advance()


def as_tflite(pixels: Callable[[Path, tuple[int, int]], Array]) -> Prepare:
    """The preparation of TensorFlow Lite's tools: ``pixels`` gives a picture at a size, (height, width), 0 to 255."""

    def prepare(path: Path, side: Side) -> Array:
        height, width, _, layout = side.picture
        return to_tensor(pixels(path, (height, width)), side.input["dtype"], layout)

    return prepare


def stored(values: Array, detail: dict[str, Any]) -> Array:
    """Real numbers in the type of a tensor, rounded to its scale if it is quantized."""
    scale, zero = detail["quantization"]
    if not scale:
        return values.astype(detail["dtype"])
    limits = np.iinfo(detail["dtype"])
    return np.clip(np.rint(values / scale) + zero, limits.min, limits.max).astype(detail["dtype"])


def _real(values: Array, detail: dict[str, Any]) -> Array:
    """The real numbers that a tensor of these details holds."""
    scale, zero = detail["quantization"]
    return (values.astype(np.float32) - zero) * np.float32(scale) if scale else values
