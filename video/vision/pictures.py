"""Picture files as arrays.

OpenCV is imported by the functions: the command ``doctor`` runs without it, and says what to install.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]
"""RGB, (height, width, 3)."""


def photographs_of_skimage() -> Path | None:
    """The folder of the photographs in scikit-image's wheel; None if that is not installed."""
    found = find_spec("skimage")
    return Path(found.origin).parent / "data" if found and found.origin else None


def read_picture(path: Path | str) -> Picture | None:
    """The picture in a file; None if it is no picture that can be read."""
    import cv2

    if not Path(path).is_file():  # OpenCV would print a line
        return None
    bgr: Any = cv2.imread(str(path), cv2.IMREAD_COLOR)
    return None if bgr is None else cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB).astype(np.uint8)


def shrink(picture: Picture, size: tuple[int, int]) -> Picture:
    """The picture at a smaller ``size`` (width, height): means over the area of each pixel."""
    import cv2

    return cv2.resize(picture, size, interpolation=cv2.INTER_AREA).astype(np.uint8)
