"""Storage of each intermediate tensor: halves if nothing is lost, as for numbers of steps of quantized tensors and
enlarged copies of halves; halves around instance norms, if 16 bits are allowed; else f32.  A normalization rescales its
input, so rounding errors there do not spread; its tensors are also the largest of their networks. Halves everywhere
miss the error bound: docs/decisions/0007-f32-except-norms.md. pack.py chooses the storage of constants.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...kernels.tensor import TensorId
from ...kernels.views import Storage
from .launches import Lowered, only_resizes


def choose_storage(lowered: Lowered, storage: Storage) -> dict[TensorId, Storage]:
    """The storage of every tensor of the program. The user allows 16 bits if ``storage`` is "f16" and not "f32"."""
    storages: dict[TensorId, Storage] = dict.fromkeys(lowered.shapes, "f32")
    for entry in lowered.launches:
        launch = entry.launch
        if launch.tolerates_f16 and storage == "f16":
            tensors = launch.reads | launch.writes
            storages.update((tensors[name], "f16") for name in launch.tolerates_f16)
        elif (resize := only_resizes(entry)) is not None and not resize.bilinear:
            storages[launch.writes["dst"]] = storages[launch.reads["src"]]  # it only copies, so nothing is lost
        if entry.writes_steps:
            storages[entry.destination] = "f16"
    return storages | _shared(lowered, storages)


def _shared(lowered: Lowered, storages: Mapping[TensorId, Storage]) -> dict[TensorId, Storage]:
    """The storage of tensors that share memory: halves only if all of them are halves."""
    families: dict[int, list[int]] = {}
    for tensor, part in lowered.aliases.items():
        families.setdefault(part.parent, [part.parent]).append(tensor)
    shared: dict[TensorId, Storage] = {}
    for family in families.values():
        halves = all(storages[tensor] == "f16" for tensor in family)
        shared |= dict.fromkeys(family, "f16" if halves else "f32")
    return shared
