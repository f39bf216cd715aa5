"""The teachers: large models, run on LiteRT's CPU kernels."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from ai_edge_litert.interpreter import Interpreter

from framebind.video.models import find_model

from .scenes import Picture, square

STYLE = Path(__file__).with_name("style.png")
Answer = Callable[[Picture], npt.NDArray[np.float32]]
"""A function from a uint8 RGB picture to float32 (height, width, channels) from 0 to 1."""


def style_vector() -> npt.NDArray[np.float32]:
    """The output of style_predict_quantized_256 for ``style.png``: (1, 1, 1, 100)."""
    picture = cv2.imread(str(STYLE), cv2.IMREAD_COLOR)
    if picture is None:
        raise FileNotFoundError(f"{STYLE} is missing: make it with PYTHONPATH=scripts python -m training.paint")
    predict = model(find_model("style_predict_quantized_256"))
    return predict(square(picture[..., ::-1].astype(np.uint8), 256))[None]


def style_transfer() -> Answer:
    """style_transfer_f16_384 with that style, for 384x384 pictures."""
    return model(find_model("style_transfer_f16_384"), style_vector())


def segmentation() -> Answer:
    """selfie_segmentation, for 256x256 pictures: the probability of a person in each pixel."""
    return model(find_model("selfie_segmentation"))


def model(path: Path, *constants: npt.NDArray[np.float32]) -> Answer:
    """A function that runs a model on a picture; inputs after the first are constants. Several threads may call it."""
    local = threading.local()

    def answer(picture: Picture) -> npt.NDArray[np.float32]:
        height, width = picture.shape[:2]
        if getattr(local, "size", None) != (height, width):
            local.size, local.interpreter = (height, width), Interpreter(model_path=str(path), num_threads=1)
            first: dict[str, Any] = local.interpreter.get_input_details()[0]
            if tuple(first["shape"][1:3]) != (height, width):
                local.interpreter.resize_tensor_input(first["index"], (1, height, width, 3))
            local.interpreter.allocate_tensors()
        inputs = [detail["index"] for detail in local.interpreter.get_input_details()]
        for index, values in zip(inputs, (picture[None].astype(np.float32) / 255, *constants), strict=True):
            local.interpreter.set_tensor(index, values)
        local.interpreter.invoke()
        return np.array(local.interpreter.get_tensor(local.interpreter.get_output_details()[0]["index"]))[0]

    return answer


def pairs(answer: Answer, make: Callable[[int], Picture], count: int) -> tuple[Picture, Picture]:
    """The pictures that ``make`` gives for 0 to ``count - 1``, and the answers to them, as uint8 (count, H, W, C)."""

    def pair(number: int) -> tuple[Picture, Picture]:
        picture = make(number)
        return picture, (answer(picture) * 255).round().astype(np.uint8)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(pair, range(count)))
    return np.stack([picture for picture, _ in found]), np.stack([target for _, target in found])
