"""Raw outputs of a video as one .npz file: frames are written as they come, so that memory does not grow with them."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np

from ..basic_types import Array


class ArraysFile:
    """An .npz file of arrays with a first axis of frames. ``np.load(path)[name][frame]`` reads it.

    Each array grows in a separate file, because an .npz file takes one array after the other.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parts: dict[str, _Growing] = {}

    def put(self, arrays: Mapping[str, Array]) -> None:
        """Add a frame: an array for each name, of the same names, shapes and types in each frame."""
        for name, array in arrays.items():
            if name not in self._parts:
                part = self._path.with_name(f"{self._path.name}.{len(self._parts)}.npy")
                self._parts[name] = _Growing(part, array)
            self._parts[name].put(array)

    def __enter__(self) -> ArraysFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for part in self._parts.values():
                part.close()
            if error is None:
                with zipfile.ZipFile(self._path, "w", zipfile.ZIP_STORED, allowZip64=True) as whole:
                    for name, part in self._parts.items():
                        with part.path.open("rb") as read, whole.open(f"{name}.npy", "w", force_zip64=True) as written:
                            shutil.copyfileobj(read, written, 1 << 20)
        finally:
            for part in self._parts.values():
                part.path.unlink(missing_ok=True)


class _Growing:
    """An .npy file that grows along its first axis."""

    def __init__(self, path: Path, first: Array) -> None:
        self.path, self._shape, self._dtype, self._count = path, first.shape, first.dtype, 0
        self._file: BinaryIO = path.open("wb")
        self._write_header()

    def _write_header(self) -> None:
        # NumPy leaves room for more digits of the first axis, so that a header may be written over.
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._count, *self._shape)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def put(self, array: Array) -> None:
        assert array.shape == self._shape and array.dtype == self._dtype
        self._file.write(np.ascontiguousarray(array).tobytes())
        self._count += 1

    def close(self) -> None:
        if not self._file.closed:
            self._file.seek(0)
            self._write_header()
            self._file.close()
