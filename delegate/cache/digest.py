"""A digest of many bytes, which threads compute: it was most of the warm start of models with large weights."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from threading import Thread

PIECE = 1 << 20
"""Bytes of a piece: a millisecond of work, which is many times what a thread takes to begin."""
_MOST_THREADS = 8


def digest(parts: Iterable[bytes | memoryview]) -> bytes:
    """The SHA-256 of the SHA-256 of each part. A part of more than PIECE bytes counts as its pieces."""
    pieces = [part[i : i + PIECE] for part in map(memoryview, parts) for i in range(0, max(len(part), 1), PIECE)]
    large = sum(map(len, pieces)) > PIECE
    return hashlib.sha256(b"".join(_by_threads(pieces) if large else map(_digest, pieces))).digest()


def _by_threads(pieces: Sequence[memoryview]) -> list[bytes]:
    """The digest of each piece. hashlib gives up Python's lock, so that threads work at the same time."""
    found, count = [b""] * len(pieces), min(_MOST_THREADS, os.cpu_count() or 1)

    def work(first: int) -> None:
        for i in range(first, len(pieces), count):
            found[i] = _digest(pieces[i])

    threads = [Thread(target=work, args=(first,)) for first in range(1, count)]
    for thread in threads:
        thread.start()
    work(0)
    for thread in threads:
        thread.join()
    return found


def _digest(piece: memoryview) -> bytes:
    return hashlib.sha256(piece).digest()
