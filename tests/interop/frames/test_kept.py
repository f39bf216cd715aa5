"""A decoder that is kept from one video to the next: on the CPU here, with the packets that NVDEC would get."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import pytest

from framebind.interop.frames.decode.decoder import VideoDecoder
from framebind.interop.frames.decode.reused_decoder import PUSHED, KeptDecoder, PacketDecoder, resets
from support.video.clips import damage_h264, write_clip

WITH_B_FRAMES = {"preset": "medium", "g": "8"}
Frames = list[tuple[float, bytes]]


class Place(KeptDecoder):
    """The place of a decoder that counts how often one was taken. Versions of PyAV before 19 do not tell side data."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = list[Any]()

    def kind_of(self, context: Any) -> Hashable:
        if hasattr(av.VideoCodecContext, "coded_side_data"):
            return super().kind_of(context)
        return context.name, context.extradata, context.width, context.height

    def take(self, kind: Hashable) -> Any:
        found = super().take(kind)
        self.taken.append(found)
        return found


class AnyDecoder(KeptDecoder):
    """The place of a decoder that keeps all kinds, stand-ins too."""

    def kind_of(self, context: Any) -> Hashable:
        return "kind"


def frames(path: Path, kept: KeptDecoder | None = None, **part: Any) -> Frames:
    """The times and bytes of a video's frames."""
    with VideoDecoder(path, kept=kept, **part) as decoder:
        return [
            (decoder.time_of(each), b"".join(plane.tobytes() for plane in decoder.planes(each)))
            for each in decoder.frames()
        ]


def clips(folder: Path, suffix: str = ".mp4", count: int = 3) -> list[Path]:
    """Videos of one kind and of several lengths, with frames that come out in another order than they go in."""
    return [write_clip(folder / f"{n}{suffix}", frames=15 + 4 * n, options=WITH_B_FRAMES) for n in range(count)]


@pytest.mark.parametrize("suffix", [".mp4", ".ts", ".mkv"])
def test_the_next_video_of_the_same_kind_has_the_frames_of_a_new_decoder(tmp_path: Path, suffix: str) -> None:
    place = Place()
    for path in clips(tmp_path, suffix):
        assert frames(path, place) == frames(path)
    first, second, third = place.taken
    assert first is None and second is third is not None


def test_nothing_is_left_of_a_video_that_was_closed_in_the_middle(tmp_path: Path) -> None:
    place, (first, second, third) = Place(), clips(tmp_path)
    with VideoDecoder(first, kept=place) as decoder:
        next(decoder.frames())
    assert frames(second, place, end=0.3) == frames(second, end=0.3)
    assert frames(third, place, start=0.4) == frames(third, start=0.4)
    assert frames(first, place) == frames(first)
    assert [each is None for each in place.taken] == [True, False, False, False]


def test_nothing_is_kept_once_the_context_is_closed(tmp_path: Path) -> None:
    place, (path, *_) = Place(), clips(tmp_path, count=1)
    with VideoDecoder(path, kept=place) as decoder:
        next(decoder.frames())
        place.close()
    assert frames(path, place) == frames(path) and place.taken == [None, None]


def test_a_decoder_of_another_kind_is_freed_first(tmp_path: Path) -> None:
    place = Place()
    for size in ((64, 48), (96, 64)):
        path = write_clip(tmp_path / "clip.mp4", size=size, options=WITH_B_FRAMES)
        assert frames(path, place) == frames(path)
    assert place.taken == [None, None]


def test_a_decoder_that_met_damage_is_not_kept(tmp_path: Path) -> None:
    place, (path, *_) = Place(), clips(tmp_path, count=1)
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(path.read_bytes())
    damage_h264(broken, 4)
    with VideoDecoder(broken, kept=place) as decoder:
        list(decoder.frames())
        assert decoder.damaged
    assert frames(path, place) == frames(path)
    assert place.taken == [None, None]


def test_parameters_that_another_video_changed_in_the_middle_are_those_of_the_next_one(tmp_path: Path) -> None:
    """Files of some cameras have them in packets, too."""
    place, (path, *_) = Place(), clips(tmp_path, count=1)
    frames(path, place)
    ((kind, context),) = place._contexts.items()
    other = write_clip(tmp_path / "other.mp4", size=(96, 64), options={"preset": "ultrafast"})
    with av.open(str(other)) as container:
        packet = next(container.demux(video=0))
        data = container.streams.video[0].codec_context.extradata
    assert data is not None
    size = int.from_bytes(data[6:8], "big")
    sequence, picture = data[8 : 8 + size], data[8 + size + 3 :]
    with_parameters = b"".join(len(each).to_bytes(4, "big") + each for each in (sequence, picture)) + bytes(packet)
    changed = av.Packet(with_parameters)
    changed.pts = PUSHED  # so that its pictures are left out
    for _ in range(3):
        context.decode(changed)
    place.put(kind, context)
    assert frames(path, place) == frames(path)
    assert place.taken[-1] is context


def test_a_picture_that_needs_others_does_not_reset_a_decoder(tmp_path: Path) -> None:
    for open_gop in (False, True):
        options = {**WITH_B_FRAMES, "x264-params": f"open-gop={open_gop:d}"}
        with av.open(str(write_clip(tmp_path / "clip.mp4", frames=30, options=options))) as container:
            extradata = container.streams.video[0].codec_context.extradata
            assert extradata is not None
            packets = [packet for packet in container.demux(video=0) if packet.size]
        found = [resets(packet, extradata) for packet in packets]
        keys = [packet.is_keyframe for packet in packets]
        assert found == ([True] + 29 * [False] if open_gop else keys) and sum(keys) > 2
    place = Place()
    with VideoDecoder(tmp_path / "clip.mp4", kept=place, start=0.5) as decoder:
        list(decoder.frames())
    assert not place.taken, "it begins with a key frame that is none of these, and has no other"
    idr, other = b"\0\0\1\x65data", b"\0\0\1\x41data"
    parameters = b"\0\0\0\1\x67data\0\0\1\x68data"
    assert resets(parameters + idr, b"\0\0\1") and not resets(parameters + other + idr, b"\0\0\1")
    assert not resets(idr, b"\0\0\1"), "without parameters"
    assert not resets(idr, b"\1"), "parameters that are cut"


def test_what_a_decoder_knows_before_its_first_packet_is_its_kind() -> None:
    kept, colours = KeptDecoder(), {"colorspace": 1, "color_range": 1, "color_primaries": 1, "color_trc": 1}
    known: dict[str, Any] = {
        "name": "h264",
        "extradata": b"\1",
        "width": 4,
        "height": 2,
        "sample_aspect_ratio": None,
        **colours,
    }

    def kind(**more: Any) -> Hashable:
        return kept.kind_of(SimpleNamespace(**{**known, "coded_side_data": {}, **more}))

    assert kind() == kind() and kind() is not None
    changes: list[dict[str, Any]] = [
        {"extradata": b"\2"}, {"sample_aspect_ratio": 2}, {"width": 2}, {"height": 4}, {"color_range": 2},
        {"coded_side_data": {"displaymatrix": b"turned"}},
    ]  # fmt: skip
    for change in changes:
        assert kind(**change) not in (kind(), None)
    assert kind(name="hevc") is kind(extradata=None) is None
    assert kept.kind_of(SimpleNamespace(**known)) is None, "PyAV before 19"


def test_a_decoder_that_learned_to_hold_back_more_frames_is_not_kept() -> None:
    """A new one would hold back fewer at first, and leave out those that come too late for it."""

    class Context:
        """A decoder that gives a packet back as its frame, and then holds back ``then`` frames."""

        extradata, reorder_depth = b"\0\0\1", 2

        def __init__(self, then: int) -> None:
            self._then = then

        def decode(self, packet: Any) -> list[Any]:
            if packet is not first:
                self.reorder_depth = self._then
            return [SimpleNamespace(pts=packet.pts)]

    for then in (2, 3):
        first, second = (av.Packet(b"\0\0\1\x67\0\0\1\x68\0\0\1\x65") for _ in range(2))
        kept = AnyDecoder()
        decoder = PacketDecoder(Context(then), kept)
        for packet in (first, second, av.Packet()):
            decoder.decode(packet)
        decoder.close(is_damaged=False)
        assert (kept.take("kind") is not None) == (then == 2)
