"""Files that appear complete or not at all: they are written beside their place, and renamed when they are complete.

Until then a file that was there before is as it was, also if the process is killed or the disk is full.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path

from ...errors import SourceError
from ..decode.addresses import masked_address

_STEM_LETTERS = 40
"""Letters of the file's own name in the name of its unfinished one, which must not be too long for a file system."""


class Replacement:
    """A new file for ``path``. Write to ``unfinished``, a new name beside it with the same suffix, then ``complete()``.

    A missing folder is made. A symbolic link stays one: the file that it points to is replaced. ``kind`` says in
    messages what the file is. Raises SourceError if the folder takes no files, or if something other than a file is
    there.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self._name = f"{kind} '{masked_address(path)}'"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._path = path.resolve()
            if self._path.exists() and not self._path.is_file():
                raise self.error("something else than a file is there")
            unfinished = f"{path.stem[:_STEM_LETTERS]}.{secrets.token_hex(4)}.unfinished{path.suffix}"
            self.unfinished = self._path.with_name(unfinished)
            self.unfinished.open("xb").close()  # fails now if it ever does, not after an hour of recording
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
            raise self.error(_reason(error)) from error

    def complete(self) -> None:
        """Put the unfinished file in its place. Raises SourceError, and removes it, if the disk does not take it."""
        try:
            with self.unfinished.open("rb+") as file:
                os.fsync(file.fileno())  # some file systems say only now that they are full
            if self._path.exists():
                shutil.copymode(self._path, self.unfinished)
            self.unfinished.replace(self._path)
        except OSError as error:
            self.discard()
            raise self.error(_reason(error)) from error

    def discard(self) -> None:
        """Remove the unfinished file, if there is one."""
        with contextlib.suppress(OSError):
            self.unfinished.unlink(missing_ok=True)

    def error(self, reason: str) -> SourceError:
        """A SourceError that names the file and says why it cannot be written, to be raised."""
        return SourceError(f"{self._name} cannot be written: {reason}")


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
