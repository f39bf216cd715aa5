"""Transformations of a partition's graph, in the order of PASSES.

A pass is a function that changes the graph and appends one sentence a change, or a change declined, to
``graph.changes``. None changes what the graph computes, beyond the rounding of a different order of operations.
"""

from __future__ import annotations

from collections.abc import Callable

from .cleanup import remove_identities, remove_unused
from .concatenations import join_concatenations, share_reshaped
from .epilogues import fuse_epilogues, fuse_input_ops
from .graph import Graph
from .instance_norm import fuse_instance_norm
from .padding import merge_padding, read_padding_as_zeros
from .pooled import read_pools
from .ranks import align_ranks
from .rounding import merge_rounding
from .separable import fuse_separable
from .siblings import merge_siblings
from .spread import add_spread_vectors
from .squeeze_excite import fuse_squeeze_excite


def transform(graph: Graph) -> Graph:
    """Run every pass once, in order. Changes the graph given and returns it."""
    for apply in PASSES:
        apply(graph)
    return graph


PASSES: tuple[Callable[[Graph], None], ...] = (
    align_ranks,
    remove_unused,
    remove_identities,
    merge_rounding,
    read_padding_as_zeros,
    merge_padding,
    fuse_instance_norm,
    fuse_epilogues,
    add_spread_vectors,
    fuse_input_ops,
    fuse_squeeze_excite,
    join_concatenations,
    share_reshaped,
    merge_siblings,
    fuse_separable,
    read_pools,
)
