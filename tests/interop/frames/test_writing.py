"""Videos written by PyAV: pictures, times, sound and subtitles; real encoders, real GL."""

from __future__ import annotations

import resource
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from av.stream import Disposition

import framebind as fb
from framebind.interop.frames.write.av_file import AvFile, Sound, VideoSettings
from support.video.clips import add_tone, picture, write_clip, write_tone
from support.video.textures import textures

CODECS = [
    ("a.mp4", None, "h264"), ("a.mov", None, "h264"), ("a.mkv", "hevc", "hevc"), ("a.webm", None, "vp9"),
    ("a.mov", "prores", "prores"), ("a.gif", None, "gif"), ("a.avi", None, "mjpeg"), ("a.mp4", "av1", "av1"),
]  # fmt: skip

STEP = 8
"""Numbers from one picture to the next, so that a GIF's few colours tell them apart."""


def write(
    path: Path, context: fb.GlContext, times: list[float | None], size: tuple[int, int] = (64, 48), **options: Any
) -> None:
    texture = fb.GlTexture(*size)
    with fb.video.VideoWriter(path, size, **{"fps": 25, **options}) as sink:
        for number, time in enumerate(times):
            texture.write(np.dstack([picture(STEP * number, *size), np.full(size[::-1], 255, np.uint8)]))
            sink.put(texture, time=time)


def sound_packets(path: Path) -> list[tuple[float, bytes]]:
    """Each packet of sound with its seconds from the first frame. (Muxers may move all streams.)"""
    with av.open(str(path)) as container:
        video = container.streams.video[0]
        began = float((video.start_time or 0) * video.time_base)
        packets = container.demux(container.streams.audio[0])
        return [(float(packet.pts * packet.time_base) - began, bytes(packet)) for packet in packets if packet.size]


@pytest.mark.parametrize(("name", "codec", "found"), CODECS)
def test_each_format_keeps_pictures_in_order(
    context: fb.GlContext, tmp_path: Path, name: str, codec: str | None, found: str
) -> None:
    write(tmp_path / name, context, [None] * 6, codec=codec)
    with av.open(str(tmp_path / name)) as container:
        assert container.streams.video[0].codec_context.name.removeprefix("lib").startswith((found, "dav1d"))
        frames: list[Any] = [frame.reformat(format="rgb24").to_ndarray() for frame in container.decode(video=0)]
    assert len(frames) == 6
    for number, frame in enumerate(frames):
        differences = [np.abs(frame.astype(int) - picture(STEP * other)).mean() for other in range(6)]
        assert int(np.argmin(differences)) == number


def test_colours_survive(context: fb.GlContext, tmp_path: Path) -> None:
    for size in ((64, 48), (960, 720)):  # BT.601, BT.709
        texture = fb.GlTexture.from_array(np.full((size[1], size[0], 4), (200, 40, 90, 255), np.uint8))
        with fb.video.VideoWriter(tmp_path / "a.mp4", size, quality=10) as sink:
            sink.put(texture)
        with fb.open_source(tmp_path / "a.mp4") as source:
            (read,) = [frame.read() for frame in textures(source, context)]
        assert np.abs(read[..., :3].astype(int) - (200, 40, 90)).max() <= 3


def test_times_and_odd_sizes_are_kept(context: fb.GlContext, tmp_path: Path) -> None:
    times: list[float | None] = [0.0, 0.04, 0.05, 0.3, 0.9]
    write(tmp_path / "a.mp4", context, times, size=(33, 17))
    with fb.open_source(tmp_path / "a.mp4") as source:
        assert source.size == (34, 18)
        assert [source.time for _ in textures(source, context)] == pytest.approx(times, abs=1e-4)


def test_times_of_a_gif_are_hundredths(tmp_path: Path) -> None:
    times = [0.0, 0.04, 0.05, 0.3, 0.301, 0.9]
    with fb.video.VideoWriter(tmp_path / "a.gif", (64, 48), fps=25) as sink:
        for number, time in enumerate(times):
            sink.put(np.full((48, 64, 4), 40 * number, np.uint8), time=time)
    with av.open(str(tmp_path / "a.gif")) as container:
        found = [frame.time for frame in container.decode(video=0)]
    assert found == pytest.approx([0.0, 0.04, 0.05, 0.3, 0.31, 0.9])


def test_hevc_plays_on_apple_s_machines(tmp_path: Path) -> None:
    for frames in (1, 2, 1, 2, 1):  # the encoder gave few frames any time of decoding: one time of ten it was refused
        with fb.video.VideoWriter(tmp_path / "a.mp4", (64, 48), codec="hevc") as sink:
            for _ in range(frames):
                sink.put(np.zeros((48, 64, 4), np.uint8))
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert container.streams.video[0].codec_context.codec_tag == "hvc1"


def test_sound_and_metadata_are_copied_bit_by_bit(context: fb.GlContext, tmp_path: Path) -> None:
    source = write_clip(tmp_path / "source.mp4", frames=25, sound=True)
    for name in ("a.mp4", "a.mkv"):
        with fb.open_source(source) as reader:
            write(tmp_path / name, context, [number / 25 for number in range(25)], like=reader)
        before, after = sound_packets(source), sound_packets(tmp_path / name)
        assert [data for _, data in after] == [data for _, data in before] and len(after) > 10
        assert [time for time, _ in after] == pytest.approx([time for time, _ in before], abs=2e-3)


def write_film(path: Path) -> Path:
    """A video with sound of two languages, subtitles, chapters, and a cover picture before all of them."""
    with av.open(str(path), "w") as container:
        cover: Any = container.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 32, 32, "yuvj420p"
        cover.disposition = Disposition.attached_pic
        stream: Any = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        sounds = [add_tone(container), add_tone(container)]
        subtitles: Any = container.add_stream("mov_text" if path.suffix == ".mp4" else "subrip")
        subtitles.codec_context.subtitle_header = b"[Script Info]\n[V4+ Styles]\n[Events]\n"
        for each, language in zip([*sounds, subtitles], ["fra", "deu", "spa"], strict=True):
            each.metadata["language"] = language
        sounds[0].disposition, sounds[1].disposition = Disposition.default, Disposition.forced
        sides, titles = [0, 520, 1000], [{"title": "one"}, {"title": "two"}]
        container.set_chapters([
            {"id": number, "start": sides[number], "end": sides[number + 1], "time_base": Fraction(1, 1000),
             "metadata": titles[number]} for number in range(2)
        ])  # fmt: skip
        frame = av.VideoFrame(32, 32, "yuvj420p")
        frame.pts = 0
        container.mux([*cover.encode(frame), *cover.encode()])
        for number in range(25):
            frame = av.VideoFrame.from_ndarray(picture(number), format="rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = number + 5, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        for each in sounds:
            write_tone(container, each, 1.0)
        packet = av.Packet(b"\0\2hi" if path.suffix == ".mp4" else b"hi")
        packet.pts = packet.dts = 600
        packet.duration, packet.time_base, packet.stream = 200, Fraction(1, 1000), subtitles
        container.mux(packet)
    return path


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_languages_and_chapters_are_copied(name: str, tmp_path: Path) -> None:
    """The times of a cut video count from its first frame, which is shown at 0.2 seconds."""
    began = 0.2
    source = write_film(tmp_path / f"source{Path(name).suffix}")
    file = AvFile(tmp_path / name, (64, 48), VideoSettings(25, sound=Sound(source, 0.3)))
    for _ in range(17):
        file.write(np.zeros((48, 64, 4), np.uint8))
    file.finish()
    with av.open(str(tmp_path / name)) as container:
        copied = [*container.streams.audio, *container.streams.subtitles]
        assert [stream.metadata["language"] for stream in copied] == ["fra", "deu", "spa"]
        assert [stream.disposition for stream in container.streams.audio] == [Disposition.default, Disposition.forced]
        chapters: list[Any] = list(container.chapters())
        found = [(float(each["start"] * each["time_base"]), each["metadata"]["title"]) for each in chapters]
        assert found == [(0, "one"), (pytest.approx(0.52 - 0.3 - began), "two")]


def test_a_gif_has_no_sound(tmp_path: Path) -> None:
    source = write_clip(tmp_path / "source.mp4", frames=2, sound=True)
    with fb.open_source(source) as reader, fb.video.VideoWriter(tmp_path / "a.gif", like=reader) as sink:
        sink.put(np.zeros((48, 64, 4), np.uint8))
    with av.open(str(tmp_path / "a.gif")) as container:
        assert [stream.type for stream in container.streams] == ["video"]


def test_sound_whose_clock_is_set_back_goes_on(tmp_path: Path) -> None:
    source = write_clip(tmp_path / "source.ts", "mpeg2video", frames=30, sound=True)
    source.write_bytes(source.read_bytes() * 2)
    with fb.open_source(source) as reader, fb.video.VideoWriter(tmp_path / "a.mkv", fps=25, like=reader) as sink:
        for _ in range(60):
            sink.put(np.zeros((48, 64, 4), np.uint8))
    before, after = sound_packets(source), sound_packets(tmp_path / "a.mkv")
    header = 7  # of AAC in .ts alone
    assert [data for _, data in after] == [data[header:] for _, data in before]
    assert after[-1][0] == pytest.approx(2.4, abs=0.2)


def test_a_part_of_a_file_without_an_index_has_its_sound_from_the_start(tmp_path: Path) -> None:
    source = write_clip(tmp_path / "source.ts", "mpeg2video", frames=60, sound=True)
    with fb.open_source(source, start=1.2) as reader, fb.video.VideoWriter(tmp_path / "a.mkv", like=reader) as sink:
        sink.put(np.zeros((48, 64, 4), np.uint8))
    times = [time for time, _ in sound_packets(tmp_path / "a.mkv")]
    assert -0.1 <= times[0] <= 0.03 and times[-1] == pytest.approx(1.2, abs=0.1)


def test_what_cannot_be_written_is_said(context: fb.GlContext, tmp_path: Path) -> None:
    with pytest.raises(fb.SourceError, match=r"there is no codec 'mpeg9': take one of h264, hevc"):
        fb.video.VideoWriter(tmp_path / "a.mp4", (64, 48), codec="mpeg9")
    with pytest.raises(fb.SourceError, match=r"a.webm' cannot be written: .*\.mkv"):
        write(tmp_path / "a.webm", context, [None], codec="prores")
    with pytest.raises(fb.SourceError, match=r"a.mp4' cannot be written: .*No such file"):
        AvFile(tmp_path / "a.mp4", (64, 48), VideoSettings(25, sound=Sound(tmp_path / "missing.mp4")))
    with pytest.raises(fb.SourceError, match="mjpeg has no quality to choose"):
        fb.video.VideoWriter(tmp_path / "a.avi", (64, 48), quality=3)
    with pytest.raises(fb.SourceError, match="prores has no quality to choose"):
        fb.video.VideoWriter(tmp_path / "a.mov", (64, 48), codec="prores", quality=3)
    sink = fb.video.VideoWriter(tmp_path / "a.mp4", (64, 48))
    with pytest.raises(fb.SourceError, match="a frame at 1 seconds comes after one at 2 seconds"):
        for time in (2.0, 1.0):
            sink.put(np.zeros((48, 64, 4), np.uint8), time=time)
        sink.close()
    sink = fb.video.VideoWriter(tmp_path / "a.mp4", (64, 48))
    with pytest.raises(fb.SourceError, match="comes after the end of all clocks"):  # a damaged file may claim it
        sink.put(np.zeros((48, 64, 4), np.uint8), time=1e15)
        sink.close()
    assert list(tmp_path.iterdir()) == []
    film = write_film(tmp_path / "film.mkv")
    with pytest.raises(
        fb.SourceError, match=r"subtitles of '.*film.mkv' \((srt|subrip)\) cannot be .* \.mkv takes all"
    ):
        AvFile(tmp_path / "a.mp4", (64, 48), VideoSettings(25, sound=Sound(film)))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_picture_keeps_alpha_if_it_is_wanted(tmp_path: Path) -> None:
    texture = fb.GlTexture.from_array(np.full((4, 6, 4), (10, 20, 30, 40), np.uint8))
    for name, channels in (("a.png", [30, 20, 10, 40]), ("b.png", [30, 20, 10])):
        with fb.video.VideoWriter(tmp_path / name, alpha=name == "a.png") as file:
            file.put(texture)
        assert (cv2.imread(str(tmp_path / name), cv2.IMREAD_UNCHANGED) == channels).all()
    with (
        fb.video.VideoWriter(tmp_path / "a.webm", alpha=True) as video,
        pytest.raises(fb.SourceError, match="planes have"),
    ):
        video.put(fb.YuvPicture.from_frame(av.VideoFrame(64, 48, "yuv420p")))
    assert not (tmp_path / "a.webm").exists()


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
def test_a_cover_picture_is_no_video(suffix: str, tmp_path: Path) -> None:
    """FFmpeg writes it as the first track of Matroska, and does not mark it."""
    film = write_film(tmp_path / f"film{suffix}")
    for start, first in ((0.0, 0.0), (0.3, 0.32)):
        with fb.open_source(film, start=start) as source:
            times = [frame.time for frame in source.frames("cpu")]
            assert source.size == (64, 48)
        assert times == pytest.approx([first + 0.04 * number for number in range(25 - round(25 * first))], abs=2e-3)


def test_nvenc_is_never_replaced_by_another_encoder(context: fb.GlContext, tmp_path: Path) -> None:
    if fb.find_gpus():
        pytest.skip("there may be a GPU that encodes")
    with pytest.raises(fb.SourceError, match=r"written: hevc_nvenc needs NVENC, and it does not open .*'hevc' encodes"):
        fb.video.VideoWriter(tmp_path / "a.mp4", (64, 48), codec="hevc_nvenc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_a_full_disk_is_said_and_leaves_the_file_that_was_there(
    context: fb.GlContext, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"an earlier run")
    texture, random = fb.GlTexture(64, 48), np.random.default_rng(0)
    sink = fb.video.VideoWriter(path, (64, 48))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        with pytest.raises(fb.SourceError, match=f"{name}' cannot be written: .*"):
            for _ in range(40):
                texture.write(random.integers(0, 256, (48, 64, 4), np.uint8))
                sink.put(texture)
            sink.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    try:
        sink.close()
    except fb.SourceError:
        pass
    assert path.read_bytes() == b"an earlier run" and list(tmp_path.iterdir()) == [path]


def test_the_source_of_the_sound_opens_no_network(context: fb.GlContext, tmp_path: Path) -> None:
    playlist = tmp_path / "list.m3u8"
    playlist.write_text("#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n")
    with pytest.raises(fb.SourceError, match=r"a.mp4' cannot be written: video '.*list.m3u8' cannot be opened"):
        AvFile(tmp_path / "a.mp4", (64, 48), VideoSettings(25, sound=Sound(playlist)))
    assert list(tmp_path.iterdir()) == [playlist]
