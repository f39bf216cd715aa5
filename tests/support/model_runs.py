"""Real models run by LiteRT on the CPU and by framebind on a device."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

import framebind as fb
from framebind.interop.device import Device

Values = dict[int, npt.NDArray[np.float32]]


def reference(path: Path, inputs: Values, resolver: OpResolverType = OpResolverType.AUTO) -> Values:
    """The results of LiteRT's CPU interpreter, by output tensor."""
    interpreter = LiteRt(str(path), num_threads=2, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    for tensor, value in inputs.items():
        interpreter.set_tensor(tensor, value)
    interpreter.invoke()
    return {detail["index"]: interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()}


def backend_of(gpu: Device) -> Literal["opengl", "opencl", "cuda"]:
    """The backend of GpuDelegateOptions that runs on a device."""
    api = gpu.traits.api
    return "cuda" if api == "cuda" else "opencl" if api == "opencl" else "opengl"


def on_gpu(gpu: Device, path: Path, storage: str) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """An interpreter whose whole model runs in the context that is current, the one of ``gpu``."""
    delegate = fb.GpuDelegate(
        fb.GpuDelegateOptions(backend=backend_of(gpu), is_precision_loss_allowed=storage == "f16")
    )
    interpreter = fb.Interpreter(model_path=path)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    return interpreter, delegate


def input_shapes(interpreter: fb.Interpreter) -> dict[int, tuple[int, ...]]:
    return {detail["index"]: tuple(detail["shape"]) for detail in interpreter.get_input_details()}
