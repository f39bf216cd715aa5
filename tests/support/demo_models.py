"""Small models with the inputs and outputs that the demos expect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from framebind.video.answers.graph import AnswerGraph
from support import tiny_models
from support.model_metadata import with_json
from support.tiny_models import G, Op, T

Array = npt.NDArray[Any]


_HALVES = ((3, 5, 0), (0, 5, 3))
KERNELS = np.array([np.outer(rows, columns) / 64 for rows in _HALVES for columns in _HALVES], np.float32)
"""The weights (4, 3, 3) of a pixel and its neighbours in each of the four pixels that it becomes."""


def color_classifier() -> bytes:
    """Probabilities (1, 6) of red, green, blue, and three that are none: softmax of 4 times the picture's mean."""
    weights = np.zeros((6, 1, 1, 3), np.float32)
    weights[:3, 0, 0] = 4 * np.eye(3)
    reducer, convolution = schema.ReducerOptionsT(), schema.Conv2DOptionsT()
    reducer.keepDims, convolution.strideH, convolution.strideW = True, 1, 1
    softmax = schema.SoftmaxOptionsT()
    softmax.beta = 1.0
    tensors = [
        T("picture", (1, 16, 16, 3)), T("axes", (2,), [1, 2], "int32"), T("mean", (1, 1, 1, 3)),
        T("weights", (6, 1, 1, 3), weights), T("bias", (6,), [0.0]), T("logits", (1, 1, 1, 6)),
        T("shape", (2,), [1, 6], "int32"), T("flat", (1, 6)), T("probabilities", (1, 6)),
    ]  # fmt: skip
    operators = [
        Op("MEAN", [0, 1], [2], reducer), Op("CONV_2D", [2, 3, 4], [5], convolution),
        Op("RESHAPE", [5, 6], [7], schema.ReshapeOptionsT()), Op("SOFTMAX", [7], [8], softmax),
    ]  # fmt: skip
    return tiny_models.build(G(tensors, operators, [0], [8]))


def brightness(channels: int, least: float = 0.0) -> bytes:
    """A model whose mask is the mean of a pixel's colours; of 21 classes, what is brighter than ``least`` is person."""
    weights, bias = np.zeros((channels, 1, 1, 3), np.float32), np.zeros(channels, np.float32)
    # A class keeps its place if another one is better by less than 1.
    weights[-1 if channels == 1 else 15] = 1 / 3 if channels == 1 else 20 / 3
    bias[-1 if channels == 1 else 15] = -20 * least
    options = schema.Conv2DOptionsT()
    options.strideH = options.strideW = 1
    tensors = [T("x", (1, 48, 64, 3)), T("w", weights.shape, weights), T("b", (channels,), bias)]
    tensors.append(T("y", (1, 48, 64, channels)))
    return tiny_models.build(G(tensors, [Op("CONV_2D", [0, 1, 2], [3], options)], [0], [3]))


def largest_color() -> bytes:
    """A model that gives the class of each pixel: 0 to 2, for the largest of red, green and blue."""
    graph = AnswerGraph()
    doubled = graph.binary("MUL", graph.input((1, 48, 64, 3)), 2.0)
    numbers = graph.apply("ARG_MAX", [doubled, graph.integers(3)], (1, 48, 64), "int64", outputType=4)
    return graph.build(graph.reshape(graph.cast(numbers, "int32"), (1, 48, 64, 1)))


def enlarger(height: int, width: int, *, any_size: bool = False) -> bytes:
    """A model of super-resolution: each pixel becomes four, by ``KERNELS``, of pictures (1, height, width, 3)."""
    convolution, depth_to_space = schema.Conv2DOptionsT(), schema.DepthToSpaceOptionsT()
    convolution.strideH = convolution.strideW = 1
    depth_to_space.blockSize = 2
    weights = np.einsum("nyx,ij->niyxj", KERNELS, np.eye(3, dtype=np.float32)).reshape(12, 3, 3, 3)
    tensors = [
        T("x", (1, height, width, 3)), T("w", weights.shape, weights), T("b", (12,), np.zeros(12)),
        T("m", (1, height, width, 12)), T("y", (1, 2 * height, 2 * width, 3)),
    ]  # fmt: skip
    operators = [Op("CONV_2D", [0, 1, 2], [3], convolution), Op("DEPTH_TO_SPACE", [3], [4], depth_to_space)]
    model = tiny_models.unpack(tiny_models.build(G(tensors, operators, [0], [4])))
    for number, channels in ((0, 3), (4, 3)) if any_size else ():
        model.subgraphs[0].tensors[number].shapeSignature = [1, -1, -1, channels]
    return tiny_models.pack(model)


def flow_model() -> bytes:
    """A model whose optical flow, (1, 24, 32, 2), is what red and blue of a pixel gain from the first picture to the
    second, times 8.
    """
    shape, options = (1, 24, 32, 3), schema.Conv2DOptionsT()
    options.strideH = options.strideW = 1
    weights = np.zeros((2, 1, 1, 3), np.float32)
    weights[0, 0, 0, 0] = weights[1, 0, 0, 2] = 8
    tensors = [
        T("before", shape), T("after", shape), T("gain", shape), T("w", weights.shape, weights),
        T("b", (2,), [0.0, 0.0]), T("flow", (1, 24, 32, 2)),
    ]  # fmt: skip
    operators = [Op("SUB", [1, 0], [2], schema.SubOptionsT()), Op("CONV_2D", [2, 3, 4], [5], options)]
    return tiny_models.build(G(tensors, operators, [0, 1], [5]))


def matting_model() -> bytes:
    """A recurrent matting model of 24 x 32: its foreground is the picture with red and blue exchanged and halved green,
    and its alpha half of the brightness of a pixel, and half of that in the frame before, which is its state.
    """
    picture, state, joined = (1, 24, 32, 3), (1, 24, 32, 8), (1, 24, 32, 11)
    convolution, concatenation = schema.Conv2DOptionsT(), schema.ConcatenationOptionsT()
    convolution.strideH = convolution.strideW = 1
    concatenation.axis = 3
    colors, alpha = np.zeros((3, 1, 1, 3), np.float32), np.zeros((1, 1, 1, 11), np.float32)
    colors[[0, 1, 2], 0, 0, [2, 1, 0]] = 1, 0.5, 1
    alpha[..., :3], alpha[..., 3] = 1 / 6, 1 / 2
    tensors = [
        T("src", picture), T("r1i", state), T("both", joined),
        T("w1", colors.shape, colors), T("b1", (3,), np.zeros(3)), T("fgr", picture),
        T("w2", alpha.shape, alpha), T("b2", (1,), [0.0]), T("pha", (1, 24, 32, 1)),
        T("w3", (8, 1, 1, 3), np.full((8, 1, 1, 3), 1 / 3)), T("b3", (8,), np.zeros(8)), T("r1o", state),
    ]  # fmt: skip
    operators = [
        Op("CONCATENATION", [0, 1], [2], concatenation), Op("CONV_2D", [0, 3, 4], [5], convolution),
        Op("CONV_2D", [2, 6, 7], [8], convolution), Op("CONV_2D", [0, 9, 10], [11], convolution),
    ]  # fmt: skip
    return tiny_models.build(G(tensors, operators, [0, 1], [5, 8, 11]))


def object_model(path: Path, logits: bool) -> Path:
    """The outputs of mobile_ssd_v2_float_coco: two boxes of class 3 on one place, two of class 7 on different ones."""
    boxes = np.random.default_rng(0).normal(0, 1, (1, 2034, 4)).astype(np.float32)
    scores = np.full((1, 2034, 91), 0.01, np.float32)
    scores[..., 0] = 0.99  # the background's
    boxes[0, 2028] = 0, 0, 5 * np.log(0.5), 5 * np.log(0.5)  # the middle, half of 0.95 on each side
    boxes[0, 2029] = boxes[0, 2030] = 0, 0, 0, 0
    scores[0, 2028, 3], scores[0, 2029, 7], scores[0, 2030, 7] = 0.9, 0.8, 0.6
    boxes[0, 2033] = 0, 0, 5 * np.log(0.475 / np.sqrt(0.95)), 5 * np.log(0.475 / np.sqrt(0.95))
    scores[0, 2033, 3] = 0.7  # the same box as 2028's
    values = np.log(scores / (1 - scores)) if logits else scores
    path.write_bytes(tiny_models.constants(boxes, values.astype(np.float32), side=320))
    return path


def two_boxes() -> bytes:
    """A YOLO of 12 classes for 64x64 pixels that sees a person in the middle and a truck on the left."""
    values = np.zeros((1, 16, 84), np.float32)
    values[0, :2], values[0, 2:4] = 0.5, 0.1
    values[0, :4, 10], values[0, 4, 10] = (0.5, 0.5, 0.25, 0.5), 0.75
    values[0, :4, 20], values[0, 4 + 7, 20] = (0.25, 0.5, 0.25, 0.25), 0.5
    names = {str(number): name for number, name in enumerate(["person", *"abcdef", "truck", *"ghij"])}
    content = tiny_models.constants(values, side=64)
    return with_json(content, task="detect", names=names, stride=32, end2end=False)


def segments() -> bytes:
    """A YOLO-seg for 64x64 pixels that sees a disc of radius 0.2 in the middle, and a bar from left to right."""
    values, (y, x) = np.zeros((1, 38, 84), np.float32), np.mgrid[:16, :16] / 16 + 1 / 32
    values[0, :2], values[0, 2:4] = 0.5, 0.1
    values[0, :4, 3], values[0, [4, 6], 3] = (0.5, 0.5, 0.5, 0.5), (0.75, 1)
    values[0, :4, 9], values[0, [5, 7], 9] = (0.5, 0.5, 1, 0.25), (0.5, 1)
    prototypes = np.zeros((1, 32, 16, 16), np.float32)
    prototypes[0, 0], prototypes[0, 1] = 0.2 - np.hypot(x - 0.5, y - 0.5), 0.0625 - np.abs(y - 0.5)
    content = tiny_models.constants(values, prototypes, side=64)
    return with_json(content, task="segment", names={"0": "disc", "1": "bar"}, stride=32, end2end=False)
