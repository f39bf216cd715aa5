"""Shows how each pixel moves from the frame before to this one: directions are colours, of the wheel of Baker et al."""

from __future__ import annotations

import math
from typing import Any

import numpy.typing as npt

import framebind as fb

from ..layouts import PictureShape, map_shape, picture_shape
from ..sampling import Values
from ..task import Drawing, Finder, Fit, Match, Model, Run, Scene, VideoTask, sampling_of
from ..vision.color_wheel import WHEEL_COLOR, wheel_table
from ..vision.reduction import Reduction

USUAL = (0.5, 0.5)
"""Mean and standard deviation of the pictures of RAFT (Teed and Deng, 2020) as torchvision has it: from -1 to 1."""
LEAST = 1.0
"""The least length, in pixels of the model's picture, that has a full colour: a still picture is white."""
WHITE, SHADE = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
_FLOW = "vec2 flow(int n) { return vec2(value[n * STEP], value[n * STEP + NEXT]); }\n"
# The sums of x and y, and the longest motion.
_VECTOR = f"{_FLOW}vec4 vector(int n) {{ return vec4(flow(n), length(flow(n)), 0.0); }}"
_JOIN = "vec4 join(vec4 one, vec4 other) { return vec4(one.xy + other.xy, max(one.z, other.z), 0.0); }"
_SHOW = f"""
uniform sampler2D range;
layout(std430, binding = 0) readonly buffer values {{ float value[]; }};
{_FLOW}
vec2 at(ivec2 place) {{
    place = clamp(place, ivec2(0), ivec2(WIDTH, HEIGHT) - 1);
    return flow(place.y * WIDTH + place.x);
}}
{WHEEL_COLOR}
void main() {{
    vec2 place = uv * vec2(WIDTH, HEIGHT) - 0.5, share = fract(place);
    ivec2 p = ivec2(floor(place));
    vec2 above = mix(at(p), at(p + ivec2(1, 0)), share.x);
    vec2 below = mix(at(p + ivec2(0, 1)), at(p + ivec2(1, 1)), share.x);
    float longest = max(texelFetch(range, ivec2(1, 0), 0).z, {LEAST});
    color = vec4(wheel_color(mix(above, below, share.y) / longest), 1.0);
}}
"""


def flow_of(model: Model) -> tuple[PictureShape, PictureShape] | None:
    """The sizes of the two pictures of three channels that a model takes, and of its one output of two channels.

    None for any other model.
    """
    pictures = [picture_shape(shape, model.layouts[tensor]) for tensor, shape in model.inputs.items()]
    if len(pictures) != 2 or (picture := pictures[0]) is None or picture != pictures[1] or picture.channels != 3:
        return None
    if len(model.outputs) != 1:
        return None
    ((tensor, shape),) = model.outputs.items()
    flow = map_shape(shape, model.layouts[tensor], picture)
    return None if flow is None or flow.channels != 2 else (picture, flow)


def fits(model: Model) -> Fit | None:
    """Whether the model takes two pictures and gives two numbers for each place."""
    found = flow_of(model)
    if found is None:
        return None
    return Fit(Match.OUTPUTS, f"it takes two pictures, and its one output has 2 channels of {found[1].size[0]} x "
               f"{found[1].size[1]}")  # fmt: skip


def sizes_of(model: Model) -> tuple[PictureShape, PictureShape]:
    """The sizes of picture and flow. Raises ModelError for a model of another kind."""
    found = flow_of(model)
    if found is None:
        raise fb.ModelError(
            f"{model.path.name} gives no optical flow: it takes {list(model.inputs.values())} and gives "
            f"{list(model.outputs.values())}, not two pictures and a map of two channels"
        )
    return found


def finder(model: Model, size: tuple[int, int], mean: Values | None = None, std: Values | None = None) -> Finder:
    """Find the mean motion since the frame before; the first frame has none.

    Flow is in pixels of the model's picture, as RAFT's is, and is given in pixels of the frame. Raises ModelError for a
    model of another kind.
    """
    (picture, flow), sampling = sizes_of(model), sampling_of(model, mean, std, usual=USUAL)
    found, is_first = list[dict[str, Any]](), True

    def find(run: Run) -> list[dict[str, Any]]:
        nonlocal found, is_first
        (values,) = run.outputs(sampling)
        if not is_first:
            found = rows_of(flow.from_tensor(values).mean((0, 1)), picture, size)
        is_first = False
        return found

    return Finder(find, lambda marks: mark_motion(marks, found))


def rows_of(motion: npt.NDArray[Any], picture: PictureShape, size: tuple[int, int]) -> list[dict[str, Any]]:
    """The row of a mean motion (x, y) in pixels of the model's ``picture``: from the middle of the frame, a way."""
    middle = size[0] / 2, size[1] / 2
    end = (
        middle[0] + float(motion[0]) * size[0] / picture.width,
        middle[1] + float(motion[1]) * size[1] / picture.height,
    )
    return [{"class": "motion", "points": [[round(each, 3) for each in point] for point in (middle, end)]}]


def mark_motion(marks: fb.video.Marks, found: list[dict[str, Any]]) -> None:
    """Draw the mean motion as a line from a point in the middle, with its length."""
    for row in found:
        (x0, y0), (x1, y1) = row["points"]
        for color, more in ((SHADE, 2.0), (WHITE, 0.0)):
            marks.line(x0, y0, x1, y1, color, 2.0 + more)
            marks.point(x0, y0, color, 8.0 + more)
        text = f"{math.hypot(x1 - x0, y1 - y0):.1f} pixels"
        marks.text(text, x0 + 9.0, y0 + 9.0, SHADE)


# The picture by OpenGL ------------------------------------------------------------------------------------------------


def drawing(scene: Scene, mean: Values | None = None, std: Values | None = None) -> Drawing:
    """Draw the colours of the flow. The frame before is copied on the GPU; 32 bytes per frame are read.

    The longest motion, which has the full colour, follows the frames smoothly.
    """
    network, target, (picture, flow) = scene.network, scene.picture, sizes_of(scene.network)
    sampling = sampling_of(network, mean, std, usual=USUAL)
    (before, after), (output,), count = network.inputs, network.outputs, flow.width * flow.height
    values = fb.GlBuffer(4 * 2 * count, label="the flow")
    network.bind(output, values)
    step, following = (1, count) if flow.layout == "nchw" else (2, 1)
    place = f"const int STEP = {step}, NEXT = {following};\n"
    reduction = Reduction(values, count, place + _VECTOR, _JOIN)
    show = fb.FragmentProgram(f"const int WIDTH = {flow.width}, HEIGHT = {flow.height};\n{place}{_SHOW}")
    wheel, previous = fb.GlTexture.from_array(wheel_table()), fb.GlTexture(*target.size, label="the frame before")
    frames, rows = 0, list[dict[str, Any]]()

    def draw(frame: fb.GlTexture) -> None:
        nonlocal frames
        if frames == 0:
            previous.copy_from(frame)
        network.bind_sampled(before, previous, sampling)
        network.bind_sampled(after, frame, sampling)
        network.run()
        previous.copy_from(frame)
        reduction.reduce()
        rows.clear()
        frames += 1
        show.draw(target, {"range": reduction.vectors, "wheel": wheel}, {"values": values})

    def found() -> list[dict[str, Any]]:
        if frames > 1 and not rows:
            rows.extend(rows_of(reduction.read()[0, :2] / count, picture, target.size))
        return rows

    return Drawing(draw, mark=lambda marks: mark_motion(marks, found()), results=found)


TASK = VideoTask("", finder, drawing, options=("mean", "std"), has_pairs=True, is_painted=False, fits=fits)
