"""Files of tasks: ``.task`` bundles, which are zip archives of models, and single models.

A bundle comes from elsewhere, so nothing in it is trusted: the number of its files and their sizes are bounded, and
names are only looked up, never written to a disk.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence

import framebind as fb

from .errors import MissingModelError, TaskError
from .options import BaseOptions

MOST_FILES = 64
"""Most files of a bundle."""
MOST_BYTES = 1 << 29
"""Most bytes of a bundle, and of its files together: 512 MB. MediaPipe's largest has 31 MB."""
_DAMAGE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError)
"""Exceptions of zipfile for damaged bytes; RuntimeError for an encrypted file, NotImplementedError for a method."""


def read_asset(options: BaseOptions) -> bytes:
    """The bytes of the task's file.

    Raises
    ------
    FileNotFoundError
        If there is no file at the path.
    ValueError
        If no file is given, or if it is larger than ``MOST_BYTES``.
    """
    if options.model_asset_path:
        try:
            with open(options.model_asset_path, "rb") as file:
                content = file.read(MOST_BYTES + 1)
        except (FileNotFoundError, IsADirectoryError):
            raise MissingModelError(f"Unable to open file at {options.model_asset_path}") from None
    elif options.model_asset_buffer:
        content = bytes(options.model_asset_buffer)
    else:
        raise TaskError(
            "ExternalFile must specify at least one of 'file_content', 'file_name', 'file_pointer_meta' or "
            "'file_descriptor_meta': give BaseOptions(model_asset_path=...) or model_asset_buffer"
        )
    if len(content) > MOST_BYTES:
        raise fb.ModelError(f"the model has more than {MOST_BYTES >> 20} MB: it is no bundle of a task")
    return content


def read_bundle(
    content: bytes, names: Sequence[str], optional: Sequence[str] = (), *, most_bytes: int = MOST_BYTES
) -> dict[str, bytes]:
    """The files of a bundle by name, of which those in ``optional`` may be missing; of at most ``most_bytes`` together.

    Raises
    ------
    ValueError
        If the bytes are no zip archive, if the archive is damaged, has too many or too large files, or lacks one.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise fb.ModelError(f"the model is no .task bundle: it is no zip archive, with {', '.join(names)}")
    found: dict[str, bytes] = {}
    left = most_bytes
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if len(archive.namelist()) > MOST_FILES:
                raise fb.ModelError(f"the bundle has {len(archive.namelist())} files, more than {MOST_FILES}")
            for name in {*archive.namelist()} & {*names, *optional}:
                with archive.open(name) as file:
                    found[name] = file.read(left + 1)
                left -= len(found[name])
                if left < 0:
                    raise fb.ModelError(f"the files of the bundle have more than {most_bytes} bytes")
    except fb.ModelError:
        raise
    except _DAMAGE as error:
        raise fb.ModelError(f"the .task bundle is damaged: {error}") from error
    if missing := [name for name in names if name not in found]:
        raise fb.ModelError(f"the bundle lacks {', '.join(missing)}; it has {', '.join(sorted(found)) or 'none of it'}")
    return found
