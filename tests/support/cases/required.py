"""Features that some case must reach, read from the kernels and the table of operators, not from the cases.

A kernel's text names its switches (REFLECT == 1) and the tensors that it reads and writes; each switch must be seen
on and off, each tensor in a user's buffer and in the arena. Each operator must be seen with every number of channels
in the last slice, for one picture and for several. Each elementwise expression must be fused by some case.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from functools import cache

from case_features import Feature
from framebind.interop.null.device import NullDevice
from framebind.kernels.codegen.source import KernelSource
from framebind.kernels.ops.pointwise.elementwise import EXPRESSIONS
from framebind.kernels.registry import OPERATORS
from framebind.tools.certify.cases.lstm_models import FORMS, lstm
from framebind.tools.certify.cases.runs import kept_cover
from null_programs import compile_on_null, compile_run
from support.cases.cover import ROOT
from support.cases.node_cases import without_oracle
from support.cases.operator_runs import program_of

SWITCH = re.compile(r"\b([A-Z][A-Z0-9_]*) (==|!=|<=|>=|<|>) (-?[0-9.]+)f?\b")
"""A constant that is compared with a number. A remainder (x % STRIDE == 0) is another matter."""
TENSOR = re.compile(r"\b(?:READ|WRITE)\((\w+),")
COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
BUILTIN = {"LOCAL"}
"""Names of the kernel language that are no constants of a kernel."""

KERNELS_ELSEWHERE = {
    "float_of_halves": "tests/kernels/test_operators_litert.py",
    "expanded": "tests/kernels/matrix_units/test_expanded.py",
    "fma_conv": "tests/kernels/test_fma_conv.py",
    "instance_norm": "tests/kernels/test_operators.py",
    "inverted": "tests/kernels/matrix_units/test_inverted.py",
    "attention": "tests/kernels/test_attention.py",
    "bilinear_samples": "tests/kernels/test_operators.py",
    "layer_norm": "tests/kernels/test_operators.py",
    "integer_of_halves": "tests/kernels/test_operators_litert.py",
    "matrix_attention": "tests/kernels/test_attention.py",
    "matrix_conv": "tests/kernels/matrix_units/test_matrix_conv.py",
    "matrix_patch": "tests/kernels/matrix_units/test_matrix_patch.py",
    "matrix_product": "tests/kernels/matrix_units/test_matrix_product.py",
    "max_indices": "tests/kernels/test_custom_operators.py",
    "moments": "tests/kernels/test_operators.py",
    "normalized_conv": "tests/kernels/matrix_units/test_normalized_conv.py",
    "partial_sums": "tests/kernels/test_squeeze_excite.py",
    "resampler": "tests/kernels/test_custom_operators.py",
    "row_conv": "tests/kernels/test_row_conv.py",
    "separable": "tests/kernels/test_separable.py",
    "separable_pair": "tests/kernels/matrix_units/test_separable_pair.py",
    "split_float": "tests/kernels/test_operators_litert.py",
    "split_integer": "tests/kernels/test_operators_litert.py",
    "squeeze_excite": "tests/kernels/test_squeeze_excite.py",
    "tiled_conv": "tests/kernels/matrix_units/test_tiled_conv.py",
    "unpool": "tests/kernels/test_custom_operators.py",
    "warp_affine": "tests/kernels/test_custom_operators.py",
    "weighted_samples": "tests/tools/test_networks.py",
    "warpgroup_conv": "tests/kernels/matrix_units/test_warpgroup_conv.py",
    "winograd_input": "tests/kernels/test_winograd.py",
    "winograd_output": "tests/kernels/test_winograd.py",
}
"""Kernels that no TFLite operator alone is lowered to, and the file that tests them over their own parameters."""
OPERATORS_ELSEWHERE = {
    **dict.fromkeys("ASSIGN_VARIABLE READ_VARIABLE VAR_HANDLE".split(), "tests/delegate/claim/test_variables.py"),
    "Convolution2DTransposeBias": "tests/kernels/test_operators.py",
    "DENSIFY": "tests/delegate/test_sparse.py",
    "DEQUANTIZE": "tests/kernels/test_quantized.py",
    "MaxPoolingWithArgmax2D": "tests/kernels/test_custom_operators.py",
    "MaxUnpooling2D": "tests/kernels/test_custom_operators.py",
    "QUANTIZE": "tests/kernels/test_quantized.py",
    "Resampler": "tests/kernels/test_custom_operators.py",
    "WarpAffine": "tests/kernels/test_custom_operators.py",
    "custom_call.MaxUnpooling2D": "tests/kernels/test_custom_operators.py",
    **dict.fromkeys(
        "STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CBRT STABLEHLO_CLAMP STABLEHLO_REMAINDER".split(),
        "tests/kernels/test_stablehlo.py",
    ),
}
"""Operators whose cases are elsewhere: LiteRT's CPU has no kernel for them, or they need a type of their own."""
BLOCKS = "tests/kernels/test_operators.py divides the outputs of convolutions among invocations"
DEPTHWISE = "tests/kernels/test_depthwise.py divides windows among invocations"
PATCHES = "tests/kernels/test_patch_conv.py tries tiles whose weights are staged or not"
INTEGERS = "integers and truth values are converted to and from the arena by other kernels"
COMPLEX = "complex numbers stay in the arena"
VECTOR = "the result is a vector of one value per dimension"
EXEMPT: dict[Feature, str] = {
    ("conv", "SPLIT == 1", False): BLOCKS, ("conv", "SPLIT > 1", True): BLOCKS,
    ("depthwise", "PARTS == 1", False): DEPTHWISE, ("depthwise", "PARTS > 1", True): DEPTHWISE,
    ("depthwise", "EARLY > 0", True): "tests/kernels/test_depthwise.py loads weights early, as no software device does",
    ("patch_conv", "STAGED > 0", False): PATCHES,
    ("arg_extreme", "dst", "Dense"): INTEGERS, ("choose", "condition", "Dense"): INTEGERS,
    ("gather", "indices", "Dense"): INTEGERS, ("one_hot", "indices", "Dense"): INTEGERS,
    ("gather_nd", "indices", "Dense"): INTEGERS, ("scatter", "indices", "Dense"): INTEGERS,
    ("update_slice", "starts", "Dense"): INTEGERS, ("slice_at", "starts", "Dense"): INTEGERS,
    ("top_k", "indices", "Dense"): INTEGERS, ("quantize", "src", "Dense"): INTEGERS,
    ("integer_reduce", "src", "Dense"): INTEGERS, ("integer_reduce", "dst", "Dense"): INTEGERS,
    ("row_spectrum", "dst", "Dense"): COMPLEX, ("complex_part", "src", "Dense"): COMPLEX,
    ("column_spectrum", "src", "Dense"): COMPLEX, ("column_spectrum", "dst", "Dense"): COMPLEX,
    ("complex_part", "dst", "Sliced"): "half a power of two, and one more, fills no slices",
    ("non_max_suppression", "dst", "Dense"): INTEGERS, ("non_max_suppression", "count", "Dense"): INTEGERS,
    ("non_max_suppression", "boxes", "Dense"): "a box of four numbers fills a slice",
    ("NON_MAX_SUPPRESSION_V4", "batch > 1", True): "boxes and scores are of one picture: they have no batch",
    ("NON_MAX_SUPPRESSION_V4", "channels % 4", 2): "a box has four numbers, and the results' lengths vary otherwise",
    ("NON_MAX_SUPPRESSION_V4", "channels % 4", 3): "a box has four numbers, and the results' lengths vary otherwise",
    ("lstm", "gates", "Dense"): "the matrix product before it writes them to the arena",
    ("lstm", "state", "Dense"): "it is written to the arena, then copied to the variable",
    ("expression", "SILU"): "tests/kernels/matrix_units/test_tiled_conv.py: it is two operators of a model",
    ("expression", "SILU_OF_STEPS"): "tests/kernels/test_quantized.py: it is two operators of a model",
    ("RANK", "channels % 4", 0): VECTOR, ("RANK", "channels % 4", 2): VECTOR,
}  # fmt: skip
"""Features that cannot be or that another test shows, and why."""


def kernel_texts() -> dict[str, str]:
    """The text of each kernel without comments, by name."""
    paths = sorted((ROOT / "kernels").rglob("*.kern"))
    return {path.stem: re.sub(r"//.*", "", path.read_text(encoding="utf-8")) for path in paths}


def required_of_kernel(name: str, text: str) -> set[Feature]:
    """Both outcomes of each switch, and both kinds of views of each tensor that is read or written."""
    switches = {" ".join(found) for found in _switches(text)}
    tensors = set(TENSOR.findall(text))
    return {(name, switch, outcome) for switch in switches for outcome in (True, False)} | {
        (name, tensor, view) for tensor in tensors for view in ("Dense", "Sliced")
    }


def required_of_operator(name: str) -> set[Feature]:
    """The kinds of views of which the last tensor that it writes must have been."""
    channels: set[Feature] = {(name, "channels % 4", rest) for rest in range(4)}
    return channels | {(name, "batch > 1", several) for several in (True, False)}


def required() -> set[Feature]:
    """Every feature that some case must reach."""
    features: set[Feature] = {("expression", name) for name in EXPRESSIONS}
    for name, text in kernel_texts().items():
        if name not in KERNELS_ELSEWHERE:
            features |= required_of_kernel(name, text)
    for name in OPERATORS:
        if name not in OPERATORS_ELSEWHERE:
            features |= required_of_operator(name)
    return features - EXEMPT.keys()


@cache
def reached() -> set[Feature]:
    """The features of what ``make test`` runs on desktop GL: operators, nodes with NumPy references, and LSTMs."""
    found: set[Feature] = set()
    for run in kept_cover("features"):
        found |= _reached_by(run.case.operator, compile_run(run).sources)
    for case in without_oracle():
        program, _ = program_of(NullDevice(), case, "f32")
        found |= _reached_by(case.operator, [step.kernel.source for step in program.record().steps])
    for form in FORMS:
        found |= _reached_by("LSTM", compile_on_null(lstm(form)).sources)
    return found


def _switches(text: str) -> Iterable[tuple[str, str, str]]:
    for found in SWITCH.finditer(text):
        name, comparison, value = found.groups()
        before = text[: found.start()].rstrip()
        if name not in BUILTIN and not before.endswith(("%", "/", "*", "+", "-")):
            yield name, comparison, value


def _reached_by(name: str, sources: Iterable[KernelSource]) -> set[Feature]:
    found: set[Feature] = set()
    for source in sources:
        constants = dict(source.constants)
        for constant, comparison, value in _switches(kernel_texts()[source.name]):
            if constant in constants:
                outcome = COMPARE[comparison](constants[constant], float(value))
                found.add((source.name, f"{constant} {comparison} {value}", outcome))
        for argument in source.arguments:
            found.add((source.name, argument.name, type(argument.view).__name__))
            shape = getattr(argument.view, "shape", None)
            if shape is not None and argument.name == source.destination:
                found |= {(name, "channels % 4", shape[3] % 4), (name, "batch > 1", shape[0] > 1)}
        for text, _ in source.epilogue:
            found |= {("expression", expression) for expression in _expressions_of(text)}
    return found


def _expressions_of(text: str) -> list[str]:
    """The names of expressions by their text in a kernel: numbers have a name there, and operands may be swapped."""
    plain = re.sub(r"LOAD4_\w+\(0\)", "p", text)
    swapped = re.sub(r"\b[vw]\b", lambda found: "w" if found[0] == "v" else "v", plain)
    return [name for name, given in EXPRESSIONS.items() if given in (plain, swapped)]
