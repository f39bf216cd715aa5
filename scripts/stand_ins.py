"""Writes stand-ins for models that cannot be shipped: the same inputs, outputs and operators, with random weights.

    python scripts/stand_ins.py out/          # mobilenet_v1.tflite and ssd_mobilenet_v1.tflite
    python scripts/stand_ins.py out/ --blocks 3 --width 0.25

``mobilenet_v1`` is mobilenet_v1_1.0_224: a picture (1, 224, 224, 3) in, probabilities (1, 1001) out.
``ssd_mobilenet_v1`` is SSD MobileNet v1 for COCO: a picture (1, 300, 300, 3) in, boxes (1, 10, 4), classes (1, 10),
scores (1, 10) and their number (1) out, of TFLite_Detection_PostProcess. Both after "MobileNets" (Howard et al., 2017,
table 1).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

from framebind.video.tflite_writer import G, Op, T, build
from framebind.video.vision.ssd import grid

Array = npt.NDArray[Any]

BLOCKS = (
    (1, 64), (2, 128), (1, 128), (2, 256), (1, 256), (2, 512), (1, 512), (1, 512), (1, 512), (1, 512), (1, 512),
    (2, 1024), (1, 1024),
)  # fmt: skip
"""Strides and channels of the 13 separable convolutions behind the first convolution (stride 2, 32 channels)."""
CLASSES, COCO_CLASSES = 1001, 90
BOXES = 10
"""Number of boxes that the detector puts out."""


@dataclass
class Writer:
    """A graph that grows operator by operator; each method returns the number of its result's tensor."""

    random: np.random.Generator
    tensors: list[T] = field(default_factory=list)
    operators: list[Op] = field(default_factory=list)

    def tensor(self, name: str, shape: Sequence[int], values: Any = None, dtype: str = "float32") -> int:
        self.tensors.append(T(f"{name}_{len(self.tensors)}", shape, values, dtype))
        return len(self.tensors) - 1

    def shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.tensors[tensor].shape)

    def weights(self, name: str, shape: Sequence[int], inputs: int) -> int:
        values = self.random.normal(0, (2 / inputs) ** 0.5, tuple(shape)).astype(np.float32)
        return self.tensor(name, shape, values)

    def convolution(self, source: int, channels: int, kernel: int, stride: int, *, relu: bool = True) -> int:
        _, height, width, depth = self.shape(source)
        options: Any = schema.Conv2DOptionsT()
        options.strideH = options.strideW = stride
        options.fusedActivationFunction = 3 if relu else 0  # RELU6
        weights = self.weights("weights", (channels, kernel, kernel, depth), kernel * kernel * depth)
        bias = self.tensor("bias", (channels,), self.random.normal(0, 0.1, channels))
        result = self.tensor("convolution", (1, -(-height // stride), -(-width // stride), channels))
        self.operators.append(Op("CONV_2D", [source, weights, bias], [result], options))
        return result

    def depthwise(self, source: int, stride: int) -> int:
        _, height, width, depth = self.shape(source)
        options: Any = schema.DepthwiseConv2DOptionsT()
        options.strideH = options.strideW = stride
        options.depthMultiplier, options.fusedActivationFunction = 1, 3
        weights, bias = self.weights("weights", (1, 3, 3, depth), 9), self.tensor("bias", (depth,), np.zeros(depth))
        result = self.tensor("depthwise", (1, -(-height // stride), -(-width // stride), depth))
        self.operators.append(Op("DEPTHWISE_CONV_2D", [source, weights, bias], [result], options))
        return result

    def reshape(self, source: int, shape: Sequence[int]) -> int:
        wanted, result = self.tensor("shape", (len(shape),), shape, "int32"), self.tensor("reshaped", shape)
        self.operators.append(Op("RESHAPE", [source, wanted], [result], schema.ReshapeOptionsT()))
        return result

    def concatenation(self, sources: Sequence[int]) -> int:
        options: Any = schema.ConcatenationOptionsT()
        options.axis = 1
        first = self.shape(sources[0])
        result = self.tensor("all", (first[0], sum(self.shape(source)[1] for source in sources), *first[2:]))
        self.operators.append(Op("CONCATENATION", sources, [result], options))
        return result

    def backbone(self, source: int, blocks: int, width: float) -> list[int]:
        """MobileNet v1's convolutions; the results of all blocks."""
        results = [self.convolution(source, _channels(32, width), 3, 2)]
        for stride, channels in BLOCKS[:blocks]:
            results.append(self.convolution(self.depthwise(results[-1], stride), _channels(channels, width), 1, 1))
        return results[1:]


def mobilenet(blocks: int = len(BLOCKS), width: float = 1.0, seed: int = 0) -> bytes:
    """A classifier (1, 224, 224, 3) -> (1, 1001) with MobileNet v1's operators."""
    writer = Writer(np.random.default_rng(seed))
    picture = writer.tensor("input", (1, 224, 224, 3))
    last = writer.backbone(picture, blocks, width)[-1]
    _, height, wide, depth = writer.shape(last)
    options: Any = schema.Pool2DOptionsT()
    options.filterHeight, options.filterWidth, options.strideH, options.strideW, options.padding = height, wide, 1, 1, 1
    pooled = writer.tensor("pooled", (1, 1, 1, depth))
    writer.operators.append(Op("AVERAGE_POOL_2D", [last], [pooled], options))
    logits = writer.reshape(writer.convolution(pooled, CLASSES, 1, 1, relu=False), (1, CLASSES))
    softmax: Any = schema.SoftmaxOptionsT()
    softmax.beta = 1.0
    result = writer.tensor("MobilenetV1/Predictions", (1, CLASSES))
    writer.operators.append(Op("SOFTMAX", [logits], [result], softmax))
    return build(G(writer.tensors, writer.operators, [picture], [result]))


def ssd_mobilenet(blocks: int = len(BLOCKS), width: float = 1.0, seed: int = 0) -> bytes:
    """A detector (1, 300, 300, 3) -> boxes, classes, scores and their number, with SSD MobileNet v1's operators."""
    writer = Writer(np.random.default_rng(seed))
    picture = writer.tensor("normalized_input_image_tensor", (1, 300, 300, 3))
    maps = writer.backbone(picture, blocks, width)[-2:]
    places, scores, anchors = [], [], []
    for number, feature in enumerate(maps):
        cells, size = writer.shape(feature)[1], 0.2 + 0.4 * number
        sizes = [(size, size), (size * 1.4, size / 1.4), (size / 1.4, size * 1.4)]
        count = cells * cells * len(sizes)
        places.append(writer.reshape(writer.convolution(feature, 4 * len(sizes), 1, 1, relu=False), (1, count, 4)))
        wide = (COCO_CLASSES + 1) * len(sizes)
        found = writer.convolution(feature, wide, 1, 1, relu=False)
        scores.append(writer.reshape(found, (1, count, COCO_CLASSES + 1)))
        anchors.append(grid(cells, sizes)[:, [1, 0, 3, 2]])  # centre y, centre x, height, width
    boxes, logits = writer.concatenation(places), writer.concatenation(scores)
    probabilities = writer.tensor("probabilities", writer.shape(logits))
    writer.operators.append(Op("LOGISTIC", [logits], [probabilities]))
    return build(G(writer.tensors, writer.operators, [picture], _post_process(writer, boxes, probabilities, anchors)))


def _post_process(writer: Writer, boxes: int, probabilities: int, anchors: Sequence[Array]) -> list[int]:
    table = np.concatenate(anchors)
    constant = writer.tensor("anchors", table.shape, table)
    shapes = (("", (1, BOXES, 4)), (":1", (1, BOXES)), (":2", (1, BOXES)), (":3", (1,)))
    outputs = [writer.tensor(f"TFLite_Detection_PostProcess{suffix}", shape) for suffix, shape in shapes]
    options = post_process_options(COCO_CLASSES, BOXES)
    writer.operators.append(Op("TFLite_Detection_PostProcess", [boxes, probabilities, constant], outputs, options))
    return outputs


def post_process_options(classes: int, boxes: int) -> bytes:
    """The options of TFLite_Detection_PostProcess, a FlexBuffer: fast suppression, the coder's usual scales."""
    builder: Any = flexbuffers.Builder()
    with builder.Map():
        for name, value in (("max_detections", boxes), ("max_classes_per_detection", 1), ("num_classes", classes)):
            builder.Int(name, value)
        builder.Bool("use_regular_nms", False)
        for name, value in (
            ("nms_score_threshold", 0.0), ("nms_iou_threshold", 0.6), ("y_scale", 10.0), ("x_scale", 10.0),
            ("h_scale", 5.0), ("w_scale", 5.0),
        ):  # fmt: skip
            builder.Float(name, value)
    return bytes(builder.Finish())


def _channels(full: int, width: float) -> int:
    return max(8, int(full * width))


def main() -> None:
    """Write both models to a folder."""
    parser = argparse.ArgumentParser(description="Writes stand-ins for MobileNet v1 and SSD MobileNet v1.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--blocks", type=int, default=len(BLOCKS), help="separable convolutions, 2 to 13")
    parser.add_argument("--width", type=float, default=1.0, help="factor of the numbers of channels")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("mobilenet_v1", mobilenet), ("ssd_mobilenet_v1", ssd_mobilenet)):
        path = given.folder / f"{name}.tflite"
        path.write_bytes(make(given.blocks, given.width))
        print(f"{path}  {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
