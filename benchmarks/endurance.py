"""Runs models' bound frames by the hundred thousand on several threads, and says if one is wrong or if memory grows.

    python benchmarks/endurance.py --backend opencl --frames 1000000 --threads 2 --contexts one
    python benchmarks/endurance.py --model selfie_segmentation --model face_detection_front --threads 4 --rate

Each thread has its own interpreter, delegate and queue, in its own context or, on OpenCL, in a shared one. On CUDA all
threads share the GPU's primary context, and each has its own stream. Each frame binds another input, and as the output
the next part of one buffer. When the buffer is full it is read: every frame must have exactly the bits of the first
frame with the same input. Every thousandth frame first makes a mistake, which must raise; a second model is resized and
compared with LiteRT now and then.

With ``--rate`` models run with 16-bit storage, objects are bound once per thousand frames, each frame has a wait, and
the last one of each thousand is compared. Nothing is resized, and memory is not watched, because this would take the
threads' time. All threads end when the first has run its frames, so that the rate is that of all threads together. Exit
code 1 if a frame is wrong, or if memory grows after the first fifth. An interrupt ends the frames, not the report.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import typer
from ai_edge_litert.interpreter import Interpreter as LiteRt

import framebind as fb
from framebind.video.apis import BY_NAME
from framebind.video.models import find_model

INPUTS = 5
"""The number of buffers that take turns as the model's input. It divides no number of parts, so that a frame that
writes nothing leaves a wrong result in its part.
"""
PARTS = 256
MAX_BYTES = 4 << 20
"""Frames that are read at once: so many, or fewer if their outputs have more bytes."""
ALIGNMENT = 4096
"""Bytes from one part to the next: more than any driver asks for."""
MISTAKE_EVERY = 1000
RATE_CHECKS = 1000
"""Frames with the same input and output if the rate is measured; the last of them is compared."""
RESIZES = 50
"""Resizes of the second model during a thread's frames."""
SAMPLES = 20
SETTLED = 0.2
"""Share of the frames after which nothing may grow: drivers and allocators fill their caches first."""
MAX_GROWTH = 8.0
"""Largest growth of resident memory after that, in MiB."""
MAX_BLOCKS = 2000
"""Largest growth of Python's blocks: a frame in flight has some hundreds."""
TOLERANCE, RATE_TOLERANCE = 1e-3, 3e-2
"""Largest error against LiteRT, as a part of its largest value, in f32, and with the 16-bit storage of --rate."""
Array = npt.NDArray[Any]


@dataclass
class Findings:
    """Counts and samples of all threads. Write only while holding the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)
    began: float = 0.0
    ended: float = 0.0
    """The times of the first and of the last frame, by time.perf_counter()."""
    frames: int = 0
    compared: int = 0
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
        seconds = time.perf_counter() - self.began
        print("{:7.1f} s {:9d} frames {:9.1f} MiB {:8d} blocks".format(seconds, *self.samples[-1]), flush=True)


class Log:
    """A buffer with a part for the output of each of the last frames, so that many are read at once."""

    def __init__(self, api: fb.Backend, size: int) -> None:
        stride = -(-4 * size // ALIGNMENT) * ALIGNMENT
        self.size, self.rows = size, max(1, min(PARTS, MAX_BYTES // stride))
        if self.rows % INPUTS == 0:
            self.rows -= 1
        self.content = np.zeros((self.rows, stride // 4), np.float32)
        self.buffer = api.new_buffer(self.content)
        self.parts = [self._part(row * stride) for row in range(self.rows)]

    def _part(self, offset: int) -> fb.GlBuffer | fb.cl.ClBuffer | fb.cuda.CudaArray:
        if isinstance(self.buffer, fb.GlBuffer):
            return fb.GlBuffer.from_id(self.buffer.id, offset, 4 * self.size)
        if isinstance(self.buffer, fb.cuda.CudaArray):
            begin, device = self.buffer.pointer + offset, self.buffer.device
            with fb.cuda.CudaContext.current().entered():
                return fb.cuda.CudaArray(begin, (self.size,), np.float32, device=device, keep=self.buffer)
        part = self.buffer.memory.get_sub_region(offset, 4 * self.size)
        return fb.cl.ClBuffer.from_int_ptr(part.int_ptr)

    def read(self) -> Array:
        """The outputs of the last frames, one per row."""
        self.buffer.read(self.content, reason="endurance")
        return self.content[:, : self.size]


class Worker:
    """One thread's model on a context that is current: inputs, outputs, and the bits that each input gives."""

    def __init__(self, path: Path, api: fb.Backend, *, rate: bool) -> None:
        self.rate = rate
        self.interpreter = fb.Interpreter(model_path=path)
        self.delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=api.name, is_precision_loss_allowed=rate))
        self.interpreter.modify_graph_with_delegate(self.delegate)
        self.interpreter.set_allow_buffer_handle_output(True)
        self.interpreter.allocate_tensors()
        (detail,) = self.interpreter.get_input_details()
        details = self.interpreter.get_output_details()
        outputs = sorted(details, key=lambda output: int(np.prod(output["shape"])))
        random = np.random.default_rng(0)
        values = [random.random(tuple(detail["shape"]), np.float32) for _ in range(INPUTS)]
        self.input, self.inputs = int(detail["index"]), [api.new_buffer(value) for value in values]
        self.output, self.log = int(outputs[0]["index"]), Log(api, int(np.prod(outputs[0]["shape"])))
        self.others = [api.new_buffer(np.zeros(tuple(output["shape"]), np.float32)) for output in outputs[1:]]
        for output, buffer in zip(outputs[1:], self.others, strict=True):
            self.delegate.bind_buffer_to_tensor(buffer, output["index"])
        self.too_small = api.new_buffer(np.zeros(4, np.float32))
        self.checked = 0
        """Frames that were compared, or whose part was written again before."""
        self.expected = np.stack([self._first(number) for number in range(INPUTS)])
        self._check_against_litert(path, values)

    def _first(self, number: int) -> Array:
        self.bind(number)
        self.interpreter.invoke()
        self.delegate.ensure_tensor_data_is_readable(self.output)
        return self.interpreter.get_tensor(self.output).ravel()

    def _check_against_litert(self, path: Path, values: list[Array]) -> None:
        reference = LiteRt(model_path=str(path))
        reference.allocate_tensors()
        for value, found in zip(values, self.expected, strict=True):
            reference.set_tensor(reference.get_input_details()[0]["index"], value)
            reference.invoke()
            wanted = reference.get_tensor(self.output).ravel()
            error = np.abs(found - wanted).max() / np.abs(wanted).max()
            assert error <= (RATE_TOLERANCE if self.rate else TOLERANCE), (
                f"the first frames are {error:.1e} from LiteRT's"
            )

    def bind(self, turn: int) -> None:
        """Bind the input of that number, and the part of that number as the output."""
        self.delegate.bind_buffer_to_tensor(self.inputs[turn % INPUTS], self.input)
        self.delegate.bind_buffer_to_tensor(self.log.parts[turn % self.log.rows], self.output)

    def frame(self, number: int) -> None:
        """Run on the next input, into the next part; if the rate is measured, on the next ones for each thousand."""
        if not self.rate:
            self.bind(number)
        elif number % RATE_CHECKS == 0:
            self.bind(number // RATE_CHECKS)
        self.interpreter.invoke()
        if self.rate:
            self.delegate.fence().wait()

    def check(self, count: int) -> tuple[int, int]:
        """Compare the frames since the last check that are still in the log, after ``count`` frames. Returns how many
        there were, and how many were wrong. The last one is read by way of the tensor too.
        """
        numbers = np.arange(max(self.checked, count - self.log.rows), count)
        if self.rate:
            numbers = np.array([(count - 1) // RATE_CHECKS])
        self.checked = count
        same = (self.log.read()[numbers % self.log.rows] == self.expected[numbers % INPUTS]).all(axis=1)
        self.delegate.ensure_tensor_data_is_readable(self.output)
        same[-1] &= np.array_equal(
            self.interpreter.get_tensor(self.output).ravel(), self.expected[numbers[-1] % INPUTS]
        )
        return len(numbers), int((~same).sum())

    def make_a_mistake(self) -> None:
        """Bind a buffer that is too small. The object must stay usable."""
        try:
            self.delegate.bind_buffer_to_tensor(self.too_small, self.input)
        except fb.BindingError:
            return
        raise AssertionError("a buffer of 16 bytes was bound as a picture")


class Resized:
    """The second model, whose input takes another size each time."""

    def __init__(self, path: Path, api: fb.Backend) -> None:
        self.interpreter = fb.Interpreter(model_path=path)
        options = fb.GpuDelegateOptions(backend=api.name, is_precision_loss_allowed=False)
        self.interpreter.modify_graph_with_delegate(fb.GpuDelegate(options))
        self.reference = LiteRt(model_path=str(path))

    def check(self, number: int) -> bool:
        """Whether its results equal LiteRT's at the current size."""
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


@dataclass
class Thread:
    """One thread's work: ``frames`` of a model, and resizes of another if there is one."""

    model: Path
    resized: Path | None
    frames: int
    rate: bool

    def run(
        self, api: fb.Backend, shared: fb.cl.ClContext | None, start: threading.Barrier, findings: Findings
    ) -> None:
        """Run the frames in a separate context, or on a queue of the shared one. Errors are noted, not raised."""
        try:
            with fb.cl.ClContext(context=shared.context) if shared else api.new_context():
                worker = Worker(self.model, api, rate=self.rate)
                second = Resized(self.resized, api) if self.resized else None
                start.wait()
                self._frames(worker, second, findings)
        except Exception as error:
            start.abort()
            with findings.lock:
                findings.errors.append(f"{type(error).__name__}: {error}")

    def _frames(self, worker: Worker, second: Resized | None, findings: Findings) -> None:
        checks = RATE_CHECKS if self.rate else worker.log.rows
        resizes = max(self.frames // RESIZES, 1)
        for number in range(self.frames):
            if number % MISTAKE_EVERY == MISTAKE_EVERY - 1:
                worker.make_a_mistake()
                findings.mistakes += 1
            worker.frame(number)
            if second and number % resizes == 0:
                findings.wrong += not second.check(number // resizes)
                findings.resizes += 1
            if number % checks == checks - 1 or number == self.frames - 1 or findings.stop.is_set():
                before = worker.checked
                compared, wrong = worker.check(number + 1)
                with findings.lock:
                    findings.frames += number + 1 - before
                    findings.compared += compared
                    findings.wrong += wrong
                    findings.ended = time.perf_counter()
                if findings.stop.is_set():
                    return
        if self.rate:
            findings.stop.set()


def begin(threads: list[threading.Thread], start: threading.Barrier, findings: Findings) -> float:
    """Start the threads, which a signal stops. Returns the seconds until all of them have passed ``start``."""
    opened = time.perf_counter()
    for thread in threads:
        thread.start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: findings.stop.set())
    with suppress(threading.BrokenBarrierError):
        start.wait()
    findings.began = time.perf_counter()
    return findings.began - opened


def watch(threads: list[threading.Thread], frames: int, seconds: float, findings: Findings, *, rate: bool) -> None:
    """Wait until the threads have ended or the time is over. If no rate is measured, take samples: evenly by frames, or
    by time if that ends first.
    """
    while any(thread.is_alive() for thread in threads):
        spent = time.perf_counter() - findings.began
        if not rate and max(findings.frames / frames, spent / seconds) >= len(findings.samples) / SAMPLES:
            findings.sample()
        if spent > seconds:
            findings.stop.set()
        time.sleep(0.05)
    if not rate:
        findings.sample()


def growth(findings: Findings, frames: int) -> tuple[float, int]:
    """MiB and blocks gained since the samples settled."""
    settled = [sample for sample in findings.samples[:-1] if sample[0] >= SETTLED * frames] or findings.samples[:1]
    last = findings.samples[-2] if len(settled) > 1 else findings.samples[-1]
    return last[1] - settled[0][1], last[2] - settled[0][2]


def main(
    backend: Annotated[str, typer.Option(help="gl, cl or cuda; or opengl, opencl.")] = "opencl",
    frames: Annotated[int, typer.Option(min=100, help="Frames of all threads together.")] = 1_000_000,
    seconds: Annotated[float, typer.Option(help="End after so many seconds of frames.")] = 1e9,
    threads: Annotated[int, typer.Option(min=1, help="Threads; models take turns.")] = 2,
    contexts: Annotated[
        Literal["each", "one"], typer.Option(help="On OpenCL: a context for each thread, or one for all.")
    ] = "each",
    model: Annotated[list[str], typer.Option(help="Models with one float input.")] = ["face_detection_front"],  # noqa: B006
    resized: Annotated[str, typer.Option(help="A model whose picture may have any size.")] = "style_transfer",
    rate: Annotated[bool, typer.Option("--rate", help="Measure frames per second, each waited for.")] = False,
) -> None:
    """Run bound frames, and look for wrong ones and for growth."""
    api, findings = BY_NAME[backend], Findings()
    if contexts == "one" and api.name == "opengl":
        raise typer.BadParameter("an OpenGL context is current on one thread only: take --contexts each")
    shared = fb.cl.ClContext() if contexts == "one" and api.name == "opencl" else None
    start = threading.Barrier(threads + 1)
    running: list[threading.Thread] = []
    for number in range(threads):
        path = find_model(model[number % len(model)])
        thread = Thread(path, None if rate else find_model(resized), frames // threads, rate)
        running.append(threading.Thread(target=thread.run, args=(api, shared, start, findings)))
    ready = begin(running, start, findings)
    print(f"{backend}, {', '.join(model)}, {threads} threads, {contexts}: ready after {ready:.1f} s")
    watch(running, frames, seconds, findings, rate=rate)
    raise typer.Exit(0 if report(findings, frames // threads * threads, rate=rate) else 1)


def report(findings: Findings, frames: int, *, rate: bool) -> bool:
    """Print the findings, and return whether all is well. Frames that were not reached are no fault."""
    seconds = findings.ended - findings.began
    print(f"{findings.frames} of {frames} frames in {seconds:.1f} s, {findings.frames / max(seconds, 1e-9):.0f} per s")
    print(f"{findings.compared} compared bit by bit, {findings.wrong} wrong; {findings.mistakes} mistakes raised")
    print("\n".join(findings.errors))
    if rate:
        return not (findings.wrong or findings.errors)
    mib, blocks = growth(findings, findings.frames)
    print(f"{findings.resizes} resizes")
    print(
        f"after the first fifth: {mib:+.1f} MiB (at most {MAX_GROWTH:.0f}), {blocks:+d} blocks (at most {MAX_BLOCKS})"
    )
    return not (findings.wrong or findings.errors) and mib <= MAX_GROWTH and blocks <= MAX_BLOCKS


if __name__ == "__main__":
    typer.run(main)
