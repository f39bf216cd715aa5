"""Models from converters: Keras architectures and hand-made layers, and the operators that run on the GPU.

python scripts/zoo.py convert FOLDER [NAME ...]   needs the extra: pip install -e '.[zoo]'
python scripts/zoo.py measure FOLDER              operators on GPU and CPU, partitions, errors, load times

The two halves meet in a folder of .tflite files: TensorFlow may be in an environment of its own. Weights are random.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ARCHITECTURES = (
    "MobileNetV2", "MobileNetV3Small", "EfficientNetB0", "ResNet50", "DenseNet121", "NASNetMobile", "ConvNeXtTiny",
)  # fmt: skip
"""Keras applications, without their weights."""


# Conversion: TensorFlow is imported only here -------------------------------------------------------------------------


def lstm(keras: Any) -> Any:
    return _sequence(keras, [keras.layers.LSTM(24, return_sequences=True), keras.layers.LSTM(10)])


def gru(keras: Any) -> Any:
    return _sequence(keras, [keras.layers.GRU(24), keras.layers.Dense(5)])


def long_lstm(keras: Any) -> Any:
    layers = [keras.layers.LSTM(128, return_sequences=True), keras.layers.Dense(4)]
    return keras.Sequential([keras.Input((100, 32), batch_size=1), *layers])


def stateful_lstm(keras: Any) -> Any:
    return _sequence(keras, [keras.layers.LSTM(8, stateful=True)])


def _sequence(keras: Any, layers: list[Any]) -> Any:
    return keras.Sequential([keras.Input((12, 6), batch_size=1), *layers])


def attention(keras: Any) -> Any:
    layers, x = keras.layers, keras.Input((16, 32), batch_size=1)
    y = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 8)(x, x))
    return keras.Model(x, layers.LayerNormalization()(y + layers.Dense(32)(layers.Dense(64, activation="gelu")(y))))


def u_net(keras: Any) -> Any:
    layers, x = keras.layers, keras.Input((64, 64, 3), batch_size=1)
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(16, 3, padding="same", activation="relu")(layers.MaxPooling2D()(a))
    c = layers.Conv2D(32, 3, padding="same", activation="relu")(layers.MaxPooling2D()(b))
    d = layers.Concatenate()([layers.Conv2DTranspose(16, 2, strides=2)(c), b])
    return keras.Model(x, layers.Conv2D(1, 1)(layers.Concatenate()([layers.Conv2DTranspose(8, 2, strides=2)(d), a])))


def upsampling(keras: Any) -> Any:
    layers, x = keras.layers, keras.Input((16, 16, 8), batch_size=1)
    y = layers.UpSampling2D(interpolation="nearest")(layers.Conv2D(12, 3, padding="same")(x))
    return keras.Model(x, layers.UpSampling2D(interpolation="bilinear")(layers.Conv2D(6, 3, padding="same")(y)))


def group_normalization(keras: Any) -> Any:
    layers, x = keras.layers, keras.Input((16, 16, 8), batch_size=1)
    return keras.Model(x, layers.GroupNormalization(4)(layers.Conv2D(16, 3, padding="same")(x)))


def conv_next_block(keras: Any) -> Any:
    layers, x = keras.layers, keras.Input((14, 14, 24), batch_size=1)
    y = layers.LayerNormalization(epsilon=1e-6)(layers.Conv2D(24, 7, padding="same", groups=24)(x))
    return keras.Model(x, x + layers.Dense(24)(layers.Dense(96, activation="gelu")(y)))


HAND_MADE: dict[str, Callable[[Any], Any]] = {
    "lstm": lstm, "gru": gru, "long_lstm": long_lstm, "stateful_lstm": stateful_lstm, "attention": attention,
    "u_net": u_net, "upsampling": upsampling, "group_normalization": group_normalization,
    "conv_next_block": conv_next_block,
}  # fmt: skip


def convert(folder: Path, names: list[str]) -> None:
    """Write the models of these names, or all, as float32 and with dynamic range weights."""
    tensorflow: Any = importlib.import_module("tensorflow")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or [*HAND_MADE, *ARCHITECTURES]:
        tensorflow.keras.utils.set_random_seed(0)
        if name in HAND_MADE:
            model = HAND_MADE[name](tensorflow.keras)
        else:
            model = getattr(tensorflow.keras.applications, name)(weights=None, input_shape=(224, 224, 3))
        for suffix, optimizations in (("", []), ("_dynamic", [tensorflow.lite.Optimize.DEFAULT])):
            converter = tensorflow.lite.TFLiteConverter.from_keras_model(model)
            converter.optimizations = optimizations
            converter.experimental_enable_resource_variables = True  # for states
            path = folder / f"{name}{suffix}.tflite"
            path.write_bytes(converter.convert())
            print(f"{path} {path.stat().st_size:,} bytes", flush=True)


# Measurement ----------------------------------------------------------------------------------------------------------


def measure(folder: Path, device: str) -> None:
    """Print a row for each model of the folder."""
    from framebind.tools.certify.devices import open_context

    logging.disable(logging.WARNING)
    print("| model | operators on GPU | on CPU | partitions | load, s | first run, s | error | left to the CPU |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    with open_context(device):
        for path in sorted(folder.glob("*.tflite")):
            try:
                print(row(path, device), flush=True)
            except Exception as error:  # one model of many: the others are measured
                print(f"| {path.stem} | {type(error).__name__}: {str(error).splitlines()[0][:200]} |", flush=True)


def row(path: Path, device: str) -> str:
    """A model's row. Its error is the largest difference as a part of the largest value that LiteRT computes."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    import framebind as fb
    from framebind.tools.certify.devices import backend_of

    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(device)))
    started = time.perf_counter()
    ours: Any = fb.Interpreter(path)
    ours.modify_graph_with_delegate(delegate)
    ours.allocate_tensors()
    loaded = time.perf_counter()
    generator = np.random.default_rng(0)
    inputs = [generator.random(tuple(detail["shape"])).astype(detail["dtype"]) for detail in ours.get_input_details()]
    theirs: Any = Interpreter(str(path))
    theirs.allocate_tensors()
    results: list[list[Any]] = []
    seconds = 0.0
    for interpreter in (theirs, ours):
        for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], value)
        before = time.perf_counter()
        interpreter.invoke()
        seconds = time.perf_counter() - before
        results.append([interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()])
    errors = [np.abs(a - b).max() / (np.abs(a).max() or 1) for a, b in zip(*results, strict=True)]
    operators = ours.delegated_ops()
    on_cpu = Counter(op.name for op in operators if op.runs_on == "cpu")
    left = ", ".join(f"{count} {name}" for name, count in on_cpu.most_common())
    cells = (
        path.stem, len(operators) - on_cpu.total(), on_cpu.total(), len(delegate.partitions()),
        f"{loaded - started:.2f}", f"{seconds:.2f}", f"{max(errors):.1e}", left,
    )  # fmt: skip
    delegate.close()
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Models as converters write them, and what the GPU makes of them.")
    commands = parser.add_subparsers(dest="command", required=True)
    converting, measuring = commands.add_parser("convert"), commands.add_parser("measure")
    for command in (converting, measuring):
        command.add_argument("folder", type=Path)
    converting.add_argument("names", nargs="*", help=f"of {', '.join([*HAND_MADE, *ARCHITECTURES])}; by default all")
    measuring.add_argument("--device", default="gl", help="gl, gles, cl, or cl:NAME")
    arguments = parser.parse_args()
    if arguments.command == "convert":
        convert(arguments.folder, arguments.names)
    else:
        measure(arguments.folder, arguments.device)


if __name__ == "__main__":
    main()
