"""Times the host's part of a bound frame, and its parts: LiteRT, the callback, submission, the fence.

    python benchmarks/host.py --backend cuda,cl,gl --precision f16 [MODEL ...] --json host.json

Every part is timed separately, with the GPU idle before it. The script prints medians of ``--runs`` in us. Larger parts
contain smaller ones:

* frame: bind the next object of a ring, ``invoke()``, ``fence().wait()``; stream: the same for many frames, with one
  wait at the end, per frame; beside: the difference, which is the cost of waiting for each frame;
* submit: the same without the fence; bind, invoke: its two halves;
* LiteRT: an ``invoke`` whose delegate is a C function that does nothing, which no delegate can avoid;
* callback: the same with a Python function that does nothing;
* commands: the submission of the delegate's program, with checks; API: only its calls to the driver; ctypes: as many
  calls of a C function that does nothing;
* fence, wait: to make a fence, and to wait for one that the GPU has passed.

*calls* are the driver's functions that a frame calls to submit, *Python* the Python and C functions that a whole frame
calls. The backend "null" has no driver: there everything is Python and LiteRT.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ai_edge_litert import interpreter as litert
from samples import Label, Series, measured, write

import framebind as fb
from framebind.delegate.litert import abi
from framebind.video.apis import BY_NAME
from framebind.video.models import find_model

MODELS = ("selfie_segmentation", "face_detection_front")
FRAME = (480, 640)
"""Rows and columns of the pictures."""
RING = 3
WARM_UP = 300
COLUMNS = (
    "frame", "stream", "beside", "submit", "bind", "invoke", "LiteRT", "callback", "commands", "API", "ctypes",
    "fence", "wait",
)  # fmt: skip
Work = Callable[[], Any]
DIFFER = ctypes.CDLL(None).pthread_equal
"""A C function that does nothing, and returns 0 for the two different addresses that LiteRT gives a kernel."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--backend", default="null", help="null, or some of cuda,cl,gl")
    parser.add_argument("--precision", choices=("f32", "f16"), default="f16")
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    given = parser.parse_args()
    print(f"Host time in us, {given.precision}, medians of {given.runs}")
    print(f"{'model':24}{'':5}" + "".join(f"{name:>11}" for name in COLUMNS) + "  calls Python")
    series, devices = list[Series](), list[tuple[str, str]]()
    for backend, name in itertools.product(given.backend.split(","), given.models):
        with nullcontext() if backend == "null" else BY_NAME[backend].new_context():
            row = times_of(find_model(name), backend, given.precision, given.runs)
        labels: dict[str, Label] = {"model": Path(name).stem, "on": f"{backend} {given.precision}"}
        series += [Series({**labels, "figure": part}, times) for part, times in row.times.items()]
        devices += [row.device] if backend != "null" else []
        medians = {part: statistics.median(times) for part, times in row.times.items()}
        medians["beside"] = medians["frame"] - medians["stream"]
        figures = "".join(f"{medians.get(column, math.nan):11.2f}" for column in COLUMNS)
        print(f"{labels['model']:24}{backend:5}{figures}  {row.calls:5} {row.functions:6}", flush=True)
    if given.json is not None:
        write(given.json, measured("host", devices, "us", series))


class Row(NamedTuple):
    """The microseconds of each part, the numbers of calls, and the device with its driver."""

    times: dict[str, list[float]]
    calls: int
    functions: int
    device: tuple[str, str]


def times_of(path: Path, backend: str, precision: str, runs: int) -> Row:
    """A row of all samples."""
    interpreter, delegate, ring, bind = bound(path, backend, precision)
    commands = [program.record() for program in delegate.engine.programs]
    calls = [call for each in commands for call in getattr(each, "_calls", ())]
    null = [(as_null(function), arguments) for function, arguments in calls]

    def wait() -> None:
        delegate.fence().wait()

    def submit() -> None:
        bind(next(ring))
        interpreter.invoke()

    def frame() -> None:
        submit()
        wait()

    def run() -> None:
        for each in commands:
            each.run()

    parts: dict[str, Work] = {
        "frame": frame, "submit": submit, "bind": lambda: bind(next(ring)), "invoke": interpreter.invoke,
        "commands": run, "fence": delegate.fence,
    }  # fmt: skip
    if calls:
        parts |= {"API": lambda: issue(calls), "ctypes": lambda: issue(null)}
    times = {name: microseconds(work, wait, runs) for name, work in parts.items()}
    times["wait"] = waited(delegate, runs)
    times |= {name: microseconds(work, lambda: None, runs) for name, work in litert_alone(path).items()}
    times["stream"] = [streamed(submit, wait, runs)]
    known = delegate.statistics()
    row = Row(times, len(calls), functions_called(frame), (known.device, known.driver))
    delegate.close()
    return row


def bound(path: Path, backend: str, precision: str) -> tuple[Any, fb.GpuDelegate, Iterator[Any], Callable[..., None]]:
    """A model with everything bound, a ring of pictures for its first input, and the function that binds one."""
    interpreter: Any = fb.Interpreter(model_path=path)
    name: Any = "null" if backend == "null" else BY_NAME[backend].name
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=name, is_precision_loss_allowed=precision == "f16"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    interpreter.set_allow_buffer_handle_output(True)
    device: Any = delegate.engine.device

    def picture() -> Any:
        if backend == "null":
            return device.texture(FRAME[1], FRAME[0], "rgba8", "a picture")
        return BY_NAME[backend].new_texture(np.zeros((*FRAME, 4), np.uint8))

    def buffer(shape: Any) -> Any:
        if backend == "null":
            return device.buffer(4 * math.prod(shape), "a buffer")
        return BY_NAME[backend].new_buffer(np.zeros(math.prod(shape), np.float32))

    ring, (first, *others) = itertools.cycle([picture() for _ in range(RING)]), interpreter.get_input_details()
    for detail in (*others, *interpreter.get_output_details()):
        delegate.bind_buffer_to_tensor(buffer(detail["shape"]), detail["index"])
    tensor = first["index"]

    def bind(obj: Any) -> None:
        delegate.bind_buffer_to_tensor(obj, tensor)

    bind(next(ring))
    interpreter.invoke()
    delegate.fence().wait()
    return interpreter, delegate, ring, bind


def microseconds(work: Work, wait: Work, runs: int) -> list[float]:
    """The times of a function, with ``wait`` before each call."""
    clock, times = time.perf_counter_ns, list[int]()
    for _ in range(runs + WARM_UP):
        wait()
        started = clock()
        work()
        times.append(clock() - started)
    wait()
    return [time / 1e3 for time in times[WARM_UP:]]


def streamed(submit: Work, wait: Work, runs: int) -> float:
    """The time per frame of many that are submitted one after the other."""
    wait()
    started = time.perf_counter_ns()
    for _ in range(runs):
        submit()
    wait()
    return (time.perf_counter_ns() - started) / runs / 1e3


def waited(delegate: fb.GpuDelegate, runs: int) -> list[float]:
    """The times to wait for a fence that the GPU has passed."""
    clock, times = time.perf_counter_ns, list[int]()
    for _ in range(runs):
        fence = delegate.fence()
        while not fence.done:
            pass
        started = clock()
        fence.wait()
        times.append(clock() - started)
    return [time / 1e3 for time in times]


def issue(calls: list[Any]) -> None:
    """Make a run's calls, as command lists make them."""
    for function, arguments in calls:
        function(*arguments)


def as_null(function: Any) -> Any:
    """The C function that does nothing, called as ``function`` is."""
    null = ctypes.CFUNCTYPE(ctypes.c_int)(("pthread_equal", ctypes.CDLL(None)))
    types = getattr(function, "argtypes", None)
    if types:
        null.argtypes = types
    return null


def functions_called(frame: Work) -> int:
    """The number of functions, in Python and C, that a frame calls."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        frame()
    finally:
        sys.setprofile(None)
    return count - 1  # sys.setprofile itself


def litert_alone(path: Path) -> dict[str, Work]:
    """``Invoke`` of LiteRT's interpreter, with a delegate for all operators that does nothing: in C, and in Python."""
    nothing = abi.STATUS(lambda _context, _node: 0)
    addresses = {"LiteRT": DIFFER, "callback": nothing}
    return {name: invoke_of(path, ctypes.cast(function, ctypes.c_void_p)) for name, function in addresses.items()}


def invoke_of(path: Path, kernel: Any) -> Work:
    """``Invoke`` of an interpreter whose operators are one node, which calls ``kernel``."""
    ok = ctypes.cast(DIFFER, ctypes.c_void_p)
    registration = abi.Registration(prepare=ok, invoke=kernel, builtin_code=abi.DELEGATE_CODE, version=1)

    def take_all(context: int, delegate: int) -> int:
        plan, native = ctypes.c_void_p(), abi.Context.from_address(context)
        abi.GET_PLAN(native.get_execution_plan)(context, ctypes.byref(plan))
        return abi.REPLACE(native.replace_nodes)(context, registration, plan, delegate)

    prepare = abi.STATUS(take_all)
    native = abi.Delegate(prepare=ctypes.cast(prepare, ctypes.c_void_p), flags=abi.ALLOW_DYNAMIC_TENSORS)
    interpreter: Any = litert.Interpreter(str(path))
    interpreter._interpreter.ModifyGraphWithDelegate(ctypes.addressof(native))
    interpreter.allocate_tensors()
    held = (interpreter, native, prepare, registration, kernel)

    def invoke() -> None:
        held[0]._interpreter.Invoke()

    return invoke


if __name__ == "__main__":
    main()
