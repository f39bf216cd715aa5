"""Videos read by PyAV: colours, turns, times, damage and hostile files; real decoding, real GL."""

from __future__ import annotations

import gc
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import av
import numpy as np
import numpy.typing as npt
import pytest
from av.video.codeccontext import VideoCodecContext

import framebind as fb
from framebind.interop.frames.decode.decoder import VideoDecoder
from framebind.interop.frames.decode.frame_times import FrameTimes
from framebind.interop.frames.decode.seeking import packets_from
from framebind.interop.frames.decode.tags import read_tags
from framebind.interop.pixel_formats import PlanarFormat
from support.video.clips import damage_h264, damage_jpegs, turn_track, write_clip
from support.video.textures import textures


class Rational(NamedTuple):
    """A ratio as PyAV 19 has it: no Fraction."""

    numerator: int
    denominator: int


FORMATS = [
    ("clip.mp4", "libx264", "yuv420p"), ("clip.mkv", "libx265", "yuv420p"), ("clip.webm", "libvpx-vp9", "yuv420p"),
    ("clip.avi", "mpeg4", "yuv420p"), ("jpeg.mkv", "mjpeg", "yuvj422p"), ("ten.mp4", "libx265", "yuv420p10le"),
    ("full.mp4", "libx264", "yuv444p"), ("both.mp4", "libx264", "yuv444p10le"),
]  # fmt: skip
Values = npt.NDArray[np.float64]


def formula(frame: Any, layout: PlanarFormat) -> Values:
    """RGB of a decoded frame by the formula of its matrix, in floats, 0 to 255."""
    word, unit = ("u1", 1) if layout.layout.dtype == "uint8" else ("<u2", 4)
    planes: list[Values] = []
    for number, plane in enumerate(frame.planes):
        rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
        values = rows.view(word)[:, : plane.width].astype(float)
        if number:
            values = values.repeat(layout.layout.columns, axis=1).repeat(layout.layout.rows, axis=0)
        planes.append(values[: layout.height, : layout.width])
    y, u, v = planes
    full = layout.colours.range == "full"
    whole = 256 * unit - 1
    y = (y - (0 if full else 16 * unit)) / (whole if full else 219 * unit)
    u, v = ((c - 128 * unit) / (whole if full else 224 * unit) for c in (u, v))
    red_weight, blue_weight = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722)}[layout.colours.matrix]
    red, blue = y + 2 * (1 - red_weight) * v, y + 2 * (1 - blue_weight) * u
    green = (y - red_weight * red - blue_weight * blue) / (1 - red_weight - blue_weight)
    return np.clip(np.stack([red, green, blue], -1) * 255, 0, 255)


@pytest.mark.parametrize(("name", "codec", "pixel_format"), FORMATS)
def test_colours_are_those_of_the_formula_and_of_swscale(
    context: fb.GlContext, tmp_path: Path, name: str, codec: str, pixel_format: str
) -> None:
    path = write_clip(tmp_path / name, codec, pixel_format, size=(66, 38), frames=4)
    count = 0
    with VideoDecoder(path) as decoder, fb.open_source(path) as source, av.open(str(path)) as container:
        assert decoder.format is not None
        for texture, frame in zip(textures(source, context), container.decode(video=0), strict=True):
            pixels = texture.read()[..., :3].astype(float)
            assert np.abs(pixels - formula(frame, decoder.format)).max() <= 0.51, "the nearest byte"
            if "444" in pixel_format:  # of fewer chroma samples swscale makes more, in other ways
                expected: Any = frame.reformat(format="rgb24").to_ndarray()
                assert np.abs(pixels - expected).max() <= 1
            count += 1
    assert count == 4
    upload = fb.transfers.by_reason["upload", "camera frame"]
    layout = decoder.format
    assert upload.bytes // 4 - layout.nbytes in range(layout.width * layout.number_bytes), "planes, not RGB"


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_video_that_is_to_be_shown_turned(context: fb.GlContext, tmp_path: Path, degrees: int) -> None:
    path = write_clip(tmp_path / "phone.mp4", size=(66, 48), frames=2)
    with fb.open_source(path) as source:
        upright = [texture.read() for texture in textures(source, context)]
    turn_track(path, degrees)
    with fb.open_source(path) as source:
        assert source.size == ((48, 66) if degrees % 180 else (66, 48))
        turned = [texture.read() for texture in textures(source, context)]
    for before, after in zip(upright, turned, strict=True):
        np.testing.assert_array_equal(after, np.rot90(before, -degrees // 90))


def test_times_of_a_variable_frame_rate(context: fb.GlContext, tmp_path: Path) -> None:
    times = [0, 4, 5, 30, 33, 90]
    path = write_clip(tmp_path / "phone.mkv", frames=6, times=times)
    with fb.open_source(path) as source:
        seen = [source.time for _ in textures(source, context)]
    assert seen == pytest.approx([time / 100 for time in times], abs=0.002)


def test_a_part_of_a_video_by_time(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", frames=50, options={"g": "12"})
    with VideoDecoder(path, start=0.5, end=1.0) as decoder:
        times = [decoder.time_of(frame) for frame in decoder.frames()]
    assert times == pytest.approx([number / 25 for number in range(13, 25)], abs=1e-3)
    with fb.open_source(path.as_uri(), start=0.5, decoder="cpu") as source:
        assert source.decoder == "cpu"


def test_a_truncated_video_gives_what_it_has_and_then_says_so(context: fb.GlContext, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mkv", frames=60)
    data = path.read_bytes()
    for tenth in range(1, 10):
        path.write_bytes(data[: len(data) * tenth // 10])
        seen = 0
        with pytest.raises(fb.SourceError, match=r"clip.mkv' (is damaged|cannot be opened|has no frame)"):
            with fb.open_source(path) as source:
                for _ in textures(source, context):
                    seen += 1
        assert tenth < 5 or seen > 5


@pytest.mark.parametrize("threads", [2, 16])
@pytest.mark.parametrize("damaged", [4, 9, 14])
def test_frames_after_damage_near_the_end_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: int, threads: int
) -> None:
    """FFmpeg with threads for several frames stops without an error at damage that it meets after the last packet."""
    path = write_clip(tmp_path / "clip.mp4", frames=15, options={"preset": "medium", "g": "8"})
    damage_h264(path, damaged)

    def read(**given: Any) -> tuple[list[float], int]:
        with VideoDecoder(path, **given) as decoder:
            return [decoder.time_of(frame) for frame in decoder.frames()], decoder.damaged

    expected = read(one_thread=True)
    assert (len(expected[0]), expected[1]) == (14, 1)
    opened = av.open

    def with_threads(*args: Any, **kwargs: Any) -> Any:
        container = opened(*args, **kwargs)
        container.streams.video[0].codec_context.thread_count = threads
        return container

    monkeypatch.setattr(av, "open", with_threads)
    assert read() == expected
    assert read(start=0.2, end=0.5)[0] == [time for time in expected[0] if 0.2 <= time < 0.5]


def test_what_the_end_of_a_trimmed_video_leaves_out_is_not_damaged(tmp_path: Path) -> None:
    """An edit list ends it; packets behind that end are decoded, because others need them, and give no frame."""
    path = write_clip(tmp_path / "clip.mp4", frames=30, options={"preset": "medium", "g": "8"})
    data = bytearray(path.read_bytes())
    at = data.index(b"elst") + 12  # past name, version and number of entries: the length of the first
    data[at : at + 4] = (int.from_bytes(data[at : at + 4], "big") // 2).to_bytes(4, "big")
    path.write_bytes(data)
    with VideoDecoder(path) as decoder:
        assert (len(list(decoder.frames())), decoder.damaged) == (15, 0)


def test_damaged_packets_are_skipped_and_counted(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.avi", "mjpeg", "yuvj420p", frames=20)
    damage_jpegs(path, 5, 11)
    with VideoDecoder(path) as decoder:
        frames = sum(1 for _ in decoder.frames())
    assert (frames, decoder.damaged) == (18, 2)


def test_a_closed_video_holds_no_decoder(tmp_path: Path) -> None:
    """NVDEC's must be gone before its CUDA context is, whoever still holds the video."""

    def contexts() -> int:
        return sum(isinstance(each, VideoCodecContext) for each in gc.get_objects())

    path, before = write_clip(tmp_path / "clip.mp4", frames=4), contexts()
    decoder = VideoDecoder(path)
    frames = decoder.frames()
    frame, _ = next(frames), next(frames)
    assert contexts() == before + 1
    decoder.close()
    assert contexts() == before
    assert sys.getrefcount(frame) == 2, "only this test holds the first frame: surfaces go before the context, too"
    assert list(frames) == []
    assert decoder.planes(frame)[0].shape == (48, 64), "frames that were given out stay"


def test_absurd_times_are_none(tmp_path: Path) -> None:
    """Numbers of 64 bits that a damaged file has; nothing can be sought by them."""
    path = write_clip(tmp_path / "clip.mp4", frames=2)
    with av.open(str(path)) as container:
        times = FrameTimes(container, container.streams.video[0])
        frames = [av.VideoFrame(64, 48, "yuv420p") for _ in range(2)]
        for frame in frames:
            frame.pts = (1 << 63) - 1
            times.set(frame)
        assert [frame.time for frame in frames] == pytest.approx([0, 0.04])
        assert packets_from(container, container.streams.video[0], 1e18, 1.0) is None


def test_without_pyav_a_video_is_refused(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", frames=3)
    code = "import sys; sys.modules['av'] = None\nimport framebind as fb\n"
    code += "try: fb.open_source(sys.argv[1])\nexcept fb.SourceError as error: print(error)"
    said = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout
    assert said.startswith("videos need PyAV, and it cannot be imported (") and "pip install av" in said


@pytest.mark.parametrize("source", ["gopher://here/a.mp4", "concat:/etc/passwd|x://", "data://text"])
def test_addresses_of_other_schemes_are_refused(source: str) -> None:
    with pytest.raises(fb.SourceError, match="addresses begin with one of http"):
        VideoDecoder(source)


def test_what_holds_no_video_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fb.SourceError, match="cannot be opened"):
        VideoDecoder(tmp_path / "missing.mp4")
    text = tmp_path / "list.m3u8"
    text.write_text("#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n")
    with pytest.raises(fb.SourceError, match=r"cannot be opened|no video|no frame"):
        VideoDecoder(text)
    with av.open(str(tmp_path / "sound.mp4"), "w") as container:
        from support.video.clips import add_tone, write_tone

        write_tone(container, add_tone(container), 0.2)
    with pytest.raises(fb.SourceError, match="has no video"):
        VideoDecoder(tmp_path / "sound.mp4")


def write_streams(path: Path, video: list[float], sound: list[float]) -> Path:
    """A file with frames at these seconds, and packets of silence at those."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height = 64, 48
        silence: Any = container.add_stream("pcm_s16le", rate=8000, layout="mono") if sound else None
        for second in video:
            frame = av.VideoFrame(64, 48, "yuv420p")
            frame.pts, frame.time_base = round(second * 25), Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        for second in sound:
            samples = av.AudioFrame.from_ndarray(np.zeros((1, 320), np.int16), format="s16", layout="mono")
            samples.sample_rate, samples.pts, samples.time_base = 8000, round(second * 8000), Fraction(1, 8000)
            container.mux(silence.encode(samples))
    return path


@pytest.mark.parametrize("name", ["a.ts", "a.flv", "a.h264", "a.avi"])
def test_a_part_has_all_of_its_frames_in_files_without_an_index(name: str, tmp_path: Path) -> None:
    """A search in MPEG-TS ends behind the key frame, and raw H.264 cannot be searched."""

    def frames(start: float) -> list[tuple[float, bytes]]:
        with VideoDecoder(path, start=start) as decoder:
            return [
                (round(decoder.time_of(frame), 3), decoder.planes(frame)[0].tobytes()) for frame in decoder.frames()
            ]

    path = write_clip(tmp_path / name, frames=30, options={"g": "12"})
    whole = frames(0.0)
    for number in (1, 14, 29):
        assert frames(whole[number][0] - 0.005) == whole[number:]


@pytest.mark.parametrize(("began", "sound"), [(0.4, []), (0.4, [0.0]), (0.0, [0.0, 0.4, 0.8, 1.2])])
def test_a_video_that_begins_late_or_ends_before_the_sound_is_whole(
    began: float, sound: list[float], tmp_path: Path
) -> None:
    """Matroska's header has the end of the last stream, and nothing of the first frame."""
    path = write_streams(tmp_path / "a.mkv", [began + number / 25 for number in range(10)], sound)
    with fb.open_source(path, decoder="cpu") as source:
        assert sum(1 for _ in source.frames()) == 10
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 7 // 10])
    with pytest.raises(fb.SourceError, match=r"is damaged|has no frame"), fb.open_source(path) as source:
        list(source.frames())


@pytest.mark.parametrize("name", ["a.avi", "a.h264"])
def test_times_increase_where_the_container_does_not_tell_them(name: str, tmp_path: Path) -> None:
    """.avi has no times of presentation, though H.264 orders frames anew; raw H.264 has no times at all."""
    path = write_clip(tmp_path / name, frames=12, options={"bf": "3"})
    with VideoDecoder(path) as decoder:
        times = [decoder.time_of(frame) for frame in decoder.frames()]
    assert np.diff(times) == pytest.approx(1 / 25, abs=1e-6) and len(times) == 12


@pytest.mark.parametrize("frames", [6, 60])
def test_a_clock_that_is_set_back_runs_on(frames: int, tmp_path: Path) -> None:
    """Recordings of .ts may be put one after the other."""
    path = write_clip(tmp_path / "a.ts", "mpeg2video", frames=frames)
    path.write_bytes(path.read_bytes() * 2)
    with VideoDecoder(path) as decoder:
        times = [decoder.time_of(frame) for frame in decoder.frames()]
    assert np.diff(times) == pytest.approx(1 / 25, abs=1e-6) and len(times) == 2 * frames


@pytest.mark.parametrize("make", [Fraction, Rational])
def test_the_shape_of_pixels_is_read_from_any_version_of_pyav(make: Any) -> None:
    for turn, expected in ((0, Fraction(4, 3)), (90, Fraction(3, 4))):
        tags = read_tags(make(4, 3), 1, 1, turn)
        assert tags.pixel_aspect == expected and isinstance(tags.pixel_aspect, Fraction)


MOST_FILES = 8
"""Files of framebind that open a video. There were 19."""


def test_opening_a_video_takes_few_files(tmp_path: Path) -> None:
    path, files = write_clip(tmp_path / "clip.mp4", frames=10), set[str]()
    fb.open_source(path).close()
    folder = str(Path(fb.__file__).parent)

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            files.add(frame.f_code.co_filename.removeprefix(folder))

    sys.setprofile(note)
    try:
        source = fb.open_source(path)
    finally:
        sys.setprofile(None)
    source.close()
    files = {file for file in files if not file.startswith("/tests/")}
    assert 0 < len(files) <= MOST_FILES, sorted(files)
