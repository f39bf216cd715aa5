"""The cache of a model between processes: compiled programs, constants in device layout, and measurements.

There is one file per model, device and options, in the folder ``serialization_dir``; docs/options.md describes it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ...interop.device import Traits
from ...interop.errors import DelegateError, ModelError
from ...kernels.views import SLICE_BYTES
from ..lower.pack import Constants, Key, PackedConstant
from ..lower.tuning import Tuning, TuningError, decode, encode
from ..options import GpuDelegateOptions
from . import file as cache_file
from .digest import digest

log = logging.getLogger("framebind")

Fits = Callable[[dict[Key, PackedConstant], int], bool]
"""Whether these places are those of the wanted constants, in a block of so many bytes."""
_NOT_KEYED = {"serialization_dir", "model_token", "wait_type"}
"""Options that do not change the contents of the cache."""
_NUMBER_BYTES = 8
_NO_CONSTANTS = (ValueError, TypeError, LookupError, OverflowError, RecursionError)
"""The errors of bytes that are no constants; json raises RecursionError, and ``int`` of an infinity OverflowError."""
_CODE = Path(__file__).parents[2]


def fingerprint(model: bytes | str | os.PathLike[str]) -> str:
    """A name for a model, for ``GpuDelegateOptions.model_token``.

    Parameters
    ----------
    model
        The file's path, or its content.

    Returns
    -------
    str
        The SHA-256 of the content, in 64 hexadecimal digits.

    Raises
    ------
    ModelError
        If the file cannot be read.

    Examples
    --------
    >>> fb.fingerprint(b"a model")[:8]
    '97ff8a35'
    >>> len(fb.fingerprint("model.tflite"))
    64
    """
    if isinstance(model, bytes):
        return hashlib.sha256(model).hexdigest()
    try:
        return hashlib.sha256(Path(model).read_bytes()).hexdigest()
    except OSError as error:
        raise ModelError(f"the model {os.fspath(model)} cannot be read: {error.strerror}. Check the path") from error


class Cache:
    """Implements interop.binaries.BinaryStore. ``save`` writes new entries; until then the file is not touched.

    Raises DelegateError if the folder cannot be used. An unusable file is logged as a warning, and made anew.
    """

    def __init__(self, options: GpuDelegateOptions, content: bytes, traits: Traits) -> None:
        assert options.serialization_dir is not None and options.model_token is not None
        self._key = _key(options, content, traits)
        name = f"{options.model_token}_{self._key.hex()[:16]}.cache"
        self._path = Path(options.serialization_dir) / name
        self._sections: dict[str, bytes | memoryview] = {}
        self._used: set[str] = set()
        self._fetch: dict[str, Callable[[], bytes | None]] = {}
        self._changed = False
        folder = cache_file.open_folder(options.serialization_dir)
        try:
            self._sections.update(cache_file.read(folder, name, self._key))
        except cache_file.UnusableError as reason:
            if str(reason):
                log.warning(f"{self._path} is not used and made anew: {reason}")
        finally:
            os.close(folder)

    # Programs ---------------------------------------------------------------------------------------------------------

    def find(self, key: str) -> bytes | None:
        """The binary of a program."""
        found = self._sections.get(_program_name(key))
        return None if found is None else bytes(found)

    def keep(self, key: str, binary: Callable[[], bytes | None]) -> None:
        """Keep the binary of a program that is in use."""
        name = _program_name(key)
        self._used.add(name)
        if name not in self._sections:
            self._fetch[name] = binary

    def reject(self, key: str) -> None:
        """Forget the binary of this program, which the driver refused."""
        self._sections.pop(_program_name(key), None)

    # Constants --------------------------------------------------------------------------------------------------------

    def constants(self, what: str, fits: Fits, pack: Callable[[], Constants]) -> Constants:
        """The kept constants named ``what`` if they fit, else those that ``pack`` makes now."""
        name = f"constants {hashlib.sha256(what.encode()).hexdigest()}"
        self._used.add(name)
        found = self._sections.get(name)
        if found is not None:
            try:
                block, places = _decode(memoryview(found))
                if fits(places, len(block)):
                    return block, places
                log.warning(f"constants in {self._path} are not used and made anew: they are not those of the model")
            except _NO_CONSTANTS as error:
                log.warning(f"constants in {self._path} are not used and made anew: {error}")
        made = pack()
        self._sections[name], self._changed = _encode(made), True
        return made

    # Measured ---------------------------------------------------------------------------------------------------------

    def known_number(self, what: str) -> int | None:
        """The kept measurement named ``what``; None if there is none, or if it is no number."""
        name = _number_name(what)
        self._used.add(name)
        found = bytes(self._sections.get(name, b""))
        return int.from_bytes(found, "little") if len(found) == _NUMBER_BYTES else None

    def keep_number(self, what: str, number: int) -> None:
        name, data = _number_name(what), number.to_bytes(_NUMBER_BYTES, "little")
        self._used.add(name)
        if self._sections.get(name) != data:
            self._sections[name], self._changed = data, True

    def tuning(self, what: str) -> Tuning | None:
        """The kept tuning of program ``what``; None if there is none, or if it is invalid."""
        name = _tuning_name(what)
        self._used.add(name)
        found = self._sections.get(name)
        if found is None:
            return None
        try:
            return decode(bytes(found))
        except TuningError as reason:
            log.warning(f"the measurements in {self._path} are not used and made anew: {reason}")
            return None

    def keep_tuning(self, what: str, tuning: Tuning) -> None:
        name = _tuning_name(what)
        self._used.add(name)
        self._sections[name], self._changed = encode(tuning), True

    @property
    def is_new(self) -> bool:
        """Whether there is anything to save."""
        return bool(self._fetch) or self._changed

    # Writing ----------------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write the file if something is new. If that fails, log a warning."""
        for name, fetch in self._fetch.items():
            binary = fetch()
            if binary is not None:
                self._sections[name], self._changed = binary, True
        self._fetch.clear()
        if not self._changed:
            return
        self._changed = False
        if sum(map(len, self._sections.values())) > cache_file.MAX_FILE_BYTES // 2:
            self._sections = {name: data for name, data in self._sections.items() if name in self._used}
        try:
            folder = cache_file.open_folder(self._path.parent)
            try:
                cache_file.write(folder, self._path.name, self._key, self._sections)
            finally:
                os.close(folder)
        except (OSError, DelegateError) as error:
            log.warning(f"{self._path} cannot be written, so that the next start compiles again: {error}")


def _program_name(key: str) -> str:
    return f"program {hashlib.sha256(key.encode()).hexdigest()}"


def _number_name(what: str) -> str:
    return f"number {hashlib.sha256(what.encode()).hexdigest()}"


def _tuning_name(what: str) -> str:
    return f"tuning {hashlib.sha256(what.encode()).hexdigest()}"


def _key(options: GpuDelegateOptions, content: bytes, traits: Traits) -> bytes:
    """All facts on which the contents depend. If one of them differs, another file is used."""
    given = {f.name: str(getattr(options, f.name)) for f in fields(options) if f.name not in _NOT_KEYED}
    device = {f.name: getattr(traits, f.name) for f in fields(traits)}
    known = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in device.items()}
    parts: list[Any] = [_code(), digest([content]).hex(), given, known]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


@functools.cache
def _code() -> list[tuple[str, int, int]]:
    """The files that decide the layout of constants, by name, size and time, as Python checks its .pyc files.

    They differ between two versions of framebind, so its version number, which takes 3 ms to find, is not asked for.
    """
    found: list[tuple[str, int, int]] = []
    folders = ["kernels", "interop", "delegate"]
    for folder in folders:  # which grows
        with os.scandir(f"{_CODE}/{folder}") as entries:  # a Path for each would take twice as long
            for entry in entries:
                name = f"{folder}/{entry.name}"
                if not entry.is_dir():
                    status = entry.stat()
                    found.append((name, status.st_size, status.st_mtime_ns))
                elif entry.name != "__pycache__":
                    folders.append(name)
    return sorted(found)


def _encode(constants: Constants) -> bytes:
    """The length of the index in 8 bytes, the index as JSON (the place of each constant), and the block."""
    block, places = constants
    rows = [[key, place.offset, place.nbytes, place.storage] for key, place in places.items()]
    index = json.dumps(rows).encode()
    return len(index).to_bytes(8, "little") + index + block.tobytes()


def _decode(data: memoryview) -> Constants:
    """Raises one of _NO_CONSTANTS if the bytes are not what ``_encode`` returns."""
    end = 8 + int.from_bytes(data[:8], "little")
    block = np.frombuffer(data[end:], np.uint8)
    places: dict[Key, PackedConstant] = {}
    for key, offset, nbytes, storage in json.loads(bytes(data[8:end])):
        if storage not in SLICE_BYTES:
            raise ValueError(f"constant {key} is kept as {storage}")
        places[(key[0], key[1]) if isinstance(key, list) else int(key)] = PackedConstant(offset, nbytes, storage)
    return block, places
