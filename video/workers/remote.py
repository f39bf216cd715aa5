"""Videos and results behind URLs, by fsspec: listed, fetched to temporary files, and put whole."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import framebind as fb

SCHEMES = frozenset({"abfs", "az", "file", "gcs", "gs", "memory", "s3"})
"""Schemes of URLs that are allowed. fsspec knows many more, which run commands or open other files."""
READ_ONLY = frozenset({"http", "https"})
"""Schemes of URLs that are allowed for videos: one file each, no folders."""
WHOLE_OR_NOTHING = frozenset({"abfs", "az", "gcs", "gs", "s3"})
"""Schemes whose objects appear when they are complete. In other ones a file is renamed when it is."""
RESERVE = 1 << 30
"""Bytes of the disk that a fetched video leaves free."""
_CHUNK = 8 << 20
_VERSIONS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "created")
"""Keys under which file systems of fsspec have what changes with a file, best first."""


def is_url(name: str) -> bool:
    """True if a name is a URL for ``find``, and not a path."""
    return "://" in name


def plain_url(name: str) -> str:
    """A path as it is, or a URL with its scheme in lower case."""
    scheme, mark, rest = name.partition("://")
    return scheme.lower() + mark + rest if mark else name


def name_of(url: str) -> str:
    """A URL's name in records: without secrets, and with a digest of them, which tells it from other ones."""
    masked = fb.video.masked_address(url)
    return masked if masked == url else f"{masked} {hashlib.sha256(url.encode()).hexdigest()[:16]}"


def join_url(folder: str, place: str) -> str:
    """The URL of a file in a folder."""
    return f"{folder.rstrip('/')}/{place}"


def find(url: str, suffixes: frozenset[str]) -> list[tuple[str, Path]]:
    """The files behind a URL: a file, a folder with all below it that has one of the suffixes, or a pattern.

    Returns URLs, and the place of each below the folder. Raises SourceError.
    """
    system, path = _system(url)
    with _said(url):
        if url.partition("://")[0] in READ_ONLY:
            return [(url, _place(PurePosixPath(urlsplit(url).path).name))] if system.exists(path) else []
        if system.isfile(path):
            return [(url, _place(PurePosixPath(path).name))]
        if system.isdir(path):
            below = [each for each in sorted(system.find(path)) if PurePosixPath(each).suffix.lower() in suffixes]
            return [(system.unstrip_protocol(each), _place(each[len(path) :].lstrip("/"))) for each in below]
        files = [each for each in sorted(system.glob(path)) if system.isfile(each)]
        return [(system.unstrip_protocol(each), _place(PurePosixPath(each).name)) for each in files]


def _place(name: str) -> Path:
    """A path below a folder. Object stores take any name."""
    if not name or ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
        raise fb.SourceError(f"'{fb.video.masked_address(name)}' is no name of a file, or leads out of its folder")
    return Path(name)


def identity(url: str) -> dict[str, Any]:
    """The facts that tell a file from another one of the same name: URL, bytes, version."""
    system, path = _system(url)
    with _said(url):
        facts = system.info(path)
    version = next((str(facts[key]) for key in _VERSIONS if facts.get(key) is not None), "")
    return {"source": name_of(url), "bytes": facts.get("size"), "version": version}


def exists(url: str) -> bool:
    """True if there is a file or a folder. Raises SourceError if that cannot be told."""
    system, path = _system(url)
    with _said(url):
        return system.exists(path)


def fetch(url: str, path: Path) -> None:
    """Copy a file to a new one that the user alone may read. Raises SourceError if the disk has no room for it."""
    system, remote = _system(url)
    room = shutil.disk_usage(path.parent).free - RESERVE
    path.touch(mode=0o600, exist_ok=False)
    with _said(url), system.open(remote, "rb") as source, path.open("wb") as target:
        while chunk := source.read(_CHUNK):
            room -= len(chunk)
            if room < 0:
                raise fb.SourceError(
                    f"'{fb.video.masked_address(url)}' does not fit on the disk: {RESERVE >> 30} GB stay free"
                )
            target.write(chunk)


def put(path: Path, url: str) -> None:
    """Copy a file, or a folder's files, to a URL, which has all of it or nothing. Raises SourceError."""
    if path.is_dir():
        for file in sorted(each for each in path.rglob("*") if each.is_file()):
            put(file, join_url(url, file.relative_to(path).as_posix()))
        return
    check_output(url)
    system, remote = _system(url)
    whole = url.partition("://")[0] in WHOLE_OR_NOTHING
    unfinished = remote if whole else f"{remote}.unfinished"
    with _said(url):
        system.makedirs(str(PurePosixPath(remote).parent), exist_ok=True)
        system.put_file(str(path), unfinished)
        if not whole:
            system.mv(unfinished, remote)


def check_output(url: str) -> None:
    """Raise SourceError for a URL at which nothing can be put."""
    if url.partition("://")[0] in READ_ONLY:
        raise fb.SourceError(
            f"'{fb.video.masked_address(url)}' cannot be written: results go to one of {', '.join(sorted(SCHEMES))}"
        )


def _system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it. Raises SourceError for schemes that are not allowed."""
    scheme = url.partition("://")[0]
    if scheme not in SCHEMES | READ_ONLY:
        known = ", ".join(sorted(SCHEMES | READ_ONLY))
        raise fb.SourceError(f"'{fb.video.masked_address(url)}': URLs begin with one of {known}, not '{scheme}'")
    try:
        system, path = importlib.import_module("fsspec.core").url_to_fs(url)
    except ImportError as error:
        raise fb.SourceError(
            f"'{fb.video.masked_address(url)}' needs a package: {error}. pip install '.[remote]' brings fsspec"
        ) from error
    except (OSError, ValueError) as error:
        raise fb.SourceError(f"'{fb.video.masked_address(url)}' cannot be opened: {_reason(url, error)}") from error
    return system, path


@contextlib.contextmanager
def _said(url: str) -> Iterator[None]:
    """Within the block errors of file systems are SourceErrors: each has kinds of its own."""
    try:
        yield
    except fb.FramebindError:
        raise
    except Exception as error:
        raise fb.SourceError(
            f"'{fb.video.masked_address(url)}': {type(error).__name__}: {_reason(url, error)}"
        ) from error


def _reason(url: str, error: Exception) -> str:
    """An error's message without what may be secret in a URL, of which it may repeat parts."""
    rest = url.partition("://")[2]
    user, query = rest.partition("/")[0].rpartition("@")[0], rest.partition("?")[2]
    text = fb.video.masked_address(str(error))
    text = text.replace(f"{user}@", "***@") if user else text
    return text.replace(f"?{query}", "?***") if query else text
