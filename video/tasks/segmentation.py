"""Segments a camera, a video or a picture: cuts people out, blurs their background, or colours 21 classes.

Selfie models find people; DeepLab finds the classes of PASCAL VOC, and people are one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..copies import DETECTIONS, MASKS
from ..network import Sampling
from ..task import Finder, Mask, Model, Run, Scene, Task, Variant
from ..vision import masks_on_cpu as shares
from ..vision.captions import draw_legend, draw_notice
from ..vision.class_shares import share_counter
from ..vision.labels import Color, palette
from ..vision.masks import SPREAD, enlarge, enlarge_classes, smooth_classes, smooth_person
from ..vision.painting import NOBODY, OPACITY, PERSON_FROM, MaskPainter
from ..vision.pictures import read_picture

VOC = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "dining table",
    "dog", "horse", "motorbike", "person", "potted plant", "sheep", "sofa", "train", "TV monitor",
)  # fmt: skip
"""The 21 classes of PASCAL VOC (Everingham et al., 2010), in the order of DeepLab's scores."""
PERSON = VOC.index("person")
BACKGROUND = "#205080"
BLURRED_HEIGHT, BLUR = 160, 4.0
"""Height of the blurred background in pixels, and the standard deviation of its blur in these pixels."""

LEGEND_FRAMES, LEAST_SHARE = 10, 0.004
"""Number of frames for which a class stays in the legend, and its least share of the picture."""

Effect = Literal["classes", "cutout", "blur"]
EFFECTS: dict[str, str] = {"classes": "classes in colour", "cutout": "people cut out", "blur": "background blurred"}
"""Names of the effects on screen."""
Draw = Callable[[fb.GlTexture], None]
Rows = Callable[[], list[dict[str, Any]]]
"""The results of the frame that was drawn last, as values for JSON."""

_OVER = f"""
vec3 over(vec3 background, vec3 person, float mask) {{
    return mix(background, person, smoothstep({NOBODY}, {PERSON_FROM}, mask));
}}
"""
# The background picture fills the frame; if it is too wide or too high, it is cut on both sides.
_CUTOUT = f"""{_OVER}
uniform sampler2D frame, mask, behind;
void main() {{
    vec2 frame_size = vec2(textureSize(frame, 0)), size = vec2(textureSize(behind, 0));
    vec2 part = frame_size / size / max(frame_size.x / size.x, frame_size.y / size.y);
    vec3 background = texture(behind, (uv - 0.5) * part + 0.5).rgb;
    color = vec4(over(background, texture(frame, uv).rgb, texture(mask, uv).r), 1.0);
}}
"""
# The person is left out of the blur, which would otherwise draw a halo around the person.
_BEHIND = """
uniform sampler2D frame, mask;
uniform vec2 pixel;
void main() {
    color = vec4(0.0);
    for (int corner = 0; corner < 4; corner++) {
        vec2 at = uv + (vec2(corner & 1, corner >> 1) - 0.5) * 0.5 * pixel;
        float share = 1.0 - texture(mask, at).r;
        color += 0.25 * vec4(texture(frame, at).rgb * share, share);
    }
}
"""
_BLUR = f"""
uniform sampler2D sharp;
uniform vec2 pixel;
void main() {{
    color = vec4(0.0);
    float weights = 0.0;
    for (int x = -{round(2.5 * BLUR)}; x <= {round(2.5 * BLUR)}; x++) {{
        float weight = exp(-0.5 * float(x * x) / {BLUR * BLUR});
        color += weight * texture(sharp, uv + float(x) * pixel);
        weights += weight;
    }}
    color /= weights;
}}
"""
_BLURRED = f"""{_OVER}
uniform sampler2D frame, mask, behind;
void main() {{
    vec4 background = texture(behind, uv);
    vec3 seen = background.rgb / max(background.a, 0.001);
    color = vec4(over(seen, texture(frame, uv).rgb, texture(mask, uv).r), 1.0);
}}
"""
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


def prepare(scene: Scene, effect: Effect | None = None, background: str = BACKGROUND) -> Task:
    """Bind the scores' buffer once; bind each frame, segment it, and draw it as the effect says.

    ``background`` is a colour (#rrggbb) or a picture file. Raises ModelError for a model whose output is not scores of
    classes, or that lacks the effect's classes; SourceError for a background that cannot be read.
    """
    network, (width, height, channels) = scene.network, _output(scene.network)
    (image,), (output,) = network.inputs, network.outputs
    scores = fb.GlBuffer(width * height * channels * 4, label="the scores")
    network.bind(output, scores)
    mean, std = _normalization(channels)
    effects: dict[str, Draw] = {}
    results: dict[str, Rows] = {}
    masks: dict[str, Callable[[], Mask]] = {}
    legend: Callable[[fb.Overlay], None] | None = None
    if channels > 1:
        found = _Classes(scene, scores, (width, height), channels)
        effects["classes"], results["classes"], masks["classes"] = found.draw, found.rows, found.mask
        legend = found.legend
    if channels in (1, len(VOC)):
        people = _People(scene, scores, (width, height), channels)
        effects["cutout"] = _cutout(scene, people.draw, _background(background))
        effects["blur"] = _blur(scene, people.draw)
        for name in ("cutout", "blur"):
            results[name], masks[name] = people.rows, people.mask
    chosen = effect or next(iter(effects))
    if chosen not in effects:
        raise fb.ModelError(f"{network.path.name} has {channels} classes: with it, --effect is {' or '.join(effects)}")

    def draw(frame: fb.GlTexture) -> None:
        network.bind(image, frame, mean=mean, std=std)
        network.run()
        effects[chosen](frame)

    def choose(name: str) -> None:
        nonlocal chosen
        chosen = name

    def overlay(overlay: fb.Marks) -> None:
        if chosen == "classes" and legend is not None:
            legend(overlay)

    names = sorted(effects, key=lambda name: name != chosen)
    return Task(
        draw,
        [Variant(EFFECTS[name], partial(choose, name)) for name in names],
        overlay,
        lambda: results[chosen](),
        masks[chosen],
    )


def finder(model: Model, size: tuple[int, int], effect: Effect | None = None) -> Finder:
    """The same by NumPy. Its masks do not follow the picture's edges, because that is not read; its painted frames do.

    Raises ModelError for a model whose output is not scores of classes.
    """
    width, height, channels = _output(model)
    mean, std = _normalization(channels)
    is_classes = channels > 1 and effect in (None, "classes")
    small, found = np.zeros((height, width), np.float32), list[dict[str, Any]]()
    smooth, painter = shares.smooth_classes() if is_classes else shares.smooth_person(PERSON), MaskPainter()
    names, colors = _names(channels) if is_classes else (), palette(channels)

    def find(run: Run) -> list[dict[str, Any]]:
        nonlocal small, found
        (scores,) = run(Sampling(mean, std, None, 0.0))
        small = smooth(scores.reshape(height, width, channels))
        if is_classes:
            found = class_rows(np.bincount(small.ravel(), minlength=channels) / small.size)
        else:
            found = person_rows(float(np.mean(small >= 0.5)))
        return found

    def mark(marks: fb.Marks) -> None:
        draw_classes(marks, [names.index(each["class"]) for each in found], channels, size)

    def paint() -> Callable[[fb.Planes], None]:
        if is_classes:
            return partial(painter.color_classes, small, colors)
        return partial(painter.cut_out, small, _color(BACKGROUND))

    def values(shown: tuple[int, int]) -> npt.NDArray[np.uint8]:
        return (shares.enlarge_classes if is_classes else shares.enlarge)(small, shown)

    def colored(shown: tuple[int, int]) -> npt.NDArray[np.uint8]:
        return rgba[values(shown)]

    seen = 255 * np.array([(0.0, 0.0, 0.0), *colors[1:]]) if is_classes else np.arange(256)[:, None].repeat(3, 1)
    rgba = np.concatenate([seen.round(), np.full((len(seen), 1), 255)], 1).astype(np.uint8)
    mask = Mask(partial(values, size), partial(colored, size), names)
    return Finder(find, mark if is_classes else None, mask, colored, paint)


def person_rows(share: float) -> list[dict[str, Any]]:
    """The share of the picture that people cover, as values for JSON."""
    return [{"class": VOC[PERSON], "share": round(share, 6)}] if share > 0 else []


def class_rows(found: npt.NDArray[Any]) -> list[dict[str, Any]]:
    """The shares of the picture of the classes that are present, as values for JSON."""
    names = _names(len(found))
    return [{"class": names[number], "share": round(float(found[number]), 6)} for number in present(found)]


def draw_classes(overlay: fb.Marks, found: list[int], channels: int, size: tuple[int, int]) -> None:
    """Draw the colours and names of the classes in a picture of ``size``, or say that there is none."""
    if found:
        names, colors = _names(channels), palette(channels)
        draw_legend(overlay, [(names[number], colors[number]) for number in found], size)
    else:
        draw_notice(overlay, f"none of the {channels - 1} classes found", size)


def _names(channels: int) -> Sequence[str]:
    return VOC if channels == len(VOC) else [f"class {number}" for number in range(channels)]


def _output(model: Model) -> tuple[int, int, int]:
    """Width, height and channels of a segmentation's output. Raises ModelError for another model."""
    shapes = list(model.outputs.values())
    if len(model.inputs) != 1 or len(shapes) != 1 or len(shapes[0]) != 4:
        raise fb.ModelError(f"{model.path.name} is no segmentation: its outputs are {shapes}")
    _, height, width, channels = shapes[0]
    return width, height, channels


def _normalization(channels: int) -> tuple[float, float]:
    """Mean and standard deviation: selfie models take 0 to 1, DeepLab -1 to 1."""
    return (0.0, 1.0) if channels == 1 else (0.5, 0.5)


class _Classes:
    """Colours the classes of each frame."""

    def __init__(self, scene: Scene, scores: fb.GlBuffer, size: tuple[int, int], channels: int) -> None:
        self._scene, self._channels, self._names = scene, channels, _names(channels)
        self._smooth, self._count = smooth_classes(scores, size, channels), share_counter(channels, size, DETECTIONS)
        self._colors = palette(channels)
        self._program = fb.FragmentProgram(self._palette() + _CLASSES)
        self._number, self._shown = 0, list[int]()
        self._last: dict[str, fb.GlTexture] = {}

    def _palette(self) -> str:
        texts = ", ".join(f"vec3{color}" for color in self._colors)
        return f"const vec3 PALETTE[{self._channels}] = vec3[{self._channels}]({texts});\n"

    def draw(self, frame: fb.GlTexture) -> None:
        """Colour the picture."""
        self._last = {"frame": frame, "small": self._smooth(frame)}
        self._program.draw(self._scene.picture, self._last)
        if self._number % LEGEND_FRAMES == 0:
            self._shown = present(self._count(self._last["small"]))
        self._number += 1

    def rows(self) -> list[dict[str, Any]]:
        """The shares of the classes."""
        return class_rows(self._count(self._last["small"])) if self._last else []

    def legend(self, overlay: fb.Marks) -> None:
        """Draw the colours and names of the classes in the picture."""
        draw_classes(overlay, self._shown, self._channels, self._scene.picture.size)

    def mask(self) -> Mask:
        """Make the mask of numbers of classes, and a picture of their colours on black."""
        size = self._scene.picture.size
        program, show = enlarge_classes(self._channels), fb.FragmentProgram(self._palette() + _NUMBERS)
        numbers, picture = fb.GlTexture(*size, "r8", label="the classes"), fb.GlTexture(*size, "rgba8", label="masks")

        def drawn() -> fb.GlTexture:
            program.draw(numbers, self._last)
            return numbers

        def shown() -> fb.GlTexture:
            show.draw(picture, {"numbers": drawn()})
            return picture

        return Mask(lambda: drawn().read(reason=MASKS)[..., 0], shown, self._names)


def present(shares: npt.NDArray[Any]) -> list[int]:
    """The classes whose share of the picture is not small, without the background; the largest first."""
    order = np.argsort(-shares, kind="stable")
    return [int(number) for number in order if number and shares[number] >= LEAST_SHARE]


class _People:
    """Draws a mask of people for each frame."""

    def __init__(self, scene: Scene, scores: fb.GlBuffer, size: tuple[int, int], channels: int) -> None:
        self._smooth, self._program = smooth_person(scores, size, channels, PERSON), enlarge()
        self._count = share_counter(2, size, DETECTIONS)  # a mask's values are rounded to 0 and 1
        self._mask = fb.GlTexture(*scene.picture.size, "r8", label="the mask")
        self._small: fb.GlTexture | None = None

    def draw(self, frame: fb.GlTexture) -> fb.GlTexture:
        """The mask at the picture's size."""
        self._small = self._smooth(frame)
        self._program.draw(self._mask, {"frame": frame, "small": self._small})
        return self._mask

    def rows(self) -> list[dict[str, Any]]:
        """The share of the picture that people cover."""
        return person_rows(float(self._count(self._small)[1])) if self._small is not None else []

    def mask(self) -> Mask:
        """Make the mask that the effects use, and a grey picture of it."""
        show, picture = fb.FragmentProgram(_GREY), fb.GlTexture(*self._mask.size, "rgba8", label="masks")

        def shown() -> fb.GlTexture:
            show.draw(picture, {"mask": self._mask})
            return picture

        return Mask(lambda: self._mask.read(reason=MASKS)[..., 0], shown)


def _cutout(scene: Scene, mask: Callable[[fb.GlTexture], fb.GlTexture], behind: fb.GlTexture) -> Draw:
    program = fb.FragmentProgram(_CUTOUT)
    return lambda frame: program.draw(scene.picture, {"frame": frame, "mask": mask(frame), "behind": behind})


def _blur(scene: Scene, mask: Callable[[fb.GlTexture], fb.GlTexture]) -> Draw:
    width, height = scene.picture.size
    size = (max(round(width * BLURRED_HEIGHT / height), 1), BLURRED_HEIGHT)
    one, two = (fb.GlTexture(*size, "rgba16f", label=f"the background {n}") for n in range(2))
    behind, blur, show = (fb.FragmentProgram(text) for text in (_BEHIND, _BLUR, _BLURRED))
    across, down = (1 / size[0], 0.0), (0.0, 1 / size[1])

    def draw(frame: fb.GlTexture) -> None:
        textures = {"frame": frame, "mask": mask(frame)}
        behind.draw(one, textures, uniforms={"pixel": (across[0], down[1])})
        blur.draw(two, {"sharp": one}, uniforms={"pixel": across})
        blur.draw(one, {"sharp": two}, uniforms={"pixel": down})
        show.draw(scene.picture, {**textures, "behind": one})

    return draw


def _background(text: str) -> fb.GlTexture:
    """A texture of one texel for a colour, or of the picture's size for a picture file."""
    if text.startswith("#"):
        color = 255 * np.array(_color(text))
        return fb.GlTexture.from_array(color.round().astype(np.uint8).reshape(1, 1, 3))
    picture = read_picture(text)
    if picture is None:
        raise fb.SourceError(f"the background '{text}' is no picture that can be read, and no colour as #rrggbb")
    return fb.GlTexture.from_array(picture)


def _color(text: str) -> Color:
    """Red, green and blue, from 0 to 1, of a colour as #rrggbb. Raises SourceError if it is none."""
    try:
        red, green, blue = bytes.fromhex(text[1:])
    except ValueError as error:
        raise fb.SourceError(
            f"the background '{text}' is no colour: write it as #rrggbb, for instance #00b140"
        ) from error
    return red / 255, green / 255, blue / 255
