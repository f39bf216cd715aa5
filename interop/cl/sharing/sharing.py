"""Sharing of memory between a GL and a CL context: one function picks the strategy, and says why."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import BindingError
from ...gl.context import GlContext
from ..context import ClContext
from .channel import Channel
from .external_memory import ExternalMemory, OrderedExternalMemory, same_gpu
from .gl_objects import GlObjects
from .host_copies import Copies
from .host_memory import HostMemory

log = logging.getLogger("framebind")

STRATEGIES: tuple[type[Channel], ...] = (GlObjects, OrderedExternalMemory, ExternalMemory, HostMemory, Copies)
"""The strategies, the best one first."""
_channels: weakref.WeakValueDictionary[tuple[int, int], Channel] = weakref.WeakValueDictionary()
"""The channels in use, by the id() of both contexts. A channel holds its two contexts, so no other context can have
these ids while it is listed.
"""


@dataclass(frozen=True)
class SharingReport:
    """The strategy by which a GL and a CL context share memory. ``str()`` of it is a text for people.

    Attributes
    ----------
    gl, cl : str
        The two contexts.
    strategy : str or None
        The name of the strategy; None if there is none, so that a model on OpenCL cannot use objects of the GL context.
    refused : dict of str to str
        The strategies that are better, and why each is out.
    host_waits : int
        Times that the CPU waited, so far, for one API before the other could go on.
    same_device : bool or None
        Whether both run on one GPU (or both on the CPU); None if the drivers do not tell.

    Examples
    --------
    >>> with fb.GlContext.headless(), fb.cl.ClContext("pocl"):
    ...     print(fb.cl.sharing_report())
    the GL context ... share memory by: ...
    """

    gl: str
    cl: str
    strategy: str | None
    refused: dict[str, str]
    host_waits: int
    same_device: bool | None = None

    def __repr__(self) -> str:
        return f"<SharingReport: {self.gl} and {self.cl} share by {self.strategy}>"

    def __str__(self) -> str:
        lines = [f"{self.gl} and {self.cl} share memory by: {self.strategy or 'nothing'}"]
        lines += [f"  not by {name}: {reason}" for name, reason in self.refused.items()]
        return "\n".join([*lines, f"  the CPU waited {self.host_waits} times so far"])


def sharing_report(gl: GlContext | None = None, cl: ClContext | None = None) -> SharingReport:
    """The strategy by which two contexts share memory, and why the better ones are out.

    Parameters
    ----------
    gl : GlContext, optional
        By default the GL context that is current on this thread.
    cl : ClContext, optional
        By default the ClContext that is current on this thread.

    Returns
    -------
    SharingReport
        The strategy and the reasons.

    Raises
    ------
    DeviceError
        If a context is not given and none is current.

    Examples
    --------
    >>> with fb.GlContext.headless() as gl, fb.cl.ClContext("pocl") as cl:
    ...     fb.cl.sharing_report(gl, cl).same_device
    True
    """
    gl, cl = gl or GlContext.current(), cl or ClContext.current()
    gl.check()
    cl.check()
    return report_sharing(gl, cl)


def report_sharing(gl: GlContext, cl: ClContext, strategies: Sequence[type[Channel]] = STRATEGIES) -> SharingReport:
    """The report of the channel in use, or else of the one that ``share`` would make of these ``strategies``."""
    strategy, refused = _choose(gl, cl, strategies)
    channel = _channels.get((id(gl), id(cl)))
    strategy = strategy if channel is None else type(channel)
    waits = channel.host_waits if channel is not None else 0
    name = strategy.name if strategy else None
    return SharingReport(str(gl), str(cl), name, refused, waits, _same_device(gl, cl, strategy))


def _same_device(gl: GlContext, cl: ClContext, strategy: type[Channel] | None) -> bool | None:
    if gl.software or cl.software:
        return gl.software and cl.software
    return True if strategy is GlObjects else same_gpu(gl, cl)


def share(gl: GlContext, cl: ClContext, strategies: Sequence[type[Channel]] = STRATEGIES) -> Channel:
    """The best way for the two contexts to address the same memory. Logs which, and why the better ones are out.

    ``strategies`` are tried in their order, unless the two have a channel already. One channel serves all who share
    between the two. Raises BindingError, with all reasons, if there is none.
    """
    channel = _channels.get((id(gl), id(cl)))
    if channel is not None:
        return channel
    strategy, refused = _choose(gl, cl, strategies)
    reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    if strategy is None:
        raise BindingError(
            f"{gl} and {cl} share no memory ({reasons}). Run the model with the backend 'opengl', or allow copies "
            "through the CPU with ClContext(copies_allowed=True)"
        )
    level = logging.WARNING if strategy is Copies else logging.INFO
    log.log(level, f"{gl} and {cl} share memory by {strategy.name}" + (f", not by {reasons}" if refused else ""))
    channel = _channels[id(gl), id(cl)] = strategy(gl, cl)
    return channel


def _choose(
    gl: GlContext, cl: ClContext, strategies: Sequence[type[Channel]]
) -> tuple[type[Channel] | None, dict[str, str]]:
    """The first strategy that works, and why those before it do not."""
    refused: dict[str, str] = {}
    for strategy in strategies:
        reason = strategy.why_not(gl, cl)
        if reason is None:
            return strategy, refused
        refused[strategy.name] = reason
    return None, refused
