"""Convolutions and matrix products.

Operators: conv, depthwise, grouped_conv, conv_3d, transpose_conv, fully_connected and matmul; computed_conv has those
whose weights are computed while the model runs. separable is a depthwise convolution and the 1x1 one behind it.

Ways to compute CONV_2D, each with a kernel of its name, of which ``launch_convolution`` in conv.py takes one:

- patch_conv: at most four input channels, such as a picture; its pixels in local memory.
- conv: an invocation computes a block of pixels by slices (blocks.py), and nothing is shared.
- row_conv: the pixels of a work-group's tile in local memory, read by rows of the window.
- fma_conv: pixels and weights in local memory, for much work without matrix units.
- winograd: a quarter of the products of a 3x3 window, by fma_conv between two launches that transform.
- matrix_conv: matrix units; each warp loads its own fragments.
- matrix_patch: matrix units for a large window over few channels.
- tiled_conv: matrix units, and pixels in local memory that the warps of a work-group share, for much work.
- warpgroup_conv: products of whole warpgroups over halves, which replace the others if the source is kept as halves.

Words: a *tile* is the outputs that a work-group computes. A *block* is the part of its sums for which pixels lie in
local memory at a time, a *stage* the part for which weights do. An *octet* is eight numbers of 16 bits: 16 bytes.

packing.py has the orders of weights in memory, heuristics.py the numbers by which tiles are chosen.
"""
