"""Writes docs/operators.md, the operators and where each one runs, from the code itself.

The reasons to refuse an operator are read from its own source: from its parse function, and from the shape rules of its
operations.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import flatbuffers
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from framebind.kernels.operation import Operation, TfliteOp
from framebind.kernels.registry import CPU_ONLY, OPERATORS

TARGET = Path(__file__).parent.parent / "docs" / "operators.md"

HEADER = """# Operators

Does your operator run on the GPU? The [table](#all-operators) says so. The [reasons](#reasons-by-operator) for which
one stays on the CPU follow by operator. `python -m framebind inspect MODEL` gives the reasons for your model.

- OpenGL, OpenGL ES, OpenCL and CUDA run the same operators, with the same kernels.
- An operator that stays on the CPU runs there in the same interpreter.

`python scripts/operators_table.py` writes this page from the code and from LiteRT; a test fails if it is out of date.

## All operators

*CPU* says whether LiteRT's own interpreter has a kernel. Operators that neither has, such as most of StableHLO's, are
left out.

| operator | GPU | CPU | versions | rank up to |
| --- | --- | --- | --- | --- |
"""

RULES = """
## Rules for all operators

- **Shapes**: tensors have no empty or dynamic dimension, and at most the rank in the table. Constants and some parts of
  a SPLIT_V may be empty. Two operands broadcast by NumPy's rules. Axes, sizes and similar inputs are constants; the
  positions at which slices and gathers begin may be computed.
- **Types**: tensors are float32, or, with quantization enabled, quantized integers of 8 or 16 bits. Operators that
  move, choose or compare values also take truth values and integers of 32 bits. So do arithmetic (ADD, SUB, MUL, DIV,
  FLOOR_DIV, FLOOR_MOD, MAXIMUM, MINIMUM, SQUARED_DIFFERENCE, ADD_N, ABS, NEG, SIGN), reductions and CUMSUM, if an
  operator on the GPU reads the result; it has LiteRT's bits. Values of int64 need known bounds that fit 32 bits. A
  newer version of an operator usually adds types; each type is checked.
- **Declared types**: LiteRT infers the types of results. If a file declares another one, the operator stays on the CPU,
  and so do those that read its result. A scale of 32- or 64-bit integers counts for biases and DEQUANTIZE only.
- **Constants** may also be float16, or int4, int8, uint8 and int16 with scales, also one scale per channel: they are
  converted to real numbers once. LiteRT's kernels round activations to 8 bits beside such weights; the GPU does not.
- **int16**: LiteRT interpolates EXP, GELU, LOG and RSQRT of 16 bits between 513 values. If that is more than 4 steps of
  65,536 from the function for some input, as it is for LOG and nearly every RSQRT, the operator stays on the CPU.
- **float16**: computed tensors may be float16. The GPU computes in float32 and rounds each result to the nearest half.
- **Complex numbers** exist on the GPU only between RFFT2D and COMPLEX_ABS, REAL and IMAG, also through RESHAPE, SQUEEZE
  and EXPAND_DIMS. If another operator writes or reads them, all of these stay on the CPU.
- **States of an LSTM** are variable tensors. If no other operator uses them, their values stay on the GPU between
  invokes. After `reset_all_variables()`, `allocate_tensors()` or `set_tensor`, the new values are copied to the GPU;
  `framebind.Interpreter.get_tensor` copies a state back. LiteRT's own Python interpreter does not, and shows NaN.
- **Variables** that VAR_HANDLE names stay on the GPU if only the first subgraph uses them, all operators that read and
  assign them run on the GPU, and CALL_ONCE gives them a first value, a constant of float32, or of 8 or
  16 bits with a scale, which is that of all its values. CALL_ONCE itself runs on the CPU.
- **WHILE** runs on the GPU with all its steps, if their number follows from constants and shapes, as in the layers
  LSTM, GRU and SimpleRNN of Keras. The steps may have at most 8192 operators together, all from this table. If a step
  makes one variable another, as when two change places, LiteRT's own WHILE reads what it has just written; the GPU
  does not.
- **STABLEHLO_COMPOSITE** (`odml.gelu`, `odml.rms_norm` and so on) runs on the GPU as the operators of its
  decomposition, with the operators around it, if all of them are from this table. Composites may be in composites, 32
  deep, and become at most 8192 operators.
- **Builtin operators without a CPU kernel**, such as STABLEHLO_CBRT: LiteRT's own interpreter refuses a file that names
  one. `framebind.Interpreter` takes it, and the GPU has to run them.
"""

REASONS_HEADER = """
## Reasons by operator

An operator of your model stays on the CPU if one of these reasons holds. "..." stands for the model's own numbers. A
line *unlike LiteRT* says where the GPU's result differs. Operators that are not listed have only the [rules for
all](#rules-for-all-operators).

An input that "must be constant" must also be given. These reasons are those of many operators, and are not repeated
below:

"""

CPU_HEADER = """
## Operators that run only on the CPU

"""

UNROLLED: dict[str, str] = dict.fromkeys(("STABLEHLO_COMPOSITE", "WHILE"), "[some](#rules-for-all-operators)")
"""The cell for what the GPU runs although no kernel has its name."""
UNWRITTEN = "no kernel is written"


def litert_has(number: int) -> bool:
    """Whether LiteRT's interpreter has a kernel for this builtin operator, in any of its first versions."""
    return any(_resolves(number, version) for version in (1, 2))


def _resolves(number: int, version: int) -> bool:
    """LiteRT refuses a model that names an operator without a kernel, even if nothing uses it."""
    code, subgraph, model = schema.OperatorCodeT(), schema.SubGraphT(), schema.ModelT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), version
    subgraph.tensors, subgraph.operators, subgraph.inputs, subgraph.outputs = [], [], [], []
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [subgraph], [schema.BufferT()]
    builder = flatbuffers.Builder(256)
    builder.Finish(model.Pack(builder), b"TFL3")
    try:
        Interpreter(
            model_content=bytes(builder.Output()),
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
    except ValueError:
        return False
    return True


COMMON = {"require_float", "require_movable", "broadcast_shape"}
"""Checks whose reasons the header gives for all operators."""


SHARED = 8
"""A reason of at least so many operators is given once, with their names."""


def table() -> str:
    """The whole document."""
    numbers = {name: number for name, number in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
    on_cpu = {name for name, number in numbers.items() if litert_has(number)}
    names = sorted(on_cpu | set(OPERATORS), key=str.lower)
    rows = "".join(
        f"| {name} | {UNROLLED.get(name, 'no')} | yes | | |\n"
        if name not in OPERATORS
        else _row(OPERATORS[name], on_cpu=name in on_cpu)
        for name in names
    )
    parts = (HEADER, rows, RULES, REASONS_HEADER, _reasons_by_operator(), CPU_HEADER)
    return "".join(parts) + _reasons_for_the_cpu(on_cpu - set(OPERATORS))


def _reasons_by_operator() -> str:
    """The shared reasons with their operators, then a list for each operator, or for several that have the same."""
    reasons = {name: _own_reasons(OPERATORS[name]) for name in OPERATORS}
    having: dict[str, list[str]] = {}
    for name in sorted(OPERATORS, key=str.lower):
        for reason in reasons[name]:
            having.setdefault(reason, []).append(name)
    shared = {reason: names for reason, names in having.items() if len(names) >= SHARED}
    text = "".join(f"- **{reason}**: {', '.join(names)}\n" for reason, names in sorted(shared.items()))
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(OPERATORS, key=str.lower):
        unlike = OPERATORS[name].unlike_litert
        own = [reason for reason in reasons[name] if reason not in shared]
        groups.setdefault((*own, *([f"*unlike LiteRT*: {unlike}"] if unlike else [])), []).append(name)
    for lines, names in groups.items():
        if lines:
            text += f"\n### {', '.join(names)}\n\n" + "".join(f"- {line}\n" for line in lines)
    return text


def _own_reasons(operator: TfliteOp) -> list[str]:
    """The reasons of an operator, without "must be given" of inputs that must be constant, too."""
    found = list(dict.fromkeys(_reasons(operator.parse, {}, set())))
    constant = {reason.partition(" must be constant:")[0] for reason in found if " must be constant:" in reason}
    return [reason for reason in found if reason.removesuffix(" must be given") not in constant]


def _reasons_for_the_cpu(names: set[str]) -> str:
    """A line for each reason, with the operators that it keeps on the CPU."""
    reasons = {reason: set(given.split()) for reason, given in CPU_ONLY.items()}
    for reason, given in reasons.items():
        assert given <= names, f"'{reason}' names {sorted(given - names)}, which the GPU has, or LiteRT does not"
    reasons[UNWRITTEN] = names - set().union(*reasons.values())
    return "".join(f"- {', '.join(sorted(given))}: {reason}\n" for reason, given in reasons.items())


def _row(operator: TfliteOp, *, on_cpu: bool) -> str:
    versions = f"1 to {operator.max_version}" if operator.max_version > 1 else "1" if operator.max_version else "all"
    name = operator.name + (" (custom)" if operator.custom else "")
    return f"| {name} | yes | {'yes' if on_cpu else 'no'} | {versions} | {operator.max_rank} |\n"


Words = dict[str, str]
"""The texts that a function is called with, by parameter."""


def _reasons(function: Callable[..., Any], words: Words, seen: set[Any]) -> Iterator[str]:
    """The texts of every Unsupported or ValueError that the function, called with these words, or one of ours that it
    calls, raises.
    """
    if isinstance(function, partial):
        function = function.func
    called_so = (function, *sorted(words.items()))
    if called_so in seen or function.__name__ in COMMON or not function.__module__.startswith("framebind."):
        return
    seen.add(called_so)
    nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))))
    calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        called = function.__globals__.get(node.id) if isinstance(node, ast.Name) else None
        if inspect.isfunction(called):
            yield from _reasons(called, _words(called, calls.get(id(node)), words), seen)
        elif inspect.isclass(called) and not get_args(called):  # on Python 3.10 list[int] is a class
            checks = [getattr(called, "__post_init__", None), getattr(called, "output_shapes", None)]
            for check in checks if issubclass(called, Operation) else checks[:1]:
                if inspect.isfunction(check):
                    yield from _reasons(check, {}, seen)
    for node in nodes:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            text = _text(node.exc.args[0], words)
            if getattr(node.exc.func, "id", "") in ("Unsupported", "ValueError") and text:
                yield text


def _words(called: Callable[..., Any], call: ast.Call | None, words: Words) -> Words:
    """The texts that a call passes, by parameter; those of the caller are passed on."""
    if call is None:
        return {}
    given = dict(zip(inspect.signature(called).parameters, call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    texts = {name: _text(value, words) for name, value in given.items()}
    names = {name: value.id for name, value in given.items() if isinstance(value, ast.Name)}
    passed_on = {name: words[own] for name, own in names.items() if own in words}
    return {name: text for name, text in texts.items() if text} | passed_on


def _text(node: ast.expr, words: Words) -> str:
    """A text with "..." for what is filled in, except ``words``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_part(part, words) for part in node.values)
    return ""


def _part(part: ast.expr, words: Words) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    name = getattr(part.value, "id", "") if isinstance(part, ast.FormattedValue) else ""
    return words.get(name, "...")


if __name__ == "__main__":
    TARGET.write_text(table(), encoding="utf-8")
