"""Text, boxes, lines and points: where they are drawn, on textures, on OpenGL and OpenGL ES."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import framebind as fb
from framebind.interop.frames.paint.font import spelled
from support.gl_calls import counted_calls

WHITE, RED = (1.0, 1.0, 1.0), (1.0, 0.0, 0.0)


@pytest.fixture
def transliteration() -> None:
    pytest.importorskip("anyascii", reason="anyascii is not installed: pip install anyascii")


def canvas() -> fb.GlTexture:
    return fb.GlTexture.from_array(np.full((64, 128, 4), (0, 0, 0, 255), np.uint8))


def drawn(overlay: fb.video.Overlay) -> np.ndarray:
    """A black picture with the overlay on it: (64, 128, 4), uint8."""
    texture = canvas()
    overlay.draw(texture)
    return texture.read()


def test_a_filled_rectangle_covers_its_pixels_and_no_others(context: fb.GlContext) -> None:
    overlay = fb.video.Overlay()
    overlay.fill(10, 20, 30, 8, RED)
    expected = np.zeros((64, 128, 4), np.uint8)
    expected[..., 3] = 255
    expected[20:28, 10:40, 0] = 255
    assert np.array_equal(drawn(overlay), expected)
    assert not drawn(overlay)[..., :3].any(), "what was drawn is forgotten"


def test_a_box_is_its_outline(context: fb.GlContext) -> None:
    overlay = fb.video.Overlay()
    overlay.box(11, 21, 40, 20, RED, thickness=2)
    expected = np.zeros((64, 128), np.uint8)
    expected[20:42, 10:52] = 255
    expected[22:40, 12:50] = 0
    assert np.array_equal(drawn(overlay)[..., 0], expected)


def test_lines_and_points(context: fb.GlContext) -> None:
    overlay = fb.video.Overlay()
    overlay.line(10, 10, 10, 50, WHITE, thickness=4)
    overlay.point(80.5, 30.5, RED, diameter=21)
    red = drawn(overlay)[..., 0]
    assert (red[10:50, 8:12] == 255).all() and not red[:, 13:60].any() and not red[:9].any()
    ys, xs = np.mgrid[0:64, 0:128]
    distance = np.hypot(xs - 80, ys - 30)
    assert (red[distance < 9] == 255).all() and not red[(distance > 12) & (xs > 40)].any()


def test_a_line_that_moves_a_little_changes_a_little(context: fb.GlContext) -> None:
    """Places that differ by rounding alone look alike: the demos compare pictures with lines at computed places."""
    overlay = fb.video.Overlay()
    pictures: list[np.ndarray] = []
    for move in (0.0, 0.002):
        overlay.line(10 + move, 10, 97, 47 + move, WHITE, thickness=3)
        pictures.append(drawn(overlay)[..., 0].astype(int))
    values = np.unique(pictures[0])
    assert len(values) > 10 and values.max() == 255
    assert np.abs(pictures[0] - pictures[1]).max() <= 1


def test_opacity_mixes_with_what_is_there(context: fb.GlContext) -> None:
    texture = fb.GlTexture.from_array(np.full((64, 128, 4), 255, np.uint8))
    overlay = fb.video.Overlay()
    overlay.fill(0, 0, 128, 64, (0.0, 0.0, 0.0, 0.5))
    overlay.draw(texture)
    pixels = texture.read()
    assert np.abs(pixels[..., :3].astype(int) - 127).max() <= 1 and (pixels[..., 3] == 255).all()


@pytest.mark.parametrize("height", [16, 40])
def test_text_is_as_wide_and_high_as_it_says(context: fb.GlContext, height: int) -> None:
    overlay = fb.video.Overlay()
    overlay.text("HIH", 5, 4, height=height)
    ys, xs = np.nonzero(drawn(overlay)[..., 0] > 64)
    width = overlay.text_width("HIH", height)
    assert xs.min() >= 5 and xs.max() <= 5 + width and xs.max() - xs.min() > width * 0.7
    assert ys.min() >= 4 and ys.max() < 4 + height and ys.max() - ys.min() > height * 0.35
    overlay.text("HIH\nI", 5, 4, height=24)
    assert drawn(overlay)[28:52, 5:20, 0].any(), "the second line is below the first"


def test_text_at_whole_pixels_is_what_the_font_renderer_drew(context: fb.GlContext) -> None:
    from PIL import Image, ImageDraw, ImageFont

    expected = Image.new("L", (128, 64))
    ImageDraw.Draw(expected).text((7, 9), "R", 255, ImageFont.load_default(0.8 * 24))
    overlay = fb.video.Overlay()
    overlay.text("R", 7, 9, height=24)
    assert np.abs(drawn(overlay)[..., 0].astype(int) - np.asarray(expected)).max() <= 1


def test_characters_of_the_font_need_no_spelling() -> None:
    text = "24 ms · 21° · and so on…\n"
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "anyascii", None)  # to import it is an error
        assert spelled(text) == text


@pytest.mark.usefixtures("transliteration")
def test_text_of_other_languages_is_spelled_in_letters_that_the_font_has() -> None:
    assert spelled("21° · Straße, Vögel, e\u0301te\u0301…") == "21° · Strasse, Vogel, ete…"
    assert spelled("кошка\n猫") == "koshka\nMao"
    assert spelled("\u2068plain\u2069") == "plain", "marks of direction have no picture"


@pytest.mark.usefixtures("transliteration")
def test_text_is_as_wide_as_its_spelling(context: fb.GlContext) -> None:
    overlay = fb.video.Overlay()
    overlay.text(" \u2603", 80, 4)
    drawn(overlay)
    overlay.text("Vögel", 2, 4)
    umlaut = drawn(overlay)
    overlay.text("Vogel", 2, 4)
    assert (drawn(overlay) == umlaut).all() and overlay.text_width("Vögel") == overlay.text_width("Vogel")


def test_digits_are_equally_wide_so_that_figures_stand_still(context: fb.GlContext) -> None:
    overlay = fb.video.Overlay()
    for height in (10, 15, 24, 40):
        assert len({overlay.text_width(digit, height) for digit in "0123456789"}) == 1


def test_corners_are_round_and_their_edges_are_antialiased(context: fb.GlContext) -> None:
    overlay = fb.video.Overlay()
    overlay.fill(10, 10, 40, 30, RED, radius=8)
    overlay.box(70, 12, 40, 30, RED, thickness=4, radius=8)
    red = drawn(overlay)[..., 0]
    ys, xs = np.mgrid[0:64, 0:128] + 0.5
    for left, top, right, bottom in ((10, 10, 50, 40), (68, 10, 112, 44)):
        from_corners = np.hypot(
            np.maximum(np.abs(xs - (left + right) / 2) - (right - left) / 2 + 8, 0),
            np.maximum(np.abs(ys - (top + bottom) / 2) - (bottom - top) / 2 + 8, 0),
        )
        here = (xs > left - 2) & (xs < right + 2)
        edge = here & (np.abs(from_corners - 8) < 0.49)
        assert not red[here & (from_corners > 8.6)].any()
        assert ((red[edge] > 0) & (red[edge] < 255)).mean() > 0.9
    assert red[25, 30] == 255 and red[25, 90] == 0, "filled, and an outline"


def test_many_strokes_are_a_few_calls_and_allocate_nothing(context: fb.GlContext) -> None:
    overlay, texture = fb.video.Overlay(), canvas()
    texture.framebuffer()
    live = dict(context.objects.live)
    fb.transfers.reset()
    for i in range(130):
        overlay.point(i % 128 + 0.5, 30.5, WHITE, 3)
    with counted_calls(context) as calls:
        overlay.draw(texture)
    assert calls["glDrawArraysInstanced"] == 3, "64 strokes a call"
    assert dict(context.objects.live) == live and fb.transfers.bytes == 0
    assert (texture.read()[30, 1:127, 0] > 200).all()
