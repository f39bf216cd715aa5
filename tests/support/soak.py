"""Counts of GL objects and of resident memory, for tests that look for leaks."""

from __future__ import annotations

import gc
import os
from collections import Counter
from pathlib import Path

import framebind as fb

MIB = 1 << 20
STATM = Path("/proc/self/statm")


def resident() -> int:
    """Bytes of this process in memory now; 0, which never grows, if the system does not say (it is not Linux)."""
    if not STATM.exists():
        return 0
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def objects(context: fb.GlContext) -> Counter[str]:
    """GL objects of each kind that the library has made and not deleted."""
    gc.collect()
    context.objects.drain()
    return +context.objects.live
