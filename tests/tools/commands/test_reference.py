"""The reference of ``diff`` and ``culprit``, LiteRT on the CPU: what it refuses, and what ends its process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import framebind as fb
from framebind.tools.commands.culprit import culprit
from framebind.tools.commands.diff import diff
from framebind.tools.measure.reference import check_reference
from support.tiny_models import G, Op, T, build, chain

pytestmark = [pytest.mark.usefixtures("context"), pytest.mark.parametrize("context", ["gl"], indirect=True)]


@pytest.fixture
def int4_input(tmp_path: Path) -> str:
    """A model of four bits, which LiteRT describes as int8: random values of eight bits do not fit."""
    tensors = [T("x", (1, 8), None, "int4", scales=[0.5], zero_points=[0]), T("y", (1, 8))]
    path = tmp_path / "int4_input.tflite"
    path.write_bytes(build(G(tensors, [Op("DEQUANTIZE", [0], [1])], [0], [1])))
    return str(path)


@pytest.mark.parametrize("command", [diff, culprit])
def test_values_that_litert_does_not_take_are_an_error_of_ours(command: Callable[[str], None], int4_input: str) -> None:
    with pytest.raises(fb.ModelError, match=r"input 'x' takes no random values: .* must be between -8 and 7"):
        command(int4_input)


def test_a_reference_that_ends_its_process_is_an_error(tmp_path: Path) -> None:
    """A program stands in for a model at which LiteRT aborts: none is known that framebind reads."""
    path, values = tmp_path / "a.tflite", {0: np.zeros((1, 4), np.float32)}
    path.write_bytes(chain("ABS", shape=(1, 4)))
    check_reference(path, values)
    said = "import os, sys; print('CHECK failed', file=sys.stderr, flush=True); os.abort()"
    with pytest.raises(fb.ModelError, match=r"^a.tflite: LiteRT's own .* with this model \(SIGABRT: CHECK failed\)"):
        check_reference(path, values, program=(sys.executable, "-c", said))


def test_the_reference_runs_with_shapes_and_errors_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.tflite"
    path.write_bytes(chain("ABS", shape=(1, 4)))
    check_reference(path, {0: np.zeros((7, 4), np.float32)})
    check_reference(path, {0: np.zeros((1, 4), np.int8)})  # an error of LiteRT, which it raises here, too
    diff(str(path), runs=1)
