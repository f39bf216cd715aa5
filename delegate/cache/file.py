"""A file of named sections of bytes that only its owner can have written. It is read completely or not at all. The
format, with all numbers little-endian: 8 bytes of MAGIC; the digest of the rest (digest.py); 32 bytes of the key; the
number of sections in 4 bytes; then for each section the length of its name in 2 bytes, the length of its data in 8, its
name and its data. The parts of the digest are the key with the number of sections, and what is before the data and the
data of each section.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...interop.errors import DelegateError
from .digest import digest

MAGIC = b"framebn2"
MAX_FILE_BYTES = 1 << 30
"""Bytes of a file; a larger one is neither written nor read."""
_DIGEST, _KEY, _COUNT, _LENGTHS = 32, 32, struct.Struct("<I"), struct.Struct("<HQ")
_TEMPORARY = ".tmp"
_ABANDONED_SECONDS = 3600
"""Age at which an unfinished file counts as abandoned. Writing one takes seconds."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class UnusableError(Exception):
    """The reason why a file cannot be used; it is then made anew."""


def open_folder(folder: str | os.PathLike[str]) -> int:
    """A descriptor of the folder, which is made (mode 0700) if it is missing.

    Raises DelegateError if it cannot be made, or if other users may write to it: its files become machine code in
    the GPU's driver.
    """
    path = Path(folder)
    if os.name != "posix":
        raise DelegateError("serialization_dir needs POSIX file ownership, to know who may write there: leave it out")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise DelegateError(
            f"serialization_dir '{path}' cannot be used: {error.strerror}. Give another folder"
        ) from error
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
        os.close(descriptor)
        raise DelegateError(
            f"serialization_dir '{path}' is user {found.st_uid}'s with mode {stat.S_IMODE(found.st_mode):o}, so that "
            f"others may write there: give a folder of user {os.geteuid()} and 'chmod 700' it"
        )
    return descriptor


def read(folder: int, name: str, key: bytes) -> dict[str, memoryview]:
    """The sections of file ``name`` in an open folder. Raises UnusableError if it is missing, damaged or another's.

    The file must have been written with the same ``key``. Owner and mode are checked before a byte is read.
    """
    content = memoryview(_content(folder, name))
    head = len(MAGIC) + _DIGEST
    if len(content) < head + _KEY + _COUNT.size or content[: len(MAGIC)] != MAGIC:
        raise UnusableError("it is no such file")
    try:
        sections = _sections(content, head + _KEY)
    except (struct.error, UnicodeDecodeError) as error:
        raise UnusableError(f"its sections are damaged: {error}") from error
    found = bytes(content[head : head + _KEY])
    if digest(_parts(found, sections)) != content[len(MAGIC) : head]:
        raise UnusableError("it is damaged")
    if found != key:
        raise UnusableError("it was made for something else")
    return sections


def _content(folder: int, name: str) -> bytes:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError as error:
        raise UnusableError("") from error
    except OSError as error:
        raise UnusableError(f"it cannot be opened: {error.strerror}") from error
    try:
        return _checked_content(descriptor)
    except OSError as error:
        raise UnusableError(f"it cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _checked_content(descriptor: int) -> bytes:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise UnusableError("it is no plain file")
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
        raise UnusableError(f"others may write it: user {found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}")
    if found.st_size > MAX_FILE_BYTES:
        raise UnusableError(f"it has {found.st_size} bytes")
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(found.st_size)


def _sections(content: memoryview, position: int) -> dict[str, memoryview]:
    (count,) = _COUNT.unpack_from(content, position)
    position += _COUNT.size
    sections: dict[str, memoryview] = {}
    for _ in range(count):
        name_length, length = _LENGTHS.unpack_from(content, position)
        position += _LENGTHS.size
        end = position + name_length + length
        if end > len(content):
            raise UnusableError("a section reaches beyond its end")
        name = str(content[position : position + name_length], "utf-8")
        sections[name] = content[position + name_length : end]
        position = end
    if position != len(content):
        raise UnusableError("bytes follow its last section")
    return sections


def write(folder: int, name: str, key: bytes, sections: Mapping[str, bytes | memoryview]) -> None:
    """Replace file ``name`` in an open folder at once: a reader sees the old one or the new one.

    It has mode 0600. Raises OSError if it cannot be written; the old one is then still there.
    """
    names = sum(_LENGTHS.size + len(name.encode()) for name in sections)
    nbytes = len(MAGIC) + _DIGEST + _KEY + _COUNT.size + names + sum(map(len, sections.values()))
    if nbytes > MAX_FILE_BYTES:
        raise OSError(f"it has {nbytes} bytes, and at most {MAX_FILE_BYTES} are read")
    _remove_abandoned(folder)
    head = MAGIC + digest(_parts(key, sections))
    temporary = f".{secrets.token_hex(8)}{_TEMPORARY}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(head)
            for part in _parts(key, sections):
                file.write(part)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def _remove_abandoned(folder: int) -> None:
    """Remove the unfinished files of processes that were killed while writing. They are never read."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(".") and name.endswith(_TEMPORARY):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > _ABANDONED_SECONDS:
                    os.unlink(name, dir_fd=folder)


def _parts(key: bytes, sections: Mapping[str, bytes | memoryview]) -> Iterator[bytes | memoryview]:
    yield key + _COUNT.pack(len(sections))
    for name, data in sections.items():
        encoded = name.encode()
        yield _LENGTHS.pack(len(encoded), len(data)) + encoded
        yield data
