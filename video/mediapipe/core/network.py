"""One network of a task: arrays in, arrays out, on LiteRT's CPU kernels or on the GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import framebind as fb

from ...basic_types import Array
from ...model_metadata import ModelMetadata, read_metadata
from ..calculators.image_to_tensor import PixelRegion, crop_region
from .chain_models import Normalization, named_normalization
from .gpu_network import GpuNetwork
from .gpu_picture import GpuPicture
from .options import BaseOptions

MOST_PIXELS = 1 << 22
"""The most pixels of an input: a damaged file may claim any number, and the networks of tasks have 512x512 at most."""
_DELEGATES = {BaseOptions.Delegate.CPU: "cpu", BaseOptions.Delegate.GPU: "gpu"}


class TaskNetwork:
    """A network and what its file says about itself.

    ``shapes`` has the shape of each input, ``outputs`` that of each output, in the model's order. ``name`` is for
    errors. ``on_gpu`` makes the network that runs on pictures in the GPU's memory, if it is another one.
    """

    def __init__(
        self, content: bytes, name: str, delegate: BaseOptions.Delegate | None,
        on_gpu: Callable[[bytes], bytes] | None = None,
    ) -> None:  # fmt: skip
        choice: Any = "auto" if delegate is None else _DELEGATES.get(delegate, "auto")
        self.name, self._content = name, content
        self._form_on_gpu = on_gpu or bytes
        self._on_gpu: GpuNetwork | None = None
        self.metadata: ModelMetadata = read_metadata(content)
        self._interpreter = fb.Interpreter(model_content=content, delegate=choice)
        self._is_allocated = False
        """A cache: weights are packed at the first run, which never comes if pictures are on the GPU."""
        details = self._interpreter.get_input_details()
        if not details:
            raise fb.ModelError(f"{self.name} has no input")
        self._inputs = [(int(each["index"]), np.dtype(each["dtype"])) for each in details]
        self._input_scale: tuple[float, int] = details[0]["quantization"]
        self.shapes = [tuple(int(side) for side in each["shape"]) for each in details]
        results = self._interpreter.get_output_details()
        self._outputs = [(int(each["index"]), each["quantization"]) for each in results]
        self.outputs = [tuple(int(side) for side in each["shape"]) for each in results]

    def expect(self, input_shape: tuple[int, ...], *outputs: tuple[int, ...]) -> TaskNetwork:
        """The network itself, if its first input and first outputs have these shapes; -1 fits any side."""
        check_shapes(self.name, self.shapes, self.outputs, input_shape, outputs)
        if len(self.shapes[0]) == 4 and self.side[0] * self.side[1] > MOST_PIXELS:
            raise fb.ModelError(f"{self.name} has an input {self.shapes[0]}; tasks take {MOST_PIXELS:,} pixels at most")
        return self

    @property
    def side(self) -> tuple[int, int]:
        """The width and height of the picture that the first input takes. ModelError if it takes none."""
        if len(self.shapes[0]) != 4:
            raise fb.ModelError(f"{self.name} has an input {self.shapes[0]}; a picture is (1, height, width, 3)")
        return self.shapes[0][2], self.shapes[0][1]

    def output_name(self, number: int) -> str | None:
        """The name that the metadata gives an output; None without one."""
        names = self.metadata.outputs
        return (names[number] if number < len(names) else "") or None

    def run(self, *values: Array) -> list[Array]:
        """The outputs for these inputs; quantized ones as float32."""
        if not self._is_allocated:
            self._interpreter.allocate_tensors()
            self._is_allocated = True
        for (tensor, kind), value in zip(self._inputs, values, strict=True):
            try:
                self._interpreter.set_tensor(tensor, np.ascontiguousarray(value, kind))
            except ValueError as error:  # LiteRT's: a network before it gives another shape than its file declares
                raise fb.ModelError(f"{self.name} does not take what it is given: {error}") from error
        self._interpreter.invoke()
        return [_real(self._output(tensor), *scale) for tensor, scale in self._outputs]

    def _output(self, tensor: int) -> Array:
        try:
            return self._interpreter.get_tensor(tensor)
        except ValueError as error:  # LiteRT's: nothing computes the output
            raise fb.ModelError(f"{self.name} has an output {tensor} without values: {error}") from error

    def run_on(self, pixels: Array | GpuPicture, region: PixelRegion, *, replicate: bool = True) -> list[Array]:
        """The outputs for a region of a picture, (height, width, 3), uint8, or in the GPU's memory."""
        if isinstance(pixels, GpuPicture):
            return self.submit_on(pixels, region, replicate=replicate).read()
        return self.run(self.seen(pixels, region, replicate=replicate)[None])

    def seen(self, pixels: Array, region: PixelRegion, *, replicate: bool = True) -> Array:
        """The first input for a region of a picture."""
        return self.normalized(crop_region(pixels, region, self.side, replicate=replicate))

    def submit_on(
        self, picture: GpuPicture, region: PixelRegion, *, replicate: bool = True, further: Sequence[Array] = ()
    ) -> GpuNetwork:
        """Run on a region of a picture in the GPU's memory, and wait for nothing: the network there has the outputs.

        The values of ``further`` inputs are uploaded.
        """
        if self._on_gpu is None or self._on_gpu.api is not picture.api:
            self.close()
            with fb.transfer_guard("allow"):  # constants are uploaded once
                self._on_gpu = GpuNetwork(self._form_on_gpu(self._content), picture.api)
        for buffer, values in zip(self._on_gpu.further, further, strict=True):
            with fb.transfer_guard("allow"):
                buffer.write(np.ascontiguousarray(values, np.float32))
        self._on_gpu.submit(picture, region, self._normalization, replicate=replicate)
        return self._on_gpu

    @functools.cached_property
    def _normalization(self) -> Normalization:
        """The normalization of texels, from 0 to 1, that gives the real values of what ``normalized`` gives."""
        (_, kind), (scale, zero) = self._inputs[0], self._input_scale
        if kind.kind not in "iu":
            return named_normalization(self.metadata)
        offset = zero + (128 if kind == np.int8 else 0)
        return Normalization((offset / 255,), (1 / (255 * (scale or 1.0)),))

    def close(self) -> None:
        """Free the memory that the network has on the GPU for pictures there."""
        if self._on_gpu is not None:
            self._on_gpu.close()
        self._on_gpu = None

    def normalized(self, pixels: Array) -> Array:
        """The pixels in the range that the file's metadata names: from 0 to 1 if it names none.

        A quantized input takes the pixels as they are, or, if it has signs, less 128.
        """
        kind = self._inputs[0][1]
        if kind.kind in "iu":
            return pixels if kind == np.uint8 else pixels.astype(np.int16) - 128
        mean, std = named_normalization(self.metadata)
        scale = np.array([1 / (255 * each) for each in std], np.float32).astype(np.float64)
        offset = np.array([-one / each for one, each in zip(mean, std, strict=True)], np.float32)
        return (pixels * scale + offset).astype(np.float32)  # rounded once, as a fused product is


def check_shapes(
    name: str,
    inputs: list[tuple[int, ...]],
    outputs: list[tuple[int, ...]],
    input_shape: tuple[int, ...],
    output_shapes: tuple[tuple[int, ...], ...],
) -> None:
    """Raise ModelError if the first input and the first outputs of a network have other shapes; -1 fits any side."""
    for what, found, expected in (
        ("input", inputs[:1], (input_shape,)),
        ("outputs", outputs[: len(output_shapes)], output_shapes),
    ):
        if len(found) != len(expected) or not all(map(_fits, found, expected)):
            raise fb.ModelError(f"{name} has the {what} {found}; this task needs {list(expected)}")


def _real(values: Array, scale: float, zero: int) -> Array:
    """The values of a tensor, which are quantized if it has a scale."""
    return (values.astype(np.float32) - zero) * np.float32(scale) if scale else values


def _fits(found: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    return len(found) == len(expected) and all(b in (-1, a) for a, b in zip(found, expected, strict=True))
