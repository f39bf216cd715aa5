"""Storage inside the blocks of transformers: halves between layers, 32 bits where blocks add their results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.formulas import Formula
from null_programs import program_on_null

TOKENS, CHANNELS = 40, 32
RANDOM = np.random.default_rng(0)


def layer(f: Formula, x: int, units: int, given: int = CHANNELS) -> int:
    weights = f.constant(RANDOM.normal(0, 0.1, (units, given)))
    return f.add("FULLY_CONNECTED", x, weights, shape=(1, TOKENS, units), keepNumDims=True)


def normalized(f: Formula, x: int) -> int:
    difference = f.add("SUB", x, f.mean(x))
    inverse = f.add("RSQRT", f.add("ADD", f.mean(f.add("SQUARE", difference)), f.constant(1e-6)))
    return f.add("MUL", difference, inverse)


def attended(f: Formula, x: int) -> int:
    q, k, v = (layer(f, x, CHANNELS) for _ in range(3))
    scores = f.add("BATCH_MATMUL", q, k, shape=(1, TOKENS, TOKENS), adjX=False, adjY=True)
    shares = f.add("SOFTMAX", scores, beta=1.0)
    return f.add("BATCH_MATMUL", shares, v, shape=(1, TOKENS, CHANNELS), adjX=False, adjY=False)


def storages(model: bytes) -> list[tuple[str, str, str]]:
    """The kernel of each step, and the storage of what it reads and writes."""
    device = NullDevice(group_size=128, invocations=1 << 17)
    device.traits = replace(device.traits, matrix_units=True, local_bytes=49152)
    _, program = program_on_null(model, "f16", device)
    assert program is not None
    sources = [step.kernel.source for step in program.record().steps]
    found: list[tuple[str, str, str]] = []
    for source in sources:
        views = {argument.name: getattr(argument.view, "storage", "") for argument in source.arguments}
        found.append((source.name, views.get("src", views.get("queries", "")), views["dst"]))
    return found


def test_what_lies_between_layers_is_halves() -> None:
    f = Formula((1, TOKENS, CHANNELS))
    x = f.add("ABS", 0)
    x = f.add("ADD", x, layer(f, attended(f, normalized(f, x)), CHANNELS))
    hidden = f.add("GELU", layer(f, normalized(f, x), 64), approximate=False)
    x = f.add("ADD", x, layer(f, hidden, CHANNELS, 64))
    assert storages(f.model(f.add("SOFTMAX", x, beta=1.0))) == [
        ("copy", "f32", "f32"), ("layer_norm", "f32", "f16"), ("matrix_conv", "f16", "f16"),
        ("matrix_attention", "f16", "f16"), ("matrix_conv", "f16", "f32"), ("layer_norm", "f32", "f16"),
        ("matrix_conv", "f16", "f16"), ("matrix_conv", "f16", "f32"), ("normalization", "f32", "f32"),
    ]  # fmt: skip


def test_a_normalized_tensor_that_is_added_keeps_32_bits() -> None:
    """A block that normalizes its result adds the next one's to that."""
    f = Formula((1, TOKENS, CHANNELS))
    x = normalized(f, f.add("ABS", 0))
    x = f.add("ADD", x, layer(f, x, CHANNELS))
    kernels = storages(f.model(f.add("SOFTMAX", x, beta=1.0)))
    assert kernels[1] == ("layer_norm", "f32", "f32")


def test_a_normalized_tensor_that_another_kernel_reads_keeps_32_bits() -> None:
    f = Formula((1, TOKENS, CHANNELS))
    x = normalized(f, f.add("ABS", 0))
    model = f.model(f.add("SOFTMAX", x, beta=1.0), f.add("SOFTMAX", layer(f, x, CHANNELS), beta=1.0))
    assert storages(model)[1] == ("layer_norm", "f32", "f32")


@pytest.mark.parametrize(("number", "storage"), [(0.0, "f16"), (0.1, "f32")])
def test_padding_is_halves_if_a_half_holds_its_number(number: float, storage: str) -> None:
    """Windows of attention are padded between the normalization and the layer."""
    f, padded = Formula((1, TOKENS - 8, CHANNELS)), (1, TOKENS, CHANNELS)
    x = normalized(f, f.add("ABS", 0))
    x = f.add("PADV2", x, f.constant([[0, 0], [0, 8], [0, 0]], "int32"), f.constant(number), shape=padded)
    assert storages(f.model(f.add("SOFTMAX", layer(f, attended(f, x), CHANNELS), beta=1.0)))[1:4] == [
        ("layer_norm", "f32", storage), ("pad", storage, storage), ("matrix_conv", storage, "f16")
    ]  # fmt: skip
