"""Names in a model's file: no message or record of ours has a character that a terminal obeys."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from framebind.delegate.read.names import MAX_LENGTH, is_literal, safe_name
from framebind.delegate.read.reader import read_model
from support.tiny_models import G, Op, T, build, chain, named, pack, unpack

HOSTILE = b"\x1b]0;gone\x07\x1b[31mred\n\xff\xfe\xe2\x80\xae%s"
"""A title for the terminal, a colour, a new line, bytes that are not UTF-8, a turned direction, and a format."""
SHOWN = r"\x1b]0;gone\x07\x1b[31mred\n\xff\xfe\u202e%s"


def model(*names: str, dtypes: tuple[str, ...] = ()) -> bytes:
    """Operators in a row on (1, 4), with hostile names."""
    dtypes = dtypes or ("float32",) * (len(names) + 1)
    tensors = [T(f"t{i}", (1, 4), dtype=dtype) for i, dtype in enumerate(dtypes)]
    operators = [Op(name, [i], [i + 1], b"" if name == "Own" else None) for i, name in enumerate(names)]
    return named(build(G(tensors, operators, [0], [len(names)])), HOSTILE)


def applied(content: bytes) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    interpreter, delegate = fb.Interpreter(model_content=content), fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    interpreter.modify_graph_with_delegate(delegate)
    return interpreter, delegate


@pytest.mark.parametrize(
    "raw, shown",
    [
        (None, ""), (b"", ""), (b"conv/Relu;bn [x]", "conv/Relu;bn [x]"), ("Ünïcode 图".encode(), "Ünïcode 图"),
        (HOSTILE, SHOWN), (b"\xc3", r"\xc3"), (b"x" * 1000, "x" * (MAX_LENGTH - 3) + "..."),
    ],
)  # fmt: skip
def test_a_name_is_shown_in_printable_characters(raw: bytes | None, shown: str) -> None:
    assert safe_name(raw) == shown
    assert is_literal(shown) == ((raw or b"").decode("utf-8", "replace") == shown)


def messages() -> Iterator[str]:
    """All texts that a program can get to see of models with hostile names."""
    interpreter, delegate = applied(model("EXP", "Own", "TANH"))
    with pytest.raises(fb.ModelError) as raised:
        interpreter.allocate_tensors()
    yield str(raised.value)
    for operator in interpreter.delegated_ops():
        yield operator.name
        yield operator.reason
    for details in (interpreter.get_input_details, interpreter.get_output_details, interpreter.get_tensor_details):
        names = [str(detail["name"]) for detail in details()]
        assert names
        yield from names
    for dtype in ("int16", "int8", "bool"):
        for operator in applied(model("FLOOR", "EXP", dtypes=(dtype, "float32", "float32")))[0].delegated_ops():
            yield operator.reason
    interpreter, delegate = applied(model("EXP", "TANH"))
    interpreter.allocate_tensors()
    interpreter.invoke()
    for tensor in (0, 1, 7):
        with pytest.raises(fb.BindingError) as refused:
            delegate.bind_buffer_to_tensor(object(), tensor)
        yield str(refused.value)
    with fb.transfer_guard("disallow"), pytest.raises(fb.TransferError) as forbidden:
        interpreter.invoke()
    yield str(forbidden.value)
    other = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"), model_content=model("EXP", "LOG"))
    with pytest.raises(RuntimeError) as of_litert:
        litert.Interpreter(model_content=model("EXP", "TANH"), experimental_delegates=[other])
    yield str(of_litert.value).replace("\n", " ")


def test_no_message_has_a_character_that_a_terminal_obeys(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "framebind"):
        seen = list(messages())
    logged = [line for record in caplog.records for line in record.getMessage().split("\n")]
    assert logged and sum(SHOWN in message for message in seen) > 8
    assert [message for message in (*seen, *logged) if not message.isprintable()] == []


def test_litert_describes_tensors_with_names_and_types_that_its_python_lacks() -> None:
    interpreter = fb.Interpreter(model_content=model("EXP"))
    detail: Any = interpreter.get_input_details()[0]
    assert (detail["name"], detail["dtype"], list(detail["shape"])) == (SHOWN, np.float32, [1, 4])
    unpacked = unpack(model("CAST", "EXP"))
    unpacked.subgraphs[0].tensors[0].type = schema.TensorType.BFLOAT16
    detail = fb.Interpreter(model_content=pack(unpacked)).get_input_details()[0]
    assert (detail["name"], detail["dtype"].__name__) == (SHOWN, "bfloat16")
    with pytest.raises(ValueError, match="Invalid tensor index"):
        interpreter._get_tensor_details(99, 0)


def test_more_dimensions_than_the_gpu_takes_are_for_the_cpu() -> None:
    interpreter = applied(chain("EXP", "TANH"))[0]
    interpreter.resize_tensor_input(0, [2] * 9)
    interpreter.allocate_tensors()
    assert [operator.reason for operator in interpreter.delegated_ops()] == [
        "tensor 'x' has rank 9; at most 8 is supported", "tensor 't1' has rank 9; at most 8 is supported",
    ]  # fmt: skip


def test_a_custom_operator_with_a_name_that_is_not_utf_8_stays_on_the_cpu() -> None:
    """The delegate serves the interpreter; LiteRT refuses the operator then, in words that are ours."""
    interpreter, delegate = applied(model("EXP", "Own", "TANH"))
    assert [operator.runs_on for operator in interpreter.delegated_ops()] == ["gpu", "cpu", "gpu"]
    assert read_model(model("Own")).subgraphs[0].operators[0].name == SHOWN
    reason = r"unresolved custom op: \\x1b\]0;gone" if sys.version_info >= (3, 11) else "Python before 3.11 loses it"
    with pytest.raises(fb.ModelError, match=f"LiteRT cannot prepare the model: .*{reason}"):
        interpreter.allocate_tensors()
    delegate.close()
