"""Outputs of a network that are in buffers of a device, without a network."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy.typing as npt

import framebind as fb
from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice
from framebind.video.answers.postprocess import Postprocess
from framebind.video.apis import GL, api_of
from framebind.video.network_outputs import Outputs


@contextlib.contextmanager
def outputs_on(device: Device, arrays: Sequence[npt.NDArray[Any]]) -> Iterator[Outputs]:
    """Outputs in buffers of the device that hold arrays, as after a run."""
    is_null, made = isinstance(device, NullDevice), list[Postprocess]()
    api = GL if is_null else api_of("auto")
    options = fb.GpuDelegateOptions(backend="null" if is_null else api.name)

    def postprocess(
        _: object, content: bytes, inputs: Sequence[Any], feedback: dict[str, str] | None, further: int
    ) -> Postprocess:
        made.append(Postprocess(content, options, api, feedback, further))
        made[-1].begin(inputs)
        return made[-1]

    buffers = {number: api.new_buffer(values) for number, values in enumerate(arrays)}
    yield Outputs(dict(enumerate(values.shape for values in arrays)), buffers, arrays.__getitem__, postprocess)
    for each in made:
        each.close()
    for buffer in buffers.values():
        buffer.release()
