"""A bound object as the planner sees it: its resource, its view and its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ...interop.device import Resource
from ...interop.host_arrays import HostArray
from ...kernels.tensor import Shape
from ...kernels.views import Dense, Picture, PlanePicture, Quantized, Sliced, Strided
from .region import Region

Values = float | Sequence[float]
Crop = tuple[float, float, float, float] | Region
TensorLayout = Literal["nchw", "nhwc"]
"""The order of a picture's dimensions: channels before height and width, or after them."""
How = Literal[
    "direct", "at most one conversion dispatch", "one conversion dispatch", "one conversion dispatch for each frame"
]

FrameView = Dense | Sliced | Strided | Picture | PlanePicture
"""The views of objects that a user binds."""


@dataclass(frozen=True)
class Frames:
    """The view of a tensor of BHWC ``shape`` with one object per frame, each with its own view."""

    shape: Shape
    views: tuple[FrameView, ...]


BoundView = FrameView | Quantized | Frames
"""The views of bound objects."""


@dataclass(slots=True)
class Binding:
    """An object that a program reads or writes as a tensor, or the objects of all frames of a batch.

    ``parameters`` are those of a Picture or a PlanePicture (kernels/views.py), else (). ``how`` is the cost: "direct"
    if the model's own kernels read or write the object, "at most one conversion dispatch" if a picture is sampled: by
    the model's first convolution, or into the tensor first. A picture takes one dispatch if the model uses the tensor
    with channels first. ``others`` are the objects of a PlanePicture's planes after the first, and the buffer of a
    region. If the view is Frames, ``frames`` has a binding for each, and ``resource`` is the first of their objects.
    ``hosts`` are the arrays in the CPU's memory that are copied to and from the resources.

    Only ``resource`` ever changes: an input's, to one with the same compatibility key.
    """

    resource: Resource
    view: BoundView
    parameters: tuple[float, ...] = ()
    how: How = "direct"
    others: tuple[Resource, ...] = ()
    frames: tuple[Binding, ...] = ()
    hosts: tuple[HostArray, ...] = ()
    described: tuple[Any, ...] = ()
    """The description of a YuvPicture's planes: see interop/yuv.py."""
    channels_last: bool = False
    """The view has channels last, and the model's tensor has them first (NCHW)."""

    @property
    def parts(self) -> tuple[Binding, ...]:
        """The bindings of all frames, or itself."""
        return self.frames or (self,)

    @property
    def region(self) -> tuple[Resource, ...]:
        """The buffer that says where a picture's region is, the last of ``others``; or ()."""
        return self.others[-1:] if isinstance(self.view, Picture | PlanePicture) and self.view.region else ()

    @property
    def is_on_host(self) -> bool:
        """Whether runs copy an array in the CPU's memory."""
        return any(part.hosts for part in self.parts)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The GPU objects of the binding: planes of a picture, and those of all frames."""
        if self.frames:
            return tuple([resource for frame in self.frames for resource in frame.resources])
        return (self.resource, *self.others)

    def __str__(self) -> str:
        return f"{self.resource.label}: {self.how}"


class TextureMapping(NamedTuple):
    """The relation of a texture's texels and a tensor's values: see ``GpuDelegate.bind_buffer_to_tensor``."""

    mean: Values = 0.0
    std: Values = 1.0
    order: str | None = None
    crop: Crop | None = None
    rotation: float = 0.0
    flip: str = ""
    layout: TensorLayout | None = None
    pad: Values | None = None


Mappings = TextureMapping | list[TextureMapping]
"""The relation for all frames of a batch, or for each."""
