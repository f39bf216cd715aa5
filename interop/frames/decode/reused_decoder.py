"""Reuses an open decoder of H.264 for the next video with the same parameters: NVDEC's take long to open and to close.

The decoder is never told that a video has ended, as FFmpeg would make that of NVDEC anew. The last frames are pushed
out by the video's first packet, again and again, until that comes out itself. A picture that resets the decoder (IDR)
needs none before it: the next video, which begins with one, is decoded as by a new decoder, bit for bit.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Hashable, Iterator
from typing import Any

from .nvdec_codecs import COLOURS
from .pyav import load_av

PUSHED = -(1 << 60)
"""The time stamp of the packet that pushes others out. No stream has it."""
_MOST_PUSHED = 32
"""Times that the packet is sent, at most: H.264 delays 16 frames, and a decoder with threads one more for each."""
_NEW_EXTRADATA = 1
"""FFmpeg's AV_PKT_DATA_NEW_EXTRADATA: a packet's parameters of the stream, for those that follow, too."""
_IDR, _SLICES, _PARAMETERS = 5, range(1, 6), {7, 8}
"""Types of the units of H.264: a part of a picture that resets the decoder, parts of any picture, and parameters."""
_LEAST_EXTRADATA = 7
"""Bytes that parameters have at least if they say how long the lengths before units are; FFmpeg refuses fewer."""
_START = re.compile(b"\x00\x00\x01(.)", re.DOTALL)
"""The beginning of a unit in a stream without lengths, and its header."""


class KeptDecoder:
    """The place of one decoder between two videos, for any thread.

    Attributes
    ----------
    closed : bool
        True once nothing is kept any more, because what the decoders need is gone.
    """

    def __init__(self) -> None:
        self.closed = False
        self._contexts: dict[Hashable, Any] = {}

    def kind_of(self, context: Any) -> Hashable:
        """The parameters that a decoder (av.CodecContext) has before its first packet; None if it cannot be kept.

        Before version 19 PyAV did not tell the side data, in which the turn is.
        """
        side_data: dict[str, bytes] | None = getattr(context, "coded_side_data", None)
        if context.name != "h264" or not context.extradata or side_data is None:
            return None
        known = (getattr(context, name) for name in ("width", "height", "sample_aspect_ratio", *COLOURS))
        return context.extradata, *known, *sorted(side_data.items())

    def take(self, kind: Hashable) -> Any:
        """The decoder (av.CodecContext) that was kept, which is the caller's now; None if it is of another kind.

        In no case is one kept then: the memory of a GPU may not do for two.
        """
        found = self._contexts.pop(kind, None)
        self._contexts.clear()
        return found

    def put(self, kind: Hashable, context: Any) -> None:
        """Keep a decoder, in place of the one before."""
        self._contexts.clear()
        self._contexts[kind] = context

    def close(self) -> None:
        """Free what is kept, and keep nothing any more. May be called more than once."""
        self.closed = True
        self._contexts.clear()


class PacketDecoder:
    """Decodes the packets of a video: by the decoder in ``kept`` if that fits, else by ``context``.

    Attributes
    ----------
    context : av.CodecContext or None
        The decoder, until ``close``.
    """

    def __init__(self, context: Any, kept: KeptDecoder | None) -> None:
        self.context: Any = context
        self._kept = kept
        self._kind = None if kept is None else kept.kind_of(context)
        self._head: Any = None
        """The first packet, if the decoder can be kept."""
        self._depth: int | None = None
        """The number of frames that the decoder held back at first."""
        self._is_first, self._is_sound, self._is_empty = True, True, False

    def decode(self, packet: Any) -> list[Any]:
        """The frames that come out after the next packet. One without bytes is the end."""
        if self._is_first:
            self._is_first = False
            if self._kind is not None and resets(packet, self.context.extradata):
                self._begin(packet)
        if not packet.size and self._head is not None:
            return list(self._pushed_out(self.context))
        self._is_sound = False  # until FFmpeg has raised no error
        frames = [frame for frame in self.context.decode(packet) if frame.pts != PUSHED]
        self._is_sound = True
        if self._depth is None and self._head is not None:
            self._depth = self.context.reorder_depth
        return frames

    def _begin(self, packet: Any) -> None:
        """Take the kept decoder, whose parameters another video may have changed."""
        assert self._kept is not None
        self._head, found = packet, self._kept.take(self._kind)
        if found is not None:
            self.context = found
            parameters = load_av().packet.PacketSideData(_NEW_EXTRADATA, len(found.extradata))
            parameters.update(found.extradata)
            packet.set_sidedata(parameters)

    def _pushed_out(self, context: Any) -> Iterator[Any]:
        """The frames that the decoder still has. Then it has none but copies of the first one."""
        self._head.pts = PUSHED
        for _ in range(_MOST_PUSHED):
            for frame in context.decode(self._head):
                if frame.pts == PUSHED:
                    self._is_empty = True
                    return
                yield frame

    def close(self, *, is_damaged: bool) -> None:
        """Keep the decoder, unless it met damage, or learned to hold back more frames than it would at first."""
        context, self.context = self.context, None
        if self._kept is None or self._kept.closed or self._head is None or is_damaged or not self._is_sound:
            return
        with contextlib.suppress(load_av().error.FFmpegError):
            if not self._is_empty:
                for _ in self._pushed_out(context):
                    pass
            if self._is_empty and context.reorder_depth == self._depth:
                self._kept.put(self._kind, context)


def resets(packet: Any, extradata: bytes) -> bool:
    """Whether a packet of H.264 resets the decoder (IDR), with the parameters in it or in ``extradata``."""
    data, types = bytes(packet), list[int]()
    if extradata[0] != 1:
        types = [header[0] & 31 for header in _START.findall(data)]
        if not _PARAMETERS.issubset(types):
            return False
    elif len(extradata) >= _LEAST_EXTRADATA:
        at, length = 0, (extradata[4] & 3) + 1  # of the lengths before each unit
        while at + length < len(data):
            types.append(data[at + length] & 31)
            at += length + int.from_bytes(data[at : at + length], "big")
    return next((each for each in types if each in _SLICES), None) == _IDR
