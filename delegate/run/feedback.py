"""Outputs that are inputs of the next run: the states of recurrent networks, each in two buffers that swap."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ...interop.device import Device
from ...interop.errors import BindingError
from ...kernels.ops.pointwise.quantize import stored_view
from ...kernels.tensor import TO_CHANNELS_LAST, TensorInfo, permuted
from ...kernels.views import Dense
from ..plan.binding import Binding
from ..read.model import Model, Subgraph
from .messages import inputs_and_outputs, named_reasons, tensor_label

Feedback = Mapping[str, int | str] | Mapping[int, int | str]
"""The input that each output feeds, by numbers or names."""


class State:
    """A state: the output that a run writes, and the input that the next run reads, in two buffers of zeros."""

    def __init__(self, output: int, input: int) -> None:
        self.output, self.input = output, input
        self.is_written = False
        """A run has written the state since the last swap."""
        self._read: Binding | None = None
        self._write: Binding | None = None

    def binding(self, device: Device, tensor: int, info: TensorInfo, *, is_last: bool) -> Binding:
        """The buffer that the next run reads or writes as ``tensor``. Both are made anew if its shape has changed.

        ``is_last``: channels are last in it, and first in the model's tensor.
        """
        view = stored_view(info) or Dense(permuted(info.bhwc, TO_CHANNELS_LAST) if is_last else info.bhwc)
        if self._read is None or self._write is None or self._read.view != view:
            self.release()
            self._read, self._write = (
                Binding(device.buffer(view.nbytes, f"state {tensor_label(tensor, info)}"), view, channels_last=is_last)
                for _ in range(2)
            )
        return self._read if tensor == self.input else self._write

    def swap(self) -> tuple[Binding, Binding] | None:
        """Let the next run read what the last one wrote. Returns what it reads and what it writes; None if no run has
        written since the last swap.
        """
        if not self.is_written or self._read is None or self._write is None:
            return None
        self.is_written = False
        self._read, self._write = self._write, self._read
        return self._read, self._write

    def reset(self, device: Device) -> Binding | None:
        """Let the next run read zeros. Returns what it reads; None if there is no buffer yet.

        A new buffer has them already, so nothing is copied; and the last result stays readable in the other buffer.
        """
        self.is_written = False
        if self._read is None:
            return None
        before = self._read.resource
        self._read = replace(self._read, resource=device.buffer(before.nbytes, before.label))
        before.release()
        return self._read

    def release(self) -> None:
        """Free the buffers: the state is zeros again."""
        for binding in (self._read, self._write):
            if binding is not None:
                binding.resource.release()
        self._read = self._write = None
        self.is_written = False


def resolved(model: Model, feedback: Feedback) -> tuple[State, ...]:
    """The states of ``feedback``: the input of each output, given by number, by name, or by name in a signature.

    Raises BindingError for what is no output or input of the main subgraph, for an input that two outputs feed, and for
    tensors of different shapes, types or quantizations.
    """
    graph, states = model.subgraphs[0], list[State]()
    for given, taken in feedback.items():
        output = _number(model, given, "output", graph.outputs)
        state = State(output, _number(model, taken, "input", graph.inputs))
        one, other = graph.tensors[state.output], graph.tensors[state.input]
        what = f"feedback {given!r}: {taken!r}"
        if any(known.input == state.input or known.output == state.output for known in states):
            raise BindingError(
                f"{what} names a tensor that another pair has: feed each input from an output of its own"
            )
        if one.dtype != other.dtype or one.quantization != other.quantization:
            kinds = [f"{each.dtype}{f' of {each.quantization}' if each.quantization else ''}" for each in (one, other)]
            raise BindingError(f"{what}: the output is {kinds[0]} and the input {kinds[1]}; both must be of one type")
        if other.variable:
            raise BindingError(f"{what}: the input is a variable, whose value stays on the GPU by itself; leave it out")
        states.append(state)
    return tuple(states)


def _number(model: Model, given: int | str, side: str, ends: Collection[int]) -> int:
    """The number of an output or input. Raises BindingError."""
    graph = model.subgraphs[0]
    named = [i for i in ends if i >= 0 and graph.tensors[i].name == given]
    number = given if isinstance(given, int) else model.signature_names.get((side, given))
    if isinstance(given, str) and number is None and len(named) == 1:
        number = named[0]
    if number is None or number not in ends:
        raise BindingError(f"feedback names the {side} {given!r}, which is none: {inputs_and_outputs(graph)}")
    return number


def check_on_gpu(states: Iterable[State], graph: Subgraph, on_gpu: Collection[int], reasons: Mapping[int, str]) -> None:
    """Refuse a state that the CPU computes or reads: each run would have to copy it. Raises BindingError.

    ``reasons`` are those of operators that stay on the CPU.
    """
    for state in states:
        users = [raw for raw in graph.operators if state.output in raw.outputs or state.input in raw.inputs]
        on_cpu = [raw.index for raw in users if raw.index not in on_gpu]
        label = f"feedback of {tensor_label(state.output, graph.tensors[state.output])}"
        if on_cpu:
            why = named_reasons(graph, {i: reasons.get(i, "it was not selected for the GPU") for i in on_cpu})
            raise BindingError(
                f"{label}: operators on the CPU compute or read the state, so that each run would copy it: {why}. "
                "Leave this pair out, and pass it with get_tensor and set_tensor"
            )
        if not any(state.output in raw.outputs for raw in users):
            raise BindingError(f"{label}: no operator computes it; leave this pair out")


def check_shapes(state: State, output: TensorInfo, shape: tuple[int, ...], given: TensorInfo) -> None:
    """Raise BindingError if the output's shape is not that of the input, which is ``shape`` now."""
    if output.shape != shape:
        raise BindingError(
            f"feedback of {tensor_label(state.output, output)} to tensor {state.input} '{given.name}' of "
            f"{'x'.join(map(str, shape))}: the shapes differ; call resize_tensor_input for the input as well"
        )
