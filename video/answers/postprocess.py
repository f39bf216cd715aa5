"""A small model behind a network's: it computes answers from the outputs where they are, and only these are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import framebind as fb


class Postprocess:
    """A model that runs on the GPU with a network's output buffers as its inputs, from ``begin`` on.

    ``outputs`` are its own buffers of float32 outputs, in their order, which hold the results of the last ``run``;
    ``further`` are buffers, to be written, of the inputs behind those that ``begin`` takes.
    """

    def __init__(
        self,
        content: bytes,
        options: fb.GpuDelegateOptions,
        api: fb.Backend,
        feedback: Mapping[str, str] | None = None,
        further: int = 0,
        unbound: int = 0,
    ) -> None:
        """``content`` is a TensorFlow Lite model that runs whole on the GPU.

        ``options`` are those of the network in front of it; values here are always float32, because they may be
        places. ``feedback`` are states by name: an output that the next run reads as an input. So many inputs are
        ``further`` ones. So many outputs, the last ones, are ``unbound``: they have no buffer before ``bind_output``.
        """
        token = None if options.serialization_dir is None else fb.fingerprint(content)
        exact = fb.GpuDelegateOptions(
            options.backend,
            inference_preference=options.inference_preference,
            wait_type=options.wait_type,
            serialization_dir=options.serialization_dir,
            model_token=token,
        )
        fed = dict(feedback or {})
        self._interpreter, self._delegate = fb.Interpreter(model_content=content), fb.GpuDelegate(exact, feedback=fed)
        self._interpreter.modify_graph_with_delegate(self._delegate)
        self._interpreter.set_allow_buffer_handle_output(True)
        self._interpreter.allocate_tensors()
        self._has_states = bool(fed)
        given = self._interpreter.get_input_details()
        made = self._interpreter.get_output_details()
        free = [detail for detail in given if detail["name"] not in fed.values()]
        self._inputs = [int(detail["index"]) for detail in free[: len(free) - further]]
        self.further = [self._bound(detail, api) for detail in free[len(free) - further :]]
        answers = [detail for detail in made if detail["name"] not in fed]
        self._answers = [int(detail["index"]) for detail in answers]
        self.outputs = [self._bound(detail, api) for detail in answers[: len(answers) - unbound]]

    def begin(self, inputs: Sequence[Any]) -> None:
        """Take these buffers as inputs, and zeros as states."""
        for number, buffer in enumerate(inputs):
            self.bind(number, buffer)
        self.forget()

    def bind(self, number: int, obj: Any, **place: Any) -> None:
        """Take an object as an input from now on; ``place`` is that of a picture, as for ``bind_buffer_to_tensor``."""
        self._delegate.bind_buffer_to_tensor(obj, self._inputs[number], **place)

    def bind_output(self, number: int, obj: Any) -> None:
        """Write an output to this object from now on, in place of the one before."""
        self._delegate.bind_buffer_to_tensor(obj, self._answers[number])

    def record(self) -> None:
        """Compile now, and upload the constants: all inputs are bound."""
        self._delegate.record()

    def forget(self) -> None:
        """Take zeros as states."""
        if self._has_states:
            self._delegate.reset_feedback()

    def run(self) -> None:
        """Compute the outputs."""
        self._interpreter.invoke()

    def close(self) -> None:
        """Free the model's memory on the GPU, and its outputs."""
        self._delegate.close()
        for buffer in (*self.outputs, *self.further):
            buffer.release()

    def _bound(self, detail: dict[str, Any], api: fb.Backend) -> Any:
        """A new buffer that is a tensor."""
        buffer = api.new_buffer(np.zeros(math.prod(detail["shape"]), np.float32))
        self._delegate.bind_buffer_to_tensor(buffer, int(detail["index"]))
        return buffer
