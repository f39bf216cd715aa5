"""Networks of PyTorch that no package has under a free licence, written from their papers, with random weights.

U2-Net-P: Qin et al., "U2-Net: Going Deeper with Nested U-Structure" (2020), the small form. Recurrent matting: Lin et
al., "Robust High-Resolution Video Matting with Temporal Guidance" (2022), with four ConvGRU states, without the guided
filter. SRVGG: the compact network of Wang et al., "Real-ESRGAN" (2021).
"""

# PyTorch is no package of this environment.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import mobilenet_v3_large


def _convolve(channels: int, filters: int, dilation: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels, filters, 3, padding=dilation, dilation=dilation)
    return nn.Sequential(convolution, nn.BatchNorm2d(filters), nn.ReLU())


def _resized(picture: Tensor, other: Tensor) -> Tensor:
    return functional.interpolate(picture, size=other.shape[2:], mode="bilinear", align_corners=False)


class _NestedBlock(nn.Module):
    """RSU of the paper: a U-Net of ``depth`` levels inside a residual; ``dilated`` levels keep the size."""

    def __init__(self, depth: int, channels: int, middle: int, filters: int, *, dilated: bool = False) -> None:
        super().__init__()
        self.dilated = dilated
        self.first = _convolve(channels, filters)
        widths = [2**level if dilated else 1 for level in range(depth - 1)]
        self.down = nn.ModuleList(_convolve(middle if n else filters, middle, w) for n, w in enumerate(widths))
        self.bottom = _convolve(middle, middle, 8 if dilated else 2)
        outs = [filters if n == 0 else middle for n in range(depth - 1)]
        self.up = nn.ModuleList(_convolve(2 * middle, out, w) for out, w in zip(outs, widths, strict=True))

    def forward(self, picture: Tensor) -> Tensor:
        first = current = self.first(picture)
        kept = []
        for level, convolve in enumerate(self.down):
            if level and not self.dilated:
                current = functional.max_pool2d(current, 2, 2, ceil_mode=True)
            kept.append(current := convolve(current))
        current = self.bottom(current)
        for convolve, beside in zip(reversed(self.up), reversed(kept), strict=True):
            current = convolve(torch.cat([_resized(current, beside), beside], 1))
        return current + first


class U2NetP(nn.Module):
    """A mask (1, 1, height, width) of the salient object of a picture (1, 3, height, width).

    ``plan`` has the depth of each level's block, and whether the block is dilated; the paper's is the default.
    """

    def __init__(
        self,
        plan: Sequence[tuple[int, bool]] = ((7, False), (6, False), (5, False), (4, False), (4, True), (4, True)),
        width: int = 64,
    ) -> None:
        super().__init__()

        def block(channels: int, depth: int, dilated: bool) -> _NestedBlock:
            return _NestedBlock(depth, channels, width // 4, width, dilated=dilated)

        self.down = nn.ModuleList(block(width if level else 3, *each) for level, each in enumerate(plan))
        self.up = nn.ModuleList(block(2 * width, *each) for each in plan[:-1])
        self.sides = nn.ModuleList(nn.Conv2d(width, 1, 3, padding=1) for _ in plan)
        self.mix = nn.Conv2d(len(plan), 1, 1)

    def forward(self, picture: Tensor) -> Tensor:
        kept, current = [], picture
        for level, block in enumerate(self.down):
            if level:
                current = functional.max_pool2d(current, 2, 2, ceil_mode=True)
            kept.append(current := block(current))
        maps = [current]
        for block, beside in zip(reversed(self.up), reversed(kept[:-1]), strict=True):
            maps.append(current := block(torch.cat([_resized(current, beside), beside], 1)))
        sides = [_resized(side(each), picture) for side, each in zip(self.sides, reversed(maps), strict=True)]
        return torch.sigmoid(self.mix(torch.cat(sides, 1)))


class _Memory(nn.Module):
    """A ConvGRU on half of the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.half = channels // 2
        self.gates = nn.Conv2d(channels, channels, 3, padding=1)
        self.candidate = nn.Conv2d(channels, self.half, 3, padding=1)

    def forward(self, picture: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        passed, seen = picture.split([self.half, self.half], 1)
        reset, update = torch.sigmoid(self.gates(torch.cat([seen, state], 1))).split([self.half, self.half], 1)
        candidate = torch.tanh(self.candidate(torch.cat([seen, reset * state], 1)))
        state = (1 - update) * state + update * candidate
        return torch.cat([passed, state], 1), state


class RecurrentMatting(nn.Module):
    """Foreground (1, 3, height, width), alpha (1, 1, height, width) and four states of a picture and the last states.

    The states have 16, 20, 40 and 64 channels, at 1/2, 1/4, 1/8 and 1/16 of the size, which is a multiple of 16.
    """

    def __init__(self) -> None:
        super().__init__()
        features = mobilenet_v3_large(weights=None).features
        self.stages = nn.ModuleList([features[:2], features[2:4], features[4:7], features[7:13]])
        self.project = nn.Sequential(nn.Conv2d(112, 128, 1), nn.BatchNorm2d(128), nn.ReLU())
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(112, 128, 1), nn.Sigmoid())
        self.up = nn.ModuleList([_convolve(128 + 40 + 3, 80), _convolve(80 + 24 + 3, 40), _convolve(40 + 16 + 3, 32)])
        self.memories = nn.ModuleList(_Memory(channels) for channels in (128, 80, 40, 32))
        self.last = nn.Sequential(_convolve(32 + 3, 16), _convolve(16, 16), nn.Conv2d(16, 4, 1))

    def forward(self, picture: Tensor, r1: Tensor, r2: Tensor, r3: Tensor, r4: Tensor) -> tuple[Tensor, ...]:
        smaller = [picture]
        for _ in range(3):
            smaller.append(functional.avg_pool2d(smaller[-1], 2, 2, count_include_pad=False, ceil_mode=True))
        features, current = [], picture
        for stage in self.stages:
            features.append(current := stage(current))
        current = self.project(current) * self.scale(current)
        current, r4 = self.memories[0](current, r4)
        states = []
        for up, memory, state, feature, source in zip(
            self.up, list(self.memories)[1:], (r3, r2, r1), features[2::-1], smaller[:0:-1], strict=True
        ):
            current = up(torch.cat([_resized(current, feature), feature, source], 1))
            current, state = memory(current, state)
            states.append(state)
        result = self.last(torch.cat([_resized(current, picture), picture], 1))
        r3, r2, r1 = states
        return (picture + result[:, :3]).clamp(0, 1), result[:, 3:].clamp(0, 1), r1, r2, r3, r4


def state_shapes(height: int, width: int) -> list[tuple[int, int, int, int]]:
    """The shapes of the four states of RecurrentMatting."""
    channels = zip((16, 20, 40, 64), (2, 4, 8, 16), strict=True)
    return [(1, each, height // scale, width // scale) for each, scale in channels]


class Srvgg(nn.Module):
    """A picture four times as large as the given one (1, 3, height, width)."""

    def __init__(self, layers: int = 16, filters: int = 64, scale: int = 4) -> None:
        super().__init__()
        body: list[nn.Module] = [nn.Conv2d(3, filters, 3, padding=1), nn.PReLU(filters)]
        for _ in range(layers):
            body += [nn.Conv2d(filters, filters, 3, padding=1), nn.PReLU(filters)]
        self.body = nn.Sequential(*body, nn.Conv2d(filters, 3 * scale**2, 3, padding=1), nn.PixelShuffle(scale))
        self.scale = scale

    def forward(self, picture: Tensor) -> Tensor:
        return self.body(picture) + functional.interpolate(picture, scale_factor=self.scale, mode="nearest")


class _Attention(nn.Module):
    """A transformer's layer: attention of queries to a memory, and two matrix products, each behind a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm, self.norm_after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.product = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, queries: Tensor, memory: Tensor | None = None) -> Tensor:
        wanted = self.norm(queries)
        given = wanted if memory is None else memory
        parts = (self.query(wanted), self.key(given), self.value(given))
        query, key, value = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(query, key, value)
        queries = queries + self.out(seen.transpose(1, 2).flatten(2))
        return queries + self.product(self.norm_after(queries))


class VisionTransformer(nn.Module):
    """Scores (1, classes) of a picture (1, 3, size, size)."""

    def __init__(self, size: int = 64, patch: int = 8, width: int = 64, layers: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2, width) * 0.1)
        self.layers = nn.Sequential(*(_Attention(width, 4) for _ in range(layers)))
        self.scores = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, picture: Tensor) -> Tensor:
        tokens = self.patches(picture).flatten(2).transpose(1, 2) + self.places
        return self.scores(self.layers(tokens).mean(1))


class QueryDetector(nn.Module):
    """Scores (1, queries, classes) and boxes (1, queries, 4), center and size from 0 to 1, of a picture.

    Carion et al., "End-to-End Object Detection with Transformers" (2020), at a small size.
    """

    def __init__(self, queries: int = 20, width: int = 32, classes: int = 8) -> None:
        super().__init__()
        widths = (3, 16, 24, width)
        self.features = nn.Sequential(
            *(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.SiLU()) for a, b in itertools.pairwise(widths))
        )
        self.queries = nn.Parameter(torch.randn(1, queries, width))
        self.layers = nn.ModuleList(_Attention(width, 4) for _ in range(2))
        self.scores, self.boxes = nn.Linear(width, classes), nn.Linear(width, 4)

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        memory, found = self.features(picture).flatten(2).transpose(1, 2), self.queries
        for layer in self.layers:
            found = layer(found, memory)
        return self.scores(found), torch.sigmoid(self.boxes(found))
