"""Colours the classes of each frame, cuts people out, or blurs their background.

Selfie models find people; DeepLab finds the classes of PASCAL VOC, and people are one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..answers.classes import ClassNumbers
from ..copies import MASKS
from ..layouts import PictureShape
from ..sampling import Sampling, Values
from ..task import (
    Drawing,
    Finder,
    Fit,
    Mask,
    Match,
    Model,
    Run,
    Scene,
    Variant,
    VideoTask,
    maps_of,
    picture_of,
    sampling_of,
)
from ..vision.captions import draw_legend, draw_notice
from ..vision.class_mask import ClassMask
from ..vision.effects import Draw, Masked, background_texture, blurred, color_of, cutout, transparent
from ..vision.labels import read_labels
from ..vision.masks import OPACITY, SPREAD, GlMask
from ..vision.masks_on_cpu import CpuMask
from ..vision.masks_on_planes import MaskPainter
from ..vision.palette import palette

VOC = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "dining table",
    "dog", "horse", "motorbike", "person", "potted plant", "sheep", "sofa", "train", "TV monitor",
)  # fmt: skip
"""The 21 classes of PASCAL VOC (Everingham et al., 2010), in the order of DeepLab's scores."""
PERSON = VOC.index("person")
BACKGROUND = "#205080"
MOST_CLASSES, COARSEST, LEAST_SIDE = 256, 32, 4
"""Most classes: their numbers are bytes. Pixels of the picture, at most, in the height of one of the map's: 32 at the
end of backbones, as in MobileViT's DeepLab. Least height and width of the output.
"""
LEGEND_FRAMES, LEAST_SHARE = 10, 0.004
"""Number of frames for which a class stays in the legend, and its least share of the picture."""

Effect = Literal["classes", "cutout", "blur"]
EFFECTS: dict[str, str] = {"classes": "classes in colour", "cutout": "people cut out", "blur": "background blurred"}
"""Names of the effects on screen."""
_GREY = "uniform sampler2D mask;\nvoid main() { color = vec4(texture(mask, uv).rrr, 1.0); }\n"
_NUMBERS = """
uniform sampler2D numbers;
void main() {
    int found = int(texture(numbers, uv).r * 255.0 + 0.5);
    color = vec4(found == 0 ? vec3(0.0) : PALETTE[found], 1.0);
}
"""
_CLASSES = f"""
vec4 value(float number, vec3 here) {{
    int found = int(number + 0.5);
    return vec4(found == 0 ? here : mix(here, PALETTE[found], {OPACITY}), 1.0);
}}
{SPREAD}
void main() {{ color = spread(uv, texture(frame, uv).rgb); }}
"""


class Segmentation(NamedTuple):
    """The output of a segmentation: scores of classes; if it has one channel, the probability of a person, or the
    number of the class.
    """

    shape: PictureShape
    names: Sequence[str]
    """The names of the classes."""
    sampling: Sampling
    chosen: int = 0
    """The number of classes from which the model has chosen; 0 for scores."""

    @property
    def channels(self) -> int:
        """The number of classes."""
        return self.chosen or self.shape.channels


def fits(model: Model) -> Fit | None:
    """Whether the model's one output has several channels, or the numbers of classes, and enough pixels for a map."""
    maps, picture = maps_of(model), picture_of(model)
    if picture is None or len(maps) != 1 or (found := maps[0]) is None:
        return None
    chosen = next(iter(model.choices.values()), 0) if found.channels == 1 else 0
    # A frame has no fourth channel, three channels are a picture, and a few pixels are features for something else.
    if (
        picture.channels == 4
        or (not chosen and found.channels in (1, 3))
        or max(found.channels, chosen) > MOST_CLASSES
        or found.height * COARSEST < picture.height
        or min(found.size) < LEAST_SIDE
    ):
        return None
    if chosen:
        size = f"{found.width} x {found.height}"
        return Fit(Match.OUTPUTS, f"its one output has the class of each pixel, one of {chosen}, of {size}")
    return Fit(Match.SHAPES, f"its one output has {found.channels} channels of {found.width} x {found.height}")


def output_of(
    model: Model, labels: Path | None = None, mean: Values | None = None, std: Values | None = None
) -> Segmentation:
    """The output of a segmentation model. Raises ModelError for another model, SourceError for other labels.

    Selfie models take pictures from 0 to 1, and DeepLab from -1 to 1, unless the model's file or the user says
    something else.
    """
    maps, chosen = maps_of(model), next(iter(model.choices.values()), 0)
    if len(maps) != 1 or (shape := maps[0]) is None or max(shape.channels, chosen) > MOST_CLASSES:
        raise fb.ModelError(
            f"{model.path.name} is no segmentation: its outputs are {list(model.outputs.values())}; framebind inspect "
            "names its task"
        )
    classes = chosen or shape.channels
    known = model.metadata.classes or (VOC if classes == len(VOC) else ())
    usual = (0.0, 1.0) if classes == 1 else (0.5, 0.5)
    return Segmentation(shape, read_labels(labels, classes, known), sampling_of(model, mean, std, usual=usual), chosen)


def finder(
    model: Model,
    size: tuple[int, int],
    effect: Effect | None = None,
    background: str = BACKGROUND,
    labels: Path | None = None,
    mean: Values | None = None,
    std: Values | None = None,
) -> Finder:
    """Find the shares of classes, or of people, and their mask. People are painted before the colour ``background``.

    The mask does not follow the picture's edges, because that is not read; painted frames do. Raises ModelError for a
    model whose output is not scores of classes.
    """
    output = output_of(model, labels, mean, std)
    is_classes = output.channels > 1 and effect in (None, "classes")
    if output.chosen and not is_classes:
        raise fb.ModelError(f"{model.path.name} has {output.channels} classes: with it, --effect is classes")
    classes, people = ClassMask(output.shape, output.chosen), CpuMask(PERSON)
    mask, painter, found = classes if is_classes else people, MaskPainter(), list[dict[str, Any]]()
    names, colors = output.names if is_classes else (), palette(output.channels)

    def find(run: Run) -> list[dict[str, Any]]:
        nonlocal found
        outputs = run.outputs(output.sampling)
        if is_classes:
            classes.smooth(outputs)
            found = rows_of(classes.shares(), output)
        else:
            people.smooth(output.shape.from_tensor(outputs[0]))
            found = rows_of_people(people.small)
        return found

    def mark(marks: fb.video.Marks) -> None:
        draw_classes(marks, [names.index(each["class"]) for each in found], output, size)

    def paint() -> Callable[[fb.video.Planes], None]:
        if is_classes:
            return partial(painter.color_classes, mask.small, colors)
        return partial(painter.cut_out, mask.small, color_of(background))

    def colored(shown: tuple[int, int]) -> npt.NDArray[np.uint8]:
        return rgba[mask.enlarged(shown)]

    seen = 255 * np.array([(0.0, 0.0, 0.0), *colors[1:]]) if is_classes else np.arange(256)[:, None].repeat(3, 1)
    rgba = np.concatenate([seen.round(), np.full((len(seen), 1), 255)], 1).astype(np.uint8)
    whole = Mask(partial(mask.enlarged, size), partial(colored, size), names)
    return Finder(find, mark if is_classes else None, whole, colored, paint)


def rows_of(shares: npt.NDArray[Any], classes: Segmentation) -> list[dict[str, Any]]:
    """The shares of the picture that classes cover, the largest first, as values for JSON."""
    return [{"class": classes.names[number], "share": round(float(shares[number]), 6)} for number in present(shares)]


def rows_of_people(small: npt.NDArray[Any]) -> list[dict[str, Any]]:
    """The share of the picture that people cover, by their mask (height, width), from 0 to 1, as values for JSON."""
    share = float(np.mean(small >= 0.5))
    return [{"class": VOC[PERSON], "share": round(share, 6)}] if share > 0 else []


def present(shares: npt.NDArray[Any]) -> list[int]:
    """The classes whose share of the picture is not small, without the background; the largest first."""
    order = np.argsort(-shares, kind="stable")
    return [int(number) for number in order if number and shares[number] >= LEAST_SHARE]


def draw_classes(marks: fb.video.Marks, found: list[int], classes: Segmentation, size: tuple[int, int]) -> None:
    """Draw the colours and names of the classes in a picture of ``size``, or say that there is none."""
    if found:
        names, colors = classes.names, palette(classes.channels)
        draw_legend(marks, [(names[number], colors[number]) for number in found], size)
    else:
        draw_notice(marks, f"none of the {classes.channels - 1} classes found", size)


# The picture by OpenGL ------------------------------------------------------------------------------------------------


def drawing(
    scene: Scene,
    effect: Effect | None = None,
    background: str | None = BACKGROUND,
    labels: Path | None = None,
    mean: Values | None = None,
    std: Values | None = None,
) -> Drawing:
    """Draw the effect, by masks that stay on the GPU and follow the picture's edges.

    ``background`` is a colour (#rrggbb) or a picture file; None makes the picture transparent there. Raises ModelError
    for a model whose output is not scores of classes, or that lacks the effect's classes; SourceError for a background
    that cannot be read.
    """
    network, output = scene.network, output_of(scene.network, labels, mean, std)
    (image,), (tensor,) = network.inputs, network.outputs
    scores = fb.GlBuffer(4 * math.prod(output.shape.shape), label="the scores")
    network.bind(tensor, scores)
    effects: dict[str, Painting] = {}
    if output.channels > 1:
        effects["classes"] = _classes(scene, scores, output)
    if not output.chosen and output.channels in (1, len(VOC)):
        effects.update(
            people_paintings(scene.picture, GlMask(scores, output.shape, scene.picture.size, person=PERSON), background)
        )
    chosen = effect or next(iter(effects))
    if chosen not in effects:
        raise fb.ModelError(
            f"{network.path.name} has {output.channels} classes: with it, --effect is {' or '.join(effects)}"
        )

    def draw(frame: fb.GlTexture) -> None:
        network.bind_sampled(image, frame, output.sampling)
        network.run()
        effects[chosen].draw(frame)

    def choose(name: str) -> None:
        nonlocal chosen
        chosen = name

    names = sorted(effects, key=lambda name: name != chosen)
    return Drawing(
        draw,
        [Variant(EFFECTS[name], partial(choose, name)) for name in names],
        lambda marks: effects[chosen].mark(marks),
        lambda: effects[chosen].rows(),
        lambda: effects[chosen].mask(),
    )


class Painting(NamedTuple):
    """The picture of an effect, and the results of the frame that was drawn last; see Drawing."""

    draw: Draw
    mark: Callable[[fb.video.Marks], None]
    rows: Callable[[], list[dict[str, Any]]]
    mask: Callable[[], Mask]


def _classes(scene: Scene, scores: fb.GlBuffer, output: Segmentation) -> Painting:
    """The classes in colour, with a legend."""
    picture, network = scene.picture, scene.network
    found = ClassNumbers(
        output.shape, lambda owner, content, fed: network.postprocess(owner, content, [scores], fed), output.chosen
    )
    numbers = GlMask(found.buffer, output.shape, picture.size)
    texts = ", ".join(f"vec3{color}" for color in palette(output.channels))
    colors = f"const vec3 PALETTE[{output.channels}] = vec3[{output.channels}]({texts});\n"
    program, number, legend = fb.FragmentProgram(colors + _CLASSES), 0, list[int]()

    def draw(frame: fb.GlTexture) -> None:
        nonlocal number, legend
        found.run()
        program.draw(picture, numbers.smooth(frame))
        if number % LEGEND_FRAMES == 0:
            legend = present(found.shares())
        number += 1

    def mask() -> Mask:
        show, colored = fb.FragmentProgram(colors + _NUMBERS), fb.GlTexture(*picture.size, "rgba8", label="masks")

        def shown() -> fb.GlTexture:
            show.draw(colored, {"numbers": numbers.enlarge()})
            return colored

        return Mask(lambda: numbers.enlarge().read(reason=MASKS)[..., 0], shown, output.names)

    return Painting(
        draw,
        lambda marks: draw_classes(marks, legend, output, picture.size),
        lambda: rows_of(found.shares(), output),
        mask,
    )


def people_paintings(
    picture: fb.GlTexture, people: GlMask, background: str | None, colors: Masked | None = None
) -> dict[str, Painting]:
    """People before a background or none, and people before a blurred one. ``colors`` are those of people, if the model
    gives them.
    """

    def mask_of(frame: fb.GlTexture) -> fb.GlTexture:
        people.smooth(frame)
        return people.enlarge()

    def mask() -> Mask:
        show, grey = fb.FragmentProgram(_GREY), fb.GlTexture(*picture.size, "rgba8", label="masks")

        def shown() -> fb.GlTexture:
            show.draw(grey, {"mask": people.large})
            return grey

        return Mask(lambda: people.large.read(reason=MASKS)[..., 0], shown)

    if background is None:
        cut = transparent(picture, mask_of, colors)
    else:
        cut = cutout(picture, mask_of, background_texture(background), colors)
    draws = {"cutout": cut, "blur": blurred(picture, mask_of, colors)}
    return {
        name: Painting(draw, lambda marks: None, lambda: rows_of_people(people.small()), mask)
        for name, draw in draws.items()
    }


TASK = VideoTask(
    "deeplabv3_257_mv_gpu", finder, drawing, options=("labels", "mean", "std"),
    saves=("video", "masks", "jsonl", "parquet"), fits=fits,
)  # fmt: skip
