"""A transformed graph as a flat list of launches, with the shapes of all tensors, scratch tensors included."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..kernels.layout import Shape
from ..kernels.operator import Grid, Launch, Link, Lowering
from .graph import Graph, Node

VALUES = "values"
"""The start of the names of the arrays that hold links' numbers."""


@dataclass(frozen=True)
class LabelledLaunch:
    """A launch, the links of the values it writes as "dst", the operator it belongs to, and its number in the program.

    The number, with an array's name, is the key of that array among the program's constants.
    """

    launch: Launch
    links: tuple[Link, ...]
    label: str
    number: int

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The launch's arrays, and the numbers of its links: those of link i are one float4 named "values<i>"."""
        values = {f"{VALUES}{i}": link.values for i, link in enumerate(self.links) if link.values}
        return self.launch.arrays | {name: np.array([(*v, 0, 0, 0)[:4]], np.float32) for name, v in values.items()}

    @property
    def rounds(self) -> bool:
        """Whether a link rounds to the steps of a quantized tensor."""
        return any(link.expression == "QUANTIZE" for link in self.links)

    @property
    def reads(self) -> tuple[int, ...]:
        return (*self.launch.reads.values(), *(link.operand for link in self.links if link.operand is not None))


@dataclass
class Lowered:
    """Launches in order, and BHWC shapes by tensor. Scratch tensors have negative numbers."""

    launches: list[LabelledLaunch] = field(default_factory=list)
    shapes: dict[int, Shape] = field(default_factory=dict)


def lower(graph: Graph, grid: Grid) -> Lowered:
    """Ask every node's operator for its launches on a device of this ``grid``."""
    lowered = Lowered(shapes={index: tensor.bhwc for index, tensor in graph.tensors.items()})
    for node in graph.nodes:
        lower_node(node, lowered, grid)
    return lowered


def lower_node(node: Node, lowered: Lowered, grid: Grid) -> None:
    """Append one node's launches. Its links belong to the last one, which writes its output."""

    def scratch(shape: Shape) -> int:
        index = min(0, *lowered.shapes) - 1
        lowered.shapes[index] = shape
        return index

    launches = node.operator.lower(
        Lowering(node.attributes, node.inputs, node.outputs, lowered.shapes.__getitem__, scratch, grid)
    )
    label = f"{node.operator.name} {','.join(map(str, node.indices))}"
    for launch in launches:
        links = node.links if launch is launches[-1] else ()
        lowered.launches.append(LabelledLaunch(launch, links, label, len(lowered.launches)))
