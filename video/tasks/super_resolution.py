"""Enlarges each frame by a model of super-resolution: as a whole, or in tiles if the model takes one size.

A model of one size, such as 64 x 64 to 256 x 256, runs once per tile. Tiles overlap by OVERLAP pixels of the frame, at
most a quarter of a tile. Of an overlap, the outer quarter on each side is left out, as a model knows little of what is
beside its picture, and the middle half goes linearly from one tile to the next: no seam is visible.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import framebind as fb

from ..layouts import PictureShape, map_shape
from ..network import Network
from ..sampling import Crop, Values
from ..task import Drawing, Fit, Match, Model, Scene, VideoTask, picture_of, sampling_of

OVERLAP = 16
"""Pixels of the frame that neighbouring tiles have in common, at least."""
# ``place`` counts pixels of the frame from the tile's top left corner. ``shift`` is the way from the corner of the tile
# on the left, and of the one above; a tile without such a neighbour gets itself, and 0.
_SHOW = """
uniform sampler2D here, left, above, corner;
uniform vec2 size, shift;
vec3 at(sampler2D tile, vec2 place) { return texture(tile, place / vec2(WIDTH, HEIGHT)).rgb; }
vec3 enlarged(vec2 place) {
    vec2 share = clamp((place - 0.25 * OVERLAP) / max(0.5 * OVERLAP, 0.001), 0.0, 1.0);
    vec3 upper = mix(at(corner, place + shift), at(above, place + vec2(0.0, shift.y)), share.x);
    vec3 lower = mix(at(left, place + vec2(shift.x, 0.0)), at(here, place), share.x);
    return mix(upper, lower, share.y);
}
void main() {
    vec3 sum = vec3(0.0);
    for (int n = 0; n < SAMPLES * SAMPLES; n++)
        sum += enlarged(uv * size + (vec2(n % SAMPLES, n / SAMPLES) + 0.5) / float(SAMPLES) - 0.5);
    color = vec4(sum / float(SAMPLES * SAMPLES), 1.0);
}
"""


def scale_of(model: Model) -> int:
    """The number of times that the model's one output is larger than its one picture of three channels; 0 if it is not
    a whole number from 2 on, the same in both directions.
    """
    picture = picture_of(model)
    if picture is None or picture.channels != 3 or len(model.outputs) != 1:
        return 0
    ((tensor, shape),) = model.outputs.items()
    made = map_shape(shape, model.layouts[tensor], picture)
    if made is None or made.channels != 3:
        return 0
    scale = made.height // picture.height
    return scale if scale >= 2 and made.size == (scale * picture.width, scale * picture.height) else 0


def fits(model: Model) -> Fit | None:
    """Whether the model's one output is its picture, several times as large."""
    scale = scale_of(model)
    return Fit(Match.OUTPUTS, f"its one output is a picture, {scale} times as large as the input") if scale else None


def enlarges(model: Model) -> int:
    """The number of times that the saved picture is larger than the frame; 1 for a model that ``drawing`` refuses."""
    return max(scale_of(model), 1)


def drawing(scene: Scene, mean: Values | None = None, std: Values | None = None) -> Drawing:
    """Run the model on each tile, and draw what it made into the picture, which has ``scene.enlarged`` times the
    frame's size.

    ``mean`` and ``std`` are those of both pictures' values from 0 to 1. Raises ModelError for a model whose output is
    no enlarged picture.
    """
    network, scale = scene.network, scale_of(scene.network)
    if not scale:
        raise fb.ModelError(
            f"{network.path.name} enlarges no picture: it takes {list(network.inputs.values())} and gives "
            f"{list(network.outputs.values())}"
        )
    frame_size = scene.picture.size[0] // scene.enlarged, scene.picture.size[1] // scene.enlarged
    shape = _fitted(network, frame_size)
    (image,), (output,) = network.inputs, network.outputs
    grid = Grid(shape.size, frame_size)
    # A row of tiles, and the row above it: a tile is blended with its neighbours on the left and above.
    columns, count = len(grid.starts(0)), min(len(grid.starts(1)), 2)
    rows = [[_texture(scale, shape, f"tile {row}, {n}") for n in range(columns)] for row in range(count)]
    samples = math.ceil(scale / scene.enlarged / 2)
    show = fb.FragmentProgram(
        f"const float WIDTH = {shape.width}.0, HEIGHT = {shape.height}.0, OVERLAP = {grid.overlap}.0;\n"
        f"const int SAMPLES = {samples};\n{_SHOW}"
    )
    sampling, tiles = sampling_of(network, mean, std, usual=(0.0, 1.0)), grid.tiles()

    def draw(frame: fb.GlTexture) -> None:
        for tile in tiles:
            this, above = rows[tile.row % count], rows[max(tile.row - 1, 0) % count]
            here, before = tile.column, max(tile.column - 1, 0)
            network.bind_sampled(image, frame, sampling._replace(crop=tile.crop))
            network.bind_sampled(output, this[here], sampling)
            network.run()
            x, y, width, height = tile.cell
            show.draw(
                scene.picture,
                {"here": this[here], "left": this[before], "above": above[here], "corner": above[before]},
                uniforms={"size": (float(width), float(height)), "shift": tile.shift},
                viewport=(x * scene.enlarged, y * scene.enlarged, width * scene.enlarged, height * scene.enlarged),
            )

    return Drawing(draw)


def _fitted(network: Network, frame: tuple[int, int]) -> PictureShape:
    """The sizes of the model's picture: a model of any size gets the frame's (width, height)."""
    shape, (image,) = picture_of(network), network.inputs
    assert shape is not None, "scale_of knows the model"
    if network.takes_any_size(image):
        shape = shape._replace(width=frame[0], height=frame[1])
        network.resize(image, shape.shape)
    return shape


def _texture(scale: int, shape: PictureShape, label: str) -> fb.GlTexture:
    return fb.GlTexture(scale * shape.width, scale * shape.height, "rgba8", label=label)


class Tile(NamedTuple):
    """A part of the frame that the model sees at once; all figures are pixels of the frame."""

    row: int
    column: int
    crop: Crop
    """The part: x, y, width, height."""
    cell: tuple[int, int, int, int]
    """The part in which no later tile begins: it can be drawn when this tile is done."""
    shift: tuple[float, float]
    """The way from the beginning of the tile on the left, and of the one above; 0 if there is none."""


class Grid(NamedTuple):
    """The tiles of a frame: as few as overlap enough, evenly spread. A frame that is smaller than a tile is one."""

    tile: tuple[int, int]
    frame: tuple[int, int]
    """Width and height."""

    @property
    def overlap(self) -> int:
        """The least overlap of two tiles. With a quarter of a tile, never more than two tiles are blended."""
        return min(OVERLAP, *(side // 4 for side in self.tile))

    def starts(self, axis: int) -> list[int]:
        """The first pixel of each column (axis 0) or row (axis 1)."""
        tile, rest = self.tile[axis], max(self.frame[axis] - self.tile[axis], 0)
        steps = math.ceil(rest / (tile - self.overlap))
        return [round(n * rest / steps) for n in range(steps + 1)] if steps else [0]

    def tiles(self) -> list[Tile]:
        """The tiles row by row."""
        (width, height), xs, ys = self.tile, self.starts(0), self.starts(1)
        right, below = [*xs[1:], self.frame[0]], [*ys[1:], self.frame[1]]
        return [
            Tile(
                row, column, (x, y, width, height), (x, y, right[column] - x, below[row] - y),
                (float(x - xs[max(column - 1, 0)]), float(y - ys[max(row - 1, 0)])),
            )
            for row, y in enumerate(ys)
            for column, x in enumerate(xs)
        ]  # fmt: skip


TASK = VideoTask(
    "", None, drawing, options=("mean", "std"), has_memory=False, is_painted=False, fits=fits, enlarges=enlarges
)
