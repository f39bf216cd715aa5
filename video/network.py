"""A model whose inputs and outputs are bound to pictures and buffers; for comparison copied, on the GPU or the CPU."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

import framebind as fb

from .answers.postprocess import Postprocess
from .apis import GL
from .basic_types import Array
from .bundles import content_of, interpreter_arguments, models_of
from .copies import FROM_ARRAY
from .copying_mode import read_input, write_output
from .feedback import feedback_of
from .further_inputs import NO_OPTIONS, FurtherInputs, check_set, filled, values_of
from .layouts import Layout, picture_shape
from .model_metadata import ModelMetadata, read_metadata
from .network_outputs import Outputs
from .sampling import Crop, Sampling, Values

Mode = Literal["gpu", "copying", "cpu"]
MODES: dict[Mode, str] = {"gpu": "without copies", "copying": "copying mode", "cpu": "on the CPU"}
"""Modes of a network and their names."""
THREADS = os.cpu_count() or 1
"""Threads of LiteRT's CPU interpreter."""
_TITLES = {name: title for backend in fb.list_backends() for name, title in backend.titles.items()}
"""Titles of the APIs of ``fb.Statistics.api``."""

_KEEP_NUMBERS = frozenset({"CAST", "EXPAND_DIMS", "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "SQUEEZE", "TRANSPOSE"})
"""Operators behind ARG_MAX that leave its numbers as they are."""


class Closing(Protocol):
    """A thing that frees its memory on the GPU at its end."""

    def close(self) -> None: ...


Kept = TypeVar("Kept", bound=Closing)


class Network:
    """A model whose inputs and outputs are objects of the context that is current at its construction.

    ``bind`` an object to each input and output, then ``run``. In the mode "gpu" nothing is copied. In "copying",
    ``run`` works like a program without bindings: it reads the inputs' objects back, resamples and normalizes pictures
    with NumPy, sets the tensors, invokes a separate interpreter without bindings, and uploads its outputs to the same
    objects. "cpu" is the same with LiteRT's CPU interpreter. ``inputs`` and ``outputs`` map tensor indices to shapes.

    States are no inputs and outputs here: they stay on the GPU. Inputs of one value are set once. ``further`` has the
    user's options for both.

    ``path`` may be a ``.task`` bundle, or a model in one (``bundles.py``). A bundle's own network is its first one.

    ``timer`` gets the stages of each run. ``api`` is that of the objects: only OpenGL's have the modes with copies.
    """

    def __init__(
        self,
        path: Path,
        options: fb.GpuDelegateOptions,
        timer: fb.GlTimer | None = None,
        *,
        api: fb.Backend = GL,
        further: FurtherInputs = NO_OPTIONS,
    ) -> None:
        self.path, self.api = path, api
        self.mode: Mode = "gpu"
        self._options, self._timer = options, timer
        self._model = interpreter_arguments(path)
        self._interpreter = fb.Interpreter(**self._model)
        self.feedback: dict[int, int] = {}
        """The input that each output feeds."""
        self._further = further
        self._values: dict[int, float | None] = {}
        """The values of further inputs."""
        if further != NO_OPTIONS or len(self._interpreter.get_input_details()) > 1:  # else there are none
            self.feedback = feedback_of(self._interpreter, further.feedback)
            self._values = values_of(self._interpreter, further.values, self.feedback.values())
            check_set(path.name, self._values, self.names)
        self._delegate = self._delegated(self._interpreter)
        self._interpreter.set_allow_buffer_handle_output(True)
        self._unbound: dict[Mode, fb.Interpreter] = {}
        self._bound: dict[int, tuple[Any, Sampling]] = {}
        self._inputs: dict[int, tuple[int, ...]] | None = None
        """A cache: each frame asks for the inputs, and ``resize`` changes them."""
        self._outputs: Outputs | None = None
        self._kept = dict[Hashable, list[tuple[weakref.ref[object], Closing]]]()
        """Things of ``keep`` and their owners, by their keys."""
        self._metadata: ModelMetadata | None = None
        self._are_set = False
        self._on_cpu = frozenset[int]()
        """Outputs that ``bind_outputs`` left, because operators behind the GPU's compute them on the CPU."""

    @property
    def runs_on(self) -> str:
        """The device that runs the model in the current mode, in words; after the first run."""
        cpu = f"on the CPU (LiteRT, {THREADS} {'thread' if THREADS == 1 else 'threads'})"
        if self.mode == "cpu" or all(operator.runs_on == "cpu" for operator in self._interpreter.delegated_ops()):
            return cpu
        figures = self._delegate.statistics()
        api = _TITLES.get(figures.api, figures.api)
        where = f"by {api} on the CPU" if figures.software else f"on the GPU ({api})"
        return f"{where} with copies" if self.mode == "copying" else where

    @property
    def options(self) -> fb.GpuDelegateOptions:
        """The delegate's options."""
        return self._options

    @property
    def inputs(self) -> dict[int, tuple[int, ...]]:
        if self._inputs is None:
            found = shapes(self._interpreter.get_input_details())
            others = {*self.feedback.values(), *self._values}
            self._inputs = {tensor: shape for tensor, shape in found.items() if tensor not in others}
        return self._inputs

    @property
    def outputs(self) -> dict[int, tuple[int, ...]]:
        found = shapes(self._interpreter.get_output_details())
        return {tensor: shape for tensor, shape in found.items() if tensor not in self.feedback}

    @property
    def names(self) -> dict[int, str]:
        """The names of inputs and outputs."""
        details: list[dict[str, Any]] = [
            *self._interpreter.get_input_details(), *self._interpreter.get_output_details(),
        ]  # fmt: skip
        return {int(detail["index"]): str(detail["name"]) for detail in details}

    @property
    def layouts(self) -> dict[int, Layout]:
        """The layouts of inputs and outputs, if they are pictures."""
        return {tensor: self._delegate.layout_of(tensor) for tensor in (*self.inputs, *self.outputs)}

    @property
    def choices(self) -> dict[int, int]:
        """The outputs that have the number of a class, and the numbers of classes."""
        return choices_of(self._interpreter)

    @property
    def takes_bytes(self) -> bool:
        """Whether an input is a picture's bytes."""
        return takes_bytes(self._interpreter.get_input_details())

    @property
    def metadata(self) -> ModelMetadata:
        """The statements of the model's file about itself."""
        if self._metadata is None:
            self._metadata = read_metadata(content_of(self.path) or self.path)
        return self._metadata

    @property
    def bundle(self) -> Mapping[str, bytes]:
        """The files of the model's bundle by name; none for a model of its own."""
        return models_of(self.path)

    def takes_any_size(self, tensor: int) -> bool:
        """True if ``resize`` may change an input: sides in its signature are unknown."""
        details = self._interpreter.get_input_details()
        return any(-1 in detail["shape_signature"] for detail in details if detail["index"] == tensor)

    def resize(self, tensor: int, shape: tuple[int, ...]) -> None:
        """Give an input another shape; before anything is bound."""
        self._interpreter.resize_tensor_input(tensor, list(shape))
        self._interpreter.allocate_tensors()
        self._inputs, self._outputs, self._are_set = None, None, False
        self._values = values_of(self._interpreter, self._further.values, self.feedback.values())

    @property
    def uploads(self) -> tuple[str, ...]:
        """The reasons under which ``fb.transfers`` counts planes that come to the inputs from the CPU."""
        return tuple(f"input tensor {tensor} '{self.names[tensor]}'{FROM_ARRAY}" for tensor in self.inputs)

    def bind(
        self,
        tensor: int,
        obj: Any,
        *,
        mean: Values = 0.0,
        std: Values = 1.0,
        crop: Crop | None = None,
        rotation: float = 0.0,
        pad: float | None = None,
    ) -> None:
        """Bind a picture or buffer to an input or output, from the next ``run`` on.

        ``mean`` to ``pad`` are for pictures, as in ``fb.GpuDelegate.bind_buffer_to_tensor``.
        """
        self.bind_sampled(tensor, obj, Sampling(mean, std, crop, rotation, pad))

    def bind_sampled(self, tensor: int, obj: Any, sampling: Sampling) -> None:
        """Bind as ``bind``, with the arguments in one value."""
        self._bound[tensor] = obj, sampling
        mean, std, crop, rotation, pad = sampling
        self._delegate.bind_buffer_to_tensor(obj, tensor, mean=mean, std=std, crop=crop, rotation=rotation, pad=pad)

    def bind_outputs(self) -> Outputs:
        """Bind a buffer, made once, to each output; the result reads them after each ``run``.

        Outputs that operators behind the GPU's compute on the CPU stay unbound: each run copies, counted, what these
        operators read.
        """
        if self._outputs is None:
            self._on_cpu, buffers = self.computed_on_cpu(), dict[int, Any]()
            for tensor, shape in self.outputs.items():
                if tensor not in self._on_cpu:
                    with fb.transfer_guard("allow"):  # a stream that comes back makes its buffers between two frames
                        buffers[tensor] = self.api.new_buffer(np.zeros(max(math.prod(shape), 1), np.float32))
            self._outputs = Outputs(self.outputs, buffers, self.output, self.postprocess)
        for tensor, buffer in self._outputs.buffers.items():
            self.bind(tensor, buffer)
        return self._outputs

    def rebind(self, other: Network) -> None:
        """Bind all that is bound to another network of the same model."""
        self._on_cpu = other._on_cpu
        for tensor, (obj, sampling) in other._bound.items():
            self.bind_sampled(tensor, obj, sampling)

    def computed_on_cpu(self) -> frozenset[int]:
        """The outputs that operators behind the GPU's compute on the CPU."""
        operators = [each for each in self._interpreter.delegated_ops() if each.runs_on == "cpu" and not each.subgraph]
        return frozenset(tensor for each in operators for tensor in each.outputs if tensor in self.outputs)

    def output(self, tensor: int) -> Array:
        """The values of an output of the last ``run`` that is not bound."""
        interpreter = self._interpreter if self.mode == "gpu" else self._without_bindings()
        return interpreter.get_tensor(tensor)

    def run_on(self, frame: Any, sampling: Sampling, previous: Any = None) -> Outputs:
        """Run the model on a picture, which is bound to its last input. Returns the outputs of ``bind_outputs``.

        A model of two pictures gets ``previous`` in the first input, or, if it is None, the same picture in both.
        """
        outputs = self._outputs or self.bind_outputs()
        *first, last = self.inputs
        self.bind_sampled(last, frame, sampling)
        for tensor in first:
            self.bind_sampled(tensor, frame if previous is None else previous, sampling)
        self.run()
        return outputs

    def run(self) -> None:
        """Compute the outputs from the inputs."""
        if self.mode == "gpu":
            self.mark("inference")
            if self._on_cpu or self._set_values():
                with fb.transfer_guard("allow"):
                    self._interpreter.invoke()
            else:
                self._interpreter.invoke()
        else:
            with fb.transfer_guard("allow"):
                self._copy()
        self.mark("draw")

    def _set_values(self) -> bool:
        """Set the further inputs before the first run, which copies them. Returns whether there are any to copy."""
        if self._are_set or not self._values:
            return False
        self._are_set = True
        self._fill(self._interpreter)
        return True

    def _fill(self, interpreter: fb.Interpreter) -> None:
        """Set the further inputs of an interpreter."""
        interpreter.allocate_tensors()
        details = interpreter.get_input_details()
        for detail in details:
            value = self._values.get(int(detail["index"]))
            if value is not None:
                interpreter.set_tensor(detail["index"], filled(detail, value))

    def reset_feedback(self) -> None:
        """Begin a clip: the model's states are zeros. Does nothing for a model without states."""
        if self.feedback:
            self._delegate.reset_feedback()
            self._unbound.clear()

    def close(self) -> None:
        """Free the model's memory on the GPU, and the buffers of ``bind_outputs``."""
        self._delegate.close()
        for _, made in (each for kept in self._kept.values() for each in kept):
            made.close()
        for buffer in self._outputs.buffers.values() if self._outputs is not None else ():
            buffer.release()

    def postprocess(
        self,
        owner: object,
        content: bytes,
        inputs: Sequence[Any],
        feedback: Mapping[str, str] | None = None,
        further: int = 0,
    ) -> Postprocess:
        """A small model behind buffers of this one's outputs, at its begin. Arguments as for Postprocess."""
        with fb.transfer_guard("allow"):  # a video begins: nothing is in a hurry
            found = self.keep(owner, content, lambda: Postprocess(content, self._options, self.api, feedback, further))
            found.begin(inputs)
        return found

    def keep(self, owner: object, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """A thing with memory on the GPU that belongs to its owner: streams share a network, but no states.

        One of the same ``key`` whose owner is gone is used again, else one is made. It is closed with the network.
        """
        kept = self._kept.setdefault(key, [])
        found: Any = next((made for of, made in kept if of() is None), None) or make()
        kept[:] = [(weakref.ref(owner), found), *(each for each in kept if each[1] is not found)]
        return found

    def mark(self, stage: str) -> None:
        """Begin a stage of the timer."""
        if self._timer is not None:
            self._timer.mark(stage)

    def _copy(self) -> None:
        interpreter, layouts = self._without_bindings(), self.layouts
        self.mark("copy")
        for tensor, shape in self.inputs.items():
            interpreter.set_tensor(tensor, read_input(*self._bound[tensor], shape, layouts[tensor]))
        self.mark("inference")
        interpreter.invoke()
        if self.mode == "cpu":
            for output, tensor in self.feedback.items():
                interpreter.set_tensor(tensor, interpreter.get_tensor(output))
        self.mark("copy")
        for tensor, shape in self.outputs.items():
            if tensor not in self._on_cpu:
                write_output(
                    *self._bound[tensor], picture_shape(shape, layouts[tensor]), interpreter.get_tensor(tensor)
                )

    def _without_bindings(self) -> fb.Interpreter:
        """The interpreter of the mode, made when it is first used."""
        if self.mode not in self._unbound:
            interpreter = (
                fb.Interpreter(**self._model, num_threads=THREADS, delegate="cpu")
                if self.mode == "cpu"
                else fb.Interpreter(**self._model)
            )
            if self.mode == "copying":
                self._delegated(interpreter)
            for tensor, shape in self.inputs.items():
                interpreter.resize_tensor_input(tensor, list(shape))
            interpreter.allocate_tensors()
            self._fill(interpreter)
            if self.mode == "cpu":
                for tensor in self.feedback.values():
                    interpreter.set_tensor(tensor, np.zeros_like(interpreter.get_tensor(tensor)))
            self._unbound[self.mode] = interpreter
        return self._unbound[self.mode]

    def _delegated(self, interpreter: fb.Interpreter) -> fb.GpuDelegate:
        """The delegate that runs an interpreter on the GPU."""
        delegate = fb.GpuDelegate(self._options, feedback=self.feedback)
        interpreter.modify_graph_with_delegate(delegate)
        return delegate


def choices_of(interpreter: fb.Interpreter) -> dict[int, int]:
    """The outputs that have the number of a class, by tensor, and from how many classes ARG_MAX chose it."""
    writers = {
        tensor: operator
        for operator in interpreter.delegated_ops()
        if operator.subgraph == 0
        for tensor in operator.outputs
    }
    sizes = {int(each["index"]): math.prod(map(int, each["shape"])) for each in interpreter.get_tensor_details()}
    found = dict[int, int]()
    for output in interpreter.outputs():
        left = dict(writers)  # each operator is passed once: the file may be damaged, and its operators a circle
        operator = left.pop(output, None)
        while operator is not None and operator.name in _KEEP_NUMBERS and operator.inputs:
            operator = left.pop(operator.inputs[0], None)
        if operator is not None and operator.name == "ARG_MAX" and operator.inputs:
            scores, numbers = sizes.get(operator.inputs[0], 0), sizes.get(operator.outputs[0], 0)
            found[output] = scores // max(numbers, 1)
    return found


def takes_bytes(inputs: list[dict[str, Any]]) -> bool:
    """Whether an input, of LiteRT's tensor details, is of uint8 without a scale."""
    return any(each["dtype"] == np.uint8 and each["quantization"][0] == 0 for each in inputs)


def shapes(details: list[dict[str, Any]]) -> dict[int, tuple[int, ...]]:
    """Tensor indices and shapes in LiteRT's tensor details."""
    return {int(tensor["index"]): tuple(int(n) for n in tensor["shape"]) for tensor in details}
