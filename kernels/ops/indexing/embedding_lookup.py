"""EMBEDDING_LOOKUP: rows of a table by their numbers."""

from __future__ import annotations

from ...operation import Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES, LARGEST_RANK
from ..arguments import NEAREST_PLACE, require_movable, require_type
from ..movement.gather import Gather


def _parse(node: TfliteNode) -> Parsed:
    numbers, table = node.inputs[:2]
    require_type(INDEX_DTYPES, numbers)
    require_movable([table], node.outputs)
    if numbers is None or table is None or len(numbers.shape) != 1 or len(table.shape) < 2:
        raise Unsupported("it needs numbers of rank 1, and a table of rank 2 or more")
    known = numbers.constant
    if known is not None and known.size and not 0 <= known.min() <= known.max() < table.shape[0]:
        raise Unsupported(f"tensor '{numbers.name}' has numbers outside the {table.shape[0]} rows")
    return Parsed(Gather(0, 0, (len(table.shape), 1)), (1, 0))


def _row_type(node: TfliteNode) -> str:
    """The table's type; integers with a scale may become float32."""
    table = node.inputs[1]
    if table is None or (table.dtype in ("int4", "int8", "uint8") and node.outputs[0].dtype == "float32"):
        return "float32"
    return table.dtype


TFLITE = (
    TfliteOp(
        "EMBEDDING_LOOKUP", _parse, max_version=4, inputs=2, max_rank=LARGEST_RANK, moves_values=True,
        unlike_litert=NEAREST_PLACE, results=(_row_type,), keeps_declared_type=True,
    ),
)  # fmt: skip
