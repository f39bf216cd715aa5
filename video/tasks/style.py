"""Paints each frame in the style of another picture.

The bundled model has one style and takes pictures of any size. With ``--style``, another model, which is downloaded,
imitates any picture; up to nine are given, and the keys 1 to 9 switch between them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

import framebind as fb

from ..basic_types import Array
from ..layouts import PictureShape, map_shape, picture_shape
from ..models import DEFAULT_STYLE, find_model
from ..network import Network, shapes
from ..sampling import Values
from ..task import Drawing, Fit, Match, Model, Scene, Variant, VideoTask, sampling_of
from ..vision.pictures import photographs_of_skimage, read_picture, shrink

NAMES = {
    "coffee.png": "coffee cup", "rocket.jpg": "night sky", "ihc.png": "golden tissue", "retina.jpg": "red eye",
    "brick.png": "gray bricks", "hubble_deep_field.jpg": "galaxies", "chelsea.png": "cat's fur",
    "gravel.png": "gravel", "color.png": "rainbow",
}  # fmt: skip
"""Photographs of scikit-image's wheel, and their names on screen as styles."""
_FOLDER = photographs_of_skimage()
STYLES = [path for name in NAMES if _FOLDER and (path := _FOLDER / name).is_file()]
"""Pictures of scikit-image's wheel: the styles if the user names none. The first is a cup of coffee on grained wood,
whose browns and grain make warm brush strokes.
"""
ANY_STYLE = "style_transfer_f16_384"
STEPS, SECONDS = 16, 0.5
"""Number of blends between two styles, and the time they take in all."""
MULTIPLE = 4
"""The height and width of the bundled model's pictures are multiples of this."""
SHOW = "uniform sampler2D painted;\nvoid main() { color = vec4(texture(painted, uv).rgb, 1.0); }\n"


def fits(model: Model) -> Fit | None:
    """Whether the model makes a picture, as large as the one that it takes or larger, of it alone or in a style."""
    pictures = _inputs(model)
    if set(pictures) not in ({3}, {3, 100}) or len(model.outputs) != 1:
        return None
    ((tensor, shape),), picture = model.outputs.items(), pictures[3][1]
    painted = map_shape(shape, model.layouts[tensor], picture)
    if painted is None or painted.channels != 3 or painted.height < picture.height:
        return None
    return Fit(Match.SHAPES, f"its one output is a picture of {painted.width} x {painted.height}")


def _inputs(model: Model) -> dict[int, tuple[int, PictureShape]]:
    """The model's inputs and their sizes, by the number of channels."""
    found = ((tensor, picture_shape(shape, model.layouts[tensor])) for tensor, shape in model.inputs.items())
    return {shape.channels: (tensor, shape) for tensor, shape in found if shape is not None}


def drawing(
    scene: Scene, styles: Sequence[Path] = (), mean: Values | None = None, std: Values | None = None
) -> Drawing:
    """Bind the painted picture once; bind each frame, with the style's vector if the model takes one, and paint it.

    ``mean`` and ``std`` are those of both pictures' values from 0 to 1. Raises ModelError for a model that paints no
    pictures, or for ``styles`` given to a model that has one of its own; SourceError for a style that is no picture, or
    if there is none.
    """
    network, inputs = scene.network, _inputs(scene.network)
    style, variants = None, list[Variant]()
    if set(inputs) not in ({3}, {3, 100}) or len(network.outputs) != 1:
        raise fb.ModelError(
            f"{network.path.name} paints no pictures: it takes {list(network.inputs.values())} and gives "
            f"{list(network.outputs.values())}, not one picture of 3 channels for one, with or without a style of 100 "
            "numbers"
        )
    if set(inputs) == {3, 100}:
        style, variants = prepare_styles(styles or STYLES)
    elif styles:
        raise fb.ModelError(f"the model has one style of its own: leave out --style, or --model for '{ANY_STYLE}'")
    image, picture = inputs[3]
    _resize(network, image, picture, scene.picture.size)
    ((output, shape),), layouts = network.outputs.items(), network.layouts
    made = picture_shape(shape, layouts[output])
    if made is None or made.channels != 3:
        raise fb.ModelError(f"the model's output {shape} is no picture of 3 channels")
    painted = fb.GlTexture(*made.size, "rgba8", label="the painted picture")
    sampling = sampling_of(network, mean, std, usual=(0.0, 1.0))
    network.bind_sampled(output, painted, sampling)
    show = fb.FragmentProgram(SHOW)

    def draw(frame: fb.GlTexture) -> None:
        network.bind_sampled(image, frame, sampling)
        if style is not None:
            network.bind(inputs[100][0], style())
        network.run()
        show.draw(scene.picture, {"painted": painted})

    return Drawing(draw, variants)


def prepare_styles(pictures: Sequence[Path]) -> tuple[Callable[[], fb.GlBuffer], list[Variant]]:
    """Make a function that returns the buffer of the current style, and a variant for each picture.

    The current style is the first picture's, or a blend of the last two that were chosen. All blends are written when
    a style is chosen, so that nothing is copied while frames are drawn.
    """
    if not pictures:
        raise fb.SourceError(
            "the model paints in the style of a picture: name some by the demo's --style, or install the default ones: "
            "pip install scikit-image"
        )
    if len(pictures) > 9:
        raise fb.SourceError(f"{len(pictures)} pictures of a style are too many: there are keys for 9")
    vectors = [style_vector(picture) for picture in pictures]
    steps = [fb.GlBuffer(vectors[0].nbytes, vectors[0], label=f"style, step {n}") for n in range(STEPS)]
    blends, since = [vectors[0]] * STEPS, -math.inf

    def step() -> int:
        return min(int(min((time.perf_counter() - since) / SECONDS, 1.0) * STEPS), STEPS - 1)

    def choose(vector: Array) -> None:
        nonlocal blends, since
        start = blends[step()]
        blends = [start * (1 - n / STEPS) + vector * np.float32(n / STEPS) for n in range(1, STEPS + 1)]
        for buffer, blend in zip(steps, blends, strict=True):
            buffer.write(blend, reason="style")
        since = time.perf_counter()

    variants = [Variant(style_name(p), partial(choose, v)) for p, v in zip(pictures, vectors, strict=True)]
    return lambda: steps[step()], variants


def style_name(picture: Path) -> str:
    """The name of a style on screen: a description for one of STYLES, else the name of its file."""
    return NAMES[picture.name] if picture in STYLES else picture.stem


def _resize(network: Network, image: int, shape: PictureShape, frame: tuple[int, int]) -> None:
    """Give a model of any size the proportions of the frames (width, height), with as many pixels as it has now."""
    if network.takes_any_size(image):
        scale = math.sqrt(shape.height * shape.width / (frame[0] * frame[1]))
        width, height = (max(MULTIPLE, round(side * scale / MULTIPLE) * MULTIPLE) for side in frame)
        network.resize(image, shape._replace(height=height, width=width).shape)


def style_vector(picture: Path) -> Array:
    """The style of a picture file, as 100 float32 values that the style prediction model computes on the CPU."""
    pixels = read_picture(picture)
    if pixels is None:
        raise fb.SourceError(f"the style '{picture}' is no picture that can be read")
    interpreter = fb.Interpreter(str(find_model("style_predict_quantized_256")), delegate="cpu")
    interpreter.allocate_tensors()
    ((image, (_, height, width, _)),) = shapes(interpreter.get_input_details()).items()
    interpreter.set_tensor(image, shrink(pixels, (width, height))[None].astype(np.float32) / 255)
    interpreter.invoke()
    return np.array(interpreter.get_tensor(interpreter.outputs()[0]), np.float32).reshape(100)


TASK = VideoTask(DEFAULT_STYLE, None, drawing, options=("mean", "std"), has_memory=False, is_painted=False, fits=fits)
