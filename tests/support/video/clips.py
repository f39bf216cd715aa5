"""Small videos for tests, made by PyAV: a moving picture, tones for sound, and headers as phones write them."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]


def picture(number: int, width: int = 64, height: int = 48) -> Picture:
    """An RGB picture that moves with its number, of slow changes, so that codecs keep it."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    channels = (x * 3 + 4 * number) % 256, (y * 4 + 2 * number) % 256, np.full_like(x, 8 * number % 256)
    return np.stack(channels, -1).astype(np.uint8)


def write_clip(
    path: Path,
    codec: str = "libx264",
    pixel_format: str = "yuv420p",
    *,
    size: tuple[int, int] = (64, 48),
    frames: int = 10,
    times: list[int] | None = None,
    sound: bool = False,
    options: dict[str, str] | None = None,
    tags: dict[str, Any] | None = None,
) -> Path:
    """Write a video of 25 frames per second, or with a frame at each of ``times`` in hundredths of a second.

    ``tags`` are attributes of its encoder.
    """
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=25, options=options or {})
        stream.width, stream.height = size
        stream.pix_fmt = pixel_format
        for name, value in (tags or {}).items():
            setattr(stream.codec_context, name, value)
        if times:
            stream.codec_context.time_base = Fraction(1, 100)
        tone = add_tone(container) if sound else None
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(picture(number, *size), format="rgb24")
            frame = frame.reformat(format=pixel_format)
            frame.pts, frame.time_base = (times[number], Fraction(1, 100)) if times else (number, Fraction(1, 25))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        if tone is not None:
            write_tone(container, tone, frames / 25)
    return path


def add_tone(container: Any) -> Any:
    """A stream of sound for ``write_tone``."""
    return container.add_stream("aac", rate=16000, layout="mono")


def write_tone(container: Any, stream: Any, seconds: float) -> None:
    """Write a tone of 440 Hz."""
    for start in range(0, int(16000 * seconds), 1024):
        samples = np.sin(2 * np.pi * 440 / 16000 * np.arange(start, start + 1024)).astype(np.float32)[None]
        frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 16000, start, Fraction(1, 16000)
        container.mux(stream.encode(frame))
    container.mux(stream.encode())


def turn_track(path: Path, degrees: int) -> None:
    """Write a rotation into the header of an .mp4 file's track, as phones do."""

    def matrix(cosine: int, sine: int) -> bytes:
        return struct.pack(">9i", cosine << 16, sine << 16, 0, -sine << 16, cosine << 16, 0, 0, 0, 1 << 30)

    data = path.read_bytes()
    at = data.index(b"tkhd")
    assert matrix(1, 0) in data[at:]
    turned = matrix(*{0: (1, 0), 90: (0, 1), 180: (-1, 0), 270: (0, -1)}[degrees])
    path.write_bytes(data[:at] + data[at:].replace(matrix(1, 0), turned, 1))


def damage_h264(path: Path, number: int) -> None:
    """Damage one packet of an .mp4 file: the length of its first unit."""
    with av.open(str(path)) as container:
        at = [packet.pos for packet in container.demux(video=0) if packet.size][number]
    data = bytearray(path.read_bytes())
    data[at : at + 4] = b"\xff" * 4
    path.write_bytes(data)


def damage_jpegs(path: Path, *numbers: int) -> None:
    """Overwrite these frames of an .avi file of MJPEG."""
    data = bytearray(path.read_bytes())
    starts = [i for i in range(len(data)) if data.startswith(b"\xff\xd8", i)]
    for number in numbers:
        data[starts[number] : starts[number + 1] - 8] = bytes(starts[number + 1] - 8 - starts[number])
    path.write_bytes(data)
