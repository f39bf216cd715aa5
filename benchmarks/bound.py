"""What the benchmarks measure: a model whose inputs and outputs are all bound, so that a frame copies nothing."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

import framebind as fb
from framebind.delegate.program import Program
from framebind.interop.device import CommandList, Device, Resource

MODELS = (
    "deeplabv3_257_mv_gpu",
    "style_transfer_f16_384",
    "selfie_segmentation",
    "face_detection_front",
    "hand_landmark_lite",
    "pose_landmark_lite",
)
FRAME = (640, 480)
"""Width and height of the camera's frames in texels."""

WIDTH = 110
"""Of the tables, in characters, also where the output is no terminal."""

Backend = Literal["opengl", "opencl"]


def model_path(name: str) -> Path:
    """``name`` is a .tflite file, or a model in the folder FRAMEBIND_MODELS (default: ../shared/models)."""
    folder = Path(os.environ.get("FRAMEBIND_MODELS") or Path(__file__).parents[2] / "shared" / "models")
    path = Path(name) if name.endswith(".tflite") else folder / f"{name}.tflite"
    if not path.is_file():
        raise fb.ModelError(f"there is no '{path}': give .tflite files, or set FRAMEBIND_MODELS to a folder of models")
    return path


def shapes(details: list[dict[str, Any]]) -> dict[int, tuple[int, ...]]:
    """Of LiteRT's tensor details: tensor index to shape."""
    return {int(tensor["index"]): tuple(int(n) for n in tensor["shape"]) for tensor in details}


@dataclass(frozen=True)
class BoundModel:
    """``frame`` does what a camera's frame costs: bind the ring's next texture, and invoke. It waits for nothing."""

    interpreter: fb.Interpreter
    delegate: fb.GpuDelegate
    ring: Iterator[Resource]
    picture: int
    """The input that takes the frames."""

    def frame(self) -> None:
        self.delegate.bind_buffer_to_tensor(next(self.ring), self.picture)
        self.interpreter.invoke()

    @property
    def programs(self) -> list[Program]:
        """What runs on the GPU; known after the first frame."""
        return [partition.program for partition in self.delegate._partitions if partition.program is not None]

    @property
    def commands(self) -> list[CommandList]:
        """What each program recorded."""
        return [p.commands for p in self.programs]


def bind(path: Path, storage: str, device: Device, backend: Backend) -> BoundModel:
    """The model on the device, whose context is current: a picture (1 to 4 channels) as texture, else buffers of noise.

    ``storage`` is "f32" or "f16", ``backend`` "opengl" or "opencl". Raises BindingError where an input or output is not
    on the GPU.
    """
    interpreter = fb.Interpreter(model_path=path)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend, is_precision_loss_allowed=storage == "f16"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    noise, picture = np.random.default_rng(0), None
    for tensor, shape in shapes(interpreter.get_input_details()).items():
        if picture is None and len(shape) == 4 and shape[3] <= 4:
            picture = tensor
        else:
            values = noise.normal(size=shape).astype(np.float32)
            buffer = device.buffer(values.nbytes, "input")
            device.write(buffer, values, "noise for the benchmark")
            delegate.bind_buffer_to_tensor(buffer, tensor)
    if picture is None:
        raise fb.ModelError(f"{path.name} takes no picture: these benchmarks feed frames")
    for tensor, shape in shapes(interpreter.get_output_details()).items():
        delegate.bind_buffer_to_tensor(device.buffer(math.prod(shape) * 4, "output"), tensor)
    ring = [device.texture(*FRAME, "rgba8", f"frame {number}") for number in range(3)]
    for texture in ring:
        frame = noise.integers(0, 256, (FRAME[1], FRAME[0], 4), np.uint8)
        device.write(texture, frame, "noise for the benchmark")
    return BoundModel(interpreter, delegate, itertools.cycle(ring), picture)
