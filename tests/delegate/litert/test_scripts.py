"""A script for LiteRT does the same after ``import framebind as tflite``: names, signatures, results, exceptions."""

from __future__ import annotations

import contextlib
import inspect
import io
import traceback
import types
import typing
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import interpreter as litert
from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain

X = np.random.default_rng(0).random((1, 4, 5, 3), np.float32)
PRELUDES = {
    "allocated": "i = tflite.Interpreter('model.tflite'); i.allocate_tensors(); i.set_tensor(0, x)",
    "fresh": "i = tflite.Interpreter('model.tflite')",
    "signed": "i = tflite.Interpreter('signed.tflite'); r = i.get_signature_runner('serve')",
    "added": "i = tflite.Interpreter('added.tflite'); ones = lambda *s: np.ones(s, np.float32)",
    "": "",
}
SCRIPTS = {
    "runs": ("allocated", """
i.invoke(); print(i.get_tensor(1))
i.set_tensor(np.int64(0), x + 1); i.invoke(); print(i.get_tensor(np.int32(1)))
i.set_tensor(0, x.tolist()); i.invoke(); print(i.get_tensor(1))
i.tensor(0)()[:] = 1; i.invoke(); print(i.tensor(1)())
i.set_tensor(tensor_index=0, value=x); i.invoke(); print(i.get_tensor(tensor_index=1, subgraph_index=0))
i.reset_all_variables(); i.invoke(); print(i.get_tensor(1), i.tensor(tensor_index=0)())
i.resize_tensor_input(0, [2, 4, 5, 3]); i.allocate_tensors(); print(i.get_output_details())
i.resize_tensor_input(input_index=0, tensor_size=(1, 4, 5, 3), strict=False); i.allocate_tensors()
i.resize_tensor_input(0, [0, 4, 5, 3]); i.allocate_tensors(); i.invoke(); print(i.get_tensor(1))
"""),
    "set_tensor": ("allocated", """
i.set_tensor(7, x)
i.set_tensor(-1, x)
i.set_tensor(99999999999, x)
i.set_tensor('x', x)
i.set_tensor(None, x)
i.set_tensor(0.0, x)
i.set_tensor(0, x.astype(np.float64))
i.set_tensor(0, x.astype(np.uint8))
i.set_tensor(0, x[0])
i.set_tensor(0, x[..., :2])
i.set_tensor(0, None)
i.set_tensor(0, 'text')
i.set_tensor(0, [1.0, 2.0])
i.set_tensor(0, 3.0)
i.set_tensor(1, x)
i.set_tensor(0)
"""),
    "reading": ("allocated", """
i.get_tensor(7)
i.get_tensor(-1)
i.get_tensor('x')
i.get_tensor(None)
i.get_tensor(0, 5)
i.tensor(7)()
i.tensor(-1)()
i.tensor('x')()
v = i.tensor(0)(); i.invoke()
v = i.tensor(0)(); i.allocate_tensors()
v = i.tensor(0)(); i.resize_tensor_input(0, [2, 4, 5, 3])
"""),
    "resizing": ("allocated", """
i.resize_tensor_input(0, [2, 4, 5, 3]); i.invoke()
i.resize_tensor_input(0, [2, 4, 5, 3]); i.get_tensor(1)
i.resize_tensor_input(0, [2, 4, 5, 3]); i.set_tensor(0, np.ones((2, 4, 5, 3), np.float32))
i.resize_tensor_input(0, [2, 4, 5, 3]); i.allocate_tensors(); i.set_tensor(0, x)
i.resize_tensor_input(9, [2, 4, 5, 3])
i.resize_tensor_input('x', [2, 4, 5, 3])
i.resize_tensor_input(0, [2, 4, 5, 3], strict=True)
i.resize_tensor_input(0, [-1, 4, 5, 3]); i.allocate_tensors()
i.resize_tensor_input(0, 'abc')
i.resize_tensor_input(0, 4)
"""),
    "not allocated": ("fresh", """
i.set_tensor(0, x)
i.get_tensor(0)
i.get_tensor(1)
i.tensor(1)()
print(i.get_input_details(), i.get_output_details())
print(type(i).__name__, type(i._native_handle()), i.experimental_compress_quantization_zero_points)
"""),
    "descriptions": ("allocated", """
print(i.num_subgraphs(), i.get_tensor_details(), i.get_input_details(), i.get_output_details())
print(i._get_ops_details(), i._get_op_details(0), i.get_signature_list())
i.get_tensor_details(4)
i.get_tensor_details(-1)
i._get_op_details(9)
"""),
    "signatures": ("signed", """
print(i.get_signature_list(), i.get_signature_runner()(x=x))
print(type(r).__name__, isinstance(r, tflite.SignatureRunner), r.get_input_details(), r.get_output_details())
print(tflite.SignatureRunner(i, 'serve')(x=np.ones((2, 4, 5, 3), np.float32)))
print(tflite.SignatureRunner(interpreter=i, signature_key='serve')(x=x))
i.get_signature_runner('nothing')
i.get_signature_runner(3)
i.get_signature_runner('')
tflite.SignatureRunner()
tflite.SignatureRunner(i)
tflite.SignatureRunner(i, 'nothing')
r()
r(y=x)
r(x=x, y=x)
r(x)
r(x=x.astype(np.int32))
r(x=[1.0])
tflite.Interpreter('model.tflite').get_signature_runner()
"""),
    "shapes that do not go together": ("added", """
print(i.get_signature_runner()(a=ones(1, 4), b=ones(1, 4)))
print(i.get_signature_runner()(a=ones(3, 4), b=ones(1, 4)))
i.get_signature_runner()(a=ones(3, 4), b=ones(2, 4))
i.resize_tensor_input(0, [3, 4]); i.resize_tensor_input(1, [2, 4]); i.allocate_tensors()
i.resize_tensor_input(0, [3, 4]); i.resize_tensor_input(1, [2, 4]); i.invoke()
"""),
    "models": ("", """
tflite.Interpreter()
tflite.Interpreter('missing.tflite')
tflite.Interpreter('.')
tflite.Interpreter('junk.tflite')
tflite.Interpreter('empty.tflite')
tflite.Interpreter('')
tflite.Interpreter(3)
tflite.Interpreter(b'model.tflite').allocate_tensors()
tflite.Interpreter(pathlib.Path('model.tflite')).allocate_tensors()
tflite.Interpreter(model_content=b'')
tflite.Interpreter(model_content=b'junk')
tflite.Interpreter(model_content='junk')
tflite.Interpreter(model_content=3)
tflite.Interpreter(model_content=bytearray(content))
tflite.Interpreter(model_content=memoryview(content))
tflite.Interpreter(model_content=np.frombuffer(content, np.uint8))
tflite.Interpreter('model.tflite', content)
tflite.Interpreter('', content).allocate_tensors()
tflite.Interpreter(None, content).allocate_tensors()
"""),
    "arguments": ("", """
tflite.Interpreter('model.tflite', num_threads=0)
tflite.Interpreter('model.tflite', num_threads='4')
tflite.Interpreter('model.tflite', num_threads=2.0)
tflite.Interpreter('model.tflite', num_threads=True)
tflite.Interpreter('model.tflite', nonsense=2)
tflite.Interpreter('model.tflite', None, None, 2, tflite.OpResolverType.BUILTIN_REF, False).allocate_tensors()
tflite.Interpreter('model.tflite', experimental_op_resolver_type='BUILTIN')
tflite.Interpreter('missing.tflite', experimental_op_resolver_type=3)
tflite.Interpreter('model.tflite', experimental_preserve_all_tensors=True).allocate_tensors()
tflite.Interpreter('model.tflite', experimental_compress_quantization_zero_points=True).allocate_tensors()
tflite.Interpreter('model.tflite', experimental_delegates=[]).allocate_tensors()
tflite.Interpreter('model.tflite', experimental_delegates=[3])
tflite.Interpreter('model.tflite', experimental_delegates=3)
tflite.Interpreter('model.tflite', experimental_delegates='gpu')
print([t for t in tflite.OpResolverType if tflite.Interpreter('part.tflite', experimental_op_resolver_type=t)])
"""),
    "delegates and operators of others": ("", """
tflite.load_delegate('libnothing.so')
tflite.load_delegate('libnothing.so', {'a': 1})
tflite.load_delegate()
tflite.Delegate('libnothing.so')
i = tflite.InterpreterWithCustomOps(model_path='model.tflite'); i.allocate_tensors(); print(i.get_output_details())
tflite.InterpreterWithCustomOps([lambda address: print('called')], model_path='model.tflite').allocate_tensors()
tflite.InterpreterWithCustomOps(custom_op_registerers=[lambda address: 1 / 0], model_content=content)
tflite.InterpreterWithCustomOps(['nothing'], model_path='model.tflite')
tflite.InterpreterWithCustomOps('model.tflite')
tflite.InterpreterWithCustomOps()
tflite.InterpreterWithCustomOps(None, model_path='missing.tflite')
"""),
}  # fmt: skip
"""The beginning of scripts, and scripts of one line, by topic."""


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the scripts name, in the current folder."""
    monkeypatch.chdir(tmp_path)
    addition = Op("ADD", [0, 1], [2], schema.AddOptionsT())
    tensors = [T("a", (1, 4)), T("b", (1, 4)), T("sum", (1, 4))]
    files = {
        "model": chain("EXP"), "signed": chain("EXP", signature="serve"), "part": chain("EXP", CPU_ONLY, "TANH"),
        "added": build(G(tensors, [addition], [0, 1], [2], signature="add")), "junk": b"no model at all", "empty": b"",
    }  # fmt: skip
    for name, content in files.items():
        Path(f"{name}.tflite").write_bytes(content)


class OnNullDevice(fb.Interpreter):
    """An interpreter whose operators run on a device that computes nothing, and refuses what a GPU would."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modify_graph_with_delegate(fb.GpuDelegate("null"))


WITH_DELEGATE = types.SimpleNamespace(
    **{name: getattr(fb, name) for name in fb.__all__} | {"Interpreter": OnNullDevice}
)


class Outcome(typing.NamedTuple):
    """The text that a script printed, the exception that ended it, and the numbers of the lines where it was raised."""

    printed: str
    error: BaseException | None
    lines: list[int]
    warnings: list[type[Warning]]


def outcome(script: str, module: Any) -> Outcome:
    """Run a script whose ``tflite`` is this module."""
    printed, lines, error = io.StringIO(), list[int](), None
    names = {"tflite": module, "np": np, "x": X.copy(), "pathlib": __import__("pathlib"), "content": chain("EXP")}
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(compile(script, "script", "exec"), names)
        except Exception as raised:
            frames = traceback.extract_tb(raised.__traceback__)
            lines = [frame.lineno or 0 for frame in frames if frame.filename == "script"]
            error = raised.with_traceback(None)  # whose frames keep the script's objects
    kinds = [warning.category for warning in caught if warning.category is not ResourceWarning]
    return Outcome(printed.getvalue(), error, lines, kinds)


def scripts(topic: str) -> Iterator[str]:
    prelude, lines = SCRIPTS[topic]
    yield from (f"{PRELUDES[prelude]}\n{line.replace('; ', chr(10))}" for line in lines.strip().splitlines())


def agree(ours: Outcome, expected: Outcome, script: str) -> None:
    """An exception of ours is of LiteRT's type as well, and comes from the same line."""
    assert ours.lines == expected.lines, (script, ours.error, expected.error)
    if expected.error is not None:
        assert isinstance(ours.error, type(expected.error)), (script, ours.error, expected.error)
    assert ours.warnings == expected.warnings, script


# LiteRT's own Delegate fails once more when Python deletes one whose library was not found.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("topic", SCRIPTS)
def test_a_script_does_the_same_after_its_import_was_changed(topic: str) -> None:
    for script in scripts(topic):
        expected, ours = outcome(script, litert), outcome(script, fb)
        agree(ours, expected, script)
        assert ours.printed == expected.printed, script
        assert ours.error is not None or ours.printed or "print" not in script
        agree(outcome(script, WITH_DELEGATE), expected, script)


def test_a_run_before_the_allocation_is_litert_s_error() -> None:
    """A program's own GpuDelegate allocates: objects are bound to it before the first run, and nothing is set."""
    with pytest.raises(RuntimeError, match="not ready"):
        litert.Interpreter("model.tflite").invoke()
    interpreter = fb.Interpreter("model.tflite")
    with pytest.raises(fb.ModelError, match=r"not ready.*call allocate_tensors\(\) first") as caught:
        interpreter.invoke()
    assert isinstance(caught.value, RuntimeError)
    OnNullDevice("model.tflite").invoke()


# Names and signatures -------------------------------------------------------------------------------------------------


def public(owner: Any) -> dict[str, Any]:
    own = {name: value for name, value in vars(owner).items() if not name.startswith("_")}
    return {name: value for name, value in own.items() if not inspect.ismodule(value)}


def test_framebind_has_every_name_of_the_interpreter_s_module() -> None:
    names = set(public(litert))
    assert {"Interpreter", "InterpreterWithCustomOps", "SignatureRunner", "OpResolverType"} <= names
    assert names <= set(fb.__all__)
    for name in ("Delegate", "OpResolverType", "load_delegate"):
        assert getattr(fb, name) is getattr(litert, name)
    for name in ("Interpreter", "InterpreterWithCustomOps", "SignatureRunner"):
        assert set(public(getattr(litert, name))) <= set(dir(getattr(fb, name)))


def functions() -> Iterator[tuple[str, Any, Any]]:
    """The constructors and methods of LiteRT's classes that framebind derives from, and framebind's."""
    for name in ("Interpreter", "SignatureRunner"):
        base, derived = getattr(litert, name), getattr(fb, name)
        for method, function in vars(base).items():
            if inspect.isfunction(function):
                yield f"{name}.{method}", function, getattr(derived, method)


@pytest.mark.parametrize(("name", "theirs", "ours"), [pytest.param(*each, id=each[0]) for each in functions()])
def test_a_function_has_litert_s_parameters_and_types(name: str, theirs: Any, ours: Any) -> None:
    """Parameters have LiteRT's order and defaults. Those that framebind adds are given by name and have a default."""
    expected = inspect.signature(theirs).parameters.values()
    found = list(inspect.signature(ours).parameters.values())
    for parameter, known in zip(found, expected, strict=False):
        assert (parameter.name, parameter.kind, parameter.default) == (known.name, known.kind, known.default)
    for parameter in found[len(expected) :]:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is None
    if ours.__module__.startswith("framebind"):
        typed = set(inspect.get_annotations(ours)) - {"return"}
        assert typed == {parameter.name for parameter in found[1:]}


def test_custom_operators_take_the_interpreter_s_arguments_by_name() -> None:
    theirs = inspect.signature(litert.InterpreterWithCustomOps).parameters
    ours = inspect.signature(fb.InterpreterWithCustomOps).parameters
    assert list(theirs) == ["custom_op_registerers", "kwargs"]
    assert ours["custom_op_registerers"].kind is theirs["custom_op_registerers"].kind
    named = {name: p.default for name, p in ours.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert named == {name: p.default for name, p in inspect.signature(fb.Interpreter).parameters.items()}


def test_errors_are_those_that_litert_raises() -> None:
    """ValueError from what is loaded, made and set; RuntimeError from what is applied, allocated and run."""
    for error in (fb.ModelError, fb.DelegateError, fb.DeviceError, fb.BindingError):
        assert issubclass(error, ValueError) and issubclass(error, RuntimeError)
    for error in (fb.KernelError, fb.TransferError):
        assert issubclass(error, RuntimeError)
    with pytest.raises(RuntimeError), fb.transfer_guard("disallow"):
        OnNullDevice("model.tflite").invoke()
