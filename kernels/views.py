"""Views: the layouts of a tensor in memory, through which kernels read and write.

A tensor's shape is always BHWC here: batch, height, width, channels. A view is chosen by the engine, never by a kernel:
the same kernel text reads an f16 intermediate, a user's float32 buffer or a camera texture.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

from .colours import YuvColours
from .tensor import STORED_BYTES, Shape, slices

Storage = Literal["f32", "f16", "i32", "u8", "u16"]
SLICE_BYTES: dict[str, int] = {"f32": 16, "f16": 8, "i32": 16, "u8": 4, "u16": 8}
"""Bytes of one slice (four channels of one pixel) by storage. "u8" are whole numbers from 0 to 255, "u16" pairs of
them: see ``pairs_of_channels``.
"""
TEXTURE_CHANNELS: dict[str, int] = {
    "rgba8": 4, "rgba16f": 4, "rgba32f": 4, "r8": 1, "r32f": 1,
    "r16": 1, "r16f": 1, "rg8": 2, "rg16": 2, "rg16f": 2, "rg32f": 2,
    "rgb8": 3, "rgb16": 3, "rgb16f": 3, "rgb32f": 3, "srgb8": 3, "rgb565": 3, "r11f_g11f_b10f": 3, "rgb9_e5": 3,
    "rgba16": 4, "srgb8_alpha8": 4, "rgb10_a2": 4, "rgb5_a1": 4, "rgba4": 4, "bgra8": 4,
}  # fmt: skip
"""Channels of a texel by the texture formats that a tensor can be bound to. Those after the first row are inputs only,
except OpenCL's bgra8. Channels are named, so that it does not matter in which order memory has them.
"""
SAMPLE_BYTES: dict[str, int] = {"uint8": 1, "uint16": 2}
"""Bytes of a number by the types that planes in buffers have."""
ENCODED_FORMATS = frozenset({"srgb8", "srgb8_alpha8"})
"""The formats whose texels the hardware decodes to linear light. Kernels encode them again, because models are trained
on the encoded bytes of photographs: an sRGB texture then gives the same values as the same bytes in rgba8.
"""


@dataclass(frozen=True)
class Sliced:
    """A tensor in a buffer, channels in slices of four: a float4 (f32), four halves (f16), four bytes (u8) or an int4
    (i32) per slice.

    The channels after the last real one are zero: every kernel's WRITE keeps that. ``pixel_stride`` is the number of
    slices from a pixel to the next. It is larger than the tensor's own number of slices if the tensor is a range of
    slices inside a wider one (a concatenation written in place).
    """

    shape: Shape
    storage: Storage = "f32"
    pixel_stride: int = 0

    @property
    def stride(self) -> int:
        return self.pixel_stride or slices(self.shape[3])

    @property
    def nbytes(self) -> int:
        batch, height, width, channels = self.shape
        return ((batch * height * width - 1) * self.stride + slices(channels)) * SLICE_BYTES[self.storage]


def pairs_of_channels(view: Sliced) -> Sliced:
    """A tensor of bytes as one of half as many channels, each a number of 16 bits: the first of two bytes is the lower.

    Matrix units multiply eight bytes where they multiply four halves, so that kernels see one such slice for two.
    """
    batch, height, width, channels = view.shape
    return replace(view, shape=(batch, height, width, channels // 2), storage="u16", pixel_stride=view.stride // 2)


@dataclass(frozen=True)
class Dense:
    """A tensor as float32 BHWC without padding, as in a user's buffer. Element (b, y, x, c) is at ((b*H + y)*W + x)*C +
    c.
    """

    shape: Shape

    @property
    def nbytes(self) -> int:
        batch, height, width, channels = self.shape
        return batch * height * width * channels * 4


@dataclass(frozen=True)
class Strided:
    """A tensor as numbers anywhere in a buffer, as in a user's array: halves, channels first, rows with a pitch.

    Element (b, y, x, c) is number b*strides[0] + y*strides[1] + x*strides[2] + c*strides[3] of the buffer. No stride is
    negative.
    """

    shape: Shape
    dtype: Literal["float32", "float16"]
    strides: tuple[int, int, int, int]

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return 4 if self.dtype == "float32" else 2

    @property
    def nbytes(self) -> int:
        """Bytes from the first number to the end of the last."""
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.itemsize


@dataclass(frozen=True)
class Quantized:
    """A tensor as the model stores it: BHWC integers without padding; value = scale * (stored - zero_point).

    ``dtype`` is a key of STORED_BYTES; truth values, indices and float16 have scale 1 and zero point 0. The buffer
    holds a multiple of four values.
    """

    shape: Shape
    dtype: str
    scale: float
    zero_point: int

    @property
    def fours(self) -> int:
        """The number of groups of four integers that hold the tensor."""
        return -(-math.prod(self.shape) // 4)

    @property
    def nbytes(self) -> int:
        return self.fours * 4 * STORED_BYTES[self.dtype]


@dataclass(frozen=True)
class Table:
    """Constants that a kernel reads by its own index: ``count`` float4 values in f32, f16 or u16."""

    count: int
    storage: Storage = "f32"

    @property
    def nbytes(self) -> int:
        return self.count * SLICE_BYTES[self.storage]


@dataclass(frozen=True)
class Picture:
    """A tensor that is a 2-D texture: batch 1, at most four channels.

    ``format`` is a key of TEXTURE_CHANNELS. ``order`` names the texture's channels in the order of the tensor's
    ("rgb", "bgr", "r", "rgba" ...). ``sampling`` is "exact" if every tensor pixel is one texel, else "bilinear".
    The place of the pixels in the texture and the scale of texels (mean, std) are four float4 parameters of the
    dispatch, not part of the source: see ``picture_parameters``. If it ``is_padded``, pixels beyond the texture have
    the value of one more float4 (``padding_parameters``); else its edge continues. ``region`` is the number of the
    bound object that says where the tensor lies, an argument of its own (``region_name``); 0 if parameters say it.
    ``whole`` rounds what is read: the numbers of a tensor of integers.
    """

    shape: Shape
    format: str
    order: str
    sampling: Literal["exact", "bilinear"] = "exact"
    is_padded: bool = False
    region: int = 0
    whole: bool = False

    nbytes = 0


@dataclass(frozen=True)
class Plane:
    """A plane of a picture: rows of pixels in a buffer, or a texture.

    ``format`` is the type of a buffer's numbers, a key of SAMPLE_BYTES, or a texture's format, a key of
    TEXTURE_CHANNELS. A kernel reads values from 0 to 1 from either. ``lanes`` are the channels of a pixel (1 to 4), and
    ``step`` the numbers of a buffer from a pixel to the next one of its row. ``columns`` and ``rows`` are the pixels of
    the picture that share one of the plane: 2 for chroma of half the width and height. Pixel (y, x) of the plane lies
    in the middle of the pixels that share it, or on the first column of them if ``left``, and on the first row if
    ``top``. The start of each row is a parameter of the picture: see ``plane_parameters``.
    """

    format: str
    lanes: int
    step: int = 0
    columns: int = 1
    rows: int = 1
    left: bool = False
    top: bool = False

    nbytes = 0

    @property
    def is_texture(self) -> bool:
        return self.format in TEXTURE_CHANNELS


@dataclass(frozen=True)
class PlanePicture:
    """A tensor that is sampled from a picture in one to four planes: batch 1, at most four channels.

    It has no memory itself: each plane is an argument of the same kernel (see ``plane_name``). The channels of the
    planes, one plane after the other, are "rgba"; or, with ``colours``, luma and the two chromas, from which "rgb" is
    computed, and "a" is 1. ``order``, ``sampling``, ``is_padded``, ``region`` and ``whole`` are those of Picture.
    ``memories`` has the number of the bound object that holds each plane. Parameters: the four float4 of a Picture, one
    for each plane, the region's, and the padding's.
    """

    shape: Shape
    planes: tuple[Plane, ...]
    memories: tuple[int, ...]
    order: str
    sampling: Literal["exact", "bilinear"] = "exact"
    colours: YuvColours | None = None
    is_padded: bool = False
    region: int = 0
    whole: bool = False

    nbytes = 0


@dataclass(frozen=True)
class Local:
    """A vector of channels for each picture, in local memory, which each work-group computes for itself."""

    shape: Shape

    nbytes = 0


View = Sliced | Dense | Strided | Quantized | Table | Picture | Plane | PlanePicture | Local
Sampled = Picture | PlanePicture
"""The views that are sampled. Parameters of the dispatch say where."""


def parameter_count(view: View) -> int:
    """The number of floats that a kernel takes by value for a sampled argument: four float4, and one more for each
    plane, for the region and for the padding.
    """
    if not isinstance(view, Sampled):
        return 0
    return region_parameter(view) * 4 + 4 * bool(view.region) + 4 * view.is_padded


def region_parameter(view: Sampled) -> int:
    """The number of the float4 that belongs to the region of a sampled argument, if it has one."""
    return 4 + (len(view.planes) if isinstance(view, PlanePicture) else 0)


def region_name(picture: str) -> str:
    """The name of the argument that is the region of the argument ``picture``: a table of rows of two float4."""
    return f"{picture}_region"


def plane_name(picture: str, number: int) -> str:
    """The name of the argument that is a plane of the argument ``picture``."""
    return f"{picture}_plane{number}"


@dataclass(frozen=True)
class Resize:
    """A change of height and width. ``size`` is the output's (height, width). ``align_corners`` maps the centres of
    corner pixels onto each other. ``bilinear`` mixes the four nearest pixels; otherwise the nearest one is taken.
    """

    size: tuple[int, int]
    _: KW_ONLY
    align_corners: bool = False
    half_pixel_centers: bool = False
    bilinear: bool


Access = Literal["r", "w", "rw"]


def picture_parameters(
    shape: Shape,
    texture: tuple[int, int],
    *,
    crop: tuple[float, float, float, float] | None = None,
    rotation: float = 0.0,
    flip: str = "",
    mean: tuple[float, ...] = (0.0,),
    std: tuple[float, ...] = (1.0,),
    write: bool = False,
) -> tuple[float, ...]:
    """The sixteen floats that place a tensor of BHWC ``shape`` in a texture of (width, height) texels and scale its
    values.

    Row 0 of the tensor is row 0 of the texture. The tensor covers the rectangle ``crop`` (x, y, width, height in
    texels; by default the whole texture) turned by ``rotation`` degrees clockwise around the rectangle's centre;
    ``flip`` mirrors it first: "horizontal", "vertical" or "both". A value is (texel - mean) / std when read, and the
    texel is value * std + mean when written. The floats are four float4: two rows of the affine map from the centres of
    the tensor's pixels to texels (their last elements are the texture's width and height), then a factor and an addend
    for each channel.
    """
    _, height, width, channels = shape
    quarter_turned = rotation % 180 == 90
    if crop is None:
        crop_width, crop_height = texture[::-1] if quarter_turned else texture
        centre_x, centre_y = texture[0] / 2, texture[1] / 2
    else:
        crop_width, crop_height = crop[2], crop[3]
        centre_x, centre_y = crop[0] + crop[2] / 2, crop[1] + crop[3] / 2
    cosine, sine = round(math.cos(math.radians(rotation)), 12), round(math.sin(math.radians(rotation)), 12)
    across = (-1 if flip in ("horizontal", "both") else 1) * crop_width / width
    down = (-1 if flip in ("vertical", "both") else 1) * crop_height / height
    # texel = centre + turn * scale * (pixel centre - tensor centre)
    rows = []
    for (a, b), centre, size in (((cosine, -sine), centre_x, texture[0]), ((sine, cosine), centre_y, texture[1])):
        rows += [a * across, b * down, centre - a * across * width / 2 - b * down * height / 2, float(size)]
    means, stds = (_per_channel(values, channels) for values in (mean, std))
    if write:
        return (*rows, *stds, *([1.0] * (4 - channels)), *means, *([0.0] * (4 - channels)))
    factors, addends = [1 / s for s in stds], [-m / s for m, s in zip(means, stds, strict=True)]
    return (*rows, *factors, *([0.0] * (4 - channels)), *addends, *([0.0] * (4 - channels)))


def plane_parameters(size: tuple[int, int], pitch: int = 0, first_row: int = 0) -> tuple[float, ...]:
    """The float4 of a plane: its width and height, the distance of two rows in the buffer (in numbers), and the row of
    the buffer at which it begins. Floats hold whole numbers up to 2^24.
    """
    return (float(size[0]), float(size[1]), float(pitch), float(first_row))


def region_parameters(shape: Shape, index: int, steps: int) -> tuple[float, ...]:
    """The float4 of a region of which a tensor of BHWC ``shape`` is a picture: the number of its row, the steps of a
    pixel to which coordinates are rounded (0: none), and the width and height of a tensor's pixel in the region.
    """
    return (float(index), float(steps), 1 / shape[2], 1 / shape[1])


def padding_parameters(
    channels: int, pad: tuple[float, ...], *, mean: tuple[float, ...] = (0.0,), std: tuple[float, ...] = (1.0,)
) -> tuple[float, ...]:
    """The float4 of a padding: the tensor's values, (pad - mean) / std, where the tensor lies beyond the texture."""
    pads, means, stds = (_per_channel(values, channels) for values in (pad, mean, std))
    return (*[(p - m) / s for p, m, s in zip(pads, means, stds, strict=True)], *[0.0] * (4 - channels))


def _per_channel(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    if len(values) not in (1, channels):
        raise ValueError(f"{len(values)} values for {channels} channels: give one, or one per channel")
    return tuple(float(v) for v in values) * (channels if len(values) == 1 else 1)
