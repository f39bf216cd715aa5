"""Paints a camera, a video or a picture in the style of another picture.

The model that comes with the package knows one style and takes pictures of any size; with ``--style``, another model,
which is downloaded, imitates any picture.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import typer

import framebind as fb

from .models import DEFAULT_STYLE, find_model
from .network import Network, shapes
from .options import Options, demo
from .run import PHOTOGRAPHS, main
from .task import Scene, Task

STYLE = PHOTOGRAPHS / "coffee.png"
"""A cup of coffee on grained wood: its browns and its grain make warm brush strokes."""
ANY_STYLE = "style_transfer_f16_384"
MULTIPLE = 4
"""What the height and width of the bundled model's pictures have to be multiples of."""
SHOW = "uniform sampler2D painted;\nvoid main() { color = vec4(texture(painted, uv).rgb, 1.0); }\n"


def prepare(scene: Scene, style: Path | None) -> Task:
    """Bind the style's vector (if the model takes one) and the painted picture; each frame is bound, painted, drawn."""
    network = scene.network
    inputs = {shape[-1]: index for index, shape in network.inputs.items()}
    if set(inputs) == {3, 100}:
        vector = style_vector(style or STYLE)
        network.bind(inputs[100], fb.GlBuffer(vector.nbytes, vector, label="the style"))
    elif set(inputs) != {3}:
        raise fb.ModelError(f"the model takes {sorted(inputs)} channels, not 3 (picture), or 3 and 100 (style)")
    elif style is not None:
        raise fb.ModelError(f"the model has one style of its own: leave out --style, or --model for '{ANY_STYLE}'")
    _resize(network, inputs[3], scene.picture.size)
    ((output, (_, height, width, channels)),) = network.outputs.items()
    if channels != 3:
        raise fb.ModelError(f"the model's output has {channels} channels, which is no picture")
    painted = fb.GlTexture(width, height, "rgba8", label="the painted picture")
    network.bind(output, painted)
    show = fb.FragmentProgram(SHOW)

    def draw(frame: fb.GlTexture) -> None:
        network.bind(inputs[3], frame)
        network.run()
        show.draw(scene.picture, {"painted": painted})

    return Task(draw)


def _resize(network: Network, image: int, picture: tuple[int, int]) -> None:
    """Give a model of any size a picture's proportions (width, height), and no more pixels than it has of its own."""
    if not network.takes_any_size(image):
        return
    _, height, width, _ = network.inputs[image]
    scale = math.sqrt(height * width / (picture[0] * picture[1]))
    columns, rows = (max(MULTIPLE, round(side * scale / MULTIPLE) * MULTIPLE) for side in picture)
    network.resize(image, (1, rows, columns, 3))


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


@demo("")
def command(
    options: Options,
    style: Annotated[
        Path | None, typer.Option(help="The picture whose style is taken, by a model that takes any style.")
    ] = None,
) -> None:
    """Paint a camera, a video or a picture in the style of another picture.

    Example: python -m framebind demo style_transfer --camera 0
    """
    model = options.model or (ANY_STYLE if style else DEFAULT_STYLE)
    main(partial(prepare, style=style), replace(options, model=model))


if __name__ == "__main__":
    typer.run(command)
