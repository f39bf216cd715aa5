"""Runs a model's bound frames by the hundred thousand on several threads, and says if one is wrong or if memory grows.

    python benchmarks/endurance.py --backend opencl --frames 1000000 --threads 2

Each thread has a context, an interpreter and a delegate of its own. Each frame binds another of a few inputs and reads
the model's smallest output, which must have the very bits of the first time. Each thousandth frame first makes a
mistake, which must raise; a second model is resized and compared with LiteRT now and then. Exit code 1 if a frame is
wrong, or if memory grows after the first fifth.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import numpy.typing as npt
import typer
from ai_edge_litert.interpreter import Interpreter as LiteRt

import framebind as fb
from framebind.demos.apis import BY_NAME, Api
from framebind.demos.models import find_model

INPUTS = 4
"""Buffers that take turns as the model's input."""
MISTAKE_EVERY = 1000
RESIZES = 50
"""Resizes of the second model during a thread's frames."""
SAMPLES = 20
SETTLED = 0.2
"""Share of the frames after which nothing may grow: drivers and allocators fill their caches first."""
MAX_GROWTH = 8.0
"""Largest growth of resident memory after that, in MiB."""
MAX_BLOCKS = 2000
"""Largest growth of Python's blocks: a frame in flight has some hundreds."""
TOLERANCE = 1e-3
"""Largest error against LiteRT, as a part of its largest value, in f32."""
Array = npt.NDArray[Any]


@dataclass
class Findings:
    """Counts and samples of all threads. Only whoever holds the lock writes."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    frames: int = 0
    wrong: int = 0
    mistakes: int = 0
    resizes: int = 0
    errors: list[str] = field(default_factory=list)
    samples: list[tuple[int, float, int]] = field(default_factory=list)
    """Frames of all threads, resident MiB, blocks of memory that Python has allocated."""

    def sample(self) -> None:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        # gc.get_objects() would hold a reference to each, which LiteRT takes for a user's view of a tensor.
        self.samples.append((self.frames, pages * os.sysconf("SC_PAGE_SIZE") / 2**20, sys.getallocatedblocks()))
        print("{:9d} frames {:9.1f} MiB {:8d} Python blocks".format(*self.samples[-1]), flush=True)


class Lane:
    """One thread's model on a context that is current: inputs, outputs, and the bits that each input gives."""

    def __init__(self, path: Path, api: Api) -> None:
        self.interpreter = fb.Interpreter(model_path=path)
        self.delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=api.backend, is_precision_loss_allowed=False))
        self.interpreter.modify_graph_with_delegate(self.delegate)
        self.interpreter.allocate_tensors()
        (detail,) = cast("list[dict[str, Any]]", self.interpreter.get_input_details())
        details = cast("list[dict[str, Any]]", self.interpreter.get_output_details())
        outputs = sorted(details, key=lambda output: int(np.prod(output["shape"])))
        random = np.random.default_rng(0)
        values = [random.random(tuple(detail["shape"]), np.float32) for _ in range(INPUTS)]
        self.input, self.inputs = int(detail["index"]), [api.buffer(value) for value in values]
        self.outputs = [api.buffer(np.zeros(tuple(output["shape"]), np.float32)) for output in outputs]
        self.output = int(outputs[0]["index"])
        for output, buffer in zip(outputs, self.outputs, strict=True):
            self.delegate.bind_buffer_to_tensor(buffer, output["index"])
        self.too_small = api.buffer(np.zeros(4, np.float32))
        self.expected = [self.frame(number) for number in range(INPUTS)]
        self._check_against_litert(path, values)

    def _check_against_litert(self, path: Path, values: list[Array]) -> None:
        reference = LiteRt(model_path=str(path))
        reference.allocate_tensors()
        for value, found in zip(values, self.expected, strict=True):
            reference.set_tensor(reference.get_input_details()[0]["index"], value)
            reference.invoke()
            wanted = reference.get_tensor(self.output).ravel()
            error = np.abs(found - wanted).max() / np.abs(wanted).max()
            assert error <= TOLERANCE, f"the first frames are {error:.1e} from LiteRT's"

    def frame(self, number: int) -> Array:
        """Run on the input of that number; the smallest output, flat."""
        self.delegate.bind_buffer_to_tensor(self.inputs[number % INPUTS], self.input)
        self.interpreter.invoke()
        self.delegate.ensure_tensor_data_is_readable(self.output)
        return self.interpreter.get_tensor(self.output).ravel()

    def make_a_mistake(self) -> None:
        """Bind a buffer that is too small. The object must stay usable."""
        try:
            self.delegate.bind_buffer_to_tensor(self.too_small, self.input)
        except fb.BindingError:
            return
        raise AssertionError("a buffer of 16 bytes was bound as a picture")


class Resized:
    """The second model, whose input takes another size each time."""

    def __init__(self, path: Path, api: Api) -> None:
        self.interpreter = fb.Interpreter(model_path=path)
        options = fb.GpuDelegateOptions(backend=api.backend, is_precision_loss_allowed=False)
        self.interpreter.modify_graph_with_delegate(fb.GpuDelegate(options))
        self.reference = LiteRt(model_path=str(path))

    def check(self, number: int) -> bool:
        """Whether it computes what LiteRT does at the size of this turn."""
        size = 32 * (1 + number % 3)
        picture = np.random.default_rng(number).random((1, size, size + 32, 3), np.float32)
        found, wanted = (self._run(of, picture) for of in (self.interpreter, self.reference))
        return bool(np.abs(found - wanted).max() <= TOLERANCE * np.abs(wanted).max())

    def _run(self, interpreter: Any, picture: Array) -> Array:
        index = interpreter.get_input_details()[0]["index"]
        interpreter.resize_tensor_input(index, picture.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(index, picture)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def run_thread(path: Path, resized: Path, api: Api, frames: int, findings: Findings) -> None:
    """Run one thread's frames; what fails is noted, not raised."""
    try:
        with api.new_context():
            lane, second = Lane(path, api), Resized(resized, api)
            for number in range(frames):
                if number % MISTAKE_EVERY == MISTAKE_EVERY - 1:
                    lane.make_a_mistake()
                wrong = not np.array_equal(lane.frame(number), lane.expected[number % INPUTS])
                if number % max(frames // RESIZES, 1) == 0:
                    wrong |= not second.check(number // max(frames // RESIZES, 1))
                    with findings.lock:
                        findings.resizes += 1
                with findings.lock:
                    findings.frames += 1
                    findings.wrong += wrong
                    findings.mistakes += number % MISTAKE_EVERY == MISTAKE_EVERY - 1
    except Exception as error:
        with findings.lock:
            findings.errors.append(f"{type(error).__name__}: {error}")


def watch(threads: list[threading.Thread], frames: int, findings: Findings) -> None:
    """Take samples, evenly by frames, until the threads have ended."""
    while any(thread.is_alive() for thread in threads):
        if findings.frames >= len(findings.samples) * frames / SAMPLES:
            findings.sample()
        time.sleep(0.05)
    findings.sample()


def growth(findings: Findings, frames: int) -> tuple[float, int]:
    """MiB and blocks gained since the samples settled."""
    settled = [sample for sample in findings.samples[:-1] if sample[0] >= SETTLED * frames] or findings.samples[:1]
    last = findings.samples[-2] if len(settled) > 1 else findings.samples[-1]
    return last[1] - settled[0][1], last[2] - settled[0][2]


def main(
    backend: Annotated[str, typer.Option(help="gl, cl, opengl or opencl.")] = "opencl",
    frames: Annotated[int, typer.Option(min=100, help="Frames of all threads together.")] = 1_000_000,
    threads: Annotated[int, typer.Option(min=1, help="Threads, each with a context of its own.")] = 2,
    model: Annotated[str, typer.Option(help="A model with one float input.")] = "face_detection_front",
    resized: Annotated[str, typer.Option(help="A model whose picture may have any size.")] = "style_transfer",
) -> None:
    """Run bound frames, and look for wrong ones and for growth."""
    api, findings = BY_NAME[backend], Findings()
    given = (find_model(model), find_model(resized), api, frames // threads, findings)
    running = [threading.Thread(target=run_thread, args=given) for _ in range(threads)]
    started = time.perf_counter()
    for thread in running:
        thread.start()
    watch(running, frames, findings)
    seconds = time.perf_counter() - started
    mib, blocks = growth(findings, frames)
    print(f"{backend}, {model}, {threads} threads: {findings.frames} frames in {seconds:.0f} s, {findings.wrong} wrong")
    print(f"{findings.mistakes} mistakes raised; {findings.resizes} resizes of {resized}, wrong if far from LiteRT")
    print(
        f"after the first fifth: {mib:+.1f} MiB (at most {MAX_GROWTH:.0f}), {blocks:+d} blocks (at most {MAX_BLOCKS})"
    )
    print("\n".join(findings.errors))
    well = not (findings.wrong or findings.errors) and findings.frames == frames // threads * threads
    raise typer.Exit(0 if well and mib <= MAX_GROWTH and blocks <= MAX_BLOCKS else 1)


if __name__ == "__main__":
    typer.run(main)
