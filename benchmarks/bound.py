"""Times a model on the GPU with and without the sampling of a camera's texture; nothing is copied.

For each model two programs are timed by the GPU's own clock, as they run (one dispatch, or one per step):

* network: input and outputs are buffers of float32, so that only the model's operators run; * frame: the input is a
texture of 1280x720 texels, rgba8, which the program samples and scales.

Drawing on the screen is not included. Printed are medians of ``--runs`` runs. The runs of both programs alternate, so
that a change of the GPU's clock concerns both.

    python benchmarks/bound.py --backend cl --precision f16 [MODEL ...]
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from names import FLOAT, QUANTIZED

import framebind as fb
from framebind.video.apis import APIS, BY_NAME
from framebind.video.models import find_model

FRAME = (720, 1280)
"""Rows and columns."""
WARM_UP = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=FLOAT + QUANTIZED)
    parser.add_argument("--backend", choices=[api.short for api in APIS], default="cl")
    parser.add_argument("--precision", choices=("f32", "f16"), default="f16")
    parser.add_argument("--runs", type=int, default=50)
    given = parser.parse_args()
    print(f"GPU time in ms, {given.backend} {given.precision}, medians of {given.runs}; texture {FRAME[1]}x{FRAME[0]}")
    print(f"{'model':52} {'dispatches':>12} {'network':>9} {'frame':>9} {'more':>8}")
    for path in map(find_model, given.models):
        api = BY_NAME[given.backend]
        with api.new_context():
            print(compared(path, api, given.precision, given.runs), flush=True)


def compared(path: Path, api: fb.Backend, precision: str, runs: int) -> str:
    """A line of the table, or the reason why there is none."""
    try:
        pairs = [bound(path, api, precision, textured=textured) for textured in (False, True)]
    except fb.BindingError as error:
        return f"{path.stem:52} {error}"
    delegates = [delegate for delegate, _ in pairs]
    times = [[nanoseconds(delegate) for delegate in delegates] for _ in range(runs + WARM_UP)][WARM_UP:]
    network, frame = (statistics.median(column) / 1e6 for column in zip(*times, strict=True))
    dispatches = "/".join(str(delegate.statistics().dispatches) for delegate in delegates)
    for delegate in delegates:
        delegate.close()
    more = (frame / network - 1) * 100
    return f"{path.stem:52} {dispatches:>12} {network:9.4f} {frame:9.4f} {more:+7.1f}%"


def bound(path: Path, api: fb.Backend, precision: str, *, textured: bool) -> tuple[fb.GpuDelegate, fb.Interpreter]:
    """A delegate that has run once with everything bound, and its interpreter.

    ``textured``: pictures are read from a texture, else from a buffer.
    """

    def buffer(detail: dict[str, Any]) -> Any:
        return api.new_buffer(np.zeros(math.prod(detail["shape"]), np.float32))

    interpreter = fb.Interpreter(model_path=path)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=api.name, is_precision_loss_allowed=precision == "f16"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    interpreter.set_allow_buffer_handle_output(True)
    pixels = np.random.default_rng(0).integers(0, 256, (*FRAME, 4), np.uint8)
    inputs: list[dict[str, Any]] = interpreter.get_input_details()
    outputs: list[dict[str, Any]] = interpreter.get_output_details()
    for detail in inputs:
        shape = detail["shape"]
        picture = len(shape) == 4 and shape[0] == 1 and shape[3] <= 4
        memory = api.new_texture(pixels) if textured and picture else buffer(detail)
        delegate.bind_buffer_to_tensor(memory, detail["index"])
    for detail in outputs:
        delegate.bind_buffer_to_tensor(buffer(detail), detail["index"])
    interpreter.invoke()
    delegate.fence().wait()
    return delegate, interpreter


def nanoseconds(delegate: fb.GpuDelegate) -> int:
    """GPU time of one run, in as many dispatches as ``invoke`` takes."""
    return sum(time for program in delegate.engine.programs for _, time in program.record().timings())


if __name__ == "__main__":
    main()
