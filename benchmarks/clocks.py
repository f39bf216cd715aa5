"""Prints how long frames take after a pause, and the GPU's clock meanwhile (NVIDIA: asked of nvidia-smi).

    python benchmarks/clocks.py [MODEL] --backend gl,gl+cuda,cuda --pauses 0,6 --rates 0,30 [--seconds 4] [--json FILE]

A GPU lowers its clock while it idles, as it does while programs are compiled. Each combination of a pause before the
first frame, in seconds, and a rate, in frames per second (0: one frame after the other), runs in a process of its own.
"gl+cuda" runs on OpenGL while a CUDA context is open beside it.
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import framebind as fb
from framebind.video.apis import BY_NAME
from framebind.video.models import find_model
from framebind.video.network import shapes

sys.path.insert(0, str(Path(__file__).parent))
from samples import Label, Series, measured, write

WINDOWS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds after the first frame at which a window of frames ends."""
MOST_SAMPLES = 100
"""Frames that are kept of each window: the first ones."""

app = typer.Typer()


class Clock:
    """The clock of the first GPU's multiprocessors in MHz, twenty times per second; None without nvidia-smi."""

    def __init__(self) -> None:
        self.mhz: int | None = None
        query = ["nvidia-smi", "--id=0", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "--loop-ms=50"]
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.mhz = int(line)

    def stop(self) -> None:
        """End nvidia-smi."""
        if hasattr(self, "_process"):
            self._process.kill()


def bound_model(path: Path, api: fb.Backend) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """The model on the current context, with a buffer bound to each input and output."""
    interpreter = fb.Interpreter(model_path=path)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=api.name, is_precision_loss_allowed=True))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    interpreter.set_allow_buffer_handle_output(True)
    random = np.random.default_rng(0)
    for tensor, shape in shapes(interpreter.get_input_details()).items():
        delegate.bind_buffer_to_tensor(api.new_buffer(random.random(math.prod(shape), np.float32)), tensor)
    for tensor, shape in shapes(interpreter.get_output_details()).items():
        delegate.bind_buffer_to_tensor(api.new_buffer(np.zeros(math.prod(shape), np.float32)), tensor)
    delegate.record()
    return interpreter, delegate


@app.command()
def one(path: Path, backend: str, pause: float, rate: float, seconds: float) -> None:
    """Print one combination's windows as JSON: the milliseconds of frames, and the clock at the window's end."""
    (api, *others), clock, windows = [BY_NAME[name] for name in backend.split("+")], Clock(), list[dict[str, Any]]()
    with contextlib.ExitStack() as contexts:
        for each in (*others, api):  # the last one is current
            contexts.enter_context(each.open_context())
        interpreter, delegate = bound_model(path, api)
        found = delegate.statistics()
        time.sleep(pause)
        begin = time.perf_counter()
        for until in (end for end in WINDOWS if end <= seconds):
            samples = list[float]()
            while (started := time.perf_counter()) < begin + until:
                interpreter.invoke()
                delegate.fence().wait()
                samples.append(round((time.perf_counter() - started) * 1e3, 4))
                time.sleep(max(0.0, 1 / rate - (time.perf_counter() - started)) if rate else 0.0)
            windows.append({"until_s": until, "sm_mhz": clock.mhz, "samples_ms": samples[:MOST_SAMPLES]})
    clock.stop()
    print(json.dumps({"device": found.device, "driver": found.driver, "windows": windows}))


@app.command()
def compare(
    model: Annotated[str, typer.Argument(help="A name, or a .tflite file.")] = "face_detection_front",
    backend: Annotated[str, typer.Option(help="gl, cl, cuda, gl+cuda, or several: gl,cuda.")] = "gl,gl+cuda,cuda",
    pauses: Annotated[str, typer.Option(help="Seconds before the first frame, several: 0,6.")] = "0,6",
    rates: Annotated[str, typer.Option(help="Frames per second, several; 0 waits for nothing.")] = "0,30",
    seconds: Annotated[float, typer.Option(help="How long each combination runs.")] = 4.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Keep all windows in this file.")] = None,
) -> None:
    """Run each combination in a process of its own, and print the median of each window."""
    path, series, devices = find_model(model).resolve(), list[Series](), list[tuple[str, str]]()
    for api in backend.split(","):
        for pause in pauses.split(","):
            for rate in rates.split(","):
                command = [sys.executable, __file__, "one", str(path), api, pause, rate, str(seconds)]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
                result = json.loads(done.stdout.splitlines()[-1])
                windows = result["windows"]
                devices.append((result["device"], result["driver"]))
                labels: dict[str, Label] = {
                    "model": path.stem, "figure": "frame", "on": api, "pause": f"{pause} s",
                    "rate": f"{rate} per second" if float(rate) else "as many as possible",
                }  # fmt: skip
                series += [
                    Series(
                        {**labels, "until": f"{window['until_s']} s", "mhz": window["sm_mhz"] or ""},
                        window["samples_ms"],
                    )
                    for window in windows
                    if window["samples_ms"]
                ]
                medians = [
                    f"{window['until_s']} s: {statistics.median(window['samples_ms']):.3f} ms, {window['sm_mhz']} MHz"
                    for window in windows
                    if window["samples_ms"]
                ]
                print(f"{api} pause {pause} s, {rate} frames/s: {'; '.join(medians)}", flush=True)
    if json_file is not None:
        write(json_file, measured("clocks", devices, "ms", series))


if __name__ == "__main__":
    app()
