"""What SUSTAINED_SPEED tries out on the device: the ways to run the same steps."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Sequence
from typing import Literal

from ..interop.device import CommandList, Device, Step
from ..interop.errors import BindingError

log = logging.getLogger("framebind")

WARM_UP, RUNS = 5, 20
Way = Literal["separate", "one"]
WAYS: tuple[Way, ...] = ("separate", "one")


def ways_to_run(device: Device, steps: Sequence[Step], known: Way | None = None) -> list[CommandList]:
    """The steps recorded in each of WAYS that the device offers. One where somebody has chosen already, or on a CPU, or
    where it is ``known`` from an earlier start.
    """
    if device.dispatches != "auto" or device.traits.software:
        return [device.record(steps)]
    if known is not None:
        try:
            return [device.record(steps, known)]
        except BindingError as reason:
            log.info(str(reason))
    lists = [device.record(steps, WAYS[0])]
    try:
        lists.append(device.record(steps, WAYS[1]))
    except BindingError as reason:
        log.info(str(reason))
    return lists


def fastest(device: Device, lists: Sequence[CommandList]) -> CommandList:
    """The list whose runs, each waited for, take the shortest time; the others are released. Their slots are filled."""
    if len(lists) == 1:
        return lists[0]
    seconds = [_median(device, commands) for commands in lists]
    best = lists[seconds.index(min(seconds))]
    for commands in lists:
        if commands is not best:
            commands.release()
    return best


def _median(device: Device, commands: CommandList) -> float:
    taken: list[float] = []
    for _ in range(WARM_UP + RUNS):
        start = time.perf_counter()
        commands.run()
        device.fence().wait()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[WARM_UP:])
