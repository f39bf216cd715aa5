"""Writes docs/larger-models.md from benchmarks/results (heavy, steps, growth).

    python benchmarks/larger.py

``benchmarks/report.py add FILE --commit HASH`` keeps what heavy.py, costly_steps.py and growth.py wrote.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # tests run this file by runpy, which does not
import costly_steps
import growth
import heavy
import samples
from samples import Measured

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "larger-models.md"
WIDTH = 120
"""The longest line of text on the page, in characters."""
HEADER = """# Larger models

How long do larger models take, beside other engines, and where does the time go? `python benchmarks/larger.py` writes
this page from `benchmarks/results`. The weights are random: they change no time.

- *keras*: networks of the size that people bring, made with Keras. *exports*: stock PyTorch models, made by
  `scripts/exports/make.py`.
- A caption names the commit of the engine that was measured; the scripts are younger than the oldest of them.
- *times the best peer* is the frame of the fastest other engine as a multiple of ours on CUDA: above 1, ours is faster.
"""
HEAVY = """## Beside other engines

Medians in ms, in 16 bits: a frame with a wait after it / a frame of a stream. All engines run in one call on one GPU,
one after the other, with the same random inputs. Inputs and outputs are on the GPU; a frame of LiteRT's accelerator
also reads its outputs. PyTorch runs the graph of the .tflite file (`benchmarks/torch_graph.py`), which was within a
thousandth of LiteRT's results in float32; all its kernels are one CUDA graph. An empty cell: the engine refuses the
model, was not asked, or was not ready in time.

An error is the largest difference from LiteRT's CPU interpreter in any output, as a share of the largest value of that
output. The outputs of mobilenetv2_224 and yolov8n_640 are almost constant with these weights, so that their errors say
little; `python scripts/exports/weights.py liven` makes weights that say more.

The table of 04ffd0a is the newest of all eleven models. Eleven side by side left torch.compile no time for most of
them. Kernels and passes that are younger were timed by themselves: super-resolution and matting by 17d3401b below, the
frames of four models in *Cost over work*. depth_anything takes longer on OpenGL than before: the cause was not
measured.

All these tables are older than [warpgroups](internals/tensor-cores.md#warpgroups) (640b1a57). In one call on an H200,
without and with them, in ms: unet_512 0.531 / 0.501 and 0.348 / 0.323, yolov8n_640 0.270 / 0.260 and 0.265 / 0.241,
resnet18_224 0.121 / 0.111 and 0.121 / 0.103, deeplab_mnv2_513 0.304 / 0.286 and 0.304 / 0.288
(`benchmarks/results/medians/dense`). Which layers are at which share of the peak is there too. That deeplab's frame did
not gain by its 160 to 128 channels, which alone take 16 us less, was not examined.

`torch-compile-max-autotune` was not timed. With what a call of 112 s had kept, unet_512 and vit_tiny_224 compiled in it
in 28 and 40 s of 16 cores. SAM's encoder, Depth-Anything, SegFormer and YOLO11n were not ready after 98 s side by side:
each has 28 to 54 shapes of products and convolutions, and for each of them Inductor writes, compiles and tries about
twenty kernels. `TORCHINDUCTOR_CACHE_DIR` keeps what it found for the next call.

ONNX Runtime is not here: the machine's has no CUDA.
"""
STEPS = """## Where the time goes

Each step of a frame on CUDA, timed as a launch of its own, by the GPU's clock. *At the limits* is the time that an
NVIDIA H200 needs at least for the same steps: to move each of their tensors once at 4.3 TB/s, or to multiply at 989
TFLOP/s (67 of depthwise convolutions), whichever is longer. `python benchmarks/costly_steps.py MODEL` prints the steps
one by one.
"""
MEMORY = """## Memory

The intermediate tensors of a model share one buffer, its arena, by lifetime (`delegate/plan/arena.py`). `python
benchmarks/roofline.py MODEL` prints its size beside the most bytes that are needed at the same time. A test holds it to
1.3 times those for each model of the tests and for exports (`tests/delegate/test_arena.py`).
"""
GROWTH = """## Cost over work

Does a frame cost in proportion to its pixels, and a run to the frames at once? Medians of runs on CUDA, in ms, with a
wait after each. The line *start + cost times work* is fitted to all points of a row so that its relative errors are
least, and *off* is the largest of them. *From* is the first point from which on a line fits within a tenth, with its
error.

Frames at once are a straight line: 32 of them take 6 to 21 times as long as one. Pixels are one, too, with two
exceptions. A frame of 128x128 pixels leaves most of the GPU idle in unet: from 256x256 on a line is 5% off. vit_tiny
has none: attention compares each patch of 16x16 pixels with each other one, and so grows with the square of the pixels.
"""


def page() -> str:
    """The whole page, from the newest measurements of each kind."""
    parts = [HEADER]
    for kind, text, lines in (
        ("heavy", HEAVY, heavy.tables), ("steps", STEPS, costly_steps.summary), ("growth", GROWTH, growth.tables),
    ):  # fmt: skip
        found = newest(kind)
        parts += [text] if found else []
        for measurement in found:
            caption = (
                f"{measurement.machine}; {measurement.date}, commit {measurement.commit}: `{measurement.command}`."
            )
            wrapped = textwrap.fill(caption, WIDTH, break_on_hyphens=False)
            parts += [wrapped + "\n", "\n".join(lines(measurement)).strip() + "\n"]
    return "\n".join([*parts, MEMORY])


def newest(kind: str) -> list[Measured]:
    """The measurements of a kind of its newest day."""
    found = [samples.read(path) for path in sorted((RESULTS / kind).glob("*.json"))]
    return [each for each in found if each.date == max(other.date for other in found)]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
