"""The pipeline of a partition's graph: transform, lower to launches, merge, choose storage, pack constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..interop.device import Traits
from ..kernels.target import Target
from ..kernels.tensor import TensorId
from ..kernels.views import Storage
from .cache.cache import Cache
from .cache.stopwatch import Stopwatch
from .lower.halves import take_halves
from .lower.launches import Lowered
from .lower.merge import REWRITES, Rewrite, merge
from .lower.pack import Constants, Key, PackedConstant, Wanted, list_constants, pack_constants
from .lower.precision import choose_storage
from .lower.tuning import Tuning, encode, lower_tuned, target_for
from .transform.graph import Graph
from .transform.pipeline import PASSES, Pass, transform

StorageRule = Callable[[Lowered, Storage], Mapping[TensorId, Storage]]
"""Chooses the storage of each tensor from the launches and the user's precision."""


@dataclass(frozen=True)
class CompiledProgram:
    """A graph as launches and packed constants. None of it is on a device yet: ``Program`` runs it.

    ``storages`` has the storage of each tensor. ``block`` holds all constants as bytes, and ``constants`` the place of
    each in it. ``packed``: they were packed now, and not found in the cache.
    """

    graph: Graph
    lowered: Lowered
    tuning: Tuning
    storages: Mapping[TensorId, Storage]
    block: np.ndarray
    constants: Mapping[Key, PackedConstant]
    packed: bool


def compile_program(
    graph: Graph,
    traits: Traits,
    storage: Storage,
    tuning: Tuning | None = None,
    *,
    name: str = "",
    cache: Cache | None = None,
    stopwatch: Stopwatch | None = None,
    target: Target | None = None,
    passes: Sequence[Pass] = PASSES,
    rewrites: Sequence[Rewrite] = REWRITES,
    storage_rule: StorageRule = choose_storage,
) -> CompiledProgram:
    """Compile a partition's graph for a device of these ``traits``; the graph that is given is changed.

    ``storage`` of intermediates and constants is "f32", or "f16", which allows 16 bits for the tensors that
    precision.py selects; arithmetic is f32. ``tuning`` has measured decisions; rules make all others. Constants come
    from the ``cache``, in which ``name`` identifies this graph with these shapes. The ``stopwatch`` counts the phases.
    ``target`` limits the lowering to less than the traits and the storage allow. ``passes`` change the graph,
    ``rewrites`` merge launches, and the ``storage_rule`` chooses the storage of each tensor. Raises TuningError if the
    tuning does not fit.
    """
    tuning, time = tuning or Tuning(), (stopwatch or Stopwatch()).time
    graph = time("transform", transform, graph, passes)
    lowered = time("lower", lower_tuned, graph, target or target_for(traits, storage), tuning)
    lowered = time("lower", merge, lowered, rewrites)
    storages = dict(time("lower", storage_rule, lowered, storage))
    storages.update((tensor, "i32") for tensor in lowered.integers)
    lowered = time("lower", take_halves, lowered, storages)
    wanted = time("pack", list_constants, lowered, graph)
    (block, constants), packed = time("pack", _pack, wanted, storage, traits, cache, f"{name} {encode(tuning)}")
    return CompiledProgram(graph, lowered, tuning, storages, block, constants, packed)


def _pack(wanted: Wanted, storage: Storage, traits: Traits, cache: Cache | None, name: str) -> tuple[Constants, bool]:
    """The constants of an earlier process if they fit, else packed now; and whether they were packed now."""
    packed = False

    def pack() -> Constants:
        nonlocal packed
        packed = True
        return pack_constants(wanted, storage, traits.offset_alignment)

    return (pack() if cache is None else cache.constants(name, wanted.fits, pack)), packed
