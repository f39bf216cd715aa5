"""Pictures with channels first or last: the user's word, the cost of a bound picture, and advice for messages."""

from __future__ import annotations

from dataclasses import replace

from ...interop.errors import BindingError
from ...kernels.tensor import TensorInfo
from ..claim.channels_first import may_be_channels_first
from ..plan.binding import How, TensorLayout


def with_layout(tensor: TensorInfo, layout: TensorLayout | None, what: str) -> TensorInfo:
    """The tensor with the layout that the user gives. Raises BindingError, which begins with ``what``."""
    if layout is None or layout == ("nchw" if tensor.channels_first else "nhwc"):
        return tensor
    if layout not in ("nchw", "nhwc"):
        raise BindingError(f"{what} cannot be bound: layout {layout!r} must be 'nchw' or 'nhwc'")
    if layout == "nchw" and len(tensor.shape) != 4:
        raise BindingError(
            f"{what} cannot be bound: layout 'nchw' is for tensors of 4 dimensions, and this one has "
            f"{len(tensor.shape)}; leave it out"
        )
    return replace(tensor, channels_first=layout == "nchw", transposed=False)


def cost_of_picture(tensor: TensorInfo, *, write: bool) -> How:
    """The cost of a picture that is bound to the tensor."""
    if not tensor.channels_first:
        return "direct" if write else "at most one conversion dispatch"
    return "at most one conversion dispatch" if tensor.transposed else "one conversion dispatch"


def or_layout(tensor: TensorInfo) -> str:
    """Advice for messages: the other layout, if the tensor would be a picture in it."""
    if tensor.channels_first or not may_be_channels_first(tensor):
        return ""
    return "; if its channels come before its height and width, pass layout='nchw'"
