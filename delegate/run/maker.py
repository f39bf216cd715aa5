"""Maker of a delegate's programs: with the choices of an earlier start, with choices measured now, or by rule."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...interop.device import Device
from ...kernels.views import Storage
from ..cache.cache import Cache
from ..cache.stopwatch import Stopwatch
from ..compiler import StorageRule, compile_program
from ..lower.precision import choose_storage
from ..lower.tuning import Tuning, TuningError
from ..transform.graph import Graph
from .program import Program
from .tuner import Tuner

log = logging.getLogger("framebind")

BuildGraph = Callable[[], Graph]
"""Builds a partition's graph in its current shapes; each compilation changes the one that it is given."""


class ProgramMaker:
    """Makes the programs of a delegate's partitions on one device.

    ``storage`` is the storage that tensors may have. ``tuned``: measure on the device how programs run fastest, unless
    the cache has the result. The ``name`` of a program identifies it among the model's programs in the cache.
    """

    def __init__(self, storage: Storage, stopwatch: Stopwatch, *, tuned: bool) -> None:
        self._storage: Storage = storage
        self._stopwatch, self._tuned = stopwatch, tuned
        self.storage_rule: StorageRule = choose_storage
        """The rule for the storage of tensors. Tests and certify replace it to reach kernels in halves."""
        self.tuner = Tuner()
        """The measurements. Tests replace them with decisions that need no clock."""
        self._device: Device | None = None
        self._cache: Cache | None = None

    def use(self, device: Device, cache: Cache | None) -> None:
        """Make programs on ``device`` from now on, with the cache's entries for it."""
        self._device, self._cache = device, cache

    def first(self, name: str, build_graph: BuildGraph, *, may_measure: bool) -> tuple[Program, bool]:
        """A program with nothing bound, and whether ``tune`` is to replace it once everything is.

        ``may_measure``: the program may be run as often as measuring takes.
        """
        saved = self._saved(name, build_graph) if self._tuned else None
        if saved is not None:
            return saved, False
        if self._tuned and may_measure:
            return self._unsaved(build_graph, Tuning()), True
        return self._make(name, build_graph, Tuning()), False

    def tune(self, base: Program, name: str, build_graph: BuildGraph) -> Program:
        """The fastest program found, with the objects bound to ``base``; ``base``, which follows the rules, is
        released.
        """

        def make(tuning: Tuning) -> Program:
            program = self._unsaved(build_graph, tuning)
            program.bind_like(base)
            return program

        tuning = self.tuner.tune(self._open_device, base, make)
        program = self._make(name, build_graph, tuning)
        program.bind_like(base)
        if self._cache is not None:
            self._cache.keep_tuning(name, tuning)
        base.release()
        return program

    @property
    def _open_device(self) -> Device:
        assert self._device is not None, "a partition exists, so its device was opened"
        return self._device

    def _saved(self, name: str, build_graph: BuildGraph) -> Program | None:
        """The program as an earlier start tuned it; None if that is not in the cache, or does not fit."""
        tuning = self._cache.tuning(name) if self._cache is not None else None
        try:
            return None if tuning is None else self._make(name, build_graph, tuning)
        except TuningError as reason:
            log.warning(f"the measurements of an earlier start are not used and made anew: {reason}")
            return None

    def _make(self, name: str, build_graph: BuildGraph, tuning: Tuning) -> Program:
        """A program to keep, with the cache and the stopwatch. Raises TuningError."""
        graph = self._stopwatch.time("transform", build_graph)
        device, cache, stopwatch = self._open_device, self._cache, self._stopwatch
        compiled = compile_program(
            graph,
            device.traits,
            self._storage,
            tuning,
            name=name,
            cache=cache,
            stopwatch=stopwatch,
            storage_rule=self.storage_rule,
        )
        return Program(device, compiled, stopwatch=stopwatch, store=cache)

    def _unsaved(self, build_graph: BuildGraph, tuning: Tuning) -> Program:
        """A program that is only measured, without cache and stopwatch. Raises TuningError."""
        compiled = compile_program(
            build_graph(), self._open_device.traits, self._storage, tuning, storage_rule=self.storage_rule
        )
        return Program(self._open_device, compiled)
