"""Times the cost of a launch on NVIDIA's OpenCL besides its work: chains of small kernels.

python benchmarks/cl_launches.py [--steps 200] [--runs 9] [--json FILE]

A chain runs behind a kernel that keeps the GPU busy until the CPU has submitted all of it. So *gpu* is the time from
the start of a launch to the start of the next one, by the GPU's clock, if the CPU is never late. *cpu* is the time of a
launch's call on the CPU. Both are in microseconds per launch.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyopencl as cl
import typer
from samples import Label, Series, measured, write

import framebind as fb
from framebind.interop.cl.api import loader
from framebind.interop.cl.context import driver_of
from framebind.interop.cl.ptx import revealed

Call = tuple[Any, ...]
WARM_UP = 2
"""Runs of a chain before those that count."""
BUSY_NS = 3_000_000
LOCAL_KB = 226
SOURCE = f"""
#define NOW(t) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) :: "memory")
#define KERNEL __kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
#define NOTE ulong t; NOW(t); if (get_global_id(0) == 0) {{ clocks[i] = t; }}
KERNEL busy(__global ulong* clocks, ulong ns) {{ ulong a, b; NOW(a); do {{ NOW(b); }} while (b - a < ns); }}
KERNEL plain(__global ulong* clocks, int i) {{ NOTE }}
KERNEL arguments(__global ulong* clocks, int i, __global float* a, __global float* b, __global float* c,
                 __global float* d, __global float* e, int n, int m, int k) {{
  NOTE
  if (n != 0) {{ a[m] = b[0] + c[0] + d[0] + e[k]; }}
}}
KERNEL local_memory(__global ulong* clocks, int i) {{
  uint first;
  asm volatile("//@ .shared .align 16 .b8 room[{LOCAL_KB * 1024}]; mov.u32 %0, room;" : "=r"(first));
  ((__local float*)(size_t)first)[get_local_id(0)] = i;
  NOTE
}}
"""
CHAINS: dict[str, tuple[str, ...]] = {
    "2 arguments": ("plain",),
    "10 arguments": ("arguments",),
    f"{LOCAL_KB} KB of local memory": ("local_memory",),
    "by turns": ("local_memory", "arguments"),
}


class Launcher:
    """Kernels of SOURCE and the buffer of their clocks, on a context of NVIDIA's OpenCL."""

    def __init__(self, context: fb.cl.ClContext, steps: int) -> None:
        binaries: Any = cl.Program(context.context, SOURCE).build().get_info(cl.program_info.BINARIES)
        self.program = cl.Program(context.context, [context.device], [revealed(binaries[0])]).build()
        self.context = context
        self.kept = list[cl.Kernel]()
        self.clocks = cl.Buffer(context.context, cl.mem_flags.READ_WRITE, 8 * steps)
        self.others = [cl.Buffer(context.context, cl.mem_flags.READ_WRITE, 1 << 20) for _ in range(5)]
        self.busy = self.call("busy", 1, np.uint64(BUSY_NS))

    def call(self, name: str, groups: int, *values: Any) -> Call:
        """The arguments of clEnqueueNDRangeKernel that launch a kernel."""
        kernel = cl.Kernel(self.program, name)
        kernel.set_args(
            self.clocks, *values, *((*self.others, *map(np.int32, (0, 1, 2))) if name == "arguments" else ())
        )
        handle, size = ctypes.c_void_p(kernel.int_ptr), ctypes.c_size_t * 1
        self.kept.append(kernel)
        none = ctypes.c_uint(0)
        return (
            self.context.queue_handle,
            handle,
            ctypes.c_uint(1),
            None,
            size(256 * groups),
            size(256),
            none,
            None,
            None,
        )

    def run(self, calls: Sequence[Call]) -> tuple[float, float]:
        """Microseconds of a launch on the CPU, and from one to the next on the GPU."""
        enqueue, queue = loader().clEnqueueNDRangeKernel, self.context.queue
        queue.finish()
        enqueue(*self.busy)
        loader().clFlush(self.context.queue_handle)
        started = time.perf_counter()
        for call in calls:
            enqueue(*call)
        took = time.perf_counter() - started
        queue.finish()
        clocks = np.empty(len(calls), np.uint64)
        cl.enqueue_copy(queue, clocks, self.clocks)
        return 1e6 * took / len(calls), float(clocks[-1] - clocks[0]) / 1e3 / (len(calls) - 1)


def main(
    steps: Annotated[int, typer.Option(min=2, help="Launches of a chain.")] = 200,
    runs: Annotated[int, typer.Option(min=1, help="Runs of which medians are printed.")] = 9,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the samples to this file.")] = None,
) -> None:
    series = list[Series]()
    with fb.cl.ClContext("nvidia") as context:
        launcher = Launcher(context, steps)
        for name, kernels in CHAINS.items():
            for groups in (132, 264):
                calls = [launcher.call(kernels[i % len(kernels)], groups, np.int32(i)) for i in range(steps)]
                found = [launcher.run(calls) for _ in range(WARM_UP + runs)][WARM_UP:]
                labels: dict[str, Label] = {"launch": name, "groups": groups}
                for figure, samples in zip(("cpu", "gpu"), zip(*found, strict=True), strict=True):
                    series.append(Series({**labels, "figure": figure}, list(samples)))
                print(
                    f"{name}, {groups} groups: cpu {series[-2].median:.2f} us, gpu {series[-1].median:.2f} us",
                    flush=True,
                )
        if json_file is not None:
            write(json_file, measured("launches", [(context.name, driver_of(context.device))], "us", series))


if __name__ == "__main__":
    typer.run(main)
