"""Runs models on CUDA under NVIDIA's compute-sanitizer: accesses outside of memory, races in local memory, barriers.

python scripts/sanitize.py MODEL.tflite ...   prints a row for each tool, way to run steps, and precision

It takes a GPU, and compute-sanitizer of the CUDA toolkit. Kernels take some times longer under it than without.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import framebind as fb
from framebind.interop.device import Dispatches
from framebind.interop.discovery.devices import open_device

TOOLS = "memcheck", "racecheck", "synccheck"
WAYS: tuple[Dispatches, ...] = ("separate", "one")
"""A graph of launches, and all steps in one cooperative launch."""
PRECISIONS = "f16", "f32"
TOOLKITS = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"])


def run(models: list[str], way: Dispatches, precision: str) -> None:
    """Run each model twice on numbers by chance, and print the number of its dispatches."""
    numbers = np.random.default_rng(0)
    for model in models:
        with fb.cuda.CudaContext():
            open_device("cuda").dispatches = way
            options = fb.GpuDelegateOptions(backend="cuda", is_precision_loss_allowed=precision == "f16")
            delegate = fb.GpuDelegate(options)
            interpreter: Any = fb.Interpreter(model_path=model, experimental_delegates=[delegate])
            interpreter.allocate_tensors()
            for details in interpreter.get_input_details():
                values = numbers.random(details["shape"]) * (1 if details["dtype"] == np.float32 else 255)
                interpreter.set_tensor(details["index"], values.astype(details["dtype"]))
            for _ in range(2):
                interpreter.invoke()
            print(f"ran {Path(model).stem}: {sum(part.dispatches or 0 for part in delegate.partitions())} dispatches")
            delegate.close()


def sanitized(sanitizer: str, tool: str, way: str, precision: str, models: list[str]) -> str:
    """The row of a run under a tool: how many models ran, and the tool's summary."""
    command = [sanitizer, "--tool", tool, sys.executable, __file__, "--way", way, "--precision", precision, *models]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    summary = re.search(r"SUMMARY: (.*)", said)
    return (
        f"{tool:10} {way:9} {precision:4} {len(re.findall('^ran ', said, re.MULTILINE))} of {len(models)} models: "
        + (summary[1] if summary else f"no summary; it ended with:\n{said[-2000:]}")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.tflite")
    parser.add_argument("--way", choices=WAYS, help="run here, without the sanitizer, in this way")
    parser.add_argument("--precision", choices=PRECISIONS, default="f16")
    given = parser.parse_args()
    if given.way is not None:
        run(given.models, given.way, given.precision)
        return
    sanitizer = shutil.which("compute-sanitizer", path=TOOLKITS)
    if sanitizer is None:
        sys.exit("compute-sanitizer is not there: it comes with the CUDA toolkit")
    for tool, way, precision in product(TOOLS, WAYS, PRECISIONS):
        print(sanitized(sanitizer, tool, way, precision, given.models), flush=True)


if __name__ == "__main__":
    main()
