"""MediaPipe's ``.task`` bundles: zip archives of models, and of further bundles.

A bundle comes from elsewhere, so nothing in it is trusted: the number of its files and their sizes are bounded, and
names are only looked up, never written to a disk. A model of a bundle has a path like that of a file in a folder:
``face_landmarker.task/face_detector.tflite``.
"""

from __future__ import annotations

import functools
import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import framebind as fb

SUFFIX = ".task"
FIRST = ("pose_detector.tflite", "hand_detector.tflite", "face_detector.tflite")
"""The network that a bundle's path alone stands for: the one that looks at whole pictures."""
MOST_FILES = 64
"""Most files of a bundle."""
MOST_BYTES = 1 << 29
"""Most bytes of a bundle, and of its files together: 512 MB. MediaPipe's largest has 31 MB."""
_DAMAGE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError)
"""Exceptions of zipfile for damaged bytes; RuntimeError for an encrypted file, NotImplementedError for a method."""


def read_bundle(
    content: bytes, names: Sequence[str], optional: Sequence[str] = (), *, most_bytes: int = MOST_BYTES
) -> dict[str, bytes]:
    """The files of a bundle by name, of which those in ``optional`` may be missing; of at most ``most_bytes`` together.

    Raises
    ------
    ModelError
        If the bytes are no zip archive, if the archive is damaged, has too many or too large files, or lacks one.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise fb.ModelError(f"the model is no .task bundle: it is no zip archive, with {', '.join(names)}")
    found = _files(content, {*names, *optional}, most_bytes)
    if missing := [name for name in names if name not in found]:
        raise fb.ModelError(f"the bundle lacks {', '.join(missing)}; it has {_listed(content)}")
    return found


def is_bundle(content: bytes) -> bool:
    """Whether bytes are a bundle's, and not those of a model, behind which an archive of metadata may lie."""
    return content[4:8] != b"TFL3" and zipfile.is_zipfile(io.BytesIO(content))


def bundle_of(path: Path) -> Path | None:
    """The bundle that a path names, or in which the model of a path lies; None for a file of its own."""
    return next((each for each in (path, path.parent) if each.suffix == SUFFIX and each.is_file()), None)


def models_of(path: Path) -> dict[str, bytes]:
    """The files of a bundle by name, with those of the bundles in it; none for a path that is no bundle.

    Raises ModelError.
    """
    if path.suffix != SUFFIX or not path.is_file():
        return {}
    return _models_of(path, path.stat().st_mtime_ns)


def name_in_bundle(path: Path) -> str:
    """The name of the model of a path in its bundle, or of a bundle's first network; "" for a file of its own.

    Raises ModelError if the bundle has no such model.
    """
    bundle = bundle_of(path)
    if bundle is None:
        return ""
    files = models_of(bundle)
    names = FIRST if path == bundle else (path.name,)
    found = next((name for name in names if name in files), None)
    if found is None:
        raise fb.ModelError(f"{bundle.name} has no {' and no '.join(names)}; it has {', '.join(sorted(files))}")
    return found


def content_of(path: Path) -> bytes | None:
    """The bytes of the model that ``name_in_bundle`` names; None for a file of its own."""
    bundle = bundle_of(path)
    return None if bundle is None else models_of(bundle)[name_in_bundle(path)]


def interpreter_arguments(path: Path) -> dict[str, Any]:
    """The arguments with which ``fb.Interpreter`` opens the model of a path. Raises ModelError as ``content_of``."""
    content = content_of(path)
    return {"model_path": str(path)} if content is None else {"model_content": content}


@functools.lru_cache(maxsize=4)
def _models_of(path: Path, changed: int) -> dict[str, bytes]:
    content = path.read_bytes()
    files = _files(content, None, MOST_BYTES)
    for name in [each for each in files if each.endswith(SUFFIX)]:
        files |= _files(files[name], None, MOST_BYTES - sum(map(len, files.values())))
    return files


def _listed(content: bytes) -> str:
    """The first names in an archive that was read, for an error: which bundle it is."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return ", ".join(repr(name)[1:-1][:80] for name in archive.namelist()[:6]) or "no file"


def _files(content: bytes, names: set[str] | None, left: int) -> dict[str, bytes]:
    """The files of an archive with these names, or all of them; of at most ``left`` bytes. Raises ModelError."""
    found: dict[str, bytes] = {}
    most = left
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if len(archive.namelist()) > MOST_FILES:
                raise fb.ModelError(f"the bundle has {len(archive.namelist())} files, more than {MOST_FILES}")
            for name in dict.fromkeys(archive.namelist()):
                if names is None or name in names:
                    with archive.open(name) as file:
                        found[name] = file.read(left + 1)
                    left -= len(found[name])
                    if left < 0:
                        raise fb.ModelError(f"the files of the bundle have more than {most} bytes")
    except fb.ModelError:
        raise
    except _DAMAGE as error:
        raise fb.ModelError(f"the .task bundle is damaged: {error}") from error
    return found
