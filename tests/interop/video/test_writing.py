"""Videos written by PyAV: pictures, times, sound and subtitles; real encoders, real GL."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import framebind as fb
from support.video.clips import picture, write_clip

CODECS = [
    ("a.mp4", None, "h264"), ("a.mov", None, "h264"), ("a.mkv", "hevc", "hevc"), ("a.webm", None, "vp9"),
    ("a.mov", "prores", "prores"), ("a.gif", None, "gif"), ("a.mp4", "av1", "av1"),
]  # fmt: skip

STEP = 8
"""Numbers from one picture to the next, so that a GIF's few colours tell them apart."""


def write(
    path: Path, context: fb.GlContext, times: list[float | None], size: tuple[int, int] = (64, 48), **options: Any
) -> None:
    texture = fb.GlTexture(*size)
    with fb.open_sink(path, context, size, fps=25, **options) as sink:
        for number, time in enumerate(times):
            texture.write(np.dstack([picture(STEP * number, *size), np.full(size[::-1], 255, np.uint8)]))
            assert sink.put(texture, time)


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
        with fb.open_sink(tmp_path / "a.mp4", context, size, quality=10) as sink:
            sink.put(texture)
        with fb.open_source(tmp_path / "a.mp4") as source:
            (read,) = [frame.read() for frame in source.textures(context)]
        assert np.abs(read[..., :3].astype(int) - (200, 40, 90)).max() <= 3


def test_times_and_odd_sizes_are_kept(context: fb.GlContext, tmp_path: Path) -> None:
    times: list[float | None] = [0.0, 0.04, 0.05, 0.3, 0.9]
    write(tmp_path / "a.mp4", context, times, size=(33, 17))
    with fb.open_source(tmp_path / "a.mp4") as source:
        assert source.size == (34, 18)
        assert [source.time for _ in source.textures(context)] == pytest.approx(times, abs=1e-4)


def test_sound_and_metadata_are_copied_bit_by_bit(context: fb.GlContext, tmp_path: Path) -> None:
    source = write_clip(tmp_path / "source.mp4", frames=25, sound=True)
    for name in ("a.mp4", "a.mkv"):
        write(tmp_path / name, context, [number / 25 for number in range(25)], sound_of=source)
        before, after = sound_packets(source), sound_packets(tmp_path / name)
        assert [data for _, data in after] == [data for _, data in before] and len(after) > 10
        assert [time for time, _ in after] == pytest.approx([time for time, _ in before], abs=2e-3)


def test_what_cannot_be_written_is_said(context: fb.GlContext, tmp_path: Path) -> None:
    with pytest.raises(fb.SourceError, match=r"there is no codec 'mpeg9': take one of h264, hevc"):
        fb.open_sink(tmp_path / "a.mp4", context, (64, 48), codec="mpeg9")
    with pytest.raises(fb.SourceError, match=r"a.webm' cannot be written: .*\.mkv"):
        write(tmp_path / "a.webm", context, [None], codec="prores")
    with pytest.raises(fb.SourceError, match=r"a.mp4' cannot be written: .*No such file"):
        fb.open_sink(tmp_path / "a.mp4", context, (64, 48), sound_of=tmp_path / "missing.mp4")
    assert list(tmp_path.iterdir()) == []


def test_nvenc_is_never_replaced_by_another_encoder(context: fb.GlContext, tmp_path: Path) -> None:
    if fb.find_gpus():
        pytest.skip("there may be a GPU that encodes")
    with pytest.raises(fb.SourceError, match=r"written: hevc_nvenc needs NVENC, and it does not open .*'hevc' encodes"):
        fb.open_sink(tmp_path / "a.mp4", context, (64, 48), codec="hevc_nvenc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_a_full_disk_is_said_and_leaves_the_file_that_was_there(
    context: fb.GlContext, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"an earlier run")
    texture, random = fb.GlTexture(64, 48), np.random.default_rng(0)
    sink = fb.open_sink(path, context, (64, 48))
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
        fb.open_sink(tmp_path / "a.mp4", context, (64, 48), sound_of=playlist)
    assert list(tmp_path.iterdir()) == [playlist]
