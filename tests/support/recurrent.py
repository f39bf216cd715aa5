"""A small recurrent network of video: two states, one with channels in whole slices and one without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter as LiteRt

from framebind.video.tflite_writer import G, Op, T

from .tiny_models import CPU_ONLY, build

HEIGHT, WIDTH = 6, 10
FEEDBACK = {"r1o": "r1i", "r2o": "r2i"}
CHANNELS = {"r1": 8, "r2": 6}
Array = npt.NDArray[np.float32]


class _Graph:
    def __init__(self, batch: int) -> None:
        self.tensors, self.operators, self.batch = list[T](), list[Op](), batch

    def tensor(self, name: str, channels: int) -> int:
        self.tensors.append(T(name, (self.batch, HEIGHT, WIDTH, channels)))
        return len(self.tensors) - 1

    def constant(self, values: Array) -> int:
        self.tensors.append(T(f"constant {len(self.tensors)}", values.shape, values))
        return len(self.tensors) - 1

    def add(self, name: str, inputs: Sequence[int], channels: int, options: Any = None, label: str = "") -> int:
        result = self.tensor(label or f"t{len(self.tensors)}", channels)
        self.operators.append(Op(name, inputs, [result], options))
        return result

    def convolve(self, sources: Sequence[int], channels: int, label: str = "") -> int:
        given = sum(self.tensors[source].shape[3] for source in sources)
        joined, convolution = schema.ConcatenationOptionsT(), schema.Conv2DOptionsT()
        joined.axis, convolution.strideH, convolution.strideW = 3, 1, 1
        random = np.random.default_rng(given * 16 + channels)
        weights = self.constant(random.normal(0, 0.15, (channels, 3, 3, given)).astype(np.float32))
        bias = self.constant(random.normal(0, 0.1, channels).astype(np.float32))
        source = self.add("CONCATENATION", sources, given, joined) if len(sources) > 1 else sources[0]
        return self.add("CONV_2D", [source, weights, bias], channels, convolution, label)

    def gru(self, source: int, state: int, channels: int, label: str) -> int:
        """state + gate * (candidate - state), with convolutions for the gates."""
        gate = self.add("LOGISTIC", [self.convolve([source, state], channels)], channels)
        reset = self.add("LOGISTIC", [self.convolve([state, source], channels)], channels)
        kept = self.add("MUL", [reset, state], channels, schema.MulOptionsT())
        candidate = self.add("TANH", [self.convolve([source, kept], channels)], channels)
        change = self.add("SUB", [candidate, state], channels, schema.SubOptionsT())
        gated = self.add("MUL", [gate, change], channels, schema.MulOptionsT())
        return self.add("ADD", [state, gated], channels, schema.AddOptionsT(), label)


def recurrent(*, batch: int = 1, on_cpu: str = "", signature: str = "") -> bytes:
    """The model: a picture "x" and the states "r1i" and "r2i" give "y", "r1o" and "r2o".

    An operator that stays on the CPU is "between" the two states, or computes ("output") or reads ("input") the second.
    """
    graph = _Graph(batch)
    picture = graph.tensor("x", 3)
    first, second = (graph.tensor(f"{name}i", channels) for name, channels in CHANNELS.items())
    state = second
    if on_cpu == "input":
        state = graph.add(CPU_ONLY, [second], CHANNELS["r2"])
    r1o = graph.gru(picture, first, CHANNELS["r1"], "r1o")
    inner = graph.add(CPU_ONLY, [r1o], CHANNELS["r1"]) if on_cpu == "between" else r1o
    r2o = graph.gru(inner, state, CHANNELS["r2"], "inner r2o" if on_cpu == "output" else "r2o")
    y = graph.convolve([r2o], 3, "y")
    if on_cpu == "output":
        r2o = graph.add(CPU_ONLY, [r2o], CHANNELS["r2"], label="r2o")
    outputs = [r2o, y, r1o]
    return build(G(graph.tensors, graph.operators, [picture, first, second], outputs, signature=signature))


def frames(count: int, batch: int = 1) -> list[Array]:
    """Pictures of noise."""
    random = np.random.default_rng(1)
    return [random.random((batch, HEIGHT, WIDTH, 3), np.float32) for _ in range(count)]


def reference(content: bytes, pictures: Sequence[Array]) -> list[dict[str, Array]]:
    """The outputs of LiteRT's CPU interpreter for each picture by name, whose states a loop copies to the inputs."""
    interpreter: Any = LiteRt(model_content=content)
    inputs = {each["name"]: each["index"] for each in interpreter.get_input_details()}
    for index in inputs.values():
        shape = interpreter.get_tensor_details()[index]["shape"]
        interpreter.resize_tensor_input(index, [len(pictures[0]), *shape[1:]])
    interpreter.allocate_tensors()
    outputs = {each["name"]: each["index"] for each in interpreter.get_output_details()}
    for given in FEEDBACK.values():  # LiteRT's memory of inputs has any values at first
        interpreter.set_tensor(inputs[given], np.zeros_like(interpreter.get_tensor(inputs[given])))
    results = list[dict[str, Array]]()
    for picture in pictures:
        interpreter.set_tensor(inputs["x"], picture)
        interpreter.invoke()
        results.append({name: interpreter.get_tensor(index) for name, index in outputs.items()})
        for output, given in FEEDBACK.items():
            interpreter.set_tensor(inputs[given], results[-1][output])
    return results
