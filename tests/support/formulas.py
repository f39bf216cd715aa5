"""Runs of models that spell out a formula (``framebind.tools.certify.cases.formulas``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

import framebind as fb
from framebind.interop.device import Device
from framebind.tools.certify.cases.operator_models import run_model, run_on_cpu
from null_programs import program_on_null
from support.model_runs import backend_of
from support.models import relative_error

Array = npt.NDArray[Any]


def kernels_of(model: bytes) -> list[str]:
    """The kernels of a model's steps on the null device."""
    _, program = program_on_null(model)
    assert program is not None
    return [step.kernel.source.name for step in program.record().steps]


def error_on(gpu: Device, model: bytes, inputs: Sequence[Array], *, halves: bool = False) -> float:
    """The largest error of an output beside LiteRT on the CPU, relative to the output's largest value. With ``halves``
    tensors are stored as such.
    """
    interpreter = fb.Interpreter(model_content=model)
    options = fb.GpuDelegateOptions(backend=backend_of(gpu), is_precision_loss_allowed=halves)
    delegate = fb.GpuDelegate(options)
    interpreter.modify_graph_with_delegate(delegate)
    found, expected = run_model(interpreter, list(inputs)), run_on_cpu(model, list(inputs))
    assert all(operator.runs_on == "gpu" for operator in delegate.delegated_ops())
    delegate.close()
    return max(relative_error(one, other) for one, other in zip(found, expected, strict=True))
