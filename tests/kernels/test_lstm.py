"""The full LSTM over several frames against LiteRT's CPU kernels, and its state, which stays on the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.lower.tuning import Tuning
from framebind.delegate.read.reader import read_model
from framebind.delegate.run.program import Program
from framebind.delegate.run.tuner import Make, Tuner
from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.lstm_models import ACTIVATION, CELL, FORMS, Form, X, graph, lstm
from framebind.tools.certify.cases.operator_models import CPU_KERNELS, Array, options, values
from support.model_runs import backend_of
from support.tiny_models import G, Op, T, build

on_both = pytest.mark.parametrize("gpu", ["gl", "cl:pocl"], indirect=True)
FORM = Form(2, 3, 6, 4, projected=True, peepholes=True)
STATE_NBYTES = 2 * (6 + 4) * 4
"""The bytes of both states of FORM."""


def on_gpu(gpu: Device, model: bytes, **given: Any) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """An allocated interpreter in the context that is current, the one of ``gpu``; all operators on it."""
    backend = backend_of(gpu)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend, **given))
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    return interpreter, delegate


def on_cpu(model: bytes) -> litert.Interpreter:
    interpreter = litert.Interpreter(model_content=model, experimental_op_resolver_type=CPU_KERNELS)
    interpreter.allocate_tensors()
    return interpreter


def frames(form: Form, count: int = 6) -> list[Array]:
    return [values(form.rows, form.width, seed=seed) for seed in range(count)]


def run(interpreter: litert.Interpreter, x: Array) -> Array:
    interpreter.set_tensor(X, x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def states(interpreter: litert.Interpreter) -> list[Array]:
    return [interpreter.get_tensor(tensor) for tensor in (ACTIVATION, CELL)]


def close_to(actual: Array, expected: Array, tolerance: float = 1e-5) -> None:
    assert np.abs(expected).max() > 0
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


def of_state() -> dict[str, tuple[int, int]]:
    """Copies of states since the last reset of the counter: calls and bytes, by direction."""
    found: dict[str, tuple[int, int]] = {}
    for (way, reason), hop in fb.transfers.by_reason.items():
        if reason.startswith("state tensor"):
            calls, nbytes = found.get(way, (0, 0))
            found[way] = calls + hop.calls, nbytes + hop.bytes
    return found


# What it computes -----------------------------------------------------------------------------------------------------


def check(gpu: Device, form: Form, tolerance: float = 1e-5, reference: bytes = b"", **given: Any) -> None:
    """Six frames and the states after them are LiteRT's."""
    model = lstm(form)
    assert claim(read_model(model).subgraphs[0], lambda: NullDevice().traits.target).unsupported == {}
    cpu = on_cpu(reference or model)
    interpreter, delegate = on_gpu(gpu, model, **given)
    assert delegate.statistics().operators_on_gpu == len(read_model(model).subgraphs[0].operators)
    for x in frames(form):
        close_to(run(interpreter, x), run(cpu, x), tolerance)
    for ours, theirs in zip(states(interpreter), states(cpu), strict=True):
        close_to(ours, theirs, tolerance)
    delegate.close()


@on_both
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_form(gpu: Device, form: Form) -> None:
    check(gpu, form)


@pytest.mark.parametrize("gpu", ["gles"], indirect=True)
@pytest.mark.parametrize("form", FORMS[7::6], ids=str)
def test_on_opengl_es(gpu: Device, form: Form) -> None:
    check(gpu, form)


@on_both
@pytest.mark.parametrize("form", FORMS[::3], ids=str)
def test_with_halves(gpu: Device, form: Form) -> None:
    check(gpu, form, 1e-2, is_precision_loss_allowed=True)


@on_both
@pytest.mark.parametrize("form", [FORM, replace(FORM, normalized=True, coupled=True)], ids=str)
def test_in_one_dispatch(gpu: Device, form: Form) -> None:
    gpu.dispatches = "one"
    try:
        check(gpu, form)
    finally:
        gpu.dispatches = "auto"


@on_both
def test_integer_weights_are_made_real_numbers(gpu: Device) -> None:
    """LiteRT rounds activations too, so the reference is the float model of the same numbers."""
    for form in (FORM, Form(2, 3, 5, 5, coupled=True)):
        check(gpu, replace(form, weights="int8"), reference=lstm(replace(form, weights="rounded")))


@on_both
def test_an_operator_after_it_does_not_change_the_state(gpu: Device) -> None:
    for form in (FORM, replace(FORM, projected=False, outputs=6)):
        model = lstm(form, after="EXP")
        interpreter, delegate = on_gpu(gpu, model)
        cpu = on_cpu(model)
        for x in frames(form):
            close_to(run(interpreter, x), run(cpu, x))
        assert delegate.statistics().dispatches == (5 if form.projected else 3), "EXP is part of the last one"


@on_both
def test_the_state_moves_on_where_nobody_reads_the_output(gpu: Device) -> None:
    model = lstm(FORM, beside="EXP")
    interpreter, _ = on_gpu(gpu, model)
    cpu = on_cpu(model)
    for x in frames(FORM):
        run(interpreter, x)
        run(cpu, x)
    for ours, theirs in zip(states(interpreter), states(cpu), strict=True):
        close_to(ours, theirs)


# Its state ------------------------------------------------------------------------------------------------------------


@on_both
def test_state_stays_on_the_gpu(gpu: Device) -> None:
    interpreter, delegate = on_gpu(gpu, lstm(FORM))
    run(interpreter, values(2, 3))
    assert of_state() == {"upload": (2, STATE_NBYTES)}, "the zeros, once"
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.invoke()
    fb.transfers.reset()
    for _ in range(20):
        interpreter.invoke()
    assert not fb.transfers.by_reason, "the input was set once, and is there"
    cpu = on_cpu(lstm(FORM))
    cpu.set_tensor(X, values(2, 3))
    for _ in range(22):
        cpu.invoke()
    for ours, theirs in zip(states(interpreter), states(cpu), strict=True):
        close_to(ours, theirs)
    assert delegate.delegated_ops()[0].reason == ""


@on_both
def test_reset(gpu: Device) -> None:
    interpreter, _ = on_gpu(gpu, lstm(FORM))
    cpu = on_cpu(lstm(FORM))
    for reset in (interpreter.reset_all_variables, lambda: None, interpreter.reset_all_variables):
        for x in frames(FORM, 3):
            close_to(run(interpreter, x), run(cpu, x))
        reset()
        if reset == interpreter.reset_all_variables:
            cpu.reset_all_variables()
            for state in states(interpreter):
                np.testing.assert_array_equal(state, 0)
        fb.transfers.reset()
        close_to(run(interpreter, values(2, 3)), run(cpu, values(2, 3)))
        uploads = {"upload": (2, STATE_NBYTES)} if reset == interpreter.reset_all_variables else {}
        assert of_state() == uploads


@on_both
def test_reading_the_state_copies_it_once(gpu: Device) -> None:
    interpreter, _ = on_gpu(gpu, lstm(FORM))
    cpu = on_cpu(lstm(FORM))
    for x in frames(FORM):
        close_to(run(interpreter, x), run(cpu, x))
        fb.transfers.reset()
        for _ in range(2):
            for ours, theirs in zip(states(interpreter), states(cpu), strict=True):
                close_to(ours, theirs)
        assert of_state() == {"download": (2, STATE_NBYTES)}
        fb.transfers.reset()
        close_to(run(interpreter, x), run(cpu, x))
        assert of_state() == {}, "the GPU has what was read"


@on_both
def test_setting_the_state(gpu: Device) -> None:
    interpreter, _ = on_gpu(gpu, lstm(FORM))
    cpu = on_cpu(lstm(FORM))
    for number, x in enumerate(frames(FORM, 4)):
        close_to(run(interpreter, x), run(cpu, x))
        for each in (interpreter, cpu):
            if number % 2:
                each.set_tensor(CELL, values(2, 6, seed=9))
            else:
                each.tensor(CELL)()[1, 2] = 0.25  # the rest is as it was
    fb.transfers.reset()
    close_to(run(interpreter, x), run(cpu, x))
    assert of_state() == {"upload": (1, 2 * 6 * 4)}


@on_both
def test_allocating_and_resizing(gpu: Device) -> None:
    interpreter, _ = on_gpu(gpu, lstm(FORM))
    cpu = on_cpu(lstm(FORM))
    x = values(2, 3)
    for act in (
        lambda each: each.allocate_tensors(),
        lambda each: each.resize_tensor_input(X, (2, 3)),
        lambda each: each.invoke(),
    ):
        for _ in range(2):
            close_to(run(interpreter, x), run(cpu, x))
        for each in (interpreter, cpu):
            act(each)
            each.allocate_tensors()
        close_to(run(interpreter, x), run(cpu, x))
    interpreter.resize_tensor_input(X, (3, 3))
    with pytest.raises(fb.ModelError, match="operator 0 LSTM: an input and states of shapes"):
        interpreter.allocate_tensors()
    interpreter.resize_tensor_input(X, (2, 3))
    interpreter.allocate_tensors()
    close_to(run(interpreter, x), run(on_cpu(lstm(FORM)), x))


@on_both
def test_a_refused_upload_leaves_the_state_to_the_next_run(gpu: Device) -> None:
    interpreter, _ = on_gpu(gpu, lstm(FORM))
    x = values(2, 3)
    run(interpreter, x)
    interpreter.reset_all_variables()
    interpreter.set_tensor(X, x)
    with fb.transfer_guard("disallow", exempt=("input tensor 0 'x' from the CPU",)):
        with pytest.raises(fb.TransferError, match="state tensor 1 'activation' from the CPU"):
            interpreter.invoke()
    close_to(run(interpreter, x), run(on_cpu(lstm(FORM)), x))


@on_both
def test_another_binding_keeps_the_state(gpu: Device) -> None:
    """A buffer bound in place of CPU memory, and let go of: the commands are recorded anew."""
    interpreter, delegate = on_gpu(gpu, lstm(FORM))
    cpu = on_cpu(lstm(FORM))
    output = interpreter.outputs()[0]
    buffer = gpu.buffer(2 * 4 * 4, "output")
    for number, x in enumerate(frames(FORM)):
        if number == 2:
            delegate.bind_buffer_to_tensor(buffer, output)
        if number == 4:
            delegate.unbind(output)
        close_to(run(interpreter, x), run(cpu, x))
    with pytest.raises(fb.BindingError, match=r"'cell' .* cannot be bound: it is a variable"):
        delegate.bind_buffer_to_tensor(buffer, CELL)
    close_to(run(interpreter, x), run(cpu, x))


@on_both
def test_a_state_that_is_an_output(gpu: Device) -> None:
    made = graph(FORM)
    model = build(replace(made, outputs=[*made.outputs, CELL]))
    interpreter, _ = on_gpu(gpu, model)
    cpu = on_cpu(model)
    for keep in (False, True):
        interpreter.set_allow_buffer_handle_output(keep)
        for x in frames(FORM, 3):
            fb.transfers.reset()
            for each in (interpreter, cpu):
                each.set_tensor(X, x)
                each.invoke()
            assert of_state().get("download", (0, 0)) == ((0, 0) if keep else (1, 2 * 6 * 4))
            close_to(interpreter.get_tensor(CELL), cpu.get_tensor(CELL))


@on_both
def test_states_of_two_signatures(gpu: Device) -> None:
    """Each subgraph has its own; the second one's is read by number."""
    other = Form(1, 3, 5, 5)
    both = [replace(graph(form), name=name, signature=name) for form, name in ((FORM, "one"), (other, "two"))]
    interpreter, _ = on_gpu(gpu, build(*both))
    cpu = on_cpu(build(*both))
    for number in range(4):
        for form, name in ((FORM, "one"), (other, "two")):
            x = values(form.rows, form.width, seed=number)
            ours, theirs = (each.get_signature_runner(name)(x=x)["y"] for each in (interpreter, cpu))
            close_to(ours, theirs)
        if number == 1:
            interpreter.reset_all_variables()
            cpu.reset_all_variables()
    close_to(interpreter.get_tensor(CELL, 1), cpu.get_tensor(CELL, 1))


@on_both
def test_a_delegate_that_comes_late_goes_on_with_the_state(gpu: Device) -> None:
    interpreter, cpu = fb.Interpreter(model_content=lstm(FORM)), on_cpu(lstm(FORM))
    interpreter.allocate_tensors()
    for number, x in enumerate(frames(FORM)):
        if number == 3:
            backend = backend_of(gpu)
            interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend)))
            assert interpreter.delegated_ops()[0].reason == ""
        close_to(run(interpreter, x), run(cpu, x))


def test_trying_out_ways_to_run_leaves_the_state_alone(context: fb.GlContext) -> None:
    tried: list[Program] = []

    class Recording(Tuner):
        def tune(self, device: Device, base: Program, make: Make) -> Tuning:
            tried.append(base)
            return Tuning()

    speed = fb.InferencePreference.SUSTAINED_SPEED
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(inference_preference=speed))
    delegate.engine.maker.tuner = Recording()
    interpreter = fb.Interpreter(model_content=lstm(FORM), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    cpu = on_cpu(lstm(FORM))
    for x in frames(FORM, 2):
        close_to(run(interpreter, x), run(cpu, x))
    assert tried == []


@on_both
def test_what_is_kept_between_processes(gpu: Device, tmp_path: Path) -> None:
    form = replace(FORM, projection_clip=0.4, cell_clip=0.6)
    for _ in range(2):
        check(gpu, form, serialization_dir=tmp_path, model_token="lstm")


@on_both
def test_litert_s_own_interpreter(gpu: Device) -> None:
    """LiteRT asks no delegate when it shows a tensor: a state that is on the GPU is no number there."""
    backend = backend_of(gpu)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend), model_content=lstm(FORM))
    interpreter = litert.Interpreter(model_content=lstm(FORM), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    cpu = on_cpu(lstm(FORM))
    for number, x in enumerate(frames(FORM)):
        close_to(run(interpreter, x), run(cpu, x))
        assert all(np.isnan(state).all() for state in states(interpreter))
        if number % 2:
            interpreter.reset_all_variables()
            cpu.reset_all_variables()
            np.testing.assert_array_equal(interpreter.get_tensor(CELL), 0)


def test_a_closed_delegate_says_that_the_state_is_gone(context: fb.GlContext) -> None:
    delegate = fb.GpuDelegate()
    interpreter = fb.Interpreter(model_content=lstm(FORM), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    run(interpreter, values(2, 3))
    delegate.close()
    with pytest.raises(fb.DelegateError, match="closed"):
        interpreter.get_tensor(CELL)


def sharing(reader: str) -> bytes:
    """The basic LSTM, whose states are variables, and an operator that reads one of them."""
    tensors = [
        T("x", (2, 3)), T("before", (2, 4), variable=True), T("weights", (16, 7), values(16, 7)),
        T("bias", (16,), values(16)), T("state", (2, 4), variable=True), T("activation", (2, 4)), T("next", (2, 4)),
        T("joined", (2, 7)), T("gates", (2, 16)), T("read", (2, 4)),
    ]  # fmt: skip
    table = options("LSTM", kernelType=1, fusedActivationFunction=4)
    operators = [Op("LSTM", [0, 1, 2, 3, 4], [5, 6, 7, 8], table, version=2)]
    return build(G(tensors, [*operators, Op(reader, [4], [9])] if reader else operators, [0], [5, 6]))


@on_both
@pytest.mark.parametrize("reader", ["", "EXP"])
def test_the_basic_form_reads_variables(gpu: Device, reader: str) -> None:
    """They change where the program sets them: here, to what the frame before gave."""
    interpreter, _ = on_gpu(gpu, sharing(reader))
    cpu = on_cpu(sharing(reader))
    reasons: Sequence[str] = [op.reason for op in interpreter.delegated_ops()]
    assert reasons == ([""] if not reader else ["its state 'state' is used by operator 1 EXP too", reasons[1]])
    for x in frames(Form(2, 3)):
        close_to(run(interpreter, x), run(cpu, x))
        close_to(interpreter.get_tensor(6), cpu.get_tensor(6))
        for each in (interpreter, cpu):
            each.set_tensor(1, each.get_tensor(5))
            each.set_tensor(4, each.get_tensor(6))
