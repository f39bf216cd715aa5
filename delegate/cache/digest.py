"""A digest of many bytes, which threads compute: it was most of the warm start of models with large weights."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

PIECE = 1 << 22
"""Bytes of a piece: 3 ms of work, which is many times what a thread takes to begin."""
_MOST_THREADS = 8


def digest(parts: Iterable[bytes | memoryview]) -> bytes:
    """The SHA-256 of the SHA-256 of each part. A part of more than PIECE bytes counts as its pieces."""
    pieces = [part[i : i + PIECE] for part in map(memoryview, parts) for i in range(0, max(len(part), 1), PIECE)]
    large = sum(map(len, pieces)) > PIECE
    return hashlib.sha256(b"".join(_by_threads(pieces) if large else map(_digest, pieces))).digest()


def _by_threads(pieces: Iterable[memoryview]) -> list[bytes]:
    """The digest of each piece. hashlib gives up Python's lock, so that threads work at the same time."""
    from concurrent.futures import ThreadPoolExecutor  # small models start without it

    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as threads:
        return list(threads.map(_digest, pieces))


def _digest(piece: memoryview) -> bytes:
    return hashlib.sha256(piece).digest()
