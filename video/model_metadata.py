"""Metadata of a model's file, of two kinds: names of classes, normalization, and the task.

TFLite's is a flatbuffer inside the model, the buffer TFLITE_METADATA (tflite-support's metadata_schema.fbs); its files
of labels are a zip archive behind the model. Ultralytics' is ``metadata.json`` in such an archive. Both come with the
file, so that nothing of them is trusted: what is damaged, too large or senseless counts as absent.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tflite
from flatbuffers.table import Table

MOST_BYTES = 1 << 20
"""Largest file of an archive that is read."""
MOST_CLASSES, MOST_CHARACTERS = 65_536, 200
"""Most classes, and most characters of the name of one."""
MOST_ITEMS = 64
"""Most tensors, files and steps of processing that are looked at."""
_DAMAGE = (
    ValueError, TypeError, IndexError, KeyError, AttributeError, RecursionError, OverflowError, EOFError, OSError,
    RuntimeError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Exceptions that flatbuffers, zipfile and json raise for damaged bytes; RuntimeError for an encrypted file."""
# Numbers of fields, in the order of the schema.
_SUBGRAPHS, _INPUTS, _OUTPUTS = 3, 2, 3
_UNITS, _FILES, _FILES_OF_SUBGRAPH = 4, 6, 4
_UNIT_TYPE, _UNIT, _NORMALIZATION = 0, 1, 1
_CUSTOM, _CUSTOM_DATA, _ACTIVATION = 9, 1, 0
_NAME, _FILE_TYPE, _LOCALE, _LABELS = 0, 2, 3, (2, 3)
"""``_LABELS`` are the types of files TENSOR_AXIS_LABELS and TENSOR_VALUE_LABELS."""


@dataclass(frozen=True)
class ModelMetadata:
    """The statements of a model's file about itself. A statement that it does not make is empty or None."""

    task: str = ""
    """Ultralytics' word: "detect", "segment", "pose", "classify", "obb"."""
    classes: tuple[str, ...] = ()
    """The names of the classes by number."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    """Normalization of the picture's values from 0 to 1: one value, or one for each channel."""
    activation: str = ""
    """"sigmoid" or "softmax", if it has to follow a segmentation (mediapipe's image_segmenter_metadata_schema.fbs)."""
    outputs: tuple[str, ...] = ()
    """The names that the metadata gives the outputs, by their order; "" for one without."""
    head: str = ""
    """The class of ultralytics' last layer: "Detect", "RTDETRDecoder"."""
    stride: int | None = None
    """Pixels of the input between two cells of the coarsest output."""
    end_to_end: bool | None = None
    """True if the outputs are selected boxes, False if they are candidates."""
    key_points: tuple[int, ...] = ()
    """The number of an object's key points, and the number of values of each."""


def read_metadata(model: Path | bytes) -> ModelMetadata:
    """The metadata of a model's file, or of its bytes. Never raises for what the file contains."""
    files = _Files(model)
    if text := files.text("metadata.json"):
        return _of_json(text)
    return _of_flatbuffer(model, files)


class _Files:
    """The files in the archive behind a model."""

    def __init__(self, model: Path | bytes) -> None:
        self._model = model

    def text(self, name: str) -> str:
        """A file's text; "" if there is none, or if it is larger than MOST_BYTES."""
        try:
            file = io.BytesIO(self._model) if isinstance(self._model, bytes) else self._model
            with zipfile.ZipFile(file) as archive, archive.open(name) as opened:
                content = opened.read(MOST_BYTES + 1)  # sizes in an archive's list may be wrong
            return content.decode("utf-8") if len(content) <= MOST_BYTES else ""
        except _DAMAGE:
            return ""


# Ultralytics' metadata ------------------------------------------------------------------------------------------------


def _of_json(text: str) -> ModelMetadata:
    try:
        given = json.loads(text)
    except _DAMAGE:
        return ModelMetadata()
    if not isinstance(given, dict):
        return ModelMetadata()
    stride, end_to_end, points = (given.get(key) for key in ("stride", "end2end", "kpt_shape"))
    return ModelMetadata(
        task=task if isinstance(task := given.get("task"), str) else "",
        head=head if isinstance(head := given.get("head"), str) else "",
        classes=_names(given.get("names")),
        stride=stride if _is_count(stride) else None,
        end_to_end=end_to_end if isinstance(end_to_end, bool) else None,
        key_points=tuple(points)
        if isinstance(points, list) and len(points) == 2 and all(map(_is_count, points))
        else (),
    )


def _names(given: Any) -> tuple[str, ...]:
    """The names of classes, from a list or from {"0": name, "1": name ...}."""
    if isinstance(given, dict):
        numbers = [str(number) for number in range(min(len(given), MOST_CLASSES))]
        given = [given.get(number) for number in numbers]
    if not isinstance(given, list) or len(given) > MOST_CLASSES or not all(isinstance(each, str) for each in given):
        return ()
    return tuple(each[:MOST_CHARACTERS] for each in given)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_CLASSES


# TFLite's metadata ----------------------------------------------------------------------------------------------------


def _of_flatbuffer(model: Path | bytes, files: _Files) -> ModelMetadata:
    """The statements in the buffer TFLITE_METADATA of a model."""
    try:
        root = _root(model if isinstance(model, bytes) else model.read_bytes())
        if root is None:
            return ModelMetadata()
        mean, std = next((found for each in _tables(root, _INPUTS) if (found := _normalization(each))), ((), ()))
        names = tuple(_text(each, _NAME)[:MOST_CHARACTERS] for each in _tables(root, _OUTPUTS))
        return ModelMetadata(
            classes=_labels(root, files), mean=mean, std=std, activation=_activation(root), outputs=names
        )
    except _DAMAGE:
        return ModelMetadata()


def _root(content: bytes) -> Table | None:
    """The metadata of the first subgraph; None if there is none."""
    model = tflite.Model.GetRootAs(content, 0)
    for number in range(min(model.MetadataLength(), MOST_ITEMS)):
        entry = model.Metadata(number)
        if entry is not None and entry.Name() == b"TFLITE_METADATA":
            buffer = model.Buffers(entry.Buffer())
            values: Any = None if buffer is None or buffer.DataIsNone() else buffer.DataAsNumpy()
            data = bytearray() if values is None else bytearray(values.tobytes())
            if len(data) < 8 or data[4:8] != b"M001":
                return None
            whole = Table(data, struct.unpack_from("<I", data)[0])
            return next(_tables(whole, _SUBGRAPHS), None)
    return None


def _place(table: Table, field: int) -> int:
    """The place of a field's value in the bytes; 0 if the table does not have it."""
    offset = table.Offset(4 + 2 * field)
    return table.Pos + offset if offset else 0


def _tables(table: Table, field: int) -> Iterator[Table]:
    """The tables in a vector of them."""
    offset = table.Offset(4 + 2 * field)
    if offset:
        start = table.Vector(offset)
        for number in range(min(table.VectorLen(offset), MOST_ITEMS)):
            yield Table(table.Bytes, table.Indirect(start + 4 * number))


def _text(table: Table, field: int) -> str:
    place = _place(table, field)
    return table.String(place).decode("utf-8", "replace") if place else ""


def _byte(table: Table, field: int) -> int:
    place = _place(table, field)
    return table.Bytes[place] if place else 0


def _floats(table: Table, field: int) -> tuple[float, ...]:
    offset = table.Offset(4 + 2 * field)
    count = min(table.VectorLen(offset), 4) if offset else 0
    return struct.unpack_from(f"<{count}f", table.Bytes, table.Vector(offset)) if count else ()


def _normalization(tensor: Table) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Mean and standard deviation of an input: the file has those of values from 0 to 255."""
    for unit in _tables(tensor, _UNITS):
        if _byte(unit, _UNIT_TYPE) == _NORMALIZATION and (place := _place(unit, _UNIT)):
            options = Table(unit.Bytes, unit.Indirect(place))
            mean, std = ([value / 255 for value in _floats(options, field)] for field in (0, 1))
            if {len(mean), len(std)} <= {1, 3} and all(map(math.isfinite, (*mean, *std))) and min(std) > 0:
                return tuple(mean), tuple(std)
    return None


def _activation(subgraph: Table) -> str:
    """The activation in the custom metadata of a segmenter, a flatbuffer of its own; "" for none."""
    for custom in _tables(subgraph, _CUSTOM):
        offset = custom.Offset(4 + 2 * _CUSTOM_DATA)
        if _text(custom, _NAME) == "SEGMENTER_METADATA" and offset:
            start, length = custom.Vector(offset), custom.VectorLen(offset)
            data = bytearray(custom.Bytes[start : start + min(length, MOST_BYTES)])
            options = Table(data, struct.unpack_from("<I", data)[0])
            return {1: "sigmoid", 2: "softmax"}.get(_byte(options, _ACTIVATION), "")
    return ""


def _labels(subgraph: Table, files: _Files) -> tuple[str, ...]:
    """The names of the classes: the lines of the first file of labels, one without a language if there is one."""
    found = [file for tensor in _tables(subgraph, _OUTPUTS) for file in _tables(tensor, _FILES)]
    found += _tables(subgraph, _FILES_OF_SUBGRAPH)
    labels = [each for each in found if _byte(each, _FILE_TYPE) in _LABELS]
    labels.sort(key=lambda each: bool(_text(each, _LOCALE)))
    return _lines(files.text(_text(labels[0], _NAME))) if labels else ()


def _lines(text: str) -> tuple[str, ...]:
    lines: Sequence[str] = text.splitlines()
    return tuple(line[:MOST_CHARACTERS] for line in lines) if len(lines) <= MOST_CLASSES else ()
