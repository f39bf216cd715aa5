"""A model whose inputs and outputs are bound to pictures and buffers; for comparison copied, on the GPU or the CPU."""

from __future__ import annotations

import functools
import math
import os
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, overload

import numpy as np
import numpy.typing as npt

import framebind as fb

from .answers.candidates import Selector, candidate_graph
from .answers.postprocess import Postprocess
from .answers.selection import Candidates, Selection, select
from .apis import GL
from .bundles import content_of, interpreter_arguments, models_of
from .copies import DETECTIONS, FROM_ARRAY
from .feedback import feedback_of
from .further_inputs import NO_OPTIONS, FurtherInputs, check_set, filled, values_of
from .layouts import Layout, PictureShape, picture_shape
from .model_metadata import ModelMetadata, read_metadata

COPYING = "copying mode"
"""The reason in ``fb.transfers`` for the copying mode's copies from and to GL objects."""

Mode = Literal["gpu", "copying", "cpu"]
MODES: dict[Mode, str] = {"gpu": "without copies", "copying": "copying mode", "cpu": "on the CPU"}
"""Modes of a network and their names."""
THREADS = os.cpu_count() or 1
"""Threads of LiteRT's CPU interpreter."""
_TITLES = {name: title for backend in fb.list_backends() for name, title in backend.titles.items()}
"""Titles of the APIs of ``fb.Statistics.api``."""

SMALL = 1 << 16
"""Bytes of outputs up to which it costs less to read them than to select from them on the GPU. Not measured."""

Values = float | tuple[float, ...]
Crop = tuple[float, float, float, float]
Array = npt.NDArray[Any]


class Sampling(NamedTuple):
    """The arguments of ``fb.GpuDelegate.bind_buffer_to_tensor`` that turn a picture into a tensor."""

    mean: Values
    std: Values
    crop: Crop | None
    rotation: float
    pad: float | None = None
    """The texel beyond the picture, from 0 to 1; None continues its edge."""


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
        details: list[dict[str, Any]] = self._interpreter.get_input_details()
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
        details: list[dict[str, Any]] = interpreter.get_input_details()
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
            interpreter.set_tensor(tensor, _read(*self._bound[tensor], shape, layouts[tensor]))
        self.mark("inference")
        interpreter.invoke()
        if self.mode == "cpu":
            for output, tensor in self.feedback.items():
                interpreter.set_tensor(tensor, interpreter.get_tensor(output))
        self.mark("copy")
        for tensor, shape in self.outputs.items():
            if tensor not in self._on_cpu:
                _write(*self._bound[tensor], picture_shape(shape, layouts[tensor]), interpreter.get_tensor(tensor))

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


class Outputs(Sequence[Array]):
    """The outputs of a network's last run, by number: float32 arrays, each of which is read when it is asked for.

    An array is made once, and is valid until the next run. What comes from buffers is counted as DETECTIONS.
    ``candidates`` reads of a detector's outputs only the best rows.
    """

    def __init__(
        self,
        shapes: dict[int, tuple[int, ...]],
        buffers: dict[int, Any],
        on_cpu: Callable[[int], Array],
        postprocess: Callable[..., Postprocess],
    ) -> None:
        """``buffers`` are by tensor; ``on_cpu`` gives the values of the others. ``postprocess`` is the network's."""
        self.buffers, self._tensors, self._on_cpu, self._postprocess = buffers, list(shapes), on_cpu, postprocess
        self._shapes, self._arrays = shapes, dict[int, Array]()
        self._selectors = dict[Selection, Selector | None]()
        """Models that select on the GPU; None for outputs from which the CPU selects."""

    def __len__(self) -> int:
        return len(self._tensors)

    @overload
    def __getitem__(self, number: int) -> Array: ...
    @overload
    def __getitem__(self, number: slice) -> list[Array]: ...
    def __getitem__(self, number: int | slice) -> Array | list[Array]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        tensor = self._tensors[number]
        if tensor not in self.buffers:
            return self._on_cpu(tensor)
        if tensor not in self._arrays:
            self._arrays[tensor] = np.empty(self._shapes[tensor], np.float32)
        return self.buffers[tensor].read(self._arrays[tensor], reason=DETECTIONS)

    def candidates(self, selection: Selection, least: float) -> Candidates:
        """The best candidates in a detector's outputs, with the score ``least`` or more.

        The GPU selects them, unless outputs are small, or computed on the CPU.
        """
        try:
            selector = self._selectors[selection]
        except KeyError:
            selector = self._selector(selection) if self.are_on_gpu(*selection.outputs) else None
            self._selectors[selection] = selector
        return select(selection, self, least) if selector is None else selector.select(least)

    def _selector(self, selection: Selection) -> Selector:
        """A small model behind the outputs that selects on the GPU."""
        shapes = {number: self._shapes[self._tensors[number]] for number in selection.outputs}
        return Selector(selection, self.postprocess(self, candidate_graph(selection, shapes), selection.outputs))

    def are_on_gpu(self, *numbers: int) -> bool:
        """Whether outputs are worth a model behind them: they are in buffers, and not small."""
        tensors = [self._tensors[number] for number in numbers]
        nbytes = sum(4 * math.prod(self._shapes[tensor]) for tensor in tensors)
        return nbytes > SMALL and all(tensor in self.buffers for tensor in tensors)

    def postprocess(
        self,
        owner: object,
        content: bytes,
        numbers: Sequence[int],
        feedback: Mapping[str, str] | None = None,
        further: int = 0,
    ) -> Postprocess:
        """A small model behind these outputs: see ``Network.postprocess``."""
        buffers = [self.buffers[self._tensors[number]] for number in numbers]
        return self._postprocess(owner, content, buffers, feedback, further)


def candidates_of(outputs: Sequence[Array], selection: Selection, least: float) -> Candidates:
    """The best candidates in a detector's outputs, with the score ``least`` or more: those of a run, or arrays."""
    if isinstance(outputs, Outputs):
        return outputs.candidates(selection, least)
    return select(selection, outputs, least)


def shapes(details: list[dict[str, Any]]) -> dict[int, tuple[int, ...]]:
    """Tensor indices and shapes in LiteRT's tensor details."""
    return {int(tensor["index"]): tuple(int(n) for n in tensor["shape"]) for tensor in details}


# The copying mode -----------------------------------------------------------------------------------------------------


def _read(obj: fb.GlTexture | fb.GlBuffer, sampling: Sampling, shape: tuple[int, ...], layout: Layout) -> Array:
    if isinstance(obj, fb.GlBuffer):
        return obj.read(reason=COPYING)[: math.prod(shape)].reshape(shape)
    sizes, texels = picture_shape(shape, layout), obj.read(reason=COPYING)
    assert sizes is not None, "a texture was bound"
    picture = sampled(texels, (sizes.height, sizes.width), sampling)[..., : sizes.channels]
    return sizes.to_tensor((picture - np.asarray(sampling.mean, np.float32)) / np.asarray(sampling.std, np.float32))


def _write(obj: fb.GlTexture | fb.GlBuffer, sampling: Sampling, sizes: PictureShape | None, values: Array) -> None:
    if isinstance(obj, fb.GlBuffer):
        obj.write(values, reason=COPYING)
        return
    assert sizes is not None, "a texture was bound"
    picture = sizes.from_tensor(values) * np.asarray(sampling.std, np.float32) + np.asarray(sampling.mean, np.float32)
    if obj.format in ("rgba8", "r8"):
        picture = np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)
    obj.write(np.ascontiguousarray(picture), reason=COPYING)


def sampled(texels: Array, size: tuple[int, int], sampling: Sampling) -> Array:
    """The texels (from 0 to 1) of a bound picture (height, width, channels) at ``size`` (height, width), before mean
    and std.
    """
    picture = resample(texels, size, sampling.crop, sampling.rotation)
    if texels.dtype == np.uint8:
        picture /= np.float32(255)
    if sampling.pad is not None:
        x, y = _positions(texels.shape[:2], size, sampling.crop, sampling.rotation)
        picture[(x < 0) | (x >= texels.shape[1]) | (y < 0) | (y >= texels.shape[0])] = sampling.pad
    return picture


def resample(texels: Array, size: tuple[int, ...], crop: Crop | None = None, rotation: float = 0.0) -> Array:
    """Resample a picture (height, width, channels) to ``size`` (height, width), bilinearly, as float32.

    The result equals the GPU's reading of a bound texture: values are at the centres of pixels, and the edge continues
    beyond the picture. ``crop`` (x, y, width, height in texels) is turned by ``rotation`` degrees clockwise around its
    centre.
    """
    corners, weights = _bilinear(texels.shape[:2], tuple(size), crop, rotation)
    flat = texels.reshape(-1, texels.shape[2])
    result = flat[corners[0]] * weights[0]
    for corner, weight in zip(corners[1:], weights[1:], strict=True):
        result += flat[corner] * weight
    return result.reshape(*size, texels.shape[2])


@functools.lru_cache(maxsize=4)
def _bilinear(
    texture: tuple[int, int], size: tuple[int, int], crop: Crop | None, rotation: float
) -> tuple[list[Array], list[Array]]:
    """The numbers of the four texels around each pixel of the result, and their weights."""
    x, y = _positions(texture, size, crop, rotation)
    x, y = np.clip(x - 0.5, 0, texture[1] - 1).ravel(), np.clip(y - 0.5, 0, texture[0] - 1).ravel()
    left, top = x.astype(np.int64), y.astype(np.int64)
    right, bottom = np.minimum(left + 1, texture[1] - 1), np.minimum(top + 1, texture[0] - 1)
    across, down = x - left, y - top
    corners = [row * texture[1] + column for row in (top, bottom) for column in (left, right)]
    weights = [v * h for v in (1 - down, down) for h in (1 - across, across)]
    return corners, [weight.astype(np.float32)[:, None] for weight in weights]


def _positions(
    texture: tuple[int, ...], size: tuple[int, ...], crop: Crop | None, rotation: float
) -> tuple[Array, Array]:
    """The place (x, y) of each pixel's centre in the texture, in texels."""
    if crop is None:
        width, height = texture if rotation % 180 == 90 else texture[::-1]
        crop = ((texture[1] - width) / 2, (texture[0] - height) / 2, width, height)
    y, x = np.mgrid[0 : size[0], 0 : size[1]]
    x, y = ((x + 0.5) / size[1] - 0.5) * crop[2], ((y + 0.5) / size[0] - 0.5) * crop[3]
    cosine, sine = math.cos(math.radians(rotation)), math.sin(math.radians(rotation))
    return crop[0] + crop[2] / 2 + cosine * x - sine * y, crop[1] + crop[3] / 2 + sine * x + cosine * y
