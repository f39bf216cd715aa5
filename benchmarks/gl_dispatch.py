"""Times the cost of a GL dispatch besides its work: chains of small dispatches with one change at a time.

python benchmarks/gl_dispatch.py [--steps 64] [--runs 30] [--json FILE]

Every chain runs after a dispatch that keeps the GPU busy until the CPU has submitted all of it. So *gpu*, by the GPU's
clock, is the time of a step if the CPU is never late. *cpu* is the time of a step's calls on the CPU. Both are medians
in microseconds per step. The last lines give the number of work-groups that a compute unit runs at the same time, by
their local memory.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from samples import Series, measured, write

import framebind as fb
from framebind.interop.gl.buffer import GlBuffer
from framebind.interop.gl.compute.barrier import GlBarrier
from framebind.interop.gl.compute.kernel import dialect_of
from framebind.interop.gl.context import GlContext
from framebind.interop.gl.khronos import GL
from framebind.interop.gl.program import build_program
from framebind.interop.record.barrier import TEST_ROUNDS, TEST_SPINS

Call = tuple[str, tuple[Any, ...]]
WARM_UP = 3
"""Runs of a chain before those that count."""
STORAGE, ALL = GL.SHADER_STORAGE_BARRIER_BIT, ctypes.c_uint(GL.ALL_BARRIER_BITS)
PICTURES = GL.TEXTURE_FETCH_BARRIER_BIT | GL.SHADER_IMAGE_ACCESS_BARRIER_BIT
BARRIER: Call = ("glMemoryBarrier", (STORAGE,))
STEP = """#version 430 core
layout(local_size_x = 128) in;
layout(std430, binding = 0) buffer block_a {{ vec4 a[]; }};
layout(std430, binding = 1) buffer block_b {{ vec4 b[]; }};
layout(location = 0) uniform int offsets[2];
{shared}
void main() {{
  int i = int(gl_GlobalInvocationID.x);
  {before}
  b[offsets[1] + i] = a[offsets[0] + i] + float({number}) {after};
}}
"""
BUSY = """#version 430 core
layout(local_size_x = 32) in;
layout(std430, binding = 0) buffer block_a { vec4 a[]; };
layout(location = 0) uniform int turns;
void main() {
  float x = a[0].x;
  for (int i = 0; i < turns; i++) { x = sin(x) + 1.0; }
  if (x == 123.0) { a[0].x = x; }
}
"""


class Chains:
    """The programs and buffers of the chains, and the clock, in the current GL context."""

    def __init__(self, steps: int, runs: int) -> None:
        self.context, self.steps, self.runs = GlContext.current(), steps, runs
        self.gl = self.context.gl
        self.buffers = [GlBuffer(1 << 20) for _ in range(8)]
        self.queries = [self.context.objects.generate("query") for _ in range(2)]
        self.busy, self.turns, self.first = self._build("busy", BUSY), 1 << 14, self.program()
        self.indirect = GlBuffer(12)
        self.gl.glBindBuffer(GL.DISPATCH_INDIRECT_BUFFER, self.indirect.id)
        sizes = (ctypes.c_uint * 3)(1, 1, 1)
        self.gl.glBufferData(GL.DISPATCH_INDIRECT_BUFFER, 12, sizes, GL.DYNAMIC_COPY)

    def _build(self, name: str, text: str) -> int:
        return build_program(self.context, name, {GL.COMPUTE_SHADER: text})

    def program(self, number: int = 0, shared: int = 0) -> int:
        """One more program; with ``shared``, it uses so many floats of local memory."""
        words = {
            "number": number,
            "shared": f"shared float kept[{shared}];" if shared else "",
            "before": f"kept[(i * 7) % {shared}] = float(i); barrier();" if shared else "",
            "after": f"+ kept[(i * 5 + 3) % {shared}]" if shared else "",
        }
        return self._build(f"step {number}", STEP.format(**words))

    def measure(self, step: Callable[[int], Sequence[Call]]) -> tuple[list[float], list[float]]:
        """Microseconds per step of each chain on the GPU and on the CPU."""
        calls = [(self.gl.prebound(name), arguments) for i in range(self.steps) for name, arguments in step(i)]
        gpu, cpu = list[float](), list[float]()
        for _ in range(self.runs + WARM_UP):
            self._keep_busy()
            self._begin()
            began = time.perf_counter()
            for function, arguments in calls:
                function(*arguments)
            submitted = time.perf_counter() - began
            self.gl.glQueryCounter(self.queries[1], GL.TIMESTAMP)
            self.gl.glFinish()
            gpu.append((self._time(1) - self._time(0)) / 1e3 / self.steps)
            cpu.append(submitted * 1e6 / self.steps)
        return gpu[WARM_UP:], cpu[WARM_UP:]

    def _begin(self) -> None:
        """Bind the program and the buffers with which every chain begins, and start the clock."""
        self.gl.glUseProgram(self.first)
        for binding, buffer in enumerate(self.buffers):
            self.gl.glBindBufferBase(GL.SHADER_STORAGE_BUFFER, binding, buffer.id)
        self.gl.glMemoryBarrier(STORAGE)
        self.gl.glQueryCounter(self.queries[0], GL.TIMESTAMP)

    def _keep_busy(self) -> None:
        self.gl.glUseProgram(self.busy)
        self.gl.glUniform1i(0, self.turns)
        self.gl.glDispatchCompute(1, 1, 1)

    def _time(self, query: int) -> int:
        value = ctypes.c_uint64()
        self.gl.glGetQueryObjectui64v(self.queries[query], GL.QUERY_RESULT, ctypes.byref(value))
        return value.value

    def calibrate(self) -> float:
        """Make the first dispatch take 3 ms; returns what it takes."""
        taken = 0.0
        for _ in range(3):
            self.gl.glFinish()
            began = time.perf_counter()
            self._keep_busy()
            self.gl.glFinish()
            taken = time.perf_counter() - began
            self.turns = max(int(self.turns * 3e-3 / taken), 1)
        return taken * 1e3

    def waits(self) -> dict[str, list[float]]:
        """Microseconds of each frame of one dispatch, or none, and a wait for it."""
        gl, found = self.gl, dict[str, list[float]]()

        def fence() -> None:
            sync = gl.glFenceSync(GL.SYNC_GPU_COMMANDS_COMPLETE, 0)
            gl.glFlush()
            gl.glClientWaitSync(sync, GL.SYNC_FLUSH_COMMANDS_BIT, 1_000_000_000)
            gl.glDeleteSync(sync)

        for wait, name in ((gl.glFinish, "finish"), (fence, "fence")):
            for dispatches, what in enumerate(("nothing", "one dispatch")):
                taken = list[float]()
                for _ in range(200):
                    began = time.perf_counter()
                    for _ in range(dispatches):
                        gl.glDispatchCompute(1, 1, 1)
                    wait()
                    taken.append((time.perf_counter() - began) * 1e6)
                found[f"{what} and a {name}"] = taken
        return found


def chains(made: Chains) -> dict[str, Callable[[int], Sequence[Call]]]:
    """Every chain by its name: the calls of step i."""
    many = [made.program(number) for number in range(1, made.steps + 1)]
    most = made.gl.integer(GL.MAX_COMPUTE_SHARED_MEMORY_SIZE)
    local = [made.program(size, size // 4) for size in (4096, most)]
    ids = [buffer.id for buffer in made.buffers]
    orders = [(ctypes.c_uint * 8)(*order) for order in (ids, ids[1::-1] + ids[2:])]
    offsets = [(ctypes.c_int * 2)(0, 64 * k) for k in range(2)]

    def chain(*calls: Call, groups: int = 1) -> Callable[[int], Sequence[Call]]:
        return lambda i: [*calls, ("glDispatchCompute", (groups, 1, 1))]

    def in_turn(*programs: int) -> Callable[[int], Sequence[Call]]:
        return lambda i: chain(BARRIER, ("glUseProgram", (programs[i % len(programs)],)))(i)

    def bound(count: int) -> Callable[[int], Sequence[Call]]:
        binds = [
            [("glBindBufferBase", (GL.SHADER_STORAGE_BUFFER, k, ids[(k + i) % 8])) for k in range(count)]
            for i in range(2)
        ]
        return lambda i: chain(BARRIER, *binds[i % 2])(i)

    def set_uniforms(i: int) -> Sequence[Call]:
        return chain(BARRIER, ("glUniform1iv", (0, 2, offsets[i % 2])))(i)

    def bound_at_once(i: int) -> Sequence[Call]:
        return chain(BARRIER, ("glBindBuffersBase", (GL.SHADER_STORAGE_BUFFER, 0, 8, orders[i % 2])))(i)

    return {
        "no barrier": chain(),
        "no barrier, programs differ": lambda i: chain(("glUseProgram", (many[i],)))(i),
        "barrier of storage": chain(BARRIER),
        "barrier of storage, twice": chain(BARRIER, BARRIER),
        "barrier of storage, textures and images": chain(("glMemoryBarrier", (STORAGE | PICTURES,))),
        "barrier of everything": chain(("glMemoryBarrier", (ALL,))),
        "barrier of texture fetches": chain(("glMemoryBarrier", (GL.TEXTURE_FETCH_BARRIER_BIT,))),
        "barrier, two programs in turn": in_turn(*many[:2]),
        "barrier, programs differ": in_turn(*many),
        "barrier, local memory 4096 and all in turn": in_turn(*local),
        "barrier, bind 1 buffer": bound(1),
        "barrier, bind 8 buffers": bound(8),
        "barrier, bind 8 buffers in one call": bound_at_once,
        "barrier, uniforms": set_uniforms,
        "barrier, indirect": lambda i: [BARRIER, ("glDispatchComputeIndirect", (ctypes.c_ssize_t(0),))],
        "barrier, time stamp": chain(BARRIER, ("glQueryCounter", (made.queries[1], GL.TIMESTAMP))),
        "barrier, flush": chain(BARRIER, ("glFlush", ())),
        "barrier, 132 groups": chain(BARRIER, groups=132),
        "barrier, 528 groups": chain(BARRIER, groups=528),
    }


def resident_groups(kilobytes: int, group_size: int) -> int:
    """The work-groups that a compute unit runs at the same time, of a barrier's test with so much more local memory."""
    context = GlContext.current()
    gl, barrier = context.gl, GlBarrier(context)
    text = dialect_of(context).barrier_test(group_size)
    if kilobytes:
        size = kilobytes * 256
        filled = f"shared float pad[{size}];\nvoid main() {{\n  pad[(LOCAL * 7 + groups) % {size}] = float(rows);"
        text = text.replace("void main() {", filled, 1)
        used = f"cells[group] = pad[(LOCAL * 5 + turn) % {size}] < -5.0 ? 0 : turn"
        text = text.replace("cells[group] = turn", used, 1)
    program = build_program(context, "resident", {GL.COMPUTE_SHADER: text})
    buffers = [GlBuffer(4 * barrier.units * barrier.per_unit[0]), GlBuffer(4), barrier.state]

    def dispatch(groups: int) -> None:
        gl.glUseProgram(program)
        for binding, buffer in enumerate(buffers):
            gl.glBindBufferBase(GL.SHADER_STORAGE_BUFFER, binding, buffer.id)
        for location, value in enumerate((TEST_ROUNDS, groups, TEST_SPINS)):
            gl.glUniform1i(location, value)
        gl.glDispatchCompute(groups, 1, 1)

    most = barrier.units * barrier.per_unit[0]
    return barrier.resident_groups(dispatch, most, text, None) // barrier.units


def main(
    steps: Annotated[int, typer.Option(help="Dispatches of a chain.")] = 64,
    runs: Annotated[int, typer.Option(help="Chains that are timed.")] = 30,
    out: Annotated[Path | None, typer.Option("--json", help="Where to write the figures.")] = None,
) -> None:
    series: list[Series] = []
    with fb.GlContext.headless() as context:
        made = Chains(steps, runs)
        print(f"{context.renderer}, {context.gl.version}; the GPU is kept busy for {made.calibrate():.1f} ms first")
        print(f"{'':48} gpu us  cpu us")
        for name, step in chains(made).items():
            gpu, cpu = made.measure(step)
            series += [Series({"step": name, "on": on}, times) for on, times in (("GPU", gpu), ("CPU", cpu))]
            print(f"{name:48} {statistics.median(gpu):6.2f} {statistics.median(cpu):7.2f}", flush=True)
        for name, taken in made.waits().items():
            series.append(Series({"step": name, "on": "CPU"}, taken))
            print(f"{name:48} {'':6} {statistics.median(taken):7.2f}")
        for kilobytes in () if context.software else (0, 4, 8, 12, 16, 24, 32, 47):
            print(f"{f'groups per unit with {kilobytes} KiB':48} {resident_groups(kilobytes, 128):6}")
        if errors := context.gl.clear_errors():
            raise SystemExit(f"GL errors: {errors}")
    if out is not None:
        write(out, measured("gl_dispatch", [(context.renderer, context.gl.version)], "us per step", series))


if __name__ == "__main__":
    typer.run(main)
