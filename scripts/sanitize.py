"""Runs models on CUDA under NVIDIA's compute-sanitizer: accesses outside of memory, races in local memory, barriers.

python scripts/sanitize.py [MODEL.tflite ...]   prints a row for each tool, way to run steps, and precision

Without models it runs the small networks of ``framebind certify``, which reach the kernels of fused operators. It takes
a GPU, and compute-sanitizer of the CUDA toolkit. Kernels take some times longer under it than without.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb
from framebind.interop.device import Dispatches
from framebind.interop.discovery.devices import open_device
from framebind.tools.certify.cases.network_models import NETWORKS

TOOLS = "memcheck", "racecheck", "synccheck"
WAYS: tuple[Dispatches, ...] = ("auto", "separate", "one")
"""A graph of launches in which small steps in a row are one, a graph of a launch per step, and all steps in one
cooperative launch.
"""
PRECISIONS = "f16", "f32"
TOOLKITS = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"])
Arrays = Sequence[npt.NDArray[Any]]


def given(models: Sequence[str]) -> Iterator[tuple[str, bytes, Arrays]]:
    """The name, the bytes and the inputs of each model: numbers by chance, or those of a small network."""
    for name, make in ({} if models else NETWORKS).items():
        yield name, *make()
    for model in models:
        content = Path(model).read_bytes()
        details: list[dict[str, Any]] = fb.Interpreter(model_content=content, delegate="cpu").get_input_details()
        numbers = np.random.default_rng(0)
        values = [numbers.random(each["shape"]) * (1 if each["dtype"] == np.float32 else 255) for each in details]
        yield Path(model).stem, content, [v.astype(each["dtype"]) for v, each in zip(values, details, strict=True)]


def run(models: Sequence[str], way: Dispatches, precision: str) -> None:
    """Run each model twice, and print the number of its dispatches and the kernels of its steps."""
    for name, content, inputs in given(models):
        with fb.cuda.CudaContext():
            open_device("cuda").dispatches = way
            options = fb.GpuDelegateOptions(backend="cuda", is_precision_loss_allowed=precision == "f16")
            delegate = fb.GpuDelegate(options)
            interpreter: Any = fb.Interpreter(model_content=content, experimental_delegates=[delegate])
            interpreter.allocate_tensors()
            for tensor, values in zip(interpreter.inputs(), inputs, strict=True):
                interpreter.set_tensor(tensor, values)
            for _ in range(2):
                interpreter.invoke()
            dispatches = sum(part.dispatches or 0 for part in delegate.partitions())
            kernels = " ".join(sorted({step.kernel for step in delegate.steps()}))
            print(f"ran {name}: {dispatches} dispatches of {kernels}", flush=True)
            delegate.close()


def sanitized(sanitizer: str, tool: str, way: str, precision: str, models: Sequence[str]) -> str:
    """The row of a run under a tool: how many models ran, the tool's summary, and the kernels that it watched."""
    command = [sanitizer, "--tool", tool, sys.executable, __file__, "--way", way, "--precision", precision, *models]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    summary, ran = re.search(r"SUMMARY: (.*)", said), re.findall(r"^ran .* dispatches of (.*)$", said, re.MULTILINE)
    return (
        f"{tool:10} {way:9} {precision:4} {len(ran)} of {len(models or NETWORKS)} models: "
        + (summary[1] if summary else f"no summary; it ended with:\n{said[-2000:]}")
        + f" ({', '.join(sorted({kernel for kernels in ran for kernel in kernels.split()}))})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL.tflite")
    parser.add_argument("--way", choices=WAYS, help="run here, without the sanitizer, in this way")
    parser.add_argument("--precision", choices=PRECISIONS, default="f16")
    parser.add_argument("--processes", type=int, default=4, help="how many run at the same time")
    arguments = parser.parse_args()
    if arguments.way is not None:
        run(arguments.models, arguments.way, arguments.precision)
        return
    sanitizer = shutil.which("compute-sanitizer", path=TOOLKITS)
    if sanitizer is None:
        sys.exit("compute-sanitizer is not there: it comes with the CUDA toolkit")
    with ThreadPoolExecutor(arguments.processes) as pool:
        runs = [pool.submit(sanitized, sanitizer, *each, arguments.models) for each in product(TOOLS, WAYS, PRECISIONS)]
        for each in runs:
            print(each.result(), flush=True)


if __name__ == "__main__":
    main()
