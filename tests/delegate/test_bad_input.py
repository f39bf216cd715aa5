"""Models that are no models: one clear error of ours, before LiteRT's native code sees them, and nothing breaks."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import framebind as fb
from framebind.delegate.read.reader import read_model
from framebind.tools.certify.cases.operator_models import options
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain, cpu_only, named, pack, unpack

SOUND = chain("EXP", "TANH")


def add(**changes: Any) -> bytes:
    """x + w, with one thing changed."""
    parts: dict[str, Any] = {
        "tensors": [T("x", (1, 4)), T("w", (1, 4), 1.0), T("y", (1, 4))],
        "operators": [Op("ADD", [0, 1], [2])],
        "inputs": [0],
        "outputs": [2],
    }
    return build(G(**(parts | changes)))


def weight(name: str = "w", shape: Sequence[int] = (1, 4), **changes: Any) -> bytes:
    """x + w, with another w."""
    return add(tensors=[T("x", (1, 4)), T(name, shape, **changes), T("y", (1, 4))])


def declared(operator: str, dtype: str) -> bytes:
    """An operator on floats whose output is declared with another type; LiteRT's kernel writes floats there."""
    tensors = [T("x", (1, 4)), T("i", (1,), [1], "int32"), T("y", (1, 4), dtype=dtype)]
    return build(G(tensors, [Op(operator, [0, 1], [2])], [0], [2]))


def calling(operator: str, **fields: int) -> bytes:
    """Subgraph 0 has one operator that runs subgraphs; subgraph 1 is x + x."""
    called = G([T("x", (1, 4)), T("y", (1, 4))], [Op("ADD", [0, 0], [1])], [0], [1], "called")
    kind = {"WHILE": "While", "CALL_ONCE": "CallOnce"}[operator]
    return build(G(called.tensors, [Op(operator, [0], [1], options(kind, **fields))], [0], [1]), called)


def signed(input: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """A model with a signature, of which something is changed."""
    model = unpack(chain("EXP", signature="serve"))
    (signature,) = model.signatureDefs
    for target, changes in ((signature, fields), (signature.inputs[0], input or {})):
        for name, value in changes.items():
            setattr(target, name, value)
    return pack(model)


def quantized(operator: str = "RESHAPE", x: Any = 0.5, w: Any = 0.5, y: Any = 0.5, dtype: str = "int8") -> bytes:
    """One operator on x and a constant w; a number is the scale of the tensor of that name, None for none."""

    def tensor(name: str, scale: float | None, values: Any = None) -> T:
        given: dict[str, Any] = {} if scale is None else {"scales": [scale], "zero_points": [0]}
        return T(name, (1, 4), values, dtype, **given)

    constant = T("s", (2,), [1, 4], "int32") if operator == "RESHAPE" else tensor("w", w, 1)
    result = T("y", (1, 4), dtype="bool") if operator in ("LESS", "EQUAL") else tensor("y", y)
    return build(G([tensor("x", x), constant, result], [Op(operator, [0, 1], [2])], [0], [2]))


def pointed(dtype: str, zero_point: int) -> bytes:
    """A DEQUANTIZE of an input with this zero point."""
    x = T("x", (1, 4), dtype=dtype, scales=[0.5], zero_points=[zero_point])
    return build(G([x, T("y", (1, 4))], [Op("DEQUANTIZE", [0], [1])], [0], [1]))


def of_halves(name: str) -> T:
    """A tensor of int8 that counts halves."""
    return T(name, (1, 4), dtype="int8", scales=[0.5], zero_points=[0])


def requantized(dtype: str, scale: float) -> bytes:
    """A QUANTIZE to this scale, and another one to a common scale."""
    a, b = (T(name, (1, 4), dtype=dtype, scales=[s], zero_points=[0]) for name, s in (("a", scale), ("b", 0.5)))
    operators = [Op("QUANTIZE", [0], [1]), Op("QUANTIZE", [1], [2], version=2)]
    return build(G([T("x", (1, 4)), a, b], operators, [0], [2]))


NAN, INFINITY = float("nan"), float("inf")
TOO_LATE = [Op("ADD", [0, 2], [1]), Op("EXP", [1], [2])]
BAD_MODELS = [
    (b"", "0 bytes without the identifier TFL3"),
    (b"PK\x03\x04 an archive of something else entirely", "no TensorFlow Lite model"),
    (b"<!doctype html><html>404</html>", "no TensorFlow Lite model"),
    (SOUND[:8], "truncated or damaged"),
    (SOUND[:40], "truncated or damaged"),
    (build(G([T("x", (1,))], [], [0], [0]), version=2), "schema version 2"),
    (build(), "no subgraph"),
    (add(operators=[Op("ADD", [0, 7], [2])]), "operator 0 ADD: its inputs name tensor 7, but there are 3 tensors"),
    (add(operators=[Op("ADD", [0, -2], [2])]), "operator 0 ADD: its inputs name tensor -2"),
    (add(operators=[Op("ADD", [0, 1], [-1])]), "operator 0 ADD: its outputs name tensor -1"),
    (add(outputs=[3]), "subgraph 0: its outputs name tensor 3"),
    (weight(buffer=99), "tensor 1 'w' has its values in buffer 99"),
    (weight(raw=bytes(12)), r"tensor 1 'w': shape \[1, 4\] of type float32 takes 16 bytes, but its buffer has 12"),
    (
        weight(raw=bytes(3), dtype="int4"),
        r"tensor 1 'w': shape \[1, 4\] of type int4 takes 2 bytes, but its buffer has 3",
    ),
    (weight(shape=(2**30, 2**30), raw=bytes(16)), "tensor 1 'w'.* takes 4611686018427387904 bytes"),
    (weight(shape=(1, -4)), "tensor 1 'w' has the impossible shape"),
    (weight(shape=[1] * 40), "tensor 1 'w' has the impossible shape"),
    (weight(values=1, dtype="int8", scales=[1, 2, 3], zero_points=[0] * 3, axis=1), "tensor 1 'w' has 3 scales"),
    (add(operators=[Op("ADD", [0, 2], [2])]), "operator 0 ADD reads tensor 2 'y' before operator 0 ADD computes it"),
    (add(operators=[Op("ADD", [0, 1], [2])] * 2), "operator 1 ADD writes tensor 2 'y', which operator 0 writes too"),
    (add(operators=[Op("ADD", [0, 0], [1])]), "operator 0 ADD writes tensor 1 'w', which is a constant"),
    (
        build(G([T(name, (2,)) for name in "xab"], TOO_LATE, [0], [2])),
        "operator 0 ADD reads tensor 2 'b' before operator 1 EXP computes it",
    ),
]

DAMAGED_PARTS = [
    (add(operators=[Op("ADD", [0, -1], [2])]), "operator 0 ADD has no input 1: it needs one"),
    (add(operators=[Op("ADD", [0], [2])]), r"operator 0 ADD has the inputs \[0\]: it needs 2"),
    (add(operators=[Op("EXP", [], [2])]), r"operator 0 EXP has the inputs \[\]: it needs 1"),
    (add(operators=[Op("EXP", [0], [])]), "operator 0 EXP has no output"),
    (add(operators=[Op("SPLIT", [1, 0], [2], options("Split", numSplits=7))]), "SPLIT splits into 7 parts, but has 1"),
    (add(operators=[Op("SPLIT", [1, 0], [2])]), "SPLIT splits into 0 parts, but has 1"),
    (
        build(G([T("w", (2, 6), 1.0, "float16"), T("d", (2, 2305))], [Op("DEQUANTIZE", [0], [1])], [], [1])),
        r"operator 0 DEQUANTIZE makes tensor 1 'd' of shape \[2, 2305\] from the constant 'w' of shape \[2, 6\]",
    ),
    *(
        (
            declared(name, kind),
            f"0 {name} computes float32, but its output 2 'y' is declared {kind}, which has less memory",
        )
        for name, kind in (("RESHAPE", "uint8"), ("MEAN", "int16"), ("CUMSUM", "bool"), ("RESHAPE", "int4"))
    ),
    (calling("WHILE", condSubgraphIndex=0, bodySubgraphIndex=1), "without end: subgraph 0 -> subgraph 0"),
    (calling("WHILE", condSubgraphIndex=1, bodySubgraphIndex=9), "operator 0 WHILE runs subgraph 9 of 2"),
    (calling("CALL_ONCE", initSubgraphIndex=-1), "operator 0 CALL_ONCE runs subgraph -1 of 2"),
    (signed(subgraphIndex=7), "signature 0 names subgraph 7"),
    (signed(signatureKey=b"\xff\xfe"), "signature 0 cannot be read .*utf-8"),
    (signed(input={"tensorIndex": 99}), "signature 0, tensor 0 names tensor 99, but there are 2 tensors"),
    (signed(input={"name": b"\xff"}), "signature 0, tensor 0 cannot be read .*utf-8"),
]
"""LiteRT crashes on most of these, or runs them in spite of what they say."""
QUANTIZED = [
    *(
        (quantized(x=scale, dtype=dtype), f"tensor 0 'x' is quantized {dtype} with the scale {scale:g}, which is not")
        for scale, dtype in ((NAN, "int8"), (INFINITY, "uint8"), (-INFINITY, "int16"), (0.0, "int8"), (-0.5, "int8"))
    ),
    (quantized("BATCH_MATMUL", y=1e-42), "computes with tensor 'y', which is int8 of scale 1.00053e-42, too small"),
    (requantized("int8", 1e-42), "0 QUANTIZE computes with tensor 'a', which is int8 of scale 1.00053e-42, too small"),
    (weight(values=1, dtype="int8", scales=[NAN], zero_points=[0]), "tensor 1 'w' is quantized int8 with the scale"),
    (pointed("int8", 128), "tensor 0 'x' is quantized int8 with the zero point 128, which is not from -128 to 127"),
    (pointed("uint8", -1), "with the zero point -1, which is not from 0 to 255"),
    (pointed("int16", 1 << 40), "with the zero point 1099511627776"),
    (quantized("ADD", x=None), "operator 0 ADD computes with tensor 'x', which is int8 and has no single positive"),
    (quantized("SUB", w=0.0), "operator 0 SUB computes with tensor 'w'"),
    (
        build(G([of_halves("x"), of_halves("w"), T("y", (1, 4))], [Op("ADD", [0, 1], [2])], [0, 1], [2])),
        "operator 0 ADD computes with tensor 'y', which is float32 and has no single positive scale",
    ),
    (quantized("LESS", w=None, dtype="uint8"), "operator 0 LESS computes with tensor 'w'"),
    (quantized("ADD", y=1e-7), "operator 0 ADD has inputs of scales 0.5, 0.5, too large for the scale 1e-07 of its ou"),
    (quantized("SQUARED_DIFFERENCE", x=1e5), "operator 0 SQUARED_DIFFERENCE has inputs of scales 100000, 0.5"),
    (
        build(G([T("x", (1, 4), dtype="int16"), T("y", (1, 4), dtype="int16")], [Op("SQRT", [0], [1])], [0], [1])),
        "operator 0 SQRT computes with tensor 'x', which is int16",
    ),
]
"""LiteRT aborts the process at these, or computes what no scale stands for."""
BAD_MODELS.extend(QUANTIZED)
BAD_MODELS.extend(DAMAGED_PARTS)


@pytest.mark.parametrize("content, says", BAD_MODELS, ids=[says[:40] for _, says in BAD_MODELS])
def test_a_bad_model_is_one_model_error(content: bytes, says: str) -> None:
    with pytest.raises(fb.ModelError, match=says):
        read_model(content)
    with pytest.raises(fb.ModelError, match=says):
        fb.Interpreter(model_content=content)
    with pytest.raises(fb.ModelError, match=says):
        fb.GpuDelegate(model_content=content)


def test_scales_that_nothing_is_computed_with_may_be_anything() -> None:
    """LiteRT runs models with scales of real numbers, of a channel of zeros, of integers that stand for themselves."""
    weights = T("w", (3, 4), 1, "int8", scales=[0.5, 0.0, 0.5], zero_points=[0] * 3)
    tensors = [
        T("x", (3, 4), scales=[NAN], zero_points=[0]),
        weights,
        T("d", (3, 4)),
        T("y", (3, 4), scales=[0.0], zero_points=[0]),
    ]
    content = build(G(tensors, [Op("DEQUANTIZE", [1], [2]), Op("MUL", [0, 2], [3])], [0], [3]))
    for delegates in ([], [fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))]):
        interpreter = fb.Interpreter(model_content=content, experimental_delegates=delegates)
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.ones((3, 4), np.float32))
        interpreter.invoke()
        assert interpreter.get_tensor(3)[:, 0].tolist() == [0.5, 0.0, 0.5]
    read_model(quantized("ADD", x=None, w=None, y=None, dtype="int16"))


def test_errors_of_models_with_hostile_names_are_printable() -> None:
    tables = [content for content, _ in BAD_MODELS[6:]]  # those before have no tables
    for content in (named(content, b"\x1b[31m\xff\n") for content in tables):
        with pytest.raises(fb.ModelError) as raised:
            fb.Interpreter(model_content=content)
        assert str(raised.value).isprintable()


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "page\x1b.tflite"
    path.write_bytes(b"<!doctype html>")
    for make in (fb.Interpreter, fb.GpuDelegate):
        with pytest.raises(fb.ModelError, match=r"page\\x1b\.tflite: this is no TensorFlow Lite model"):
            make(model_path=path)
    with pytest.raises(fb.ModelError, match=r"the model a\\x00b cannot be read"):
        fb.Interpreter("a\0b")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for make in (fb.Interpreter, fb.GpuDelegate):
        with pytest.raises(fb.ModelError, match=r"none\.tflite cannot be read: No such file"):
            make(model_path=tmp_path / "none.tflite")


def test_every_truncation_of_a_real_model_is_refused(model_path: Callable[[str], Path]) -> None:
    content = model_path("face_detection_front").read_bytes()
    lengths = [*range(0, 64), *random.Random(0).sample(range(64, len(content) - 64), 60), len(content) - 64]
    for length in lengths:
        with pytest.raises(fb.ModelError):
            fb.Interpreter(model_content=content[:length])
    assert fb.Interpreter(model_content=content).inputs() == [0]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_bytes_never_escape_as_another_error(data: st.DataObject) -> None:
    """Some damage leaves a readable model; what must not happen is any other exception, or a giant allocation."""
    content = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 8))):
        position = data.draw(st.integers(8, len(content) - 4))
        struct.pack_into("<I", content, position, data.draw(st.sampled_from([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x10000])))
    try:
        model = read_model(bytes(content))
    except fb.ModelError:
        return
    held = sum(t.constant.nbytes for g in model.subgraphs for t in g.tensors if t.constant is not None)
    assert held <= len(content) * sum(len(g.tensors) for g in model.subgraphs)


def test_a_vector_longer_than_the_file_is_refused_before_it_is_walked() -> None:
    content = bytearray(SOUND)
    # The tensors' vector: its length, 3, followed by three offsets. Found by its neighbours' plausibility.
    at = [i for i in range(8, len(content) - 16, 4) if struct.unpack_from("<I", content, i)[0] == 3]
    unsupported = 0
    for position in at:
        changed = bytearray(content)
        struct.pack_into("<I", changed, position, 0x3FFFFFFF)
        try:
            read_model(bytes(changed))
        except fb.ModelError as error:
            unsupported += "more than its" in str(error)
    assert unsupported >= 1


def test_an_operator_that_cannot_be_parsed_stays_on_the_cpu_with_a_reason(
    context: fb.GlContext, caplog: pytest.LogCaptureFixture
) -> None:
    content = chain("EXP", CPU_ONLY, "TANH")
    interpreter = fb.Interpreter(model_content=content, experimental_delegates=[fb.GpuDelegate()])
    assert f"{CPU_ONLY}: the operator is not supported" in caplog.text
    assert "2 operations will run on the GPU, and the remaining 1 operations will run on the CPU." in caplog.text
    interpreter.allocate_tensors()
    x = np.linspace(-1, 1, 60, dtype=np.float32).reshape(1, 4, 5, 3)
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(3), np.tanh(cpu_only(np.exp(x))), atol=1e-6)


def test_the_library_goes_on_after_an_error(context: fb.GlContext) -> None:
    with pytest.raises(fb.ModelError):
        fb.Interpreter(model_content=SOUND[:100], experimental_delegates=[fb.GpuDelegate()])
    interpreter = fb.Interpreter(model_content=SOUND, experimental_delegates=[fb.GpuDelegate()])
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.zeros((1, 4, 5, 3), np.float32))
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(2), np.tanh(1.0), atol=1e-6)


@pytest.mark.parametrize(
    "options, says",
    [
        ({"backend": "metal"}, "no backend 'metal': take one of gl, opengl, cl, opencl, cuda, auto"),
        ({"max_delegated_partitions": 0}, "give 1 or more"),
    ],
)
def test_options_are_checked(options: dict[str, object], says: str) -> None:
    with pytest.raises(fb.DelegateError, match=says):
        fb.GpuDelegateOptions(**options)  # type: ignore[arg-type]
