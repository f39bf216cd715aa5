"""Models that LiteRT refuses and framebind runs: for each of LiteRT's reasons a decision, for fuzz_structure.py.

``python scripts/refusals.py`` prints them as the table of docs/internals/trust.md.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Refusal(NamedTuple):
    """A reason of LiteRT's, found by a part of its message, and what framebind promises for such a model."""

    reason: str
    pattern: str
    promise: str


REFUSALS = (
    Refusal(
        "a float is divided by 0 in FLOOR_DIV or FLOOR_MOD",
        r"Division by 0",
        "the GPU cannot stop at a value: that element is infinite or NaN, all others are right",
    ),
    Refusal(
        "indices of SCATTER_ND or SPARSE_TO_DENSE are outside of the result",
        r"scatter_nd index out of bounds|\(SPARSE_TO_DENSE\) failed to invoke",
        "values with such an index are left out",
    ),
    Refusal(
        "a name is not UTF-8", r"'utf-8' codec can't decode", "the model runs: tensors have numbers, too"
    ),
    Refusal(
        "a custom operator that only XNNPACK has, in a form that XNNPACK does not take",
        r"Encountered unresolved custom op: (MaxPoolingWithArgmax2D|MaxUnpooling2D|Convolution2DTransposeBias)",
        "MediaPipe's operators run in every form that docs/operators.md names",
    ),
    Refusal(
        "an option repeats the number of tensors, and is wrong",
        r"(NumInputs|NumOutputs)\(node\) != .*(values_count|num_splits|data->num)\b",
        "the tensors count",
    ),
    Refusal(
        "an operator has more inputs than it reads",
        r"has_bias|NumInputs\(node\) != \d|NumInputs\(node\), \d|num_inputs|NumInputs\(node\) == ",
        "the first ones count",
    ),
    Refusal(
        "an activation function is fused where LiteRT has none",
        r"params->activation != kTfLiteActNone",
        "it is applied, as the file says",
    ),
    Refusal(
        "a stride or a dilation is larger than 32,767",
        r"(dilation|stride)_(width|height)",
        "it is as the file says",
    ),
    Refusal(
        "STRIDED_SLICE, whose ends count from its begins, reaches beyond its input, and a convolution reads the result",
        r"data->groups",
        "it ends where its input ends; LiteRT's reads what lies behind",
    ),
    Refusal(
        "an output is declared with another rank than it has",
        r"NumDimensions\(output\)",
        "it has the shape that follows from the inputs",
    ),
    Refusal(
        "axes of REVERSE_V2 are a table, not a list", r"NumDimensions\(axis\)", "all of them count, as of any list"
    ),
    Refusal(
        "inputs or outputs have other zero points or scales than LiteRT's kernel compares",
        r"zero_point|multiplier_exponent|params\.scale|->quantization",
        "each tensor's own scale counts; those of floats count for nothing",
    ),
    Refusal(
        "operands have types that LiteRT's kernel does not take together",
        r"(?i)type|is_optional_bias_int",
        "float16 and float32 are computed as float32, quantized integers as the real numbers they stand for",
    ),
)  # fmt: skip


def promise_for(message: str) -> str:
    """The reason of the first row that knows LiteRT's message, "" if none does."""
    return next((refusal.reason for refusal in REFUSALS if re.search(refusal.pattern, message)), "")


def table() -> str:
    """The decisions as a table in Markdown."""
    rows = [f"| {refusal.reason} | {refusal.promise} |" for refusal in REFUSALS]
    return "\n".join(["| LiteRT refuses the model because | framebind |", "| --- | --- |", *rows])


if __name__ == "__main__":
    print(table())
