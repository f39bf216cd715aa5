"""The command ``benchmark`` with PyTorch among its peers.

python benchmarks/with_torch.py MODEL --backend cuda --compare torch-compile
"""

from __future__ import annotations

from functools import partial

import typer
from torch_peer import TORCH_WAYS, measure_torch

from framebind.tools.measure.peers import PEERS

PEERS.update({name: partial(measure_torch, name) for name in TORCH_WAYS})


def main() -> None:
    """Run the command, whose help names all peers: so it is imported when they are known."""
    from framebind.tools.commands.benchmark import benchmark

    typer.run(benchmark)


if __name__ == "__main__":
    main()
