"""Types that all of video uses."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
"""An array of NumPy; docstrings give its shape and its type."""
Size = tuple[int, int]
"""The width and the height of a picture in pixels."""
