"""Signatures of a model: their tensors by name, and the buffers that a run is given for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..interop.errors import BindingError
from .interpreter import Interpreter
from .tensor_buffer import TensorBuffer

_UNNAMED = "<placeholder signature>"
"""LiteRT's key for the signature of a model that has none."""
Buffers = dict[int, TensorBuffer]
"""The buffers of a run by tensor."""


class Signature(NamedTuple):
    """A signature: the number of its subgraph, and the tensors by name in the order of the subgraph."""

    key: str
    subgraph: int
    inputs: dict[str, int]
    outputs: dict[str, int]

    def names(self) -> dict[str, list[str]]:
        """The names as ``get_signature_list`` has them."""
        return {"inputs": list(self.inputs), "outputs": list(self.outputs)}


def signatures_of(interpreter: Interpreter) -> tuple[Signature, ...]:
    """The signatures of a model; LiteRT's placeholder for a model without. States that are fed back are left out."""
    graphs, fed = interpreter._model.subgraphs, interpreter._fed_back
    found: list[Signature] = []
    for key, ends in interpreter._get_full_signature_list().items():
        number = int(interpreter._interpreter.GetSubgraphIndexFromSignature(key))
        inputs, outputs = (
            {name: tensors[name] for name in sorted(tensors, key=lambda name: order.index(tensors[name]))}
            for tensors, order in ((ends["inputs"], graphs[number].inputs), (ends["outputs"], graphs[number].outputs))
        )
        found.append(Signature(key, number, *_without(() if number else fed, inputs, outputs)))
    if not found:
        inputs, outputs = (
            {graphs[0].tensors[i].name: i for i in side} for side in (graphs[0].inputs, graphs[0].outputs)
        )
        found.append(Signature(_UNNAMED, 0, *_without(fed, inputs, outputs)))
    return tuple(found)


def _without(tensors: Collection[int], *sides: dict[str, int]) -> Iterator[dict[str, int]]:
    """The sides of a signature without some tensors."""
    return ({name: tensor for name, tensor in side.items() if tensor not in tensors} for side in sides)


def tensor_at(signature: Signature, side: str, index: int) -> int:
    tensors = list(getattr(signature, side).values())
    if not 0 <= index < len(tensors):
        what = side[:-1].capitalize()
        raise BindingError(f"{what} index out of range: {index}; '{signature.key}' has {len(tensors)} {side}")
    return tensors[index]


def tensor_named(signature: Signature, side: str, name: str) -> int:
    tensors: dict[str, int] = getattr(signature, side)
    if name not in tensors:
        what = side[:-1].capitalize()
        raise BindingError(f"{what} tensor not found: {name}; the {side} of '{signature.key}' are {', '.join(tensors)}")
    return tensors[name]


def matched(
    signature: Signature,
    inputs: Sequence[TensorBuffer] | Mapping[str, TensorBuffer],
    outputs: Sequence[TensorBuffer] | Mapping[str, TensorBuffer],
) -> tuple[Buffers, Buffers]:
    """The buffers of a run by tensor, given in order or by name. Raises BindingError if they do not match."""
    given, results = _by_tensor(signature, "inputs", inputs), _by_tensor(signature, "outputs", outputs)
    for buffer in (*given.values(), *results.values()):
        if not isinstance(buffer, TensorBuffer):
            raise BindingError(f"signature '{signature.key}' runs with TensorBuffers, and was given {buffer!r}")
    return given, results


def _by_tensor(
    signature: Signature, side: str, buffers: Sequence[TensorBuffer] | Mapping[str, TensorBuffer]
) -> Buffers:
    """The buffers of inputs or outputs by tensor.

    As in LiteRT, a map of inputs may leave some out, and a map may have names of other signatures too.
    """
    tensors: dict[str, int] = getattr(signature, side)
    if isinstance(buffers, Mapping):
        unknown = [name for name in buffers if name not in tensors]
        missing = [name for name in tensors if name not in buffers]
        if missing and (unknown or side == "outputs"):
            others = f"; '{signature.key}' has no {side} {', '.join(unknown)}" if unknown else ""
            raise BindingError(f"The given map is missing some {side[:-1]} TensorBuffers: {', '.join(missing)}{others}")
        return {tensors[name]: buffer for name, buffer in buffers.items() if name in tensors}
    if len(buffers) != len(tensors):
        what = side[:-1].capitalize()
        raise BindingError(
            f"{what} buffer size mismatch: number of {side}:{len(tensors)} vs buffers:{len(buffers)}; those of "
            f"'{signature.key}' are {', '.join(tensors)}"
        )
    return dict(zip(tensors.values(), buffers, strict=True))
