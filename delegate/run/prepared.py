"""A partition's claims for the shapes that LiteRT prepared it for, and who computes with these: the GPU or the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...interop.errors import ModelError
from ...kernels.tensor import TensorInfo
from ..claim.claims import Claims
from ..claim.shape_rules import Shape
from ..litert.native import NativeGraph
from .cpu_operators import CpuOperators
from .messages import named_reasons


class PreparedClaims:
    """The claims of a partition's operators for the current shapes.

    The CPU computes if the GPU cannot run every operator with these shapes, or if a tensor of LiteRT's has another type
    than the file says. Nobody computes if no output has elements.

    Parameters
    ----------
    native, claims, operators, inputs, outputs
        LiteRT's subgraph, the claims for its first shapes, and the partition.
    sources
        The tensors from whose shapes all others follow.
    has_states
        Whether values stay on the GPU between runs, so that the CPU cannot take over.
    claim_again
        Returns claims for other shapes of the sources.
    make_cpu
        Returns the operators on the CPU.
    """

    def __init__(
        self,
        native: NativeGraph,
        claims: Claims,
        operators: tuple[int, ...],
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        *,
        sources: tuple[int, ...],
        has_states: bool,
        claim_again: Callable[[Mapping[int, Shape]], Claims],
        make_cpu: Callable[[], CpuOperators],
    ) -> None:
        self._native, self._operators, self._inputs, self._outputs = native, operators, inputs, outputs
        self._sources, self._has_states, self._claim_again, self._make_cpu = sources, has_states, claim_again, make_cpu
        self.claims = claims
        self.cpu: CpuOperators | None = None
        """Set if operators cannot run on the GPU with the current shapes and types."""
        self.is_empty = False
        """No output has elements, so there is nothing to compute."""
        self.has_other_types = False
        """A tensor of LiteRT's has another type than the file says."""
        self._reasons: Mapping[int, str] = {}
        """The reason for each operator that cannot run on the GPU now."""
        self._model_shapes = self._shapes_of_inputs()
        """The shapes of the model's inputs at the last update."""

    def update(self) -> bool:
        """Take over the shapes that LiteRT has now. Returns whether a program for those before must be dropped.

        Raises ModelError, and changes nothing, if neither the GPU nor the CPU takes the shapes.
        """
        shapes = {tensor: self._native.shape(tensor) for tensor in self._sources}
        others = self._other_types()
        changed = bool(others) or any(self.shape(tensor) != shape for tensor, shape in shapes.items())
        if changed:
            self._adopt(self._claim_again(shapes), others)
        self._model_shapes, self.has_other_types = self._shapes_of_inputs(), bool(others)
        return changed

    def _other_types(self) -> dict[int, str]:
        """The reason for each operator that reads a tensor of the CPU whose type differs from the file's."""
        native, reasons = self._native, dict[int, str]()
        for index in self._operators:
            for tensor in set(self._inputs).intersection(native.subgraph.operators[index].inputs):
                declared, dtype = native.subgraph.tensors[tensor], native.dtype(tensor)
                if dtype != declared.dtype:
                    reasons[index] = f"tensor '{declared.name}' is {dtype}, not {declared.dtype} as the file says"
        return reasons

    def _adopt(self, claims: Claims, others: Mapping[int, str]) -> None:
        """Take over claims for other shapes; ``others`` are the reasons of operators on tensors of other types."""
        reasons, cpu = {**claims.unsupported, **others}, None
        all_empty = bool(self._outputs) and all(0 in claims.tensors[tensor].shape for tensor in self._outputs)
        is_empty = bool(reasons) and all_empty
        if reasons and not is_empty:
            if self._has_states:
                raise ModelError(
                    f"the model does not take input shapes {self._shapes_of_inputs()} while its states are on the GPU: "
                    f"{named_reasons(self._native.subgraph, reasons)}. Use an interpreter without the delegate for them"
                )
            cpu = self._make_cpu()
            cpu.prepare(reasons)
        self.claims, self.cpu, self.is_empty, self._reasons = claims, cpu, is_empty, reasons

    @property
    def cpu_reasons(self) -> dict[int, str]:
        """The reason for each operator that is on the CPU because of the current shapes."""
        if self.cpu is None:
            return {}
        reasons = self._reasons
        return {
            i: reasons.get(i, f"operator {min(reasons)}, of the same partition, is on the CPU") for i in self._operators
        }

    def shape(self, tensor: int) -> Shape:
        """The shape of a tensor by the claims."""
        return self.claims.tensors[tensor].shape

    def output_shape(self, tensor: int) -> Shape:
        """The shape of an output, as whoever computes it makes it."""
        return self.shape(tensor) if self.cpu is None else self.cpu.shape(tensor)

    def source_shapes(self) -> list[Shape]:
        """The shapes from which all others follow."""
        return [self.shape(tensor) for tensor in self._sources]

    def tensor(self, tensor: int) -> TensorInfo | None:
        """A tensor with its current shape; None after an input was resized and before the next update."""
        return self.claims.tensors[tensor] if self._shapes_of_inputs() == self._model_shapes else None

    def _shapes_of_inputs(self) -> list[Shape]:
        return [self._native.shape(i) for i in self._native.subgraph.inputs if i >= 0]
