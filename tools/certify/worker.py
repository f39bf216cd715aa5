"""A process that runs checks on one device: ``python -m framebind.tools.certify.worker DEVICE``.

It writes a line that describes the device. Then it reads a subject per line from standard input, as JSON, and writes
its outcome. A driver that crashes or hangs ends only this process: the process that started it counts that and starts a
new one.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import framebind as fb

from ...delegate.compiler import StorageRule
from ...delegate.lower.precision import choose_storage
from ...interop.discovery.devices import open_device
from .checks import Array, Inputs, Subject, check_of
from .devices import Device, backend_of, open_context
from .outcomes import Outcome


def run_on_device(
    model: bytes,
    inputs: Sequence[Inputs],
    backend: str,
    *,
    half: bool = False,
    storage_rule: StorageRule = choose_storage,
) -> tuple[list[list[Array]], list[str]]:
    """The outputs for each of the inputs, in the context that is current, and the reasons of operators that stay on the
    CPU.
    """
    delegate: Any = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend, is_precision_loss_allowed=half))
    delegate.engine.maker.storage_rule = storage_rule
    interpreter = fb.Interpreter(model_content=model)
    try:
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        results: list[list[Array]] = []
        for values in inputs:
            for tensor, value in zip(interpreter.inputs(), values, strict=True):
                interpreter.set_tensor(tensor, value)
            interpreter.invoke()
            results.append([interpreter.get_tensor(tensor) for tensor in interpreter.outputs()])
        return results, [f"{op.name}: {op.reason}" for op in interpreter.delegated_ops() if op.runs_on == "cpu"]
    finally:
        delegate.close()


def outcome_of(subject: Subject, backend: str) -> Outcome:
    """The outcome of a check in the context that is current."""
    started = time.perf_counter()
    try:
        check = check_of(subject)
        results, reasons = run_on_device(
            check.model, list(check.inputs.values()), backend, half=check.half, storage_rule=check.storage_rule
        )
        seconds = time.perf_counter() - started
        measured = [
            (*check.measure(inputs, found), name)
            for (name, inputs), found in zip(check.inputs.items(), results, strict=True)
        ]
        error, bound, name = max(measured, key=_excess)
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return Outcome(subject, "error", seconds=time.perf_counter() - started, reason=reason[:300])
    if reasons and subject.kind != "model":
        return Outcome(subject, "left to the CPU", error, bound, seconds, reasons[0][:300], len(reasons))
    finite = np.isfinite(error)
    status = "passed" if finite and error <= bound else "wrong"
    reason = (
        "" if status == "passed" else f"{'differs from LiteRT' if finite else 'not a number'}{name and f' for {name}'}"
    )
    return Outcome(subject, status, error if finite else None, bound, seconds, reason, len(reasons))


def _excess(measured: tuple[float, float, str]) -> float:
    """The error as a part of its bound, infinite for NaN."""
    error, bound, _ = measured
    return error / max(bound, 1e-30) if np.isfinite(error) else np.inf


def described(name: str) -> Device:
    """The device of the context that is current."""
    device = open_device(backend_of(name))
    device.close()
    return Device(name, device.traits.name, device.traits.driver, device.traits.software)


def main() -> None:
    """Serve one device until standard input ends."""
    name = sys.argv[1]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a driver prints is no answer
    logging.disable(logging.WARNING)
    with open_context(name):
        answers.write(json.dumps(asdict(described(name))) + "\n")
        answers.flush()
        for line in sys.stdin:
            outcome = outcome_of(Subject(**json.loads(line)), backend_of(name))
            answers.write(json.dumps(outcome.row()) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
