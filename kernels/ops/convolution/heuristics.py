"""Rules of thumb: the numbers by which convolutions and bottlenecks divide their work among invocations.

All were chosen on an NVIDIA H200 (132 compute units, 270,336 resident invocations, matrix units), OpenCL with halves,
on 2026-11-21, from kernels timed inside one dispatch (``python benchmarks/inside.py MODEL``).
``python benchmarks/convolutions.py`` runs a sweep of the same layers. The rules are in
docs/internals/loads-and-registers.md and docs/internals/tensor-cores.md. A constant that says "not measured" was chosen
without a sweep. ``SUSTAINED_SPEED`` measures the neighbours of most choices on the user's own device.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

# conv.kern: blocks of pixels by output slices

BLOCK_SIZES = ((4, 2), (8, 1), (4, 1), (2, 1), (1, 1))
"""(pixels, output slices) of an invocation, from the fewest loads per multiply-add to the most."""
BUSY_PART = 7
"""The device counts as busy with 1/7 of its resident invocations, because each keeps eight sums under way. The fastest
splits of 22 convolutions used 26,000 to 74,000 of 270,000 invocations.
"""
MOST_SPLIT = 32
"""The most invocations that share the sums of a block: a subgroup of NVIDIA's. Not measured."""
ROUND_OUTPUTS = 4
"""The outputs of a block whose parts are in local memory at a time, without matrix units: NVIDIA's OpenGL gives all
work-groups on a compute unit 48 KiB of local memory together, so that those of 16 KiB were two.
"""
LEAST_SPLIT_TERMS = 3
"""The fewest terms (input slices of taps) that each of them has. Not measured."""

# depthwise.kern: invocations that divide a window

DEPTHWISE_BUSY_PART = 4
"""The device counts as busy with 1/4 of its resident invocations: two work-groups of 256 per unit of an H200."""
LEAST_TAPS = 4
"""The fewest taps of a divided window that an invocation has. 9 taps divided by two: 0.3 us less to 0.25 more."""
MOST_EARLY_TAPS = 9
"""The most weights that an invocation loads before it reads its input. Other numbers were not measured."""
MOST_TAPS = 7
"""The most taps of a divided window that an invocation has; if they are more, the window stays whole. The places of the
taps of a divided window are computed at run time. 25 taps divided by four: 6.3 to 2.9 us; by two: 3.5 to 5.5 us.
"""

# patch_conv.kern: at most four input channels

PATCH_BLOCK_SIZES = ((4, 2), (4, 1), (2, 1), (1, 1))
"""(pixels, output slices) of an invocation, from the fewest loads per multiply-add to the most."""
PATCH_MOST_TAPS = 25
"""The largest window for patches if there are matrix units: 9x9 over a picture takes these 27.8 us and plain sums 55.6,
although the picture is copied into a tensor first.
"""
PATCH_SLICES = 8
"""Slices of local memory per invocation of a work-group: 32 KiB for 256 invocations. A limit, not measured."""

# row_conv.kern: tiles of pixels in local memory, without matrix units. Chosen on an H200 by OpenGL on 2026-11-22, from
# style_transfer's and deeplab's convolutions as separate dispatches, which ``benchmarks/convolutions.py --backend
# opengl`` times. docs/internals/loads-and-registers.md has the rules.

ROW_PIXELS, ROW_RUNS = (8, 4), (1, 2, 3, 4, 6, 8)
ROW_HEIGHTS, ROW_SPLITS = (4, 6, 8, 12, 16, 24, 32), (1, 2, 3, 4, 5, 6, 8)
"""The tiles that are considered: pixels of a run, runs of a row, rows, and invocations that share a sum."""
ROW_ROUND = 2
"""The pixels of a run whose parts are in local memory at a time. Not measured beside other numbers."""
ROW_LOCAL_BYTES = 46 << 10
"""The most local memory of a tile, beside which a program of several steps needs some."""
ROW_UNIT_BYTES, ROW_MOST_RESIDENT = 47 << 10, 5
"""Local memory of all work-groups that a compute unit runs at the same time, by OpenGL on an H200, and how many these
are at most, because of their registers.
"""
ROW_MOST_ISSUED, ROW_WARP_ISSUES = 3.6, 0.23
"""Instructions per clock of a compute unit, and of each of its warps if these are few."""
ROW_LEAST_PRODUCTS, ROW_LEAST_TAPS = 1 << 21, 9
"""The fewest products of slices, and the fewest taps of the window."""
ROW_CANDIDATES = 3
"""The number of tiles that ``SUSTAINED_SPEED`` measures."""

# matrix_conv.kern: fragments of 16 pixels by 8 channels

MATRIX_COLUMNS = (5, 4, 3, 2, 1)
"""The widths of a warp's tile in multiples of 8 output channels, widest first."""
INVOCATIONS_PER_WARP = 240
"""The device counts as busy with one warp per 240 resident invocations: 1126 warps on an H200. From a sweep of 8 to 12
tiles for each of 21 convolutions.
"""
MATRIX_LEAST_PIXELS = 16
"""The fewest output pixels for matrix units: a fragment has 16 rows, and others would be computed for nothing."""
MATRIX_LONG_SUM = 21
"""A sum of this many steps per warp is split further, even if there are warps enough, so that groups end together. The
measurement that chose it is not recorded.
"""
MATRIX_HALVES_TILE, MATRIX_HALVES_LEAST_STEPS, MATRIX_HALVES_MOST_STEPS = (2, 4), 4, 12
"""A 1x1 window over halves: the rows and columns of a warp's tile, and the fewest and the most steps of a warp. Each
fragment is multiplied more often. From a sweep of tiles of eight layers of tokens on an H200; with two steps a frame of
segformer_b0 was longer.
"""
MATRIX_HALVES_LEAST_WARPS = 768
"""The fewest warps for that tile."""
MATRIX_LEAST_CLOCKS, MATRIX_PRODUCTS_PER_CLOCK = 3200, 31000
"""Clocks of matrix_conv.kern on an H200 with halves: at least, and products in a clock. From 23 layers."""

# tiled_conv.kern: work-groups that share pixels in local memory

TILED_ROWS_AND_COLUMNS = ((2, 1), (2, 2), (4, 1), (4, 2), (4, 3), (4, 4), (2, 3), (2, 4), (2, 5), (6, 2))
"""The fragments of a warp, 8 pixels by 16 channels, that are considered. More pixels do not leave enough registers."""
TILED_STAGES = ((3, 3), (1, 4))
"""(taps, stages) of weights in local memory."""
TILED_LEAST_PRODUCTS, TILED_LEAST_POINTWISE = 100_000_000, 1 << 28
"""The fewest products of a convolution, and of one with a 1x1 window, whose pixels no tap shares."""
TILED_LEAST_PICTURE = 1 << 25
"""The fewest products of a convolution of at most four channels. Otherwise patch_conv.kern, which has no matrix units,
sums them up.
"""
PATCH_SURE_TAPS, PATCH_SURE_CHANNELS = 9, 32
"""The largest window over a picture, and its most channels, for which patches of plain sums are no slower than tiles:
3x3 to 16, 24 and 32 channels took 5.5, 15.6 and 7.1 us of an H200, and 8.0, 19.3 and 7.5 by tiles.
"""
TILED_LEAST_TRANSPOSED = 1 << 24
"""The fewest products of a transposed convolution, whose other kernel has no matrix units."""
TILED_MOST_LOADS = 12
"""The most slices that an invocation holds while it adds up the block before."""
TILED_CANDIDATES = 4
"""The number of tiles that ``SUSTAINED_SPEED`` measures."""
# Fitted to the times of 440 tiles of 23 layers on an H200 with halves, 12% off in the mean; clocks of a compute unit.
TILED_PRODUCT_CLOCKS, TILED_READ_CLOCKS = 2.4, 1.2
"""The time of a product of fragments, and of 128 bytes of local memory that products take."""
TILED_PATCH_CLOCKS, TILED_RESULT_CLOCKS = 3.0, 0.19
"""The time of a pixel of four slices that is copied to local memory, and of a result."""
TILED_LAUNCH_CLOCKS, TILED_START_CLOCKS, TILED_BLOCK_CLOCKS, TILED_STAGE_CLOCKS = 1755, 730, 280, 43
"""The time of a launch; and if one group has the unit to itself, so that all follow one another, that of its start and
its results, of a block of the sum, and of a stage of weights.
"""
TILED_STEP_CLOCKS, TILED_STEP_PRODUCT_CLOCKS = 65, 38
"""The time of a step of such a group's sum, and of each product of a warp in it."""
TILED_MOST_RESIDENT, TILED_UNIT_BYTES = 2, 220 << 10
"""The most groups of 256 invocations that a compute unit has registers for, and its local memory."""
TILED_EXCHANGE_BYTES = 24 << 10
"""The local memory in which sums are exchanged, if pixels take less. Not measured beside other sizes."""

# fma_conv.kern: work-groups that share pixels and weights in local memory, without matrix units

FMA_PIXELS_AND_SLICES = ((4, 1), (4, 2), (4, 3), (4, 4), (8, 1), (2, 2), (2, 4))
"""The pixels and output slices of an invocation that are considered."""
FMA_ACROSS, FMA_SPLITS, FMA_BLOCKS = (1, 2, 4, 8, 16), (1, 2, 4, 8), (1, 2, 4, 8, 16, 32)
"""The other sizes that are considered: invocations along slices, those that share a sum, input slices of a block."""
FMA_LEAST_PRODUCTS, FMA_LEAST_TRANSPOSED = 100_000_000, 1 << 24
"""The fewest products of a convolution, and of a transposed one, whose other kernel shares nothing. With 71 to 85
million, five layers took as long as by blocks or rows.
"""
FMA_LEAST_BESIDE_ROWS, FMA_GAIN_BESIDE_ROWS = 50_000_000, 0.5
"""The fewest products beside rows in local memory, and the most of their estimated time if there are fewer than
FMA_LEAST_PRODUCTS: with few pixels rows are few groups. 3x3 of 128 channels at 20x20 took a third of the time, and of
64 at 40x40 0.8 of it.
"""
FMA_SURE_PRODUCTS = 200_000_000
"""With so many products, rows in local memory take longer than they are estimated to."""
FMA_MOST_LOADS = 14
"""The most slices that an invocation holds while it adds up the block before."""
FMA_LOCAL_BYTES, FMA_UNIT_BYTES = 24 << 10, 47 << 10
"""Local memory of a work-group at most, and that of all groups of a compute unit of an H200 by OpenGL."""
FMA_ROUND = 4
"""The outputs of an invocation whose parts are in local memory at a time."""
# Fitted to the times of 70 tiles of 13 layers on an H200 by OpenGL, 8% off in the mean; clocks of a compute unit.
FMA_READ_CLOCKS, FMA_COPY_CLOCKS, FMA_ISSUE_CLOCKS = 1.5, 57, 1.43
"""The time of a warp's load from local memory, of a slice that it copies there, and of a multiply-add of one warp."""
FMA_STEP_CLOCKS, FMA_BLOCK_CLOCKS = 62, 690
"""The time of a step of a group's sum, and of a block of it."""
FMA_CANDIDATES = 4
"""The number of tiles that ``SUSTAINED_SPEED`` measures."""

# winograd.py: products of tiles by fma_conv.kern. The clocks were fitted by hand to 13 layers on an H200 by OpenGL.

WINOGRAD_LEAST_SLICES, WINOGRAD_LEAST_PRODUCTS = 4, 100_000_000
"""The fewest input and output slices, and products of the plain convolution. Fewer slices were not measured; with 59
million products, two layers took as long as by tiles.
"""
WINOGRAD_MOST_BYTES = 256 << 20
"""The most bytes of the values and of the products of a layer, which live between its launches."""
WINOGRAD_READS = 3
"""The times that a pixel is read, at most: 6x6 for each 4x4."""
WINOGRAD_PRODUCTS_FACTOR, WINOGRAD_LAUNCH_CLOCKS, WINOGRAD_SLICE_CLOCKS = 1.4, 7500, 0.013
"""The time of the products as a multiple of fma_conv's estimate, which knows no memory; of two more launches; and of a
slice of the values and of the products, which is written and read.
"""

# warpgroup_conv.kern: products of warpgroups

WARPGROUP_PARTS, WARPGROUP_PLANES = (1, 2, 3, 4, 6), (2, 3, 4, 6, 8, 16)
"""The divisions of the channels among tiles, and the planes of a block, that are considered."""
WARPGROUP_SHARES, WARPGROUP_FEW_RESULTS = (1, 2, 4, 8), 1 << 18
"""The numbers of shares of a sum that are considered, and the most results for which it has more than one."""
WARPGROUP_FLAT = 0.95
"""The most positions, as a part of the pixels of squares that cover a picture, for which tiles of any positions in a
row are considered.
"""
WARPGROUP_STAGE_BYTES = (9 << 10, 18 << 10, 36 << 10)
"""The most weights of a stage that are considered."""
WARPGROUP_MOST_SUMS = 16
"""The most sums of an invocation, in float4."""
WARPGROUP_REGISTERS, WARPGROUP_UNIT_REGISTERS, WARPGROUP_UNIT_BYTES = 60, 1 << 16, 227 << 10
"""Registers of an invocation beside its sums; registers and local memory of a unit."""
WARPGROUP_CANDIDATES = 4
"""The number of tiles that ``SUSTAINED_SPEED`` measures."""
WARPGROUP_GAIN, WARPGROUP_SHARES_GAIN = 0.9, 1.15
"""The most of another kernel's estimated time for which warpgroups take its place; and those that share sums, because
the launch that adds up runs beside others: so deeplab_mnv2_513 took 0.263 ms and not 0.272, resnet18_224 0.104 and not
0.107.
"""
WARPGROUP_APART, WARPGROUPS_APART = 2e8, 1e9
"""The fewest multiply-adds of a launch by warpgroups, and of all of these, that are worth breaking up one dispatch.
yolov8n_640 has 1.4e9 in four such launches, and depth_anything_small 4e8 in one. resnet18_224, whose launches are
smaller, took 0.212 ms with all of them and 0.144 without (docs/internals/tensor-cores.md).
"""
# Fitted to the times of 120 tiles of 15 layers on an H200, 9% off in the mean; clocks of a compute unit. It is busy by
# the work of all its groups, or waits for one group alone, in which all follow one another.
WARPGROUP_LAUNCH_CLOCKS = 1700
"""The time of a launch."""
WARPGROUP_OCTET_CLOCKS, WARPGROUP_RESULT_CLOCKS, WARPGROUP_STAGE_WORK_CLOCKS = 0.48, 0.23, 230
"""The work of a unit: for an octet that is copied, a result, and a stage."""
WARPGROUP_NOT_HIDDEN = 0.83
"""The part of the shorter one of products and copies that is not hidden behind the other."""
WARPGROUP_LEAST_STAGE_CLOCKS, WARPGROUP_WEIGHT_BYTE_CLOCKS = 430, 0.24
"""One group alone: the least time of a stage, and that of a byte of its weights."""
WARPGROUP_STAGE_CLOCKS, WARPGROUP_NO_OVERLAP_CLOCKS = 20, 100
"""One group alone: what comes on top for each stage, and if products do not go on in the next stage."""
WARPGROUP_TILE_CLOCKS, WARPGROUP_BLOCK_CLOCKS, WARPGROUP_CHAIN_OCTET_CLOCKS = 380, 580, 1.1
"""One group alone: the time of a tile, of a block of its sum, and of an octet that is copied."""
WARPGROUP_PASSED_CLOCKS = 38
"""One group alone: the time of eight sums that pass from one warpgroup to another."""
WARPGROUP_SUM_LAUNCH_CLOCKS, WARPGROUP_SHARE_CLOCKS = 3000, 0.05
"""The time of a launch that adds up shares, and in one unit that of a share of a result."""

# matrix_patch.kern: large windows over few channels by matrix units

MATRIX_PATCH_SLICES, MATRIX_PATCH_CHANNELS = 2, 16
"""The most input slices and output channels. Not measured beyond 9x9 windows of 3 to 8 and 8 to 3 channels."""
MATRIX_PATCH_RUNS = (1, 2, 3, 4, 5, 6)
"""The numbers of runs of 16 pixels per warp."""

# separable.kern: a depthwise convolution and the 1x1 behind it

PAIR_LOCAL_SLICES = 512
"""Slices of depthwise values in local memory: 8 KiB of the 16 KiB that every device has. A limit, not measured."""
PAIR_PRODUCTS = 1024
"""The most products (input slices times output slices) for which a tile computes all output slices. With more, a tile
takes a part of the output slices, because it would wait too long for all weights.
"""
PAIR_PIXELS = 256
"""The most output pixels of a pair with more products for which one dispatch is faster than two. With more pixels, the
depthwise values that every tile computes anew cost more than a dispatch. With the 15 pairs of pose_landmark_lite, of 4
to 256 pixels, its 78 steps of 265.6 us became 63 of 239.6 us.
"""
PAIR_PIXELS_BESIDE_MATRIX_UNITS = 16
"""PAIR_PIXELS for devices with matrix units, which make the second of two dispatches short: 3.1 and 2.5 us in place of
3.7 and 2.9. Seven of the 15 pairs are joined then: 219 us.
"""
TILE_INVOCATIONS = 1024
"""Resident invocations per tile that runs at the same time: two tiles per compute unit, 264 on an H200. One tile more
than that costs a whole round: deeplab's 265 to 273 tiles became 212 to 218, 171 to 162 us.
"""
UNIT_INVOCATIONS = 2048
"""Resident invocations of a compute unit. Long tiles, of few pixels and many products, are at most one per unit."""
WHOLE_PIXELS = (1, 2, 3, 4, 5, 6, *range(8, 64, 4), *range(64, 257, 16))
"""The sizes, in pixels, of tiles with all output slices."""
LARGEST_BLOCK = 5
"""The most pixels that an invocation of such a tile sums up at once. Not measured."""

# inverted.kern: the three convolutions of an inverted bottleneck by matrix units

INVERTED_MOST_PIXELS, INVERTED_MOST_TAPS, INVERTED_MOST_WEIGHTS = 128, 9, 8
"""The most pixels of a tile: 16 for each warp of a group of 256. The most taps, and fragments of weights of each of the
1x1 convolutions: an invocation keeps these.
"""
INVERTED_PRODUCTS, INVERTED_PIXELS = 1024, 4096
"""The most products of the last convolution, of slices for a pixel, and the fewest pixels for which one launch is
faster: deeplab_mnv2_513 took 0.240 ms in place of 0.257, and 0.267 with 1,536 products at 33x33 pixels too;
mobilenetv2_224 0.115 in place of 0.109 with 3,000 pixels and more.
"""
# Fitted to the times of 70 tiles of eight blocks on an H200, 7% off in the mean; clocks of a compute unit.
INVERTED_LAUNCH, INVERTED_CHUNK = 1360, 950
"""The time of a launch, and for which the groups of a unit wait in a chunk of slices."""
INVERTED_WORK = 218, 156, 109, 0.9
"""The time of a group in a chunk of slices: for each round of the first convolution, each of a warp's products in it,
each of those of the last one, and 128 bytes of local memory.
"""

# kernels/ops/bottleneck: all tiles of a step are estimated at once, as arrays, because a model has thousands.

Size = TypeVar("Size", int, np.ndarray)
"""A number about one tile, or an array of such numbers about many tiles."""
BOTTLENECK_CANDIDATES = 5
"""The number of tiles that ``SUSTAINED_SPEED`` measures."""


def tile_lengths(size: int) -> list[int]:
    """The lengths of tiles that divide ``size`` pixels into 1, 2, 3 ... about equal parts, the shortest first."""
    return sorted({-(-size // parts) for parts in range(1, size + 1)})
