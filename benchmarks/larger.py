"""Writes docs/larger-models.md from benchmarks/results (heavy, steps, growth).

    python benchmarks/larger.py

``benchmarks/report.py add FILE --commit HASH`` keeps what heavy.py, costly_steps.py and growth.py wrote.
"""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
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
- A caption names the commit of the engine that was measured. A model is in the tables of the newest day that has it.
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

The engines of the first table got ready side by side in 90 s; those of pictures in 32 s, in which PyTorch was not ready
for two of three.

- *Goals*: unet_512, yolov8n_640, resnet18_224 and vit_tiny_224 reach theirs. deeplab_mnv2_513 took 0.261 of 0.24 ms
  in the first table, and 0.239 in the last one, with blocks in one launch. That was an earlier form of f9e3f140; the
  commit itself estimates tiles better, from what was measured, and was not timed. mobilenetv2_224 reaches its goal by
  its stream; its frame took 0.107 and 0.105 of 0.1 ms. See *What is missing*.
- *torch.compile f16* took 1.11 (sam2_encoder) to 2.29 (mobilenetv2_224) times as long as framebind's frames on CUDA, of
  12 models.
- *torch.compile max-autotune f16*: in the first table 1.84 (vit_tiny_224) and 1.85 (unet_512) times as long as
  framebind's frames on CUDA. In the second, of two calls of their own: 1.07 (sam2_encoder), 1.54
  (depth_anything_small), 1.59 (segformer_b0), 1.76 (yolo11n), 1.84 (yolo26n) and, of five Keras models, 1.64
  (deeplab_mnv2_513) to 3.40 (mobilenetv2_224).
- *How max-autotune got ready*: the first call tried eleven models side by side, cold, on 16 cores: 357 shapes and 8 to
  22 kernels for each. Five models were ready in 312 s; the five exports were 141 s later, with what was found so far in
  `TORCHINDUCTOR_CACHE_DIR`. yolov8n_640 was not. Before, a shape took 7.5 s: PyTorch 2.11 assembles kernels with its
  own ptxas 13.0 in its worker processes, and with Triton's 12.8 in the main one. Triton's cache tells their versions
  apart, so that the main process found no kernel of its workers and compiled each once more, one after the other. With
  PyTorch's ptxas in both (`assemble_with` in `benchmarks/torch_peer.py`) a shape took 0.25 s while two models were
  compiled at once. Candidates and their measuring times are Inductor's own.
- *How well it chose*: trials wait for each other, but others compiled beside them. Of 36 products of matrices that
  several processes tried, the best times differ by 3% in the median, and of 29 convolutions by 16%: a launch through
  cuDNN costs the CPU more, and looks slow when CPUs are busy. That may be why max-autotune is slower here than
  torch.compile without it on four Keras models, and why vit_tiny_224 took 0.277 ms in place of the first table's 0.229.
  The best times of 13 shapes of sam2_encoder are 0.41 to 1.03 times those that it found before, alone on the machine.
  *Times the best peer* takes the faster of torch.compile's two.
- *Small models*, the same call: 13 of them took 0.39 to 0.989 times the frames and 0.38 to 0.985 times the streams that
  they took at d3956cf0, before all of this (`benchmarks/results/trees-nvidia-h200-2026-11-27.json`, 4 rounds).
- *OpenCL* takes 0.96 to 1.65 times as long as CUDA, unet_512 1.05, and depth_anything_small 1.88: there tiles for
  layers of tokens were on trial, which a later commit keeps to CUDA (0.781 ms in a call of an hour before). *OpenGL*
  takes 2.2 to 11.2 times as long: NVIDIA's has no matrix units. Since that call, unet_512 takes half of that by
  [Winograd's transforms](internals/loads-and-registers.md#convolutions-by-winograds-transforms).

ONNX Runtime is not here: the machine's has no CUDA.
"""
STEPS = """## Where the time goes

Each step of a frame on CUDA, timed as a launch of its own, by the GPU's clock. *At the limits* is the time that an
NVIDIA H200 needs at least for the same steps: to move each of their tensors once at 4.3 TB/s, or to multiply at 989
TFLOP/s (67 of depthwise convolutions), whichever is longer. `python benchmarks/costly_steps.py MODEL` prints the steps
one by one. The tree of the table of convnext_atto, and of frames at once below, is that of the commit before its last
rule: groups share sums where that was estimated to take 0.9 times as long, and now also where it is 1.15 times. Both
tables count the products of transposed convolutions four times, which was repaired later: the limit of unet_512 is up
to 7 us lower.

### What is missing

*deeplab_mnv2_513*: what a step adds to a stream of graphs of the steps before it, in us, in the call of the last table
above (frames of 0.240 ms, 0.257 without blocks in one launch; `benchmarks/results/medians/dense`). To enlarge the
result to 513x513 21: 11 while larger tensors passed through the cache before, and why is not known; its 22 MB need 5.
Two blocks of 96 and 144 channels at 129x129 in [one launch](internals/bottlenecks.md#all-three-in-one-step) 20 and 17,
whose limits are 6 and 1. 3x3 of 160 to 128 channels at 129x129 17, and 27 by squares of pixels. Two 3x3 with rates 6
and 12, 576 to 128 channels at 33x33, 21. Two blocks at 65x65 20. The first convolution, with the graph's own start, 9,
and the pair behind it 9. All others 7 or less each. Tried and not kept: halves behind RELU6. All of them together:
frames of 0.263 in place of 0.273 ms, mobilenetv2_224 0.102 and 0.105, but the error of pose_landmark_lite rises from
8.6e-4 to 0.117, and that of hand_landmark_lite from 2.6e-5 to 2.7e-3. Only tensors of two million values or more: 0.268
in place of 0.272 ms (`benchmarks/results/dense/behind-relu6-nvidia-h200-2026-11-27.json`).

*mobilenetv2_224*: of its 104 us, the GPU computes for 97 to 98, in 38 steps. invoke takes 5 until the graph is
launched, of which CUDA's call is 2, and an event with its wait 1. To spin on a word in mapped memory that the GPU
writes behind the graph is 0.8 shorter, and was left out. So only steps could make it shorter. Its blocks in one launch
each are slower with so few pixels.

*sam2_encoder*, 0.437 ms, 0.89 of torch.compile's frame of the day before. Its layers of tokens stay far below their
limit: 64 to 4,096 rows are few tiles. Warpgroups for them take 3 to 5 us in place of 5 to 9 alone, but frames of
depth_anything_small, vit_tiny_224 and segformer_b0 were 1 to 3% longer, perhaps because a kernel with so much local
memory cannot start beside the one before; asking for the weights before they are needed changed nothing. Tiles of 32
pixels by 32 channels over halves, the present rule from four steps on, took 0.437 ms in place of 0.473.
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

Frames at once are a straight line: 32 of them take 5 to 23 times as long as one. Pixels are one, too, but in vit_tiny:
attention compares each patch of 16x16 pixels with each other one, and so grows with the square of the pixels.
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
    """The measurements of a kind, those of the newest day first; of earlier days only models that no later day has."""
    found = [samples.read(path) for path in sorted((RESULTS / kind).glob("*.json"))]
    chosen, known = list[Measured](), set[samples.Label]()
    for date in sorted({each.date for each in found}, reverse=True):
        day = [_without(each, known) for each in found if each.date == date]
        chosen += [each for each in day if each.series]
        known |= {series.labels["model"] for each in day for series in each.series}
    return chosen


def _without(measurement: Measured, models: set[samples.Label]) -> Measured:
    return replace(measurement, series=[each for each in measurement.series if each.labels["model"] not in models])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
