"""Merging of launches: drops each launch whose work other launches can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .launches import LabelledLaunch, Lowered
from .normalized_reads import normalize_where_read
from .partial_sums import sum_where_written
from .prologue import compute_where_read
from .resized_reads import resize_where_read

Rewrite = Callable[[Lowered, LabelledLaunch], None]
"""Drops a launch if others can do its work, or changes nothing."""
REWRITES: tuple[Rewrite, ...] = (normalize_where_read, sum_where_written, compute_where_read, resize_where_read)


def merge(lowered: Lowered, rewrites: Sequence[Rewrite] = REWRITES) -> Lowered:
    """Apply every rewrite to every launch, in order. Changes the launches given and returns them.

    For example, a squeeze-and-excite block then needs no dispatch. The work-groups that write its pixels also write
    their sums; the work-groups that read its gate add up these sums and compute the gate, each before its own tile.
    """
    for rewrite in rewrites:
        for entry in list(lowered.launches):
            rewrite(lowered, entry)
    return lowered
