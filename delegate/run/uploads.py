"""Uploads of a partition: the boundary tensors that it copies from the CPU."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple


class Uploads(NamedTuple):
    """Tensors to copy before the next run only, and before each run."""

    once: tuple[int, ...] = ()
    each_run: tuple[int, ...] = ()


def plan_uploads(
    tensors: Iterable[int], *, lasting: Collection[int], fresh: Collection[int], pending: Collection[int]
) -> Uploads:
    """Divide ``tensors``, which come from the CPU and have nothing bound to them.

    The ``lasting`` ones keep their value until a change is reported: they are copied once, when their buffer is
    ``fresh``, or if that copy is still ``pending``. All others are copied before each run.
    """
    once, each_run = list[int](), list[int]()
    for tensor in tensors:
        if tensor not in lasting:
            each_run.append(tensor)
        elif tensor in fresh or tensor in pending:
            once.append(tensor)
    return Uploads(tuple(once), tuple(each_run))
