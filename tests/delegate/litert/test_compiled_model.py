"""A script for LiteRT's CompiledModel does the same with framebind's: names, arguments, results, exceptions."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from ai_edge_litert import compiled_model as litert
from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from support.models import TOLERANCE
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain, pack, unpack

X = np.random.default_rng(0).random((1, 4, 5, 3), np.float32)
RUN = """
model = CompiledModel.from_file(NAME)
i, o = model.create_input_buffers(0), model.create_output_buffers(0)
"""
SCRIPTS = {
    "runs": f"""
{RUN.replace("NAME", "'signed.tflite'")}
i[0].write(x); model.run_by_index(0, i, o); print(o[0].read(60, np.float32))
i[0].write(x + 1); model.run_by_name('serve', {{'x': i[0]}}, {{'t1': o[0]}}); print(o[0].read(3, np.float32))
i[0].write(np.ones(5, np.float32)); model.run_by_index(signature_index=0, input_buffers=i, output_buffers=o)
print(o[0].read(num_elements=10, output_dtype=np.dtype('float32')))
model.run_by_name('serve', {{}}, {{'t1': o[0]}}); print(o[0].read(10, 'float32'))
one = model.create_input_buffer_by_name('serve', 'x'); one.write(x[:, ::-1]); out = i[0]
model.run_by_name('serve', {{'x': one, 'others': out}}, {{'t1': o[0]}}); print(o[0].read((4, 5, 3), np.float32))
model.run_by_index(0, [one], [model.create_output_buffer_by_name('serve', 't1')]); one.destroy(); one.destroy()
print([each.get_tensor_details() for each in (*i, *o)], o[0].read(0, np.float32))
""",
    "descriptions": f"""
for NAME in ('signed.tflite', 'unsigned.tflite', 'two.tflite', 'reversed.tflite', 'part.tflite'):
  model = CompiledModel.from_file(NAME); keys = list(model.get_signature_list())
  print(model.get_signature_list(), model.get_num_signatures(), [model.get_signature_index(key) for key in keys])
  print([model.get_signature_by_index(n) for n in range(len(keys))], model.get_signature_index('nothing'))
  print([(model.get_input_tensor_details(key), model.get_output_tensor_details(key)) for key in keys])
  for n in range(len(keys)):
    print(model.get_input_buffer_requirements(0, n), model.get_output_buffer_requirements(0, n))
{RUN.replace("NAME", "'signed.tflite'")}
with model as same: print(same is model)
""",
    "several signatures": f"""
{RUN.replace("NAME", "'two.tflite'")}
i[0].write(np.full(4, 7, np.float32)); i[1].write(np.full(4, 2, np.float32))
model.run_by_index(0, i, o); print(o[0].read(4, np.float32))
model.run_by_index(1, i, o); print(o[0].read(4, np.float32))
model.run_by_name('product', {{'a': i[1], 'b': i[1]}}, {{'sum': o[0]}}); print(o[0].read(4, np.float32))
i, o = model.create_input_buffers(1), model.create_output_buffers(1)
i[0].write(np.ones(4, np.float32)); i[1].write(np.full(4, 3, np.float32))
model.run_by_index(1, i, o); print(o[0].read(4, np.float32))
model.run_by_name('product', {{'b': i[1]}}, {{'sum': o[0]}}); print(o[0].read(4, np.float32))
model = CompiledModel.from_file('reversed.tflite')
i, o = model.create_input_buffers(0), model.create_output_buffers(0)
i[0].write(np.full(4, 7, np.float32)); i[1].write(np.full(4, 2, np.float32))
model.run_by_index(0, i, o); print(o[0].read(4, np.float32))
model.run_by_name('minus', {{'first': i[1], 'b': i[0]}}, {{'sum': o[0]}}); print(o[0].read(4, np.float32))
model.run_by_name('minus', {{'first': i[0]}}, {{'sum': o[0]}}); print(o[0].read(4, np.float32))
""",
    "shapes that change": f"""
{RUN.replace("NAME", "'dynamic.tflite'")}
print(i[0].get_tensor_details()); model.resize_input_tensor(0, [2, 4, 5, 3])
print(model.get_input_tensor_details('serve'), model.get_output_tensor_details('serve'))
print(model.get_input_buffer_requirements(0), model.get_output_buffer_requirements(0))
j, p = model.create_input_buffers(0), model.create_output_buffers(0); print(j[0].get_tensor_details())
j[0].write(np.concatenate([x, x + 1])); model.run_by_index(0, j, p); print(p[0].read(120, np.float32))
i[0].write(x); model.run_by_index(0, i, o); print(model.get_input_tensor_details('serve'), o[0].read(60, np.float32))
model.resize_input_tensor_by_name('serve', 'x', (3, 4, 5, 3)); print(model.get_output_tensor_details('serve'))
model.resize_input_tensor(0, [2, 4, 4, 3], strict=False); print(model.get_input_buffer_requirements(0))
j = model.create_input_buffers(0); j[0].write(np.ones(96, np.float32)); p = model.create_output_buffers(0)
model.run_by_index(0, j, p); print(p[0].read(96, np.float32))
""",
    "memory of the host": """
model = CompiledModel.from_file('flat.tflite'); key = list(model.get_signature_list())[0]
a, b = aligned(np.ones(16, np.float32)), aligned(np.zeros(16, np.float32))
i, o = TensorBuffer.create_from_host_memory(a), TensorBuffer.create_from_host_memory(data_array=b)
model.run_by_index(0, [i], [o]); print(b, i.get_tensor_details(), o.read(3, np.float32))
a[:] = 2; model.run_by_index(0, [i], [o]); print(b); o.write(a); print(b)
model.run_by_index(0, [i], [i]); print(a)
""",
    "models and processors": """
model = CompiledModel.from_buffer(content, HardwareAccelerator.CPU); model.run_by_index(0, *buffers(model))
options = Options(HardwareAccelerator.CPU, cpu_options=CpuOptions(num_threads=2, kernel_mode=CpuKernelMode.REFERENCE))
print(CompiledModel.from_file('signed.tflite', options=options).get_signature_index('serve'))
CompiledModel.from_buffer(model_data=content, hardware_accel=1, environment=None, options=None).close()
shared = Environment.create(); print(CompiledModel.from_buffer(content, environment=shared).environment is shared)
options = Options.create(); options.cpu_options.kernel_mode = CpuKernelMode.BUILTIN
print(CompiledModel.from_buffer(content, options=options).get_num_signatures())
print(CompiledModel.from_buffer(content, HardwareAccelerator.CPU | HardwareAccelerator.NPU).is_fully_accelerated())
""",
}
"""Programs that LiteRT runs to the end."""
ERRORS = """
o[0].write(np.zeros(61, np.float32))
o[0].write(np.zeros(60))
o[0].write([1.0])
o[0].read(61, np.float32)
o[0].read(60, np.float64)
o[0].read(60, 'nonsense')
o[0].read(-1, np.float32)
i[0].destroy(); i[0].write(x)
i[0].destroy(); i[0].read(1, np.float32)
i[0].destroy(); i[0].get_tensor_details()
i[0].destroy(); model.run_by_index(0, i, o)
model.run_by_index(0, [], o)
model.run_by_index(0, i + i, o)
model.run_by_index(0, i, [])
model.run_by_index(5, i, o)
model.run_by_name('nothing', {'x': i[0]}, {'t1': o[0]})
model.run_by_name('serve', {'x': i[0]}, {})
model.run_by_name('serve', {'x': i[0]}, {'y': o[0]})
model.run_by_index(0, model.create_input_buffers(0), 3)
model.get_input_tensor_details('nothing')
model.get_output_tensor_details('nothing')
model.get_input_buffer_requirements(3)
model.get_output_buffer_requirements(3)
model.get_output_buffer_requirements(0, 3)
model.create_input_buffers(4)
model.create_output_buffers(4)
model.create_input_buffer_by_name('serve', 'nothing')
model.create_input_buffer_by_name('nothing', 'x')
model.create_output_buffer_by_name('serve', 'nothing')
model.resize_input_tensor(0, [2, 4, 5, 3])
model.resize_input_tensor(0, [1, 4, 5])
model.resize_input_tensor(7, [1, 4, 5, 3])
model.resize_input_tensor_by_name('nothing', 'x', [1, 4, 5, 3])
model.resize_input_tensor_by_name('serve', 'nothing', [1, 4, 5, 3])
model.run_by_index(0, [TensorBuffer.create_from_host_memory(np.zeros(7, np.float32))], o)
TensorBuffer.create_from_host_memory(np.zeros((4, 5), np.float32).T)
TensorBuffer.create_from_host_memory(np.zeros(4))
TensorBuffer.create_from_host_memory([1.0])
CompiledModel.from_file('missing.tflite')
CompiledModel.from_file(3)
CompiledModel.from_buffer(b'no model at all')
CompiledModel.from_buffer(b'')
CompiledModel.from_buffer(content, HardwareAccelerator.CPU, options=Options())
CompiledModel.from_buffer(content, HardwareAccelerator(0))
CompiledModel.from_buffer(content, HardwareAccelerator.NPU)
"""
"""Lines that LiteRT refuses, each after RUN."""
PHRASES = re.compile(
    r"source buffer is larger than the tensor buffer|destination buffer is larger than the tensor buffer|"
    r"Unsupported dtype: \S+|data_array must be .*|TensorBuffer has been destroyed|(?:In|Out)put buffer size mismatch|"
    r"number of inputs:\d+ vs buffers:\d+|missing some output TensorBuffers|(?:In|Out)put tensor not found: \w+|"
    r"Input index out of range|Signature not found: nothing|New shape is not compatible with current shape|"
    r"Unknown signature: nothing|Unknown input 'nothing' for signature 'serve'|Some ops are not accelerated|"
    r"No acceleration provided|Pass either options or hardware_accel, not both\."
)
"""The words of LiteRT's errors that say what is wrong."""


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the scripts name, in the current folder."""
    monkeypatch.chdir(tmp_path)
    dynamic = unpack(chain("EXP", signature="serve"))
    for tensor in dynamic.subgraphs[0].tensors:
        tensor.shapeSignature = np.array([-1, 4, 5, 3], np.int32)
    swapped = unpack(build(_two_inputs("SUB", schema.SubOptionsT(), "minus")))
    ends = swapped.signatureDefs[0].inputs
    ends[1].name, ends[:] = b"first", ends[::-1]
    files = {
        "signed": chain("EXP", signature="serve"), "unsigned": chain("EXP"), "part": chain("EXP", CPU_ONLY, "TANH"),
        "two": build(
            _two_inputs("ADD", schema.AddOptionsT(), "sum"), _two_inputs("MUL", schema.MulOptionsT(), "product")
        ),
        "reversed": pack(swapped), "dynamic": pack(dynamic),
        "flat": build(G([T("x", (16,)), T("y", (16,))], [Op("EXP", [0], [1])], [0], [1])),
    }  # fmt: skip
    for name, content in files.items():
        Path(f"{name}.tflite").write_bytes(content)


def _two_inputs(name: str, table: Any, signature: str) -> G:
    """An operator of two inputs, whose names are not in the order of the alphabet."""
    return G(
        [T("b", (1, 4)), T("a", (1, 4)), T("sum", (1, 4))],
        [Op(name, [0, 1], [2], table)],
        [0, 1],
        [2],
        signature=signature,
    )


def aligned(array: np.ndarray) -> np.ndarray:
    """The array at an address that LiteRT takes without a copy."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    place = memory[start : start + array.nbytes].view(array.dtype)
    place[:] = array
    return place


def on_null_device(path: Any) -> fb.CompiledModel:
    """A model whose operators run on a device that computes nothing, and refuses what a GPU would."""
    return fb.CompiledModel.from_file(path, backend="null")


OURS = SimpleNamespace(CompiledModel=fb.CompiledModel, TensorBuffer=fb.TensorBuffer)
ON_NULL = SimpleNamespace(
    CompiledModel=SimpleNamespace(from_file=on_null_device, from_buffer=fb.CompiledModel.from_buffer),
    TensorBuffer=fb.TensorBuffer,
)


def outcome(script: str, module: Any) -> tuple[str, Exception | None]:
    """The text that a script printed with the classes of a module, and the exception that ended it."""
    printed, error = io.StringIO(), None
    kept = ("HardwareAccelerator", "Options", "CpuOptions", "CpuKernelMode", "Environment")
    names = {name: getattr(litert, name) for name in kept}
    names |= {"CompiledModel": module.CompiledModel, "TensorBuffer": module.TensorBuffer, "np": np, "x": X.copy()}
    names |= {"content": chain("EXP", signature="serve"), "aligned": aligned}
    names["buffers"] = lambda model: (model.create_input_buffers(0), model.create_output_buffers(0))
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(script, "script", "exec"), names)
        except Exception as raised:
            error = raised.with_traceback(None)
    return printed.getvalue(), error


@pytest.mark.parametrize("topic", SCRIPTS)
def test_a_script_does_the_same_after_its_import_was_changed(topic: str) -> None:
    printed, error = outcome(SCRIPTS[topic], litert)
    assert error is None, error
    assert outcome(SCRIPTS[topic], OURS) == (printed, None)


@pytest.mark.parametrize("module", [OURS, ON_NULL], ids=["CPU", "null"])
def test_errors_are_of_litert_s_types_with_its_words(module: Any) -> None:
    for line in ERRORS.strip().splitlines():
        script = f"{RUN.replace('NAME', repr('signed.tflite'))}\n{line}"
        (_, expected), (_, ours) = outcome(script, litert), outcome(script, module)
        assert expected is not None and isinstance(ours, type(expected)), (line, expected, ours)
        words = PHRASES.findall(str(expected))
        assert all(each in str(ours) for each in words), (line, expected, ours)


def test_what_ends_litert_s_process_is_an_error() -> None:
    model = fb.CompiledModel.from_file("signed.tflite")
    for index in (-1, 1):
        with pytest.raises(fb.BindingError, match=f"Signature not found: {index}; the model's are 0 'serve'"):
            model.get_signature_by_index(index)


def functions() -> Iterator[tuple[str, Any, Any]]:
    """The public methods of LiteRT's classes, and framebind's."""
    for base, derived in ((litert.CompiledModel, fb.CompiledModel), (litert.TensorBuffer, fb.TensorBuffer)):
        for name, function in vars(base).items():
            if not name.startswith("_") and name != "capsule":
                yield f"{base.__name__}.{name}", function, inspect.getattr_static(derived, name)


@pytest.mark.parametrize(("name", "theirs", "ours"), [pytest.param(*each, id=each[0]) for each in functions()])
def test_a_function_has_litert_s_parameters(name: str, theirs: Any, ours: Any) -> None:
    """Parameters have LiteRT's order and defaults. Those that framebind adds are given by name and have a default."""
    assert type(theirs) is type(ours)
    if isinstance(theirs, property):
        return
    theirs, ours = getattr(theirs, "__func__", theirs), getattr(ours, "__func__", ours)
    expected, found = ([*inspect.signature(each).parameters.values()] for each in (theirs, ours))
    for parameter, known in zip(found, expected, strict=False):
        assert (parameter.name, parameter.kind, parameter.default) == (known.name, known.kind, known.default)
    for parameter in found[len(expected) :]:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is None


# A real model ---------------------------------------------------------------------------------------------------------

SEGMENTATION = """
model = CompiledModel.from_file(path, hardware_accel=processor)
image, = model.create_input_buffers(0)
mask, = model.create_output_buffers(0)
image.write(cv2.resize(picture, (256, 256)).astype(np.float32)[None] / 255)
model.run_by_index(0, [image], [mask])
size = np.prod(mask.get_tensor_details()["shape"])
result = mask.read(size, np.float32).reshape(256, 256)
"""


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_real_model_segments_a_photograph(
    context: fb.GlContext, model_path: Callable[[str], Path], photograph: Callable[..., np.ndarray]
) -> None:
    """A script runs with LiteRT's classes and with framebind's, on the CPU and on the GPU."""
    accelerators = litert.HardwareAccelerator
    names = {"np": np, "cv2": cv2, "picture": photograph(), "path": str(model_path("selfie_segmentation"))}

    def mask(module: Any, processor: int) -> np.ndarray:
        given = names | {"CompiledModel": module.CompiledModel, "processor": processor}
        exec(SEGMENTATION, given)
        return given["result"]

    expected = mask(litert, accelerators.CPU)
    assert expected.min() < 0.01 and expected.max() > 0.99
    assert np.array_equal(mask(fb, accelerators.CPU), expected)
    assert np.abs(mask(fb, accelerators.GPU) - expected).max() <= TOLERANCE["f32"]
