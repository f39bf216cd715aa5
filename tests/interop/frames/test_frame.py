"""Frames read as RGBA, wherever their pixels are: in NumPy's arrays, in OpenGL's textures and buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import framebind as fb

BLUE = (0, 0, 255, 255)
"""The colour of the upright picture's left half; the right half is black."""


def planes() -> list[np.ndarray[Any, Any]]:
    """The planes of NV12 (BT.709, limited range) of a picture of 64x32 pixels."""
    luma, chroma = np.full((32, 64), 16, np.uint8), np.full((16, 32, 2), 128, np.uint8)
    luma[:, :32], chroma[:, :16] = 32, (240, 118)
    return [luma, chroma]


def texture(plane: np.ndarray[Any, Any]) -> fb.GlTexture:
    made = fb.GlTexture(plane.shape[1], plane.shape[0], "r8")
    made.write(plane)
    return made


def check(frame: fb.Frame, size: tuple[int, int], **options: Any) -> None:
    pixels = frame.read_rgba(**options)
    assert pixels.shape == (size[1], size[0], 4) and pixels.dtype == np.uint8 and pixels.flags.c_contiguous
    upright = np.rot90(pixels, -frame.rotation // 90) if frame.rotation else pixels
    width = upright.shape[1]
    assert np.abs(upright[:, : width // 2 - 2].astype(int) - BLUE).max() <= 3
    assert np.abs(upright[:, width // 2 + 2 :].astype(int) - (0, 0, 0, 255)).max() <= 3


def test_planes_of_numpy_are_upright_and_no_wider_than_asked() -> None:
    fb.transfers.reset()
    picture = fb.YuvPicture(planes())
    check(fb.Frame(picture), (64, 32))
    check(fb.Frame(picture), (64, 32), widest=100)
    check(fb.Frame(picture), (32, 16), widest=32)
    check(fb.Frame(picture, rotation=90), (16, 32), widest=16)
    check(fb.Frame(picture, rotation=180), (32, 16), widest=32)
    assert fb.transfers.bytes == 0


def test_ten_bits_and_rows_that_are_padded() -> None:
    luma, chroma = (plane.astype(np.uint16) << 8 for plane in planes())
    padded = np.pad(luma, ((0, 4), (0, 10)))
    check(fb.Frame(fb.YuvPicture([padded, chroma], format="p010", width=64, height=32)), (64, 32))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("make", [texture, fb.GlBuffer.from_array])
def test_a_gpu_s_planes_are_read_and_counted(make: Any) -> None:
    luma, chroma = planes()
    parts = [np.ascontiguousarray(part)[..., None] for part in (luma, chroma[..., 0], chroma[..., 1])]
    picture = fb.YuvPicture([make(part) for part in parts], format="yuv420p", width=64, height=32)
    fb.transfers.reset()
    check(fb.Frame(picture), (32, 16), widest=32, reason="a look")
    (copies,) = fb.transfers.by_reason.items()
    assert copies[0] == ("download", "a look") and copies[1].bytes == luma.nbytes + chroma.nbytes


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_texture_is_read_and_made_smaller() -> None:
    pixels = np.zeros((32, 64, 4), np.uint8)
    pixels[..., 3], pixels[:, :32] = 255, BLUE
    frame = fb.Frame(fb.GlTexture.from_array(pixels))
    np.testing.assert_array_equal(frame.read_rgba(), pixels)
    check(frame, (32, 16), widest=32)
    with pytest.raises(fb.BindingError, match="not of rgba8"):
        fb.Frame(fb.GlTexture(8, 8, "rgba16f")).read_rgba()


def test_planes_of_strangers_are_refused() -> None:
    with pytest.raises(fb.BindingError, match=r"cannot be read, as its planes are builtins.bytes"):
        fb.Frame(fb.YuvPicture([b"", b""], width=8, height=8)).read_rgba()
