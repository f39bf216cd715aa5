"""The passes over a partition's graph, in the order of PASSES.

A pass changes the graph, and notes in ``graph.changes`` each change that it made or declined. It changes results only
by the rounding of a different order of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .attention import fuse_attention
from .byte_products import multiply_bytes
from .channels_first import remove_boundary_transposes
from .cleanup import remove_identities, remove_unused
from .concatenations import join_concatenations, share_reshaped
from .constant_folding import fold_constants
from .deformable import fuse_deformable
from .epilogues import fuse_epilogues, fuse_input_ops
from .graph import Graph
from .instance_norm import fuse_instance_norm
from .layer_norm import fuse_layer_norm
from .max_pools import fuse_max_pools
from .movements import merge_movements
from .padding import merge_padding, read_padding_as_zeros
from .prelu import fuse_prelu
from .quantized_steps import merge_rounding, sum_integers
from .ranks import align_ranks, collapse_ranks, keep_rows, merge_reshapes
from .samples import fuse_samples
from .separable import fuse_expanded, fuse_separable, fuse_separable_pairs
from .siblings import merge_siblings
from .silu import fuse_silu
from .splits import concatenate_whole_tensors, share_split
from .spread import add_spread_vectors
from .squeeze_excite import fuse_squeeze_excite
from .windows import compute_rows_in_place, move_narrow_rows

Rewrite = Callable[[Graph], None]


@dataclass(frozen=True)
class Pass:
    """A rewrite of the graph, and the passes that must come before it."""

    run: Rewrite
    after: tuple[Rewrite, ...] = ()


PASSES: tuple[Pass, ...] = (
    # Half of a model's operators may only convert constants: no other pass looks at them.
    Pass(remove_unused),
    Pass(fold_constants, after=(remove_unused,)),
    # Formulas are spelled in the operators of the model, before reshapes and copies come between them.
    Pass(fuse_layer_norm, after=(fold_constants,)),
    Pass(fuse_samples, after=(fold_constants,)),
    Pass(compute_rows_in_place, after=(fold_constants,)),
    Pass(fuse_attention, after=(fold_constants, compute_rows_in_place)),
    Pass(move_narrow_rows, after=(fuse_attention,)),
    Pass(fuse_prelu, after=(fold_constants,)),
    Pass(collapse_ranks, after=(fuse_layer_norm, fuse_samples, fuse_attention, fuse_prelu)),
    # A copy that was of rank 5 and more is a strided one now, or repeats an operand.
    Pass(align_ranks),
    Pass(keep_rows, after=(collapse_ranks,)),
    Pass(merge_reshapes, after=(collapse_ranks, align_ranks)),
    # A reshape that keeps the BHWC form may still change the rank.
    Pass(remove_identities, after=(align_ranks,)),
    # Later passes fuse operations into a TRANSPOSE.
    Pass(remove_boundary_transposes, after=(remove_identities,)),
    # A picture that has channels first in memory is left to the kernels that read it.
    Pass(merge_movements, after=(remove_boundary_transposes,)),
    Pass(fuse_deformable, after=(fuse_samples, merge_movements)),
    Pass(merge_rounding, after=(remove_identities, merge_movements)),
    # Elementwise nodes are nodes of their own until fuse_epilogues.
    Pass(read_padding_as_zeros),
    Pass(merge_padding, after=(read_padding_as_zeros,)),
    Pass(fuse_instance_norm, after=(merge_rounding,)),
    Pass(fuse_silu, after=(merge_rounding,)),
    Pass(fuse_epilogues, after=(read_padding_as_zeros, fuse_instance_norm, fuse_silu)),
    Pass(add_spread_vectors),
    # An epilogue costs less than the same operation on everything that is read.
    Pass(fuse_input_ops, after=(fuse_epilogues,)),
    Pass(sum_integers, after=(merge_rounding, merge_padding, add_spread_vectors, fuse_epilogues, fuse_input_ops)),
    # A mean may have input operations, and the layers behind it have activations.
    Pass(fuse_squeeze_excite, after=(fuse_epilogues, fuse_input_ops)),
    Pass(concatenate_whole_tensors, after=(fuse_epilogues,)),
    # A tensor that has a place is not fused away, and concatenations of single pixels are gone.
    Pass(
        join_concatenations, after=(fuse_epilogues, add_spread_vectors, fuse_squeeze_excite, concatenate_whole_tensors)
    ),
    # A part lies where the tensor that is cut has its place.
    Pass(share_split, after=(join_concatenations,)),
    Pass(share_reshaped, after=(align_ranks, join_concatenations)),
    # The outputs of merged convolutions have places, which a concatenation needs more.
    Pass(merge_siblings, after=(fuse_input_ops, join_concatenations)),
    Pass(fuse_separable, after=(fuse_epilogues, merge_siblings)),
    Pass(fuse_expanded, after=(fuse_separable,)),
    Pass(fuse_max_pools, after=(fuse_epilogues,)),
    Pass(fuse_separable_pairs, after=(fuse_separable, fuse_expanded, fuse_max_pools)),
    Pass(multiply_bytes, after=(sum_integers, merge_siblings, fuse_separable_pairs)),
)


def transform(graph: Graph, passes: Sequence[Pass] = PASSES) -> Graph:
    """Run every pass once, in order. Changes the graph given and returns it."""
    for each in passes:
        each.run(graph)
    return graph
