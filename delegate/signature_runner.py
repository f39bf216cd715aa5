"""LiteRT's runner of a model's signature, for interpreters that may be rebuilt and that keep results on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import interpreter as litert

from ..interop.uncopied import Uncopied
from .litert.python_layer import own_errors


class SignatureRunner(Uncopied, litert.SignatureRunner):
    """A function that runs one signature of a model: ``Interpreter.get_signature_runner`` returns it.

    It takes the signature's inputs as keyword arguments, resizes and sets them, allocates, runs, and returns a
    dictionary of arrays by the names of the outputs. What GpuDelegate's ``feedback`` names, and inputs that are bound
    to objects, are left out.

    Parameters
    ----------
    interpreter
        The framebind.Interpreter of the model.
    signature_key
        A key of ``Interpreter.get_signature_list``.

    Raises
    ------
    ValueError
        Without an interpreter, or if the model has no such signature.

    Examples
    --------
    >>> interpreter = fb.Interpreter("model.tflite", delegate="cpu")
    >>> run = fb.SignatureRunner(interpreter, "serve")
    >>> run(x=np.zeros((1, 4, 5, 3), np.float32))["t1"].shape
    (1, 4, 5, 3)
    """

    _interpreter: Any

    def __init__(self, interpreter: Any = None, signature_key: str | None = None) -> None:
        super().__init__(interpreter, signature_key)

    def __repr__(self) -> str:
        return f"<SignatureRunner: '{self._signature_key}' of {self._interpreter!r}>"

    @property
    def _interpreter_wrapper(self) -> Any:
        return self._interpreter._interpreter

    @_interpreter_wrapper.setter
    def _interpreter_wrapper(self, _: Any) -> None:
        # LiteRT keeps the native interpreter here; it would count as a view of its memory, and outlive a rebuild.
        pass

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """LiteRT's records of the inputs by name, as ``Interpreter.get_input_details`` lists them."""
        return super().get_input_details()

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """LiteRT's records of the outputs by name."""
        return super().get_output_details()

    def __call__(self, **kwargs: Any) -> dict[str, np.ndarray]:
        interpreter = self._interpreter
        with interpreter._lock:
            keep = interpreter._keeps_outputs
            interpreter._note_run()
            interpreter.set_allow_buffer_handle_output(False)
            try:
                with own_errors(interpreter._gpu_delegate, "run"):
                    interpreter._announce_inputs()
                    left_out = interpreter._not_on_cpu if self._subgraph_index == 0 else frozenset()
                    for name, tensor in self._inputs.items():
                        if tensor in left_out:
                            if name in kwargs:
                                interpreter._check_settable(tensor)
                            kwargs[name] = self._interpreter_wrapper.GetTensor(tensor, 0)  # which no kernel reads
                    results = super().__call__(**kwargs)
                    return {name: results[name] for name, tensor in self._outputs if tensor not in left_out}
            finally:
                interpreter._allocated = True
                interpreter.set_allow_buffer_handle_output(keep)
