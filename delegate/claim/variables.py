"""Variables that can stay on the GPU: those that only the main subgraph reads and assigns.

LiteRT keeps variables in its own map, shared by all subgraphs, which delegates cannot access. So the GPU keeps a
variable only if it knows every use: its first value is a constant that CALL_ONCE assigns, in a subgraph that does
nothing else with it, and all its reads and assignments are on the GPU. LiteRT never resets such a variable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...kernels.ops.pointwise.quantize import float_view
from ...kernels.tensor import QUANTIZED_DTYPES, Quantization, TensorInfo
from ..read.checks import called_subgraphs, callers_of
from ..read.model import Model, RawOperator, Subgraph
from ..read.names import printable
from .parsing import ParsedSubgraph

Name = tuple[bytes, bytes]
"""Container and shared name of a variable, by which LiteRT knows it."""
Use = tuple[int, RawOperator]
"""The number of a subgraph, and an operator there."""


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable that can stay on the GPU.

    ``tensor`` is the number of its value, after the main subgraph's own tensors, and ``value`` has the type and the
    scale. ``first`` is the value before the first run, in float32. ``operators`` read and assign it, in order;
    ``handles`` make its handles.
    """

    name: str
    tensor: int
    value: TensorInfo
    first: np.ndarray
    operators: tuple[int, ...]
    handles: tuple[int, ...]


@dataclass(frozen=True)
class Variables:
    """The main subgraph's variables: those that can stay on the GPU, and the reason for each operator on others."""

    on_gpu: tuple[Variable, ...] = ()
    refused: Mapping[int, str] | None = None

    def reason(self, raw: RawOperator) -> str | None:
        """The reason why the CPU keeps the variable that an operator reads, assigns or names; None if the GPU may keep
        it.
        """
        if raw.name not in ("READ_VARIABLE", "ASSIGN_VARIABLE", "VAR_HANDLE") or raw.custom:
            return None
        if self.refused is None:
            return "LiteRT keeps the variables of subgraphs that other operators run"
        return self.refused.get(raw.index)

    def by_operator(self) -> dict[int, Variable]:
        """The variable on the GPU that each operator reads, assigns or names."""
        return {index: variable for variable in self.on_gpu for index in (*variable.operators, *variable.handles)}


class _Uses:
    """All uses of a model's variables, by name, and the reasons why some cannot stay on the GPU."""

    def __init__(self, model: Model) -> None:
        self.names: dict[tuple[int, int], Name] = {}
        """The names of variables by subgraph and number of the handle."""
        self.uses: dict[Name, list[Use]] = {}
        self.reasons: dict[Name, str] = {}
        self.all_reason = ""
        """The reason why no variable can stay on the GPU; "" if some can."""
        for number, subgraph in enumerate(model.subgraphs):
            for raw in subgraph.operators:
                if raw.name == "VAR_HANDLE" and not raw.custom and len(raw.outputs) == 1:
                    self.names[number, raw.outputs[0]] = _name(raw)
                    self.uses.setdefault(_name(raw), [])
                    handle = subgraph.tensors[raw.outputs[0]]
                    if handle.dtype != "resource":
                        self.reasons[_name(raw)] = f"its handle '{handle.name}' is {handle.dtype}"
        if not self.names:
            return  # there are no variables
        for number, subgraph in enumerate(model.subgraphs):
            for raw in subgraph.operators:
                self._add(number, subgraph, raw)
            for output in subgraph.outputs:
                self._escape(number, output, f"subgraph '{subgraph.name}' returns its handle")

    def _add(self, number: int, subgraph: Subgraph, raw: RawOperator) -> None:
        if raw.custom or raw.name not in ("READ_VARIABLE", "ASSIGN_VARIABLE"):
            for tensor in raw.inputs:
                self._escape(number, tensor, f"operator {raw.index} {raw.name} takes its handle")
            return
        name = self.names.get((number, raw.inputs[0]))
        if name is None:
            self.all_reason = f"operator {raw.index} {raw.name} of '{subgraph.name}' may use any variable"
        else:
            self.uses[name].append((number, raw))

    def _escape(self, number: int, tensor: int, reason: str) -> None:
        name = self.names.get((number, tensor))
        if name is not None:
            self.reasons.setdefault(name, reason)


def _name(raw: RawOperator) -> Name:
    options = raw.options
    return (options.Container() or b"", options.SharedName() or b"") if options is not None else (b"", b"")


def find_variables(model: Model) -> Variables:
    """Find the variables of a model's main subgraph that can stay on the GPU, and why others cannot."""
    main, uses = model.subgraphs[0], _Uses(model)
    on_gpu: list[Variable] = []
    refused: dict[int, str] = {}
    for name, used in uses.uses.items():
        handles = [raw.index for raw in main.operators if raw.outputs and uses.names.get((0, raw.outputs[0])) == name]
        operators = [raw.index for number, raw in used if number == 0]
        label = printable(name[1].decode("utf-8", "backslashreplace"))
        found = uses.all_reason or uses.reasons.get(name) or _first_value(model, used)
        if isinstance(found, str):
            refused.update(dict.fromkeys((*handles, *operators), f"the CPU keeps variable '{label}': {found}"))
        elif operators:
            number = len(main.tensors) + len(on_gpu)
            value, first = replace(found, name=label, constant=None, variable=True), float_view(found).constant
            assert first is not None
            on_gpu.append(Variable(label, number, value, first, tuple(operators), tuple(handles)))
    return Variables(tuple(on_gpu), refused)


def _type_and_scale(main: Subgraph, used: Sequence[Use]) -> TensorInfo | str:
    """The type and scale that all values have which the main subgraph reads and assigns; or why they differ. LiteRT
    copies stored integers, so that another scale would make other numbers of them.
    """
    raws = [raw for number, raw in used if number == 0]
    values = [main.tensors[raw.outputs[0] if raw.name == "READ_VARIABLE" else raw.inputs[1]] for raw in raws]
    for value in values:
        if value.dtype not in ("float32", *QUANTIZED_DTYPES) or float_view(value).dtype != "float32":
            return (
                f"its value '{value.name}' is {value.dtype}; it may be float32, and int8, uint8 and int16 with a scale"
            )
        if value.dtype != values[0].dtype or _scale(value) != _scale(values[0]):
            return f"its values '{values[0].name}' and '{value.name}' have different types or scales"
    return values[0] if values else "the main subgraph has no use for it"


def _scale(value: TensorInfo) -> Quantization | None:
    return None if value.dtype == "float32" else value.quantization


def _first_value(model: Model, used: Sequence[Use]) -> TensorInfo | str:
    """The constant that CALL_ONCE assigns to a variable before it is used, with the type and the scale that the main
    subgraph gives its values; or why there is none.
    """
    main = model.subgraphs[0]
    kind = _type_and_scale(main, used)
    if isinstance(kind, str):
        return kind
    once = {number: raw.index for raw in main.operators if raw.name == "CALL_ONCE" for number in called_subgraphs(raw)}
    value: TensorInfo | None = None
    for number, raw in used:
        graph = model.subgraphs[number]
        if number == 0:
            continue
        shared = len(callers_of(number, model.subgraphs)) > 1 or number in model.entries
        if number not in once or shared or raw.name != "ASSIGN_VARIABLE":
            return f"operator {raw.index} {raw.name} of subgraph '{graph.name}' uses it too"
        tensor = graph.tensors[raw.inputs[1]]
        if tensor.constant is None or tensor.dtype != kind.dtype or not tensor.constant.size:
            return f"its first value '{tensor.name}' is {tensor.dtype}, and no constant of {kind.dtype}"
        if any(user.index < once[number] for place, user in used if place == 0):
            return f"it is used before CALL_ONCE, operator {once[number]}, gives it its first value"
        if value is not None:
            return "it is given a first value twice"
        value = replace(tensor, quantization=_scale(kind))
    return value if value is not None else "no CALL_ONCE gives it a first value"


def add_tensors(variables: Variables, parsed: ParsedSubgraph) -> None:
    """Add the tensors that stand for the values of variables to a main subgraph of which nothing is parsed yet."""
    for variable in variables.on_gpu:
        number = parsed.add(variable.value)
        assert number == variable.tensor


class AccessOrder:
    """The order of reads and assignments of variables, as inputs and outputs of their operators."""

    def __init__(self, parsed: ParsedSubgraph) -> None:
        self._parsed = parsed
        self._assigned: dict[int, int] = {}
        """The tensor that its last assignment writes, by variable."""
        self._reads: dict[int, list[int]] = {}
        """The values that were read since, by variable."""

    def ordered(self, raw: RawOperator, variable: Variable) -> RawOperator:
        """A read or assignment with the variable's tensor instead of its handle, and the accesses before it."""
        tensor = variable.tensor
        before = [self._assigned[tensor]] if tensor in self._assigned else []
        reads = self._reads.setdefault(tensor, [])
        if raw.name == "READ_VARIABLE":
            reads.extend(raw.outputs)
            return replace(raw, inputs=(tensor, *before))
        done = self._parsed.add(
            replace(variable.value, name=f"'{variable.name}' is assigned", shape=(1,), variable=False)
        )
        self._assigned[tensor], self._reads[tensor] = done, []
        return replace(raw, inputs=(tensor, *raw.inputs[1:], *(reads or before)), outputs=(done,))


def apart(variables: Iterable[Variable], on_gpu: Collection[int], subgraph: Subgraph) -> dict[int, str]:
    """The reason for each operator on a variable if another of its operators is not ``on_gpu``: only one side can keep
    it.
    """
    reasons: dict[int, str] = {}
    for variable in variables:
        other = next((index for index in variable.operators if index not in on_gpu), None)
        if other is not None:
            reason = (
                f"operator {other} {subgraph.operators[other].name}, on the CPU, uses variable '{variable.name}' too"
            )
            reasons.update(dict.fromkeys({*variable.operators, *variable.handles} - {other}, reason))
    return reasons
