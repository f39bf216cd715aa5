"""Shared by the examples: their command line, and a style model that is ready for the current context."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import framebind as fb

from ..apis import GL
from ..assets import PHOTOGRAPH
from ..models import DEFAULT_STYLE, find_model
from ..vision.pictures import read_picture

Picture = Annotated[Path, typer.Option(help="The picture to paint; its sides are multiples of 4, 128 at least.")]
Model = Annotated[str, typer.Option(help="A style model of any size: pictures in, pictures out.")]
Frames = Annotated[int, typer.Option(min=0, help="Close after this many frames; 0 runs until the window is closed.")]
Output = Annotated[Path | None, typer.Option(help="Write the last picture on screen to this PNG.")]

__all__ = ["DEFAULT_STYLE", "PHOTOGRAPH", "Frames", "Model", "Output", "Picture", "load_picture", "style_model"]


def load_picture(path: Path) -> np.ndarray:
    """A picture file as RGBA, uint8, (height, width, 4)."""
    rgb = read_picture(path)
    if rgb is None:
        raise fb.SourceError(f"'{path}' is no picture that can be read")
    return np.dstack([rgb, np.full(rgb.shape[:2], 255, np.uint8)])


def style_model(name: str, width: int, height: int) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """A model of this size on the GPU whose context is current. Its output stays on the GPU."""
    interpreter = fb.Interpreter(model_path=str(find_model(name)))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=GL.backend))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.resize_tensor_input(interpreter.inputs()[0], [1, height, width, 3])
    interpreter.allocate_tensors()
    interpreter.set_allow_buffer_handle_output(True)
    return interpreter, delegate
