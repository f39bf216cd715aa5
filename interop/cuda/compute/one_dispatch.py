"""Steps recorded as one dispatch: a cooperative launch, whose work-groups CUDA keeps resident together."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import numpy as np

from ...binaries import BinaryStore
from ...device import Step
from ...errors import BindingError
from ...record.one_dispatch import merge, table, wanted_groups
from ..api import ask, attribute, check, driver
from ..arrays import CudaArray, new_array
from ..build import build_together
from ..context import CudaContext
from .recording import Call, Recording

_UNITS, _COOPERATIVE_LAUNCH = 16, 95
"""CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, _COOPERATIVE_LAUNCH."""


class CooperativeLaunch:
    """The barrier of everything that runs on one stream: a word that counts arrivals, and is never reset."""

    def __init__(self, context: CudaContext) -> None:
        self._context, self.units = context, attribute(context.device, _UNITS)

    def why_unusable(self, store: BinaryStore | None) -> str:
        """The reason why steps cannot be one dispatch on this GPU, or ""."""
        return "" if attribute(self._context.device, _COOPERATIVE_LAUNCH) else "it has no cooperative launches"

    @functools.cached_property
    def arrivals(self) -> CudaArray:
        """The count."""
        array = new_array(self._context, (1,), np.uint32, "arrivals at the barrier")
        with self._context.entered():
            what = f"clearing '{array.label}'"
            check(driver().cuMemsetD8Async(array.pointer, 0, array.nbytes, self._context.stream), what)
        return array

    def resident_groups(self, function: int, group_size: int) -> int:
        """The number of work-groups of a kernel that fit on the GPU at once."""
        with self._context.entered():
            ask_occupancy = driver().cuOccupancyMaxActiveBlocksPerMultiprocessor
            what = f"asking {self._context} for its room"
            return self.units * ask(ask_occupancy, ctypes.c_int, function, group_size, 0, what=what)


def record_as_one(
    context: CudaContext,
    barrier: CooperativeLaunch,
    local_bytes: int,
    groups_per_unit: int,
    steps: Sequence[Step],
    store: BinaryStore | None,
) -> Recording:
    """Record all steps as one dispatch. ``groups_per_unit``: the largest number of work-groups per compute unit; 0
    leaves it to a rule.
    """
    merged, recording = merge(steps, local_bytes), Recording()
    (function,) = build_together(context, [merged.source], store)
    room = barrier.resident_groups(function.handle, merged.source.group_size)
    if not room:
        raise BindingError(f"no work-group of these {len(steps)} steps fits on a compute unit of '{context.name}'")
    groups = min(room, wanted_groups(steps, barrier.units, groups_per_unit))
    places = [recording.memory(resource) for resource in merged.memories]
    places += [recording.memory(resource) for _, resource in merged.textures]
    for number, argument in merged.pictures:
        places += recording.floats(number, argument.name, steps[number].parameters[argument.name])
    rows = np.ascontiguousarray(table(steps, merged, groups))
    uploaded = new_array(context, rows.shape, rows.dtype, "steps of a program")
    uploaded.upload(context, rows, "steps of a program")
    own = ctypes.c_uint64(uploaded.pointer), ctypes.c_int(len(rows)), ctypes.c_uint64(barrier.arrivals.pointer)
    places += [*own, ctypes.c_int(groups)]
    call = _cooperative(recording.launch(context, function, places, groups, merged.source.group_size))
    recording.kept += [uploaded, barrier.arrivals]
    recording.barriers = int(rows[:, 3].sum())
    recording.dispatches.append((f"{len(steps)} steps on {groups} groups", call))
    recording.calls.append((context.call, (call[0], *call[1])))
    return recording


def _cooperative(call: Call) -> Call:
    """Make a launch cooperative: the groups are resident together. Such a call takes no further options."""
    return driver().cuLaunchCooperativeKernel, call[1][:-1]
