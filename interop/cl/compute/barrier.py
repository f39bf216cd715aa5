"""The barrier of all work-groups of one dispatch on an OpenCL device: whether it works there, and what went wrong."""

from __future__ import annotations

import ctypes
import functools
import logging
from collections.abc import Callable

import numpy as np
import pyopencl as cl

from ....kernels.codegen.one_dispatch_opencl import render_opencl_barrier_test
from ...binaries import BinaryStore
from ...record.one_dispatch import (
    GROUPS_PER_UNIT,
    MAX_SPINS,
    TEST_PATIENCE,
    TEST_ROUNDS,
    BarrierWatch,
    groups_to_try,
    keep_groups,
)
from ...transfers import transfers
from ..build import CL1_2, build, compile_options
from ..context import ClContext, wait_for_all
from .command_buffer import Dispatch

log = logging.getLogger("framebind")


class ClBarrier:
    """The state of the barrier, for everything that runs on one in-order queue: a count, and the flag of a failure."""

    def __init__(self, context: ClContext) -> None:
        self._context = context
        self.units: int = 1 if context.software else context.device.max_compute_units
        self.per_unit = (1,) if context.software else GROUPS_PER_UNIT
        """How many groups a compute unit is tried with. A CPU runs one after the other: one is all that may wait."""
        self.max_spins = MAX_SPINS
        self._why_unusable: str | None = None
        self.watch = BarrierWatch(str(context), self._take_flag, context.software)

    @functools.cached_property
    def state(self) -> cl.Buffer:
        state = cl.Buffer(self._context.context, cl.mem_flags.READ_WRITE, 8)
        cl.enqueue_fill_buffer(self._context.queue, state, np.zeros(2, np.uint32), 0, 8)
        return state

    @functools.cached_property
    def options(self) -> tuple[str, ...]:
        """What the compiler is told, so that it takes the device's own release and acquire."""
        options = compile_options(self._context.device)
        if options == CL1_2 and "OpenCL C 3." in self._context.device.opencl_c_version:
            return ("-cl-std=CL3.0",)
        return options

    def why_unusable(self, store: BinaryStore | None) -> str:
        """What is wrong with the barrier on this device, tested once; "" if nothing is."""
        if self._why_unusable is None:
            self._why_unusable = self._test(store)
        return self._why_unusable

    def _test(self, store: BinaryStore | None) -> str:
        """What is wrong with the barrier on this device, found by a bounded test; "" where nothing is.

        Every group writes a number, waits, and must then read its neighbour's, which it has read in the round before.
        """
        context, group_size = self._context, min(128, self._context.device.max_work_group_size)
        try:
            text = render_opencl_barrier_test(group_size)
            program = build(context.context, text, "barrier_test", self.options, store)
        except cl.Error as error:
            return f"the barrier does not compile: {error}"
        kernel = cl.Kernel(program, "barrier_test")
        most = self.units * self.per_unit[0]
        cells, stale_reads = (cl.Buffer(context.context, cl.mem_flags.READ_WRITE, 4 * n) for n in (most, 1))

        def dispatch(groups: int) -> Dispatch:
            for buffer in (cells, stale_reads):
                cl.enqueue_fill_buffer(context.queue, buffer, np.zeros(1, np.int32), 0, buffer.size)
            own = (np.int32(groups), np.uint32(TEST_PATIENCE), np.int32(TEST_ROUNDS))
            kernel.set_args(cells, stale_reads, self.state, *own)
            return kernel, (ctypes.c_size_t * 1)(group_size * groups), (ctypes.c_size_t * 1)(group_size)

        groups = self.resident_groups(dispatch, most, text, store)
        if groups == 0:
            return "its work-groups do not wait for one another"
        wrong = self._download(stale_reads, 0)
        log.debug(f"{context}: {groups} groups of {group_size} wait for one another")
        return f"{wrong} times what one group wrote was not seen by another" if wrong else ""

    def resident_groups(
        self, dispatch: Callable[[int], Dispatch], most: int, text: str, store: BinaryStore | None
    ) -> int:
        """The largest number of groups, ``most`` at most, with which ``dispatch(groups)`` gets through; 0: none.

        ``text`` is that of the program, so that the next start tries first what this one finds.
        """
        for groups in groups_to_try(self.units, self.per_unit, most, text, store):
            kernel, global_size, local_size = dispatch(groups)
            try:
                cl.enqueue_nd_range_kernel(self._context.queue, kernel, tuple(global_size), tuple(local_size))
                wait_for_all(self._context.queue)
            except cl.Error as error:
                log.debug(f"{groups} groups: {error}")
                return 0
            if not self._take_flag():
                keep_groups(groups, most, text, store)
                return groups
        return 0

    def _take_flag(self) -> bool:
        """Whether a group has waited in vain; if so, everything is as it was in the beginning."""
        failed = bool(self._download(self.state, 4))
        if failed:
            cl.enqueue_fill_buffer(self._context.queue, self.state, np.zeros(2, np.uint32), 0, 8)
        return failed

    def _download(self, buffer: cl.Buffer, offset: int) -> int:
        word = np.zeros(1, np.uint32)
        transfers.count("download", word.nbytes, "flag of the barrier between work-groups")
        cl.enqueue_copy(self._context.queue, word, buffer, src_offset=offset, is_blocking=True)
        return int(word[0])
