"""The barrier between the work-groups of one dispatch on an OpenCL device."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
import pyopencl as cl

from ....kernels.codegen.opencl import OPENCL
from ...binaries import BinaryStore
from ...errors import KernelError
from ...record.barrier import GROUPS_PER_UNIT, TEST_ROUNDS, TEST_SPINS, BarrierTest, BaseBarrier
from ...record.barrier import Dispatch as DispatchGroups
from ...transfers import transfers
from ..api import own_errors
from ..build import CL1_2, build, compile_options
from ..context import ClContext, wait_for_all
from .command_buffer import Dispatch


class ClBarrier(BaseBarrier):
    """The barrier of everything that runs on one in-order queue.

    A CPU runs the groups one after the other: there one group is all that may wait.
    """

    def __init__(self, context: ClContext) -> None:
        self._context = context
        units = 1 if context.software else context.device.max_compute_units
        super().__init__(context, units, (1,) if context.software else GROUPS_PER_UNIT)

    @functools.cached_property
    def state(self) -> cl.Buffer:
        """The count of arrivals and the flag: two words."""
        state = cl.Buffer(self._context.context, cl.mem_flags.READ_WRITE, 8)
        cl.enqueue_fill_buffer(self._context.queue, state, np.zeros(2, np.uint32), 0, 8)
        return state

    @functools.cached_property
    def options(self) -> tuple[str, ...]:
        """Options with which the compiler takes the device's own release and acquire."""
        options = compile_options(self._context.device)
        if options == CL1_2 and "OpenCL C 3." in self._context.device.opencl_c_version:
            return ("-cl-std=CL3.0",)
        return options

    def _build_test(self, most: int, store: BinaryStore | None) -> BarrierTest:
        context, group_size = self._context, min(128, self._context.device.max_work_group_size)
        text = OPENCL.barrier_test(group_size)
        try:
            kernel = cl.Kernel(build(context.context, text, "barrier_test", self.options, store), "barrier_test")
        except cl.Error as error:
            raise KernelError("barrier_test", str(context), str(error), text) from error
        with own_errors(f"making the buffers of the barrier's test on {context}"):
            cells, stale_reads = (cl.Buffer(context.context, cl.mem_flags.READ_WRITE, 4 * n) for n in (most, 1))

        def dispatch(groups: int) -> Dispatch:
            for buffer in (cells, stale_reads):
                cl.enqueue_fill_buffer(context.queue, buffer, np.zeros(1, np.int32), 0, buffer.size)
            own = (np.int32(groups), np.uint32(TEST_SPINS), np.int32(TEST_ROUNDS))
            kernel.set_args(cells, stale_reads, self.state, *own)
            return kernel, (ctypes.c_size_t * 1)(group_size * groups), (ctypes.c_size_t * 1)(group_size)

        return BarrierTest(text, dispatch, lambda: self._word(stale_reads, 0))

    def _run(self, dispatch: DispatchGroups, groups: int) -> None:
        with own_errors(f"trying the barrier with {groups} groups on {self._context}"):
            kernel, global_size, local_size = dispatch(groups)
            cl.enqueue_nd_range_kernel(self._context.queue, kernel, tuple(global_size), tuple(local_size))
            wait_for_all(self._context.queue)

    def _failed(self) -> bool:
        return bool(self._word(self.state, 4))

    def _reset(self) -> None:
        with own_errors("resetting the barrier"):
            cl.enqueue_fill_buffer(self._context.queue, self.state, np.zeros(2, np.uint32), 0, 8)

    def _word(self, buffer: cl.Buffer, offset: int) -> int:
        word = np.zeros(1, np.uint32)
        transfers.count("download", word.nbytes, "flag of the barrier between work-groups")
        with own_errors("reading the barrier"):
            cl.enqueue_copy(self._context.queue, word, buffer, src_offset=offset, is_blocking=True)
        return int(word[0])
