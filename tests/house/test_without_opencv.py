"""OpenCV is loaded when a frame needs it: models run without it, and an error says what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import framebind as fb
from support.tiny_models import chain

RUN = """
import sys
sys.modules["cv2"] = None  # importing it raises ModuleNotFoundError
import numpy as np
import framebind as fb

with fb.GlContext.headless():
    interpreter = fb.Interpreter(model_path=sys.argv[1])
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))
    interpreter.modify_graph_with_delegate(delegate)
    (x,), (y,) = interpreter.inputs(), interpreter.outputs()
    picture = fb.GlTexture.from_array(np.full((4, 5, 4), 0.5, np.float32))
    result = fb.GlBuffer(4 * 4 * 5 * 3)
    delegate.bind_buffer_to_tensor(picture, x)
    delegate.bind_buffer_to_tensor(result, y)
    interpreter.set_allow_buffer_handle_output(True)
    with fb.transfer_guard("disallow"):
        interpreter.invoke()
    assert np.allclose(result.read(), np.exp(0.5), rtol=1e-5)
    delegate.close()
    assert "numpy.ma" not in sys.modules, "imported for an array without a mask"
    try:
        fb.open_source("synthetic")
    except fb.SourceError as error:
        print(error)
"""


def run(code: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="a process lists its libraries in /proc on Linux alone")
def test_importing_framebind_loads_no_opencv_no_opencl_no_plotting_no_demos_and_no_gl_library() -> None:
    code = (
        "import sys, framebind; print([name for name in sys.modules if name.split('.')[0] in "
        "('cv2', 'pyopencl', 'skimage', 'PIL', 'matplotlib', 'plotly', 'typer', 'rich') "
        "or name.startswith('framebind.demos')]); "
        "print([line.split()[-1] for line in open('/proc/self/maps') if '/libGL.' in line or '/libEGL.' in line])"
    )
    assert run(code).split() == ["[]", "[]"]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_model_is_bound_and_run_without_opencv(context: fb.GlContext, tmp_path: Path) -> None:
    model = tmp_path / "exp.tflite"
    model.write_bytes(chain("EXP"))
    assert "need OpenCV, and it cannot be imported" in (said := run(RUN, os.fspath(model)))
    assert "pip install opencv-python, or opencv-python-headless on a server" in said


def test_without_the_libraries_of_a_display_an_error_says_what_to_install(tmp_path: Path) -> None:
    missing = "libGL.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "cv2.py").write_text(f"raise ImportError({missing!r})")
    path = os.pathsep.join([os.fspath(tmp_path), os.environ.get("PYTHONPATH", "")])
    code = "import framebind as fb\ntry: fb.open_source('synthetic')\nexcept fb.SourceError as error: print(error)"
    said = run(code, PYTHONPATH=path)
    assert missing in said and "apt-get install libgl1 libglib2.0-0 libxcb1" in said
    assert "pip install opencv-python-headless" in said
