"""One network on whole pictures in the GPU's memory: the networks of tasks that follow nothing."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

import framebind as fb

from ...basic_types import Array
from ...copies import DETECTIONS
from ..calculators.image_to_tensor import STEPS, WHOLE, PixelRegion, region_matrix
from .chain_models import Normalization, sampled_region
from .gpu_picture import GpuPicture

Result = TypeVar("Result")
Process = Callable[[Any, Array, int | None], Result]


class GpuNetwork:
    """A network whose first input is a picture, for pictures of one API. ``further`` has buffers of its other inputs.

    ``submit`` waits for nothing; then ``buffers`` has the outputs, None for one that the CPU computes, and ``read``
    copies them.
    """

    def __init__(self, content: bytes, api: fb.Backend) -> None:
        self.api = api
        self._delegate = fb.GpuDelegate(fb.GpuDelegateOptions(api.name))
        self._interpreter = fb.Interpreter(model_content=content)
        self._interpreter.modify_graph_with_delegate(self._delegate)
        self._interpreter.set_allow_buffer_handle_output(True)
        self._interpreter.allocate_tensors()
        given = self._interpreter.get_input_details()
        made = self._interpreter.get_output_details()
        first = given[0]
        self._input, self._side = int(first["index"]), (int(first["shape"][2]), int(first["shape"][1]))
        operators = [each for each in self._interpreter.delegated_ops() if each.runs_on == "cpu" and not each.subgraph]
        on_cpu = {tensor for each in operators for tensor in each.outputs}
        self._has_cpu = bool(operators)
        self.further = [self._bound(detail) for detail in given[1:]]
        self.buffers = [None if int(detail["index"]) in on_cpu else self._bound(detail) for detail in made]
        self._made = [(int(detail["index"]), tuple(map(int, detail["shape"]))) for detail in made]
        self._rings = list[Any]()
        self._place = api.new_buffer(np.zeros(8, np.float32))
        self._region: tuple[PixelRegion, tuple[int, int]] | None = None

    def submit(self, picture: GpuPicture, region: PixelRegion, values: Normalization, *, replicate: bool) -> None:
        """Run on a region of a picture. A first picture, and one of another size, uploads constants."""
        is_new = self._is_new(picture, region)
        with fb.transfer_guard("allow") if is_new or self._has_cpu else contextlib.nullcontext():
            self._delegate.bind_buffer_to_tensor(
                picture.obj, self._input, crop=fb.Region(self._place, steps=STEPS), mean=values.mean, std=values.std,
                pad=None if replicate else 0.0,
            )  # fmt: skip
            self._interpreter.invoke()

    def read(self) -> list[Array]:
        """The outputs of the last picture."""
        buffers = [each for each in self.buffers if each is not None]
        self._rings = self._rings or [each.read_ring(1, reason=DETECTIONS) for each in buffers]
        for ring in self._rings:
            ring.push()
        rings, outputs = iter(self._rings), list[Array]()
        for (tensor, shape), buffer in zip(self._made, self.buffers, strict=True):
            if buffer is None:
                outputs.append(np.asarray(self._interpreter.get_tensor(tensor), np.float32))
            else:
                outputs.append(np.empty(shape, np.float32))
                next(rings).take(outputs[-1])
        return outputs

    def _bound(self, detail: dict[str, Any]) -> Any:
        """A new buffer of float32 that is a tensor."""
        buffer = self.api.new_buffer(np.zeros(math.prod(map(int, detail["shape"])), np.float32))
        self._delegate.bind_buffer_to_tensor(buffer, int(detail["index"]))
        return buffer

    def _is_new(self, picture: GpuPicture, region: PixelRegion) -> bool:
        """Place another region of a picture. Returns False for that of the picture before."""
        if self._region == (region, picture.size):
            return False
        self._region = region, picture.size
        matrix = region_matrix(region, picture.size) * np.array(picture.size, np.float32)[:, None]
        with fb.transfer_guard("allow"):
            self._place.write(sampled_region(matrix, self._side))
        return True

    def close(self) -> None:
        """Free all memory on the GPU."""
        for ring in self._rings:
            ring.release()
        self._delegate.close()
        for buffer in (*self.buffers, *self.further, self._place):
            if buffer is not None:
                buffer.release()


class WholePictures(Generic[Result]):
    """A task of one network on pictures in the GPU's memory: ``process`` is that of its pipeline, which takes them too;
    ``close`` frees what its network has there.
    """

    def __init__(self, process: Process[Result], close: Callable[[], None]) -> None:
        self._process, self.close = process, close

    def begin(self, picture: GpuPicture, milliseconds: float) -> Callable[[], Result]:
        """Find things in a picture, and return a function that gives the result."""
        result = self._process(picture, WHOLE, int(milliseconds))
        return lambda: result

    def forget(self) -> None:
        """Do nothing: no picture depends on the one before."""
