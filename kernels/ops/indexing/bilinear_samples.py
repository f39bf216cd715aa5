"""Bilinear samples of pictures with channels first. delegate/transform/samples.py makes each from four gathers."""

from __future__ import annotations

from dataclasses import dataclass

from ...operation import Launch, Lowering, Operation


@dataclass(frozen=True)
class BilinearSamples(Operation):
    """The pixels of the first input at columns (second input) and rows (third), with zeros beyond the border.

    Pictures are (batch, channels, height, width). Columns, rows and the result are (batch, channels, a, b): one sample
    of a plane for each position; column 0 is the centre of a row's first pixel.
    """

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        if shapes[0][:2] != shapes[1][:2] or shapes[1] != shapes[2]:
            raise ValueError(f"planes of {shapes[0]} are not sampled at places of {shapes[1:3]}")
        return [shapes[1]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        return [lowering.launch("bilinear_samples", ("src", "columns", "rows"))]
