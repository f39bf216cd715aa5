"""LiteRT's CPU interpreter in a process of its own, which may end: a fault in one of its kernels ends the process.

As a program, this file runs a model once: its argument is the model's path, its input the values of the model's inputs.
"""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Values = Mapping[int, npt.NDArray[Any]]
"""The values of a model's inputs, by tensor."""


def check_reference(path: Path, values: Values, program: Sequence[str] = (sys.executable, __file__)) -> None:
    """Run a model once in another process. Raises ModelError if LiteRT ends that process.

    What LiteRT raises as an error, it raises in this process as well.
    """
    import framebind as fb  # only here: the program does without

    content, arrays = io.BytesIO(), dict[str, Any]()
    arrays.update((str(tensor), value) for tensor, value in values.items())
    np.savez(content, **arrays)
    done = subprocess.run([*program, str(path)], input=content.getvalue(), capture_output=True, check=False)
    if done.returncode < 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        how = f"{signal.Signals(-done.returncode).name}: {said[-1]}" if said else signal.Signals(-done.returncode).name
        raise fb.ModelError(
            f"{path.name}: LiteRT's own CPU interpreter ends its process with this model ({how}): there is no "
            "reference to compare with"
        )


def set_inputs(interpreter: Any, values: Values) -> None:
    """Set a model's inputs. Raises ModelError for values that LiteRT does not take, such as 8 bits for four."""
    import framebind as fb

    for tensor, value in values.items():
        try:
            interpreter.set_tensor(tensor, value)
        except ValueError as error:
            names = {detail["index"]: detail["name"] for detail in interpreter.get_input_details()}
            raise fb.ModelError(f"input '{names[tensor]}' takes no random values: {error}") from error


def _run_once() -> None:
    """Run the model as the program does."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(sys.argv[1], num_threads=1)
    with np.load(io.BytesIO(sys.stdin.buffer.read())) as values:
        details: list[dict[str, Any]] = interpreter.get_input_details()
        shapes = {detail["index"]: tuple(detail["shape"]) for detail in details}
        for tensor, value in values.items():
            if shapes[int(tensor)] != value.shape:
                interpreter.resize_tensor_input(int(tensor), value.shape)
        interpreter.allocate_tensors()
        for tensor, value in values.items():
            interpreter.set_tensor(int(tensor), value)
    interpreter.invoke()


if __name__ == "__main__":
    _run_once()
