"""Merging of launches: drops each launch whose work other launches can do."""

from __future__ import annotations

from .launches import Lowered
from .partial_sums import sum_where_written
from .prologue import compute_where_read
from .resized_reads import resize_where_read


def merge(lowered: Lowered) -> Lowered:
    """Apply every rewrite to every launch, in order. Changes the launches given and returns them.

    A squeeze-and-excite block is then no dispatch of its own. The work-groups that write its pixels also write the sums
    of theirs; those that read its gate add these up and compute it, each for itself, before their own tile.
    """
    for rewrite in REWRITES:
        for entry in list(lowered.launches):
            rewrite(lowered, entry)
    return lowered


REWRITES = (sum_where_written, compute_where_read, resize_where_read)
