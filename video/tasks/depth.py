"""Colours each frame by depth: from black, the farthest, to light yellow, the nearest.

Models of relative depth, as MiDaS (Ranftl et al., 2020) and Depth Anything (Yang et al., 2024), put out inverse depth
up to an unknown scale and shift: the larger, the nearer. What is shown is the place of each value in the range of the
frames, which follows them smoothly (``vision/reduction.py``), so that colours do not flicker.

Models of metric depth, as ZoeDepth (Bhat et al., 2023) and UniDepth (Piccinelli et al., 2024), put out metres: the
larger, the farther. The user says so, or a name; a picture then shows the other end of the range as near.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..basic_types import Array
from ..copies import MASKS
from ..layouts import PictureShape
from ..sampling import Values, resample
from ..task import (
    Drawing,
    Finder,
    Fit,
    Mask,
    Match,
    Model,
    Run,
    Scene,
    VideoTask,
    maps_of,
    picture_of,
    sampling_of,
)
from ..vision.reduction import Reduction, smooth

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's pictures, from 0 to 1, by which MiDaS and Depth Anything normalize."""
NAME = re.compile(
    r"(?<![a-z])(zoe_?depth|uni_?depth|metric3d|depth(?!_?wise|_?to_?space|2space)|disparity|midas)", re.IGNORECASE
)
"""Names of files and outputs that say that a map of one channel is depth; not those of operators."""
Unit = Literal["inverse", "metres"]
METRIC = re.compile(r"(?<![a-z])(metric|metres|meters|zoe_?depth|uni_?depth)", re.IGNORECASE)
"""Names of files and outputs that say that depth is in metres."""
SMALLEST = 1e-6
"""The least range of values: what is flat is not divided by 0."""
POINT = 10.0
"""Diameter in pixels of the points at the nearest and the farthest place."""
# Of the values: the lowest, the highest, and the numbers of their places. Floats are exact up to 16 million.
_VECTOR = "vec4 vector(int n) { return vec4(value[n], value[n], n, n); }"
_JOIN = """
vec4 join(vec4 one, vec4 other) {
    bool lower = other.x < one.x || (other.x == one.x && other.z < one.z);
    bool higher = other.y > one.y || (other.y == one.y && other.w < one.w);
    return vec4(lower ? other.xz : one.xz, higher ? other.yw : one.yw).xzyw;
}
"""
_NEARNESS = """
uniform sampler2D range;
layout(std430, binding = 0) readonly buffer values { float value[]; };
float at(ivec2 place) {
    place = clamp(place, ivec2(0), ivec2(WIDTH, HEIGHT) - 1);
    return value[place.y * WIDTH + place.x];
}
float nearness() {
    vec2 place = uv * vec2(WIDTH, HEIGHT) - 0.5, share = fract(place), ends = texelFetch(range, ivec2(1, 0), 0).xy;
    ivec2 p = ivec2(floor(place));
    float above = mix(at(p), at(p + ivec2(1, 0)), share.x);
    float below = mix(at(p + ivec2(0, 1)), at(p + ivec2(1, 1)), share.x);
    float part = clamp((mix(above, below, share.y) - ends.x) / max(ends.y - ends.x, SMALLEST), 0.0, 1.0);
    return IS_METRIC ? 1.0 - part : part;
}
"""
_SHOW = """
uniform sampler2D colors;
void main() { color = texture(colors, vec2((255.0 * nearness() + 0.5) / 256.0, 0.5)); }
"""
_VALUES = "void main() { color = vec4(nearness()); }\n"


def fits(model: Model) -> Fit | None:
    """Whether the model's one output has one channel. Such a map may be a mask: names say that it is depth."""
    maps, picture = maps_of(model), picture_of(model)
    if picture is None or picture.channels == 4 or len(maps) != 1 or maps[0] is None or maps[0].channels != 1:
        return None
    if model.choices:  # classes, of segment
        return None
    (output,), size = model.outputs, f"{maps[0].width} x {maps[0].height}"
    if model.metadata.task == "depth":
        return Fit(Match.METADATA, "its file says so")
    for what, name in (("output is called", model.names[output]), ("file is called", model.path.stem)):
        if NAME.search(name):
            return Fit(Match.OUTPUTS, f"its one output is a map of {size}, and its {what} '{name}'")
    return Fit(Match.ANY, f"its one output is a map of {size}, but nothing says that it is depth")


def map_of(model: Model) -> PictureShape:
    """The sizes of the model's map. Raises ModelError for a model of other outputs."""
    maps = maps_of(model)
    if len(maps) != 1 or maps[0] is None or maps[0].channels != 1:
        raise fb.ModelError(
            f"{model.path.name} gives no depth: its outputs are {list(model.outputs.values())}; framebind inspect "
            "names its task"
        )
    return maps[0]


def unit_of(model: Model, depth: str = "") -> Unit:
    """The unit of the model's values: ``depth`` if the user says it, else metres if a name says so."""
    names = (model.path.stem, *(model.names[output] for output in model.outputs))
    is_metric = depth == "metres" if depth else any(map(METRIC.search, names))
    return "metres" if is_metric else "inverse"


def finder(
    model: Model,
    size: tuple[int, int],
    mean: Values | None = None,
    std: Values | None = None,
    depth: str = "",
) -> Finder:
    """Find the nearest and the farthest place of each frame, and how near each pixel is.

    ``depth`` is the unit of the values, "inverse" or "metres"; "" takes that of ``unit_of``. Raises ModelError for a
    model without a map of one channel.
    """
    shape, sampling = map_of(model), sampling_of(model, mean, std, usual=IMAGENET)
    is_metric = unit_of(model, depth) == "metres"
    found, range_, values = list[dict[str, Any]](), None, np.zeros((shape.height, shape.width, 1), np.float32)

    def find(run: Run) -> list[dict[str, Any]]:
        nonlocal found, range_, values
        (output,) = run.outputs(sampling)
        values = shape.from_tensor(output)
        places = _ordered((int(values.argmin()), int(values.argmax())), is_metric=is_metric)
        range_ = smooth(range_, np.array([values.min(), values.max()], np.float32))
        found = rows_of(places, shape, size)
        return found

    def near(shown: tuple[int, int]) -> Array:
        assert range_ is not None, "a frame was seen"
        large = resample(values, shown[::-1])[..., 0]
        part = np.clip((large - range_[0]) / max(range_[1] - range_[0], SMALLEST), 0, 1)
        return 1 - part if is_metric else part

    def colored(shown: tuple[int, int]) -> npt.NDArray[np.uint8]:
        return colors()[np.rint(255 * near(shown)).astype(np.uint8)]

    mask = Mask(lambda: in_16_bits(near(size)), partial(colored, size))
    return Finder(find, lambda marks: mark_places(marks, found), mask, colored)


def _ordered(places: tuple[int, int], *, is_metric: bool) -> tuple[int, int]:
    """The numbers of the farthest and the nearest place, from those of the lowest and the highest value."""
    low, high = places
    return (high, low) if is_metric else (low, high)


def rows_of(places: tuple[int, int], shape: PictureShape, size: tuple[int, int]) -> list[dict[str, Any]]:
    """The rows of the numbers of the farthest and the nearest place, whose points are in pixels of the picture."""
    rows = list[dict[str, Any]]()
    for name, place in zip(("nearest", "farthest"), places[::-1], strict=True):
        y, x = divmod(place, shape.width)
        point = (x + 0.5) * size[0] / shape.width, (y + 0.5) * size[1] / shape.height
        rows.append({"class": name, "points": [[round(each, 2) for each in point]]})
    return rows


def mark_places(marks: fb.video.Marks, rows: list[dict[str, Any]]) -> None:
    """Mark the nearest and the farthest place."""
    for row in rows:
        ((x, y),) = row["points"]
        marks.point(x, y, (1.0, 1.0, 1.0), POINT)
        marks.text(row["class"], x + POINT, y)


@cache
def colors() -> npt.NDArray[np.uint8]:
    """The 256 colours of inferno (van der Walt and Smith, 2015, for matplotlib), (256, RGBA), as OpenCV has them."""
    import cv2

    table = cv2.applyColorMap(np.arange(256, dtype=np.uint8)[:, None], cv2.COLORMAP_INFERNO)[:, 0, ::-1]
    return np.concatenate([table, np.full((256, 1), 255)], axis=1).astype(np.uint8)


def in_16_bits(nearness: Array) -> npt.NDArray[np.uint16]:
    """Values from 0 (the farthest) to 1 as integers up to 65535."""
    return np.rint(65535 * nearness).astype(np.uint16)


# The picture by OpenGL ------------------------------------------------------------------------------------------------


def drawing(scene: Scene, mean: Values | None = None, std: Values | None = None, depth: str = "") -> Drawing:
    """Draw the colours of depth. Of each frame 32 bytes come to the CPU, for the rows and the marks."""
    network, picture, shape = scene.network, scene.picture, map_of(scene.network)
    sampling = sampling_of(network, mean, std, usual=IMAGENET)
    (image,), (output,) = network.inputs, network.outputs
    values = fb.GlBuffer(4 * shape.width * shape.height, label="the depth")
    network.bind(output, values)
    reduction = Reduction(values, shape.width * shape.height, _VECTOR, _JOIN)
    is_metric = unit_of(network, depth) == "metres"
    nearness = (
        f"const int WIDTH = {shape.width}, HEIGHT = {shape.height};\nconst float SMALLEST = {SMALLEST};\n"
        f"const bool IS_METRIC = {str(is_metric).lower()};\n{_NEARNESS}"
    )
    show, table = fb.FragmentProgram(nearness + _SHOW), fb.GlTexture.from_array(colors()[None])
    rows: list[dict[str, Any]] | None = None

    def draw(frame: fb.GlTexture) -> None:
        nonlocal rows
        network.bind_sampled(image, frame, sampling)
        network.run()
        reduction.reduce()
        rows = None
        show.draw(picture, {"range": reduction.vectors, "colors": table}, {"values": values})

    def found() -> list[dict[str, Any]]:
        nonlocal rows
        if rows is None:
            _, _, low, high = reduction.read()[0]
            rows = rows_of(_ordered((int(low), int(high)), is_metric=is_metric), shape, picture.size)
        return rows

    def mask() -> Mask:
        by_value, large = fb.FragmentProgram(nearness + _VALUES), fb.GlTexture(*picture.size, "r32f", label="the mask")
        colored = fb.GlTexture(*picture.size, "rgba8", label="masks")

        def read() -> npt.NDArray[np.uint16]:
            by_value.draw(large, {"range": reduction.vectors}, {"values": values})
            return in_16_bits(large.read(reason=MASKS)[..., 0])

        def shown() -> fb.GlTexture:
            show.draw(colored, {"range": reduction.vectors, "colors": table}, {"values": values})
            return colored

        return Mask(read, shown)

    return Drawing(draw, mark=lambda marks: mark_places(marks, found()), results=found, mask=mask)


TASK = VideoTask(
    "", finder, drawing, options=("mean", "std", "depth"), saves=("video", "masks", "jsonl", "parquet"),
    masks=("video", "png"), is_painted=False, fits=fits,
)  # fmt: skip
