"""Pictures in the GPU's memory, as tasks take them: all that a delegate binds as a picture."""

from __future__ import annotations

from typing import Any, NamedTuple

import framebind as fb

from ...apis import APIS, api_of
from ...basic_types import Size
from .errors import TaskError

_CHANNELS = (3, 4)


class GpuPicture(NamedTuple):
    """A picture that networks sample where it is."""

    obj: Any
    """The texture, image, array, YuvPicture or Frame."""
    size: Size
    """Width and height, upright."""
    api: fb.Backend
    """The API that runs the networks: that of the object, or for planes on the CPU the one whose context is current."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and 3, as that of an array of pixels."""
        return self.size[1], self.size[0], 3


def gpu_picture(image: Any) -> GpuPicture:
    """The picture that an object is. Raises TaskError if it is none."""
    found = find_gpu_picture(image)
    if found is None:
        raise TaskError(
            f"an image is an mp.Image, or a picture in the GPU's memory (a texture, an image of OpenCL, an array of "
            f"uint8, a YuvPicture or a Frame); this is {type(image).__name__}"
        )
    return found


def find_gpu_picture(image: Any) -> GpuPicture | None:
    """The picture that an object is; None if no API has it. Raises TaskError for an array of another shape."""
    pixels = image.pixels if isinstance(image, fb.Frame) else image
    first = pixels.planes[0] if isinstance(pixels, fb.YuvPicture) else pixels
    api = next((each for each in reversed(APIS) if each.owns(first)), None)  # its frames take least time: CUDA first
    if api is None and not isinstance(pixels, fb.YuvPicture):
        return None
    return GpuPicture(image, _size_of(image), api or api_of("auto"))


def _size_of(picture: Any) -> Size:
    size = getattr(picture, "size", None)
    if isinstance(size, tuple) and all(size):  # that of a Frame, a YuvPicture or a texture; arrays have another one
        return int(size[0]), int(size[1])
    shape = tuple(picture.shape)
    shape = shape[1:] if len(shape) == 4 and shape[0] == 1 else shape
    if len(shape) != 3:
        raise TaskError(f"an array of {tuple(picture.shape)} is no picture of colours: give (height, width, channels)")
    height, width = shape[:2] if shape[2] in _CHANNELS else shape[1:]
    return int(width), int(height)
