"""A viewer's WebRTC connection, in which aiortc sends the encoder's packets. Its browser must know H.264."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import av
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCRtpSender, RTCSessionDescription

from .live_encoder import LiveEncoder

_QUEUE = 30
"""Most packets that wait for a viewer. One that is slower starts again with a key frame."""
_CONNECT_SECONDS = 15.0


class PacketTrack(MediaStreamTrack):
    """A track of the encoder's packets. ``put`` is called on the encoder's thread, ``recv`` by aiortc."""

    kind = "video"

    def __init__(self, encoder: LiveEncoder) -> None:
        super().__init__()
        self._encoder = encoder
        self._running: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._packets = asyncio.Queue[av.Packet](_QUEUE)
        self._waits_for_key = True
        encoder.add(self.put)

    def put(self, packet: av.Packet) -> None:
        """Take a packet."""
        with contextlib.suppress(RuntimeError):  # the loop ends
            self._running.call_soon_threadsafe(self._put, packet)

    def _put(self, packet: av.Packet) -> None:
        if self._packets.full():
            while not self._packets.empty():
                self._packets.get_nowait()
            self._waits_for_key = True
            self._encoder.ask_for_key()
        if self._waits_for_key and not packet.is_keyframe:
            return
        self._waits_for_key = False
        self._packets.put_nowait(packet)

    async def recv(self) -> Any:
        """The next packet."""
        return await self._packets.get()

    def stop(self) -> None:
        """Take no more packets."""
        super().stop()
        self._encoder.remove(self.put)


async def answer(encoder: LiveEncoder, sdp: str, connections: set[Any], seat: contextlib.ExitStack) -> dict[str, str]:
    """Answer an offer that wants to receive video. The connection is in ``connections``, and takes what ``seat`` leaves
    behind, until it ends.

    Raises ValueError if it is no such offer, or has no H.264.
    """
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    track = PacketTrack(encoder)
    try:
        sender = connection.addTrack(track)
        wanted = [codec for codec in RTCRtpSender.getCapabilities("video").codecs if codec.mimeType == "video/H264"]
        for transceiver in connection.getTransceivers():
            if transceiver.sender is sender:
                transceiver.setCodecPreferences(wanted)
        await connection.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
        await connection.setLocalDescription(await connection.createAnswer())
    except BaseException as error:
        track.stop()
        await connection.close()
        raise error if isinstance(error, asyncio.CancelledError) else ValueError(str(error) or "no H.264") from error
    connections.add(connection)
    task = asyncio.ensure_future(_watch(connection, track, connections, seat.pop_all()))
    connection.watching = task  # type: ignore[attr-defined] - asyncio keeps tasks by weak references only
    return {"sdp": connection.localDescription.sdp, "type": connection.localDescription.type}


async def _watch(connection: Any, track: PacketTrack, connections: set[Any], seat: contextlib.ExitStack) -> None:
    """Keep a viewer's seat until its connection ends, or does not begin."""
    changed = asyncio.Event()
    connection.on("connectionstatechange", changed.set)
    try:
        with seat:
            connected = False
            while connection.connectionState not in ("closed", "failed", "disconnected"):
                changed.clear()
                await asyncio.wait_for(changed.wait(), None if connected else _CONNECT_SECONDS)
                connected = connected or connection.connectionState == "connected"
    except asyncio.TimeoutError:
        pass
    finally:
        track.stop()
        connections.discard(connection)
        await connection.close()
