"""Marks on decoded planes: the source's own numbers outside of them, the right colours inside, as GL draws them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.dlpack import host_array
from framebind.interop.frames.paint.marks import Marks
from framebind.interop.frames.write.planes_queue import planes_of, upright_frame
from framebind.kernels.colours import YuvColours
from support.video.clips import turn_track, write_clip

Array = npt.NDArray[Any]
RED = (1.0, 0.0, 0.0)
SIZE = (66, 50)


def planes_in(path: Path) -> list[list[Array]]:
    """The planes of each frame of a video."""
    with av.open(str(path)) as container:
        return [[host_array(plane).copy() for plane in frame.planes] for frame in container.decode(video=0)]


def marked(source: Path, target: Path, **options: Any) -> list[float]:
    """A copy of a video with a red rectangle on it, encoded without loss. Returns the times of its frames."""
    marks, times = fb.video.Marks(), list[float]()
    with fb.open_source(source) as reader, fb.video.VideoWriter(target, quality=0, like=reader, **options) as video:
        for frame in reader.frames("cpu"):
            marks.fill(8, 12, 16, 20, RED)
            video.put(frame, marks)
            times.append(frame.time or 0.0)
    return times


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_planes_are_the_source_s_outside_of_the_marks(turn: int, tmp_path: Path) -> None:
    source, target = (
        write_clip(tmp_path / "a.mp4", size=SIZE, frames=6, times=[0, 4, 9, 20, 24, 30]),
        tmp_path / "b.mp4",
    )
    turn_track(source, turn)
    times = marked(source, target)
    before, after = planes_in(source), planes_in(target)
    assert len(after) == 6
    number = YuvColours("bt601", "limited").numbers(*RED)
    for old, new in zip(before, after, strict=True):
        for plane, (stored, made) in enumerate(zip(old, new, strict=True)):
            upright = np.rot90(stored, -turn // 90).copy()
            part = np.s_[12:32, 8:24] if plane == 0 else np.s_[6:16, 4:12]
            upright[part] = round(number[plane])
            assert np.array_equal(upright, made)
    with av.open(str(target)) as container:
        assert [frame.time for frame in container.decode(video=0)] == pytest.approx(times)


def test_a_video_keeps_its_matrix_its_range_and_its_sound(tmp_path: Path) -> None:
    source, target = tmp_path / "a.mp4", tmp_path / "b.mp4"
    write_clip(source, pixel_format="yuvj420p", size=SIZE, frames=3, sound=True)
    marked(source, target)
    with av.open(str(target)) as container:
        assert len(container.streams.audio) == 1
        frame = next(container.decode(video=0))
        picture = fb.YuvPicture.from_frame(frame)
        assert (picture.matrix, picture.range) == ("bt601", "full")
        inside = frame.to_ndarray(format="rgb24")[16:28, 12:20].astype(int)
        assert np.abs(inside - [255, 0, 0]).max() <= 3


@pytest.mark.parametrize("format", ["yuv420p10le", "yuv422p", "yuv444p"])
def test_other_formats_become_what_players_take(format: str, tmp_path: Path) -> None:
    source, target = tmp_path / "a.mkv", tmp_path / "b.mp4"
    write_clip(source, "ffv1", format, size=(65, 49), frames=1)
    marked(source, target)
    (before,), (after,) = planes_in(source), planes_in(target)
    with av.open(str(target)) as container:
        assert container.streams.video[0].codec_context.pix_fmt == "yuv420p"
        assert (container.streams.video[0].width, container.streams.video[0].height) == (66, 50)
    luma = before[0].astype(int) // (4 if format.endswith("10le") else 1)
    luma[12:32, 8:24] = round(YuvColours("bt601", "limited").numbers(*RED)[0])
    assert np.abs(luma - after[0][:49, :65]).max() <= (1 if format.endswith("10le") else 0)
    if format != "yuv420p10le":  # swscale dithers
        assert np.array_equal(after[0][49], after[0][48]) and np.array_equal(after[0][:, 65], after[0][:, 64])


@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize("name", ["nv12", "p010le", "yuv422p", "yuv420p10le"])
def test_a_frame_of_its_own_has_the_picture_s_numbers(name: str, rotation: int) -> None:
    frame = av.VideoFrame(16, 12, name)
    for plane in frame.planes:
        host_array(plane)[...] = np.random.default_rng(0).integers(64, 900, host_array(plane).shape) % 256
    picture = fb.YuvPicture.from_frame(frame)
    before = [host_array(plane).copy() for plane in frame.planes]
    made, columns, rows = upright_frame(picture, rotation)
    assert (columns, rows) == ((1, 2) if name == "yuv422p" and rotation else (2, 1) if name == "yuv422p" else (2, 2))
    chroma = [before[1][..., 0], before[1][..., 1]] if len(before) == 2 else before[1:]
    for stored, plane in zip([before[0], *chroma], planes_of(made), strict=True):
        assert np.array_equal(np.rot90(stored, rotation // 90) >> picture.layout.shift, plane)
        plane[...] = 0
    assert all(np.array_equal(old, host_array(plane)) for old, plane in zip(before, frame.planes, strict=True))


@pytest.mark.parametrize("range", ["limited", "full"])
@pytest.mark.parametrize("matrix", ["bt601", "bt709", "bt2020"])
@pytest.mark.parametrize("bits", [8, 10])
def test_the_numbers_of_a_colour_stand_for_it(matrix: Any, range: Any, bits: int) -> None:
    colours = YuvColours(matrix, range, bits, largest=2**bits - 1)
    for colour in ((1.0, 0.5, 0.1), (0.0, 0.0, 0.0), (0.0, 1.0, 1.0)):
        numbers = np.array([*colours.numbers(*colour)]) / (2**bits - 1)
        assert [float(np.dot(row[:3], numbers) + row[3]) for row in colours.rows()] == pytest.approx(colour, abs=0.004)


def add_all(marks: Marks) -> None:
    marks.box(30.3, 20.7, 61, 40, (1.0, 0.5, 0.1), 3.6, 10.8)
    marks.box(120, 5, 6, 5, (0.2, 0.9, 0.4))
    marks.point(-3, 30, (1.0, 1.0, 1.0), 40)
    marks.point(159.5, 119, RED, 17)
    marks.fill(60.5, 70.25, 40, 21.5, (0.05, 0.06, 0.07, 0.72), 7)
    for number in range(12):
        marks.line(10 + 3 * number, 60, 40 + 9 * number, 110 - 2 * number, (0.1, 0.75, 1.0), 4.5)
    marks.line(5, 100, 150, 102.5, (1.0, 1.0, 1.0, 0.5), 4.5)
    marks.line(70, 10, 70, 10, (1.0, 0.0, 1.0), 9)
    marks.text("face 97%\nAVAT e", 61, 71, height=16)
    marks.text("half", 2.4, -5.3, (1.0, 1.0, 0.0, 0.5), height=70)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_the_cpu_paints_what_gl_draws(context: fb.GlContext) -> None:
    context.check()
    noise = np.random.default_rng(0).integers(0, 256, (120, 160, 4)).astype(np.uint8)
    texture, overlay, marks = fb.GlTexture.from_array(noise), fb.video.Overlay(), fb.video.Marks()
    add_all(overlay)
    overlay.draw(texture)
    add_all(marks)
    pixels = noise.copy()
    marks.paint(pixels)
    painted, drawn = pixels.astype(int), texture.read().astype(int)
    # GL's linear filter has 8 bits, and it rounds after each letter, the CPU after a line of them.
    assert np.abs(painted - drawn)[..., :3].max() <= 3 and np.abs(painted - noise)[..., :3].max() > 200
    assert np.array_equal(painted[..., 3], noise[..., 3]), "opacity stays"


def test_marks_of_another_scale_are_those_of_the_places_and_sizes_at_that_scale() -> None:
    scaled, plain = fb.video.Marks(scale=0.5), fb.video.Marks()
    for marks, unit in ((scaled, 2), (plain, 1)):
        marks.box(10 * unit, 6 * unit, 40 * unit, 20 * unit, RED, 3 * unit, 5 * unit)
        marks.fill(60 * unit, 30 * unit, 20 * unit, 8 * unit, RED, 2 * unit)
        marks.line(2 * unit, 3 * unit, 70 * unit, 44 * unit, RED, 2 * unit)
        marks.point(30 * unit, 20 * unit, RED, 7 * unit)
        marks.text("face\n97%", 4 * unit, 5 * unit, height=13 * unit)
    assert scaled.text_width("face", 26) == 2 * plain.text_width("face", 13)
    half, whole = (np.zeros((48, 90, 3), np.uint8) for _ in range(2))
    scaled.paint(half)
    plain.paint(whole)
    assert half.any() and np.array_equal(half, whole)


@pytest.mark.parametrize(("shape", "dtype"), [((4, 6), np.uint8), ((4, 6, 2), np.uint8), ((4, 6, 3), np.float32)])
def test_arrays_that_are_no_pictures_are_refused(shape: tuple[int, ...], dtype: Any) -> None:
    with pytest.raises(fb.BindingError, match="give HxWx3 or HxWx4 of uint8"):
        fb.video.Marks().paint(np.zeros(shape, dtype))


def test_pictures_that_do_not_fit(tmp_path: Path) -> None:
    video = fb.video.VideoWriter(tmp_path / "a.mp4")
    video.put(fb.YuvPicture.from_frame(av.VideoFrame(64, 48, "yuv420p")))
    with pytest.raises(fb.SourceError, match="takes frames of 64x48, not 32x48"):
        video.put(fb.YuvPicture.from_frame(av.VideoFrame(32, 48, "yuv420p")))
    video.close()
    assert (tmp_path / "a.mp4").is_file()


@pytest.mark.parametrize("turn", [0, 90])
def test_the_shape_of_pixels_and_the_light_of_colours_are_said_again(turn: int, tmp_path: Path) -> None:
    source = write_clip(
        tmp_path / "a.mp4", "libx265", "yuv420p10le", frames=3,
        tags={"sample_aspect_ratio": Fraction(16, 11), "color_primaries": 9, "color_trc": 16},
    )  # fmt: skip
    turn_track(source, turn)
    with fb.open_source(source, decoder="cpu") as reader:
        tags = reader.tags
    assert tags == (Fraction(11, 16) if turn else Fraction(16, 11), 9, 16)
    marked(source, tmp_path / "b.mp4")
    with fb.open_source(tmp_path / "b.mp4", decoder="cpu") as reader:
        assert reader.tags == tags
