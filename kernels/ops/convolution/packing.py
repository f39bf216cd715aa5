"""Packing of weights and biases into the layouts that the convolution kernels read."""

from __future__ import annotations

import numpy as np

from ...operation import PackedArray
from ...tensor import slices
from .matrix_conv import WARP, MatrixTile, batches


def pack_bias(bias: np.ndarray | None, channels: int) -> PackedArray:
    """A bias as (slices, 4) float32, with zeros for missing channels or a missing bias."""

    def pack() -> np.ndarray:
        packed = np.zeros(slices(channels) * 4, np.float32)
        packed[:channels] = 0 if bias is None else bias
        return packed.reshape(-1, 4)

    return PackedArray(slices(channels), pack)


def pack_weights(weights: np.ndarray) -> PackedArray:
    """OHWI weights as (n, 4) float32 in the order [ky][kx][input slice][input lane][output slice][output lane].

    Neighbouring invocations compute neighbouring output slices and so read neighbouring float4 values.
    """
    out, height, width, in_ = weights.shape

    def pack() -> np.ndarray:
        padded = np.zeros((slices(out) * 4, height, width, slices(in_) * 4), np.float32)
        padded[:out, :, :, :in_] = weights
        return np.ascontiguousarray(padded.transpose(1, 2, 3, 0)).reshape(-1, 4)

    return PackedArray(height * width * slices(in_) * 4 * slices(out), pack)


def whole_slices(weights: np.ndarray) -> np.ndarray:
    """OHWI weights with zeros for the output channels that the last slice lacks."""
    missing = -len(weights) % 4
    return np.concatenate([weights, np.zeros((missing, *weights.shape[1:]), weights.dtype)])


def pack_depthwise(weights: np.ndarray) -> PackedArray:
    """(1, H, W, O) weights as (n, 4) float32 in the order [ky][kx][slice][lane]."""
    _, height, width, channels = weights.shape

    def pack() -> np.ndarray:
        packed = np.zeros((height, width, slices(channels) * 4), np.float32)
        packed[:, :, :channels] = weights[0]
        return packed.reshape(-1, 4)

    return PackedArray(height * width * slices(channels), pack)


def pack_fragments(
    weights: np.ndarray, tile: MatrixTile, *, as_bytes: bool = False, mirrored: bool = False
) -> PackedArray:
    """OHWI weights as (n, 4) float32, or ``as_bytes`` as pairs of bytes, in the order [step of four terms][eight output
    channels][lane].

    Lane 4r + t has the four input channels of term t for output channel r. A term is an input slice of a tap. Zeros
    fill the last batch of all warps; or if ``mirrored``, the last terms in reverse order (``mirrored_term``). These are
    there twice then, with a part of their weights each: zeros would turn an infinity into NaN.
    """
    out, height, width, channels = weights.shape
    in_, kind = (channels // 2, np.uint16) if as_bytes else (channels, np.float32)
    terms, columns = height * width * slices(in_), -(-out // 8)
    steps = batches(terms, tile) * tile.batch * tile.split

    def pack() -> np.ndarray:
        padded = np.zeros((columns * 8, height * width, slices(in_) * 4), kind)
        numbers = pairs_of_bytes(weights) if as_bytes else weights
        padded[:out, :, :in_] = numbers.reshape(out, height * width, in_)
        packed = np.zeros((columns * 8, steps * 4, 4), kind)
        packed[:, :terms] = padded.reshape(columns * 8, terms, 4)
        for term in range(terms, steps * 4 if mirrored else terms):
            origin = mirrored_term(term, terms)
            packed[:, term] = _half_of(packed[:, origin])
            packed[:, origin] -= packed[:, term]
        return np.ascontiguousarray(packed.reshape(columns, 8, steps, 4, 4).transpose(2, 0, 1, 3, 4)).reshape(-1, 4)

    return PackedArray(steps * columns * WARP, pack)


def mirrored_term(term: int, terms: int) -> int:
    """The term that a lane of matrix_conv.kern reads: behind the last one, the last ones in reverse order."""
    return max(min(term, 2 * terms - 1 - term), 0)


def _half_of(values: np.ndarray) -> np.ndarray:
    """About half of each value, which a half holds if it holds the value; so does the rest."""
    with np.errstate(over="ignore"):
        rounded = (values / 2).astype(np.float16).astype(np.float32)
    return np.where(np.isfinite(rounded), rounded, values / 2)


def pairs_of_bytes(weights: np.ndarray) -> np.ndarray:
    """OHWI weights from -128 to 127 as (O, H, W, I / 2) uint16, the first of two in the lower byte."""
    return np.ascontiguousarray(weights, np.int8).view(np.uint16)
