"""One network on whole pictures in the GPU's memory: the networks of tasks that follow nothing."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

import framebind as fb

from ...copies import DETECTIONS
from ..calculators.regions import STEPS, WHOLE, Region, region_matrix
from .chain import Normalization, sampled_region
from .gpu_picture import GpuPicture

Array = npt.NDArray[Any]
Result = TypeVar("Result")
Process = Callable[[Any, Array, int | None], Result]


class GpuNetwork:
    """A network whose first input is a picture, for pictures of one API. Only its outputs are read."""

    def __init__(self, content: bytes, api: fb.Backend) -> None:
        self.api = api
        self._delegate = fb.GpuDelegate(fb.GpuDelegateOptions(api.name))
        self._interpreter = fb.Interpreter(model_content=content)
        self._interpreter.modify_graph_with_delegate(self._delegate)
        self._interpreter.set_allow_buffer_handle_output(True)
        self._interpreter.allocate_tensors()
        given: dict[str, Any] = self._interpreter.get_input_details()[0]
        made: list[dict[str, Any]] = self._interpreter.get_output_details()
        self._input, self._side = int(given["index"]), (int(given["shape"][2]), int(given["shape"][1]))
        operators = [each for each in self._interpreter.delegated_ops() if each.runs_on == "cpu" and not each.subgraph]
        on_cpu = {tensor for each in operators for tensor in each.outputs}
        self._has_cpu = bool(operators)
        self._outputs: dict[int, tuple[tuple[int, ...], Any, Any]] = {}
        """Its outputs by tensor: shape, buffer and the ring that reads it; no buffer if the CPU computes it."""
        for detail in made:
            tensor, shape = int(detail["index"]), tuple(map(int, detail["shape"]))
            self._outputs[tensor] = shape, None, None
            if tensor not in on_cpu:
                buffer = api.new_buffer(np.zeros(math.prod(shape), np.float32))
                self._delegate.bind_buffer_to_tensor(buffer, tensor)
                self._outputs[tensor] = shape, buffer, buffer.read_ring(1, reason=DETECTIONS)
        self._place = api.new_buffer(np.zeros(8, np.float32))
        self._region: tuple[Region, tuple[int, int]] | None = None

    def run_on(self, picture: GpuPicture, region: Region, values: Normalization, *, replicate: bool) -> list[Array]:
        """The outputs for a region of a picture. A first picture, and one of another size, uploads constants."""
        is_new = self._is_new(picture, region)
        with fb.transfer_guard("allow") if is_new or self._has_cpu else contextlib.nullcontext():
            self._delegate.bind_buffer_to_tensor(
                picture.obj, self._input, crop=fb.Region(self._place, steps=STEPS), mean=values.mean, std=values.std,
                pad=None if replicate else 0.0,
            )  # fmt: skip
            self._interpreter.invoke()
        rings = [ring for _, _, ring in self._outputs.values() if ring is not None]
        for ring in rings:
            ring.push()
        return [self._read(tensor) for tensor in self._outputs]

    def _is_new(self, picture: GpuPicture, region: Region) -> bool:
        """Place another region of a picture. Returns False for that of the picture before."""
        if self._region == (region, picture.size):
            return False
        self._region = region, picture.size
        matrix = region_matrix(region, picture.size) * np.array(picture.size, np.float32)[:, None]
        with fb.transfer_guard("allow"):
            self._place.write(sampled_region(matrix, self._side))
        return True

    def _read(self, tensor: int) -> Array:
        shape, _, ring = self._outputs[tensor]
        if ring is None:
            return np.asarray(self._interpreter.get_tensor(tensor), np.float32)
        values = np.empty(shape, np.float32)
        ring.take(values)
        return values

    def close(self) -> None:
        """Free all memory on the GPU."""
        for _, buffer, ring in self._outputs.values():
            if ring is not None:
                ring.release()
                buffer.release()
        self._delegate.close()
        self._place.release()


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
