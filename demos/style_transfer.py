"""Paints a camera, a video or a picture in the style of another picture."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import typer

import framebind as fb

from . import options
from .models import find_model
from .run import PHOTOGRAPHS, Draw, Scene, main, shapes

STYLE = PHOTOGRAPHS / "coffee.png"
"""A cup of coffee on grained wood: its browns and its grain make warm brush strokes."""
SHOW = "uniform sampler2D painted;\nvoid main() { color = vec4(texture(painted, uv).rgb, 1.0); }\n"


def prepare(scene: Scene, style: Path) -> Draw:
    """Bind the style's vector and the painted picture once; each frame is bound, painted and drawn."""
    interpreter, delegate = scene.interpreter, scene.delegate
    inputs = {shape[-1]: index for index, shape in shapes(interpreter.get_input_details()).items()}
    if set(inputs) != {3, 100}:
        raise fb.ModelError(f"the model takes {sorted(inputs)} channels, not 3 (picture) and 100 (style)")
    ((output, (_, height, width, _)),) = shapes(interpreter.get_output_details()).items()
    painted = fb.GlTexture(width, height, "rgba8", label="the painted picture")
    vector = style_vector(style)
    delegate.bind_buffer_to_tensor(fb.GlBuffer(vector.nbytes, vector, label="the style"), inputs[100])
    delegate.bind_buffer_to_tensor(painted, output)
    show = fb.FragmentProgram(SHOW)

    def draw(frame: fb.GlTexture) -> None:
        delegate.bind_buffer_to_tensor(frame, inputs[3])
        interpreter.invoke()
        show.draw(scene.picture, {"painted": painted})

    return draw


def style_vector(picture: Path) -> np.ndarray:
    """The style of a picture file as 100 float32 numbers, by the style prediction model on the CPU, once."""
    bgr = cv2.imread(str(picture), cv2.IMREAD_COLOR)
    if bgr is None:
        raise fb.SourceError(f"the style '{picture}' is no picture that can be read")
    interpreter = fb.Interpreter(model_path=str(find_model("style_predict_quantized_256")))
    interpreter.allocate_tensors()
    ((image, (_, height, width, _)),) = shapes(interpreter.get_input_details()).items()
    rgb = cv2.resize(bgr, (width, height), interpolation=cv2.INTER_AREA)[None, :, :, ::-1]
    interpreter.set_tensor(image, np.ascontiguousarray(rgb, np.float32) / 255)
    interpreter.invoke()
    return np.array(interpreter.get_tensor(interpreter.outputs()[0]), np.float32).reshape(100)


def command(
    model: options.Model = "style_transfer_f16_384",
    style: Annotated[Path, typer.Option(help="The picture whose style is taken.")] = STYLE,
    source: options.SourceName = "synthetic",
    output: options.Output = None,
    window: options.Window = False,
    frames: options.Frames = None,
    backend: options.Backend = "opengl",
    size: options.Size = None,
) -> None:
    """Paint a camera, a video or a picture in the style of another picture."""
    main(partial(prepare, style=style), options.Options(model, source, output or [], window, frames, backend, size))


if __name__ == "__main__":
    typer.run(command)
