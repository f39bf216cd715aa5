"""Pictures in planes as kernels read them: packed bytes, a plane per channel, luma and chroma of 8 and 10 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from framebind.interop.device import Device
from framebind.kernels.colours import LUMA_SHARES
from framebind.kernels.tensor import Shape
from framebind.kernels.views import Plane, picture_parameters, plane_parameters
from support.device_steps import sample, texture
from support.pictures.planes import HEIGHT, WIDTH, Given, buffers, channels_first, packed, run, video

PLACES: list[dict[str, Any]] = [
    {},
    {"crop": (2.5, 1.25, 6.5, 4.0), "rotation": 30.0, "flip": "vertical", "mean": (0.5,), "std": (0.25,)},
]


@pytest.mark.parametrize("place", PLACES, ids=["whole", "turned"])
@pytest.mark.parametrize("kind,order", [(1, "r"), (3, "rgb"), (3, "bgr"), (4, "rgba"), (4, "gr"), (0, "rgb")], ids=str)
def test_bytes_are_sampled_as_textures_are(gpu: Device, kind: int, order: str, place: dict[str, Any]) -> None:
    given = packed(kind) if kind else channels_first()
    shape: Shape = (1, 5, 7, len(order)) if place else (1, HEIGHT, WIDTH, len(order))
    out = run(gpu, given, shape, order, place, buffers(gpu, given))
    parameters = picture_parameters(shape, (WIDTH, HEIGHT), **place)
    expected = sample(given.picture, parameters, shape, order, bool(place))
    assert np.abs(out - expected).max() <= 2e-5
    if kind == 4:  # an API's own texture of the same bytes gives the same values
        textured = Given((Plane("rgba8", 4),), (0,), plane_parameters((WIDTH, HEIGHT)), [], given.picture)
        same = run(gpu, textured, shape, order, place, [texture(gpu, given.picture)])
        assert np.abs(out - same).max() <= 1e-6


@pytest.mark.parametrize("kind", ["nv12", "yuv420p", "p010", "yuv422p10"])
def test_luma_and_chroma_become_colours(gpu: Device, kind: str) -> None:
    given = video(kind)
    shape: Shape = (1, HEIGHT, WIDTH, 3)
    out = run(gpu, given, shape, "rgb", {}, buffers(gpu, given))
    assert np.abs(out[0] - given.picture).max() <= 2e-5
    assert np.array_equal(run(gpu, given, shape, "rgb", {}, buffers(gpu, given), "one"), out)


@pytest.mark.parametrize("range", ["limited", "full"])
@pytest.mark.parametrize("matrix", LUMA_SHARES)
def test_matrix_and_range_say_what_numbers_mean(gpu: Device, matrix: str, range: str) -> None:
    given = video("nv12", matrix, range)
    out = run(gpu, given, (1, HEIGHT, WIDTH, 3), "bgr", {}, buffers(gpu, given))
    assert np.abs(out[0, ..., ::-1] - given.picture).max() <= 2e-5
