"""The size of a picture by its header alone, in all formats; files that claim more than memory holds are refused."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

import framebind as fb
from framebind.interop.frames.read.picture_files import load_picture
from framebind.interop.frames.read.picture_headers import claimed_size

SIZES = [(1, 1), (7, 5), (300, 200), (16, 1000)]


def _by_opencv(suffix: str, *options: int) -> Callable[[np.ndarray], bytes]:
    return lambda pixels: cv2.imencode(suffix, pixels, options)[1].tobytes()


def _by_pillow(**options: Any) -> Callable[[np.ndarray], bytes]:
    def encode(pixels: np.ndarray) -> bytes:
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, **options)
        return file.getvalue()

    return encode


FORMATS: dict[str, Callable[[np.ndarray], bytes]] = {
    "png": _by_opencv(".png"),
    "jpeg": _by_opencv(".jpg"),
    "progressive jpeg with a profile": _by_pillow(format="jpeg", progressive=True, icc_profile=bytes(200_000)),
    "bmp": _by_opencv(".bmp"),
    "webp": _by_opencv(".webp", cv2.IMWRITE_WEBP_QUALITY, 50),
    "webp without loss": _by_opencv(".webp", cv2.IMWRITE_WEBP_QUALITY, 101),
    "webp with a profile": _by_pillow(format="webp", icc_profile=bytes(1000)),
    "tiff": _by_opencv(".tiff"),
    "tiff of Motorola": lambda pixels: _big_endian_tiff(pixels),
    "BigTIFF": _by_pillow(format="tiff", big_tiff=True),
    "gif": _by_pillow(format="gif"),
}


def _big_endian_tiff(pixels: np.ndarray) -> bytes:
    """A TIFF of "MM", whose directory is behind the pixels."""
    height, width = pixels.shape[:2]
    tags = [(256, 3, width << 16), (257, 4, height), (258, 3, 8 << 16), (259, 3, 1 << 16), (262, 3, 1 << 16),
            (273, 4, 8), (277, 3, 1 << 16), (278, 4, height), (279, 4, width * height)]  # fmt: skip
    content = pixels[..., 0].tobytes()
    directory = struct.pack(">H", len(tags)) + b"".join(struct.pack(">HHII", tag, kind, 1, n) for tag, kind, n in tags)
    return b"MM\0*" + struct.pack(">I", 8 + len(content)) + content + directory + bytes(4)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", SIZES)
def test_the_header_has_the_size_of_the_pixels(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), np.uint8)
    content = FORMATS[name](pixels)
    assert claimed_size(io.BytesIO(content)) == size
    path = tmp_path / "a.png"  # the content counts, and not the suffix
    path.write_bytes(content)
    assert load_picture(path).shape == pixels.shape


def png(width: int, height: int, data: bytes = b"") -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def _tiff(*tags: tuple[int, int]) -> bytes:
    directory = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + directory + bytes(4)


HUGE: dict[str, bytes] = {
    "png": png(100_000, 100_000),
    "jpeg": b"\xff\xd8\xff\xe0\x00\x10" + bytes(14) + b"\xff\xff\xc0\x00\x0b\x08\xff\xff\xff\xff\x01\x01\x11\x00",
    "bmp": b"BM" + bytes(12) + struct.pack("<IiiHHIIiiII", 40, 60_000, -60_000, 1, 24, 0, 0, 0, 0, 0, 0),
    "webp": b"RIFF\x20\0\0\0WEBPVP8X" + struct.pack("<II", 10, 0) + b"\xff\xff\x00" * 2,
    "webp without loss": b"RIFF\x20\0\0\0WEBPVP8L" + struct.pack("<IB", 10, 0x2F) + b"\xff\xff\xff\xff" + bytes(10),
    "tiff": _tiff((256, 1 << 31), (257, 1 << 31)),
    "tiff of a huge tile": _tiff((256, 1), (257, 1), (322, 1 << 14), (323, 1 << 14)),
    "gif": b"GIF89a" + struct.pack("<HH", 65_535, 65_535) + bytes(20),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_picture_that_claims_too_many_pixels_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "huge.png"
    path.write_bytes(HUGE[name])
    with pytest.raises(fb.SourceError, match=r"huge.png' claims \d+x\d+ pixels: at most 142606336 are decoded"):
        fb.open_source(path)
    with pytest.raises(fb.SourceError, match="at most 142606336"):
        fb.open_source(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"GIF89a", b"BM", b"\xff\xd8", b"\xff\xd8" + b"\xff" * 1000, b"\xff\xd8" + bytes(10), b"\xff\xd8\xff\xd9",
     b"II*\0\xff\xff\xff\xff", b"MM\0+" + bytes(4) + b"\xff" * 8, b"II+\0" + bytes(4) + b"\xff" * 7 + b"\x7f",
     b"RIFF    WEBPVP8X", b"RIFF    WEBPnone" + bytes(20), b"\x89PNG\r\n\x1a\n", b"P6 9999999 9999999 255 ", png(0, 7)],
)  # fmt: skip
def test_a_damaged_header_is_no_picture(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(fb.SourceError, match=r"a.png' (is no picture that OpenCV can decode|cannot be read)"):
        fb.open_source(path)


GROWTH = """
import sys
import framebind as fb
def peak(): return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
import cv2
before = peak()
try: fb.open_source(sys.argv[1])
except fb.SourceError as error: print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is Linux's")
def test_a_small_file_of_many_pixels_takes_no_memory(tmp_path: Path) -> None:
    rows, packer = bytes(1 + 20_000 // 8), zlib.compressobj(9)
    data = b"".join(packer.compress(rows) for _ in range(20_000)) + packer.flush()
    path = tmp_path / "bomb.png"
    path.write_bytes(png(20_000, 20_000, data))
    assert path.stat().st_size < 60_000
    found = subprocess.run([sys.executable, "-c", GROWTH, str(path)], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 20_000, "kB"
