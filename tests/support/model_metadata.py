"""Models with metadata: TFLite's flatbuffer with its files, and ultralytics' metadata.json."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from support.tiny_models import pack, unpack

TENSOR_AXIS_LABELS, NORMALIZATION = 2, 1


def with_files(content: bytes, files: Mapping[str, str | bytes]) -> bytes:
    """The model with a zip archive of these files behind it."""
    stream = io.BytesIO(content)
    stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return stream.getvalue()


def with_json(content: bytes, **entries: Any) -> bytes:
    """The model with the metadata of an export by ultralytics."""
    return with_files(content, {"metadata.json": json.dumps(entries)})


def with_flatbuffer(
    content: bytes, *, mean: Sequence[float], std: Sequence[float], labels: Mapping[tuple[str, str], str]
) -> bytes:
    """The model with TFLite's metadata: normalization of the input, and labels by the file's name and language."""
    model = unpack(content)
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(_metadata(mean, std, list(labels)), np.uint8)
    model.buffers.append(buffer)
    entry.name, entry.buffer = "TFLITE_METADATA", len(model.buffers) - 1
    model.metadata = [entry]
    return with_files(pack(model), {name: text for (name, _), text in labels.items()})


def _metadata(mean: Sequence[float], std: Sequence[float], labels: Sequence[tuple[str, str]]) -> bytes:
    flat = flatbuffers.Builder(256)

    def table(fields: Mapping[int, int], *, byte: tuple[int, int] | None = None) -> int:
        flat.StartObject(10)
        for number, offset in fields.items():
            flat.PrependUOffsetTRelativeSlot(number, offset, 0)
        if byte is not None:
            flat.PrependByteSlot(*byte, 0)
        return flat.EndObject()

    def vector(values: Sequence[Any], prepend: Callable[[Any], None]) -> int:
        flat.StartVector(4, len(values), 4)
        for value in reversed(values):
            prepend(value)
        return flat.EndVector()

    def tables(*offsets: int) -> int:
        return vector(offsets, flat.PrependUOffsetTRelative)

    sides = [vector(values, flat.PrependFloat32) for values in (mean, std)]
    unit = table({1: table(dict(enumerate(sides)))}, byte=(0, NORMALIZATION))
    taken = table({4: tables(unit)})
    texts = [(flat.CreateString(name), flat.CreateString(language)) for name, language in labels]
    files = [table({0: name, 3: language}, byte=(2, TENSOR_AXIS_LABELS)) for name, language in texts]
    given = table({6: tables(*files)})
    graph = table({2: tables(taken), 3: tables(given)})
    flat.Finish(table({3: tables(graph)}), b"M001")
    return bytes(flat.Output())
