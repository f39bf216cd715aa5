"""Times a model on the GPU with and without the sampling of a frame of video; nothing is copied.

For each model three programs are timed by the GPU's own clock, as they run (one dispatch, or one per step):

* network: input and outputs are buffers of float32, so that only the model's operators run;
* texture: the picture is a texture of 1280x720 texels, rgba8, which the program samples and scales;
* nv12: the picture is a decoder's two planes of that size, in buffers.

Drawing on the screen is not included. Printed are medians of ``--runs`` runs, and what a picture adds to the network.
The runs of the programs alternate, so that a change of the GPU's clock concerns all. A model of channels first is timed
beside its twin of channels last (benchmarks/twin.py).

    python benchmarks/bound.py --backend cl --precision f16 [--json FILE] [MODEL ...]
"""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from names import FLOAT, QUANTIZED
from samples import Series, measured, write
from twin import channels_last

import framebind as fb
from framebind.video.apis import APIS, BY_NAME
from framebind.video.models import find_model

FRAME = (720, 1280)
"""Rows and columns."""
WARM_UP = 5
MEMORIES = ("network", "texture", "nv12")


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, or .tflite files.")] = None,
    backend: Annotated[str, typer.Option(help=f"{', '.join(api.short for api in APIS)}, or several.")] = "cl",
    precision: Annotated[Literal["f32", "f16"], typer.Option()] = "f16",
    runs: Annotated[int, typer.Option(min=1)] = 50,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the samples to this file.")] = None,
) -> None:
    print(f"GPU time in ms, {precision}, medians of {runs}; pictures of {FRAME[1]}x{FRAME[0]}")
    print(f"{'model':52} {'on':4} {'dispatches':>12} {'network':>9} {'texture':>17} {'nv12':>17}")
    found, devices = list[Series](), list[tuple[str, str]]()
    for path in map(find_model, models or FLOAT + QUANTIZED):
        content = path.read_bytes()
        twin = channels_last(content)
        for name, each in [(path.stem, content), (f"{path.stem}, channels last", twin)]:
            if each is twin and twin_inputs(content) == twin_inputs(twin):
                continue
            for api in map(BY_NAME.__getitem__, backend.split(",")):
                with api.new_context():
                    found += timed(name, each, api, precision, runs, devices)
    if json_file is not None:
        write(json_file, measured("bound", devices, "ms", found))


def twin_inputs(content: bytes) -> list[list[int]]:
    """The shapes of a model's inputs."""
    interpreter = fb.Interpreter(model_content=content, delegate="cpu")
    details = interpreter.get_input_details()
    return [list(detail["shape"]) for detail in details]


def timed(
    name: str, content: bytes, api: fb.Backend, precision: str, runs: int, devices: list[tuple[str, str]]
) -> list[Series]:
    """The samples of each kind of memory, printed as a line of the table; or the reason why there are none, printed."""
    try:
        pairs = [bound(content, api, precision, memory) for memory in MEMORIES]
    except fb.BindingError as error:
        print(f"{name:52} {error}")
        return []
    delegates = [delegate for delegate, _ in pairs]
    times = [[nanoseconds(delegate) / 1e6 for delegate in delegates] for _ in range(runs + WARM_UP)][WARM_UP:]
    columns = dict(zip(MEMORIES, map(list, zip(*times, strict=True)), strict=True))
    network, *others = (statistics.median(columns[memory]) for memory in MEMORIES)
    told = "/".join(str(delegate.statistics().dispatches) for delegate in delegates)
    more = " ".join(f"{each:9.4f} {(each / (network or math.nan) - 1) * 100:+6.1f}%" for each in others)
    print(f"{name:52} {api.short:4} {told:>12} {network:9.4f} {more}", flush=True)
    devices.append((delegates[0].statistics().device, delegates[0].statistics().driver))
    for delegate in delegates:
        delegate.close()
    labels: dict[str, str | int] = {"model": name, "on": f"{api.short} {precision}"}
    return [Series({**labels, "figure": memory}, column) for memory, column in columns.items()]


def bound(content: bytes, api: fb.Backend, precision: str, memory: str) -> tuple[fb.GpuDelegate, fb.Interpreter]:
    """A delegate that has run once with everything bound, pictures in that kind of memory; and its interpreter."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=api.name, is_precision_loss_allowed=precision == "f16"))
    interpreter = fb.Interpreter(model_content=content)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    interpreter.set_allow_buffer_handle_output(True)

    def buffer(detail: dict[str, Any]) -> Any:
        return api.new_buffer(np.zeros(math.prod(detail["shape"]), np.float32))

    inputs = interpreter.get_input_details()
    outputs = interpreter.get_output_details()
    for detail in inputs:
        given = picture(api, memory) if is_picture(delegate, detail) and memory != "network" else buffer(detail)
        delegate.bind_buffer_to_tensor(given, detail["index"])
    for detail in outputs:
        delegate.bind_buffer_to_tensor(buffer(detail), detail["index"])
    interpreter.invoke()
    delegate.fence().wait()
    return delegate, interpreter


def is_picture(delegate: fb.GpuDelegate, detail: dict[str, Any]) -> bool:
    shape = list(detail["shape"])
    channels = shape[1 if delegate.layout_of(detail["index"]) == "nchw" else -1]
    return len(shape) == 4 and shape[0] == 1 and channels in (3, 4)


def picture(api: fb.Backend, memory: str) -> Any:
    """A frame of noise, as a texture or as a decoder's planes."""
    noise, (rows, columns) = np.random.default_rng(0), FRAME
    if memory == "texture":
        return api.new_texture(noise.integers(0, 256, (*FRAME, 4), np.uint8))
    planes = [api.new_buffer(noise.integers(0, 256, size, np.uint8)) for size in (FRAME, (rows // 2, columns // 2, 2))]
    return fb.YuvPicture(planes, format="nv12", width=columns, height=rows)


def nanoseconds(delegate: fb.GpuDelegate) -> int:
    """GPU time of one run, in as many dispatches as ``invoke`` takes."""
    return sum(time for program in delegate.engine.programs for _, time in program.record().timings())


if __name__ == "__main__":
    typer.run(main)
