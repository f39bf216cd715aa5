"""Which storage each intermediate tensor gets when 16 bits are allowed.

Halves everywhere cost pose_landmark_lite's mask 6% of its range and selfie_segmentation's 8%: skip connections carry
the
rounding of the first layers, and squeeze-and-excite gates multiply whole channels by theirs. So 16 bits go where they
are harmless, and that is also where weights are read most:

* constants: always (they are halves in the file, for many models);
* layers at a sixteenth of the largest resolution or below, except residual sums, which are rounded again and again on
  their way, and tensors of one pixel, which cost nothing;
* what an instance normalization reads and writes, at any resolution, since it rescales the values.

What RELU6 clamps lies in [0, 6], where 16-bit fixed point (unorm6, steps of 9e-5) is up to forty times finer than
halves.
"""

from __future__ import annotations

from ..kernels.layout import Shape, Storage
from .lower import LabelledLaunch, Lowered

DEEP = 128
"""A tensor is deep when it has at most 1/128 of the pixels of the largest: a sixteenth of its side, rounded up."""


def assign_storages(lowered: Lowered, storage: Storage) -> dict[int, Storage]:
    """The storage of every tensor of the program, where ``storage`` ("f32" or "f16") is what the user allows."""
    storages: dict[int, Storage] = dict.fromkeys(lowered.shapes, "f32")
    if storage == "f32":
        return storages
    largest = max(map(_pixels, lowered.shapes.values()), default=0)
    for tensor, shape in lowered.shapes.items():
        if 1 < _pixels(shape) and _pixels(shape) * DEEP <= largest:
            storages[tensor] = "f16"
    for entry in lowered.launches:
        for tensor in _residual_stream(entry, lowered):
            storages[tensor] = "f32"
    for entry in lowered.launches:
        for tensor in _normalized(entry):
            storages[tensor] = "f16"
        if entry.links and entry.links[-1].expression == "RELU6" and storages[entry.launch.writes["dst"]] == "f16":
            storages[entry.launch.writes["dst"]] = "unorm6"
    storages.update(dict.fromkeys(lowered.precise, "f32"))
    return storages


def _pixels(shape: Shape) -> int:
    return shape[1] * shape[2]


def _normalized(entry: LabelledLaunch) -> list[int]:
    if entry.launch.kernel != "instance_norm":
        return []
    return [entry.launch.reads["src"], entry.launch.writes["dst"]]


def _residual_stream(entry: LabelledLaunch, lowered: Lowered) -> list[int]:
    """What a sum of two equally shaped tensors reads beside its value, and writes."""
    if "dst" not in entry.launch.writes:
        return []
    written = entry.launch.writes["dst"]
    shape = lowered.shapes[written]
    added = [
        link.operand
        for link in entry.links
        if link.expression in ("ADD", "SUB") and link.operand is not None and lowered.shapes[link.operand] == shape
    ]
    carried = [entry.launch.reads["src"]] if added and entry.launch.kernel == "copy" else []
    return [*added, *carried, written] if added else []
