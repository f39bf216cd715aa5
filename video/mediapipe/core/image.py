"""``mp.Image``: a picture in the CPU's memory that does not change."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from ...basic_types import Array
from .errors import MissingModelError, TaskError


class ImageFormat(enum.IntEnum):
    """Formats of pixels, with MediaPipe's names and numbers.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.ImageFormat.SRGB, int(mp.ImageFormat.VEC32F1)
    (<ImageFormat.SRGB: 1>, 9)
    """

    UNKNOWN = 0
    SRGB = 1
    SRGBA = 2
    GRAY8 = 3
    GRAY16 = 4
    SRGB48 = 7
    SRGBA64 = 8
    VEC32F1 = 9
    VEC32F2 = 12
    VEC32F4 = 13


_LAYOUTS: dict[ImageFormat, tuple[type[Any], int]] = {
    ImageFormat.SRGB: (np.uint8, 3),
    ImageFormat.SRGBA: (np.uint8, 4),
    ImageFormat.GRAY8: (np.uint8, 1),
    ImageFormat.GRAY16: (np.uint16, 1),
    ImageFormat.SRGB48: (np.uint16, 3),
    ImageFormat.SRGBA64: (np.uint16, 4),
    ImageFormat.VEC32F1: (np.float32, 1),
    ImageFormat.VEC32F2: (np.float32, 2),
    ImageFormat.VEC32F4: (np.float32, 4),
}
"""The type and the number of channels of each format."""


class Image:
    """A picture whose pixels are copied once, at its construction, and do not change.

    Parameters
    ----------
    image_format : ImageFormat
        The format of ``data``.
    data : array
        (height, width) or (height, width, channels): uint8, uint16 or float32, as the format says.

    Raises
    ------
    ValueError
        If the array's shape or type is not that of the format.

    Examples
    --------
    >>> from framebind import mp
    >>> image = mp.Image(image_format=mp.ImageFormat.SRGB, data=np.zeros((4, 6, 3), np.uint8))
    >>> image.width, image.height, image.channels
    (6, 4, 3)
    """

    def __init__(self, image_format: ImageFormat, data: Array) -> None:
        if data is None:
            raise TaskError("an image has data, and this is None: did the camera or the file give a frame?")
        array = np.asarray(data)
        if array.ndim not in (2, 3):
            raise TaskError(f"Unsupported number of dimensions:{array.ndim}. Give (height, width[, channels])")
        if array.dtype.name not in ("uint8", "uint16", "float32"):
            raise TaskError(f"Unsupported numpy data type: {array.dtype}. Give uint8, uint16 or float32")
        kind, channels = _layout(image_format)
        array = array[..., None] if array.ndim == 2 else array
        if array.dtype != kind or array.shape[2] != channels or not array.size:
            raise TaskError(
                f"an image of the format {ImageFormat(image_format).name} has {channels} channels of "
                f"{np.dtype(kind).name}, at least one pixel; the array is {array.shape} of {array.dtype}"
            )
        self._format = ImageFormat(image_format)
        self._pixels = np.array(array, order="C")
        self._pixels.flags.writeable = False

    def __repr__(self) -> str:
        return f"<Image {self.width}x{self.height}, {self.image_format.name}>"

    @classmethod
    def create_from_file(cls, file_name: str) -> Image:
        """The picture in a file, as SRGB, SRGBA or GRAY8.

        Raises
        ------
        FileNotFoundError
            If there is no file.
        ValueError
            If the file is no picture that OpenCV reads.
        """
        import cv2

        try:
            with open(file_name, "rb") as file:
                content = np.frombuffer(file.read(), np.uint8)
        except FileNotFoundError:
            raise MissingModelError(f"Unable to open file at {file_name}") from None
        picture: Any = cv2.imdecode(content, cv2.IMREAD_UNCHANGED) if content.size else None
        if picture is None or picture.dtype != np.uint8:
            raise TaskError(f"Image decoding failed: {file_name} is no picture of 8 bits that OpenCV reads")
        if picture.ndim == 2:
            return cls(ImageFormat.GRAY8, picture)
        if picture.shape[2] == 4:
            return cls(ImageFormat.SRGBA, cv2.cvtColor(picture, cv2.COLOR_BGRA2RGBA))
        return cls(ImageFormat.SRGB, cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))

    def numpy_view(self) -> Array:
        """The pixels (height, width, channels), not copied and not writable."""
        return self._pixels

    def __getitem__(self, key: tuple[int, ...]) -> Any:
        """The value at (row, column[, channel]). IndexError for a place outside of the picture."""
        if len(key) != (2 if self.channels == 1 else 3) or min(key) < 0:
            raise IndexError(f"an image of {self.channels} channels has no value at {key}")
        return self._pixels[key if len(key) == 3 else (*key, 0)].item()

    def uses_gpu(self) -> bool:
        """True if the pixels are in the GPU's memory. They never are, so far."""
        return False

    def is_contiguous(self) -> bool:
        """True: rows follow each other without padding."""
        return True

    def is_empty(self) -> bool:
        """False: a picture has at least one pixel."""
        return False

    def is_aligned(self, alignment_boundary: int) -> bool:
        """True if each row starts at a multiple of ``alignment_boundary`` bytes."""
        return self._pixels.ctypes.data % alignment_boundary == 0 and self.step % alignment_boundary == 0

    @property
    def step(self) -> int:
        """Bytes of a row."""
        return self._pixels.strides[0]

    @property
    def width(self) -> int:
        """Columns of pixels."""
        return self._pixels.shape[1]

    @property
    def height(self) -> int:
        """Rows of pixels."""
        return self._pixels.shape[0]

    @property
    def channels(self) -> int:
        """Values per pixel."""
        return self._pixels.shape[2]

    @property
    def image_format(self) -> ImageFormat:
        """The format of the pixels."""
        return self._format


def _layout(image_format: ImageFormat) -> tuple[type[Any], int]:
    if image_format not in _LAYOUTS:
        raise TaskError(
            f"no image can have the format {image_format!r}: give one of {[each.name for each in _LAYOUTS]}"
        )
    return _LAYOUTS[ImageFormat(image_format)]


def rgb_pixels(image: Image) -> Array:
    """The pixels (height, width, 3) of an SRGB or SRGBA picture, without a copy. ValueError for other formats, and for
    what is no Image.
    """
    if not isinstance(image, Image):  # a user's mistake, which types do not show everywhere
        raise TaskError(
            f"a picture is an mp.Image, in the CPU's memory; this is {type(image).__name__}: read its pixels"
        )
    if image.image_format not in (ImageFormat.SRGB, ImageFormat.SRGBA):
        raise TaskError(
            f"tasks take pictures of the formats SRGB and SRGBA; this one is {image.image_format.name}: convert it"
        )
    return image.numpy_view()[..., :3]
