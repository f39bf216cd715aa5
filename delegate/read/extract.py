"""Some operators of a model as a model of their own, for LiteRT's CPU interpreter."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import tflite

from ...interop.errors import ModelError
from . import tables


def extract_operators(
    content: bytes,
    subgraph: int,
    operators: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
    types: Mapping[int, str],
    *,
    calls: bool = False,
) -> bytes:
    """The file of a model whose first subgraph has these operators, inputs and outputs; tensors keep their numbers.

    It is the only subgraph, unless an operator ``calls`` others, which keep their numbers too. ``types`` has the types
    of inputs that differ from the file's.

    The bytes are copied and changed in place. Vectors lose entries, or are written again at the end of the file,
    because the offsets of a flatbuffer point forwards. Raises ModelError if the file lacks a vector that is needed.
    """
    data = bytearray(content)
    model = tflite.Model.GetRootAs(data, 0)
    for field in (tables.MODEL_METADATA, tables.MODEL_SIGNATURES):
        if model._tab.Offset(field):
            _keep_entries(data, model._tab, field, ())
    kept = [subgraph]
    if calls:
        kept = list(range(model.SubgraphsLength()))
        kept[0], kept[subgraph] = subgraph, 0  # which nothing runs
    _keep_entries(data, model._tab, tables.MODEL_SUBGRAPHS, kept)
    first = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    assert first is not None, "LiteRT has read the file's subgraph"
    table = first._tab
    _keep_entries(data, table, tables.SUBGRAPH_OPERATORS, operators)
    for field, numbers in ((tables.SUBGRAPH_INPUTS, inputs), (tables.SUBGRAPH_OUTPUTS, outputs)):
        offset = table.Offset(field)
        if not offset:
            raise ModelError(f"subgraph {subgraph} of the file has no list of its inputs or outputs")
        data += bytes(-len(data) % 4)
        struct.pack_into("<I", data, table.Pos + offset, len(data) - table.Pos - offset)
        data += struct.pack(f"<{len(numbers) + 1}i", len(numbers), *numbers)
    for tensor, dtype in types.items():
        _replace_tensor(data, table.Vector(table.Offset(tables.SUBGRAPH_TENSORS)) + 4 * tensor, dtype)
    return bytes(data)


def _replace_tensor(data: bytearray, place: int, dtype: str) -> None:
    """Let an entry of the vector of tensors be a computed tensor of this type, of rank 0 until it is resized."""
    data += bytes(-len(data) % 4)
    # A list of two fields (shape, type), the table, and an empty vector for the shape.
    places, table = len(data), len(data) + 8
    data += struct.pack("<HHHH", 8, 12, 4, 8)
    data += struct.pack("<iIbxxx", table - places, 8, getattr(tflite.TensorType, dtype.upper()))
    data += struct.pack("<I", 0)
    struct.pack_into("<I", data, place, table - place)


def _keep_entries(data: bytearray, table: tflite.flatbuffers.table.Table, field: int, kept: Sequence[int]) -> None:
    """Let a vector of tables have these entries only, in this order."""
    start = table.Vector(table.Offset(field))
    places = [start + 4 * number for number in kept]
    targets = [place + struct.unpack_from("<I", data, place)[0] for place in places]
    struct.pack_into("<I", data, start - 4, len(kept))
    for number, target in enumerate(targets):
        place = start + 4 * number
        if target <= place:
            raise ModelError("the file's tables overlap: it is damaged; get it again")
        struct.pack_into("<I", data, place, target - place)
