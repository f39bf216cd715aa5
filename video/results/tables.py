"""Files of rows: lines of JSON, and Parquet. Both are written as rows come, so memory does not grow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import framebind as fb

from .rows import Row, make_columns

ROW_GROUP = 4096
"""Rows of a row group of Parquet, which is the number of rows in memory. Not measured."""

GROUP_BYTES = 64 << 20
"""Bytes of raw outputs that are kept in memory. Not measured."""


class JsonLines:
    """A file with a line of JSON for each row."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def put(self, rows: Sequence[Row]) -> None:
        self._file.writelines(json.dumps(row) + "\n" for row in rows)

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class ParquetFile:
    """A Parquet file of rows, by pyarrow, in row groups of ROW_GROUP."""

    def __init__(self, path: Path) -> None:
        """Raise SourceError if pyarrow is not installed."""
        pyarrow, parquet = load_pyarrow()
        self._pyarrow, self._schema = pyarrow, parquet_schema()
        self._file = path.open("wb")  # not by its name, which may be no UTF-8
        self._writer = parquet.ParquetWriter(self._file, self._schema, compression="zstd")
        self._waiting: list[Row] = []

    def put(self, rows: Sequence[Row]) -> None:
        self._waiting.extend(rows)
        while len(self._waiting) >= ROW_GROUP:
            self._write(self._waiting[:ROW_GROUP])
            del self._waiting[:ROW_GROUP]

    def _write(self, rows: Sequence[Row]) -> None:
        self._writer.write_table(self._pyarrow.table(make_columns(rows), schema=self._schema))

    def __enter__(self) -> ParquetFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None and self._waiting:
                self._write(self._waiting)
        finally:
            self._writer.close()
            self._file.close()


def parquet_schema() -> Any:
    """The columns of ``rows.Row`` as pyarrow's schema. Raises SourceError if pyarrow is not installed."""
    pa, _ = load_pyarrow()
    numbers = pa.list_(pa.float32())
    return pa.schema([
        pa.field("source", pa.string(), nullable=False), ("time", pa.float64()),
        ("frame", pa.int64()), ("class", pa.string()), ("score", pa.float32()),
        ("box", numbers), ("points", pa.list_(numbers)), ("point_scores", numbers),
        ("corners", pa.list_(numbers)), ("share", pa.float32()),
        ("depths", numbers), ("world_points", pa.list_(numbers)), ("side", pa.string()), ("blendshapes", numbers),
        ("mask", pa.struct([("size", pa.list_(pa.int32())), ("counts", pa.string())])),
    ])  # fmt: skip


def make_table(rows: Sequence[Row], error: str | None = None) -> Any:
    """The rows as a pyarrow.Table with a further column "error", and, of raw outputs, one of flat values for each."""
    pa, _ = load_pyarrow()
    columns, schema = make_columns(rows), parquet_schema()
    columns["error"] = [error] * len(rows)
    schema = schema.append(pa.field("error", pa.string()))
    for name in columns:
        if name not in schema.names:
            columns[name] = [values.ravel() for values in columns[name]]
            schema = schema.append(pa.field(name, pa.list_(pa.float32())))
    return pa.table(columns, schema=schema)


def in_groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows in lists of ROW_GROUP, or fewer if they hold raw outputs of more than GROUP_BYTES."""
    group: list[Row] = []
    for row in rows:
        group.append(row)
        outputs: dict[str, Any] = row.get("outputs", {})
        if len(group) >= ROW_GROUP or len(group) * sum(each.nbytes for each in outputs.values()) >= GROUP_BYTES:
            yield group
            group = []
    if group:
        yield group


def load_pyarrow() -> tuple[Any, Any]:
    """The packages pyarrow and pyarrow.parquet. Raises SourceError if they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise fb.SourceError("Parquet is written by pyarrow: pip install '.[parquet]'") from error
    return pyarrow, pyarrow.parquet
