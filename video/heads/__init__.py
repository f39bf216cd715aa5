"""The heads of detectors, one file each, with an object ``HEAD``: found by their folder."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import framebind as fb

from ..head import Decoder, Head
from ..task import Fit, Model, picture_of


def heads_of(task: str) -> list[Head]:
    """The heads of a task, in the alphabet's order of their files."""
    names = sorted(found.name for found in iter_modules(__path__))
    heads: list[Head] = [import_module(f"{__name__}.{name}").HEAD for name in names]
    return [head for head in heads if head.task == task]


def best_fit(model: Model, task: str) -> Fit | None:
    """The degree to which the task's heads know a model, and the reason; None if none of them knows it."""
    best = _best(model, task)
    return None if best is None else best[0]


def decoder_of(model: Model, task: str) -> Decoder:
    """The decoder of the task's head that knows a model best. Raises ModelError if none does."""
    best = _best(model, task)
    if best is not None:
        return best[1].decoder(model)
    known = "; ".join((head.decoder.__doc__ or "").split("\n")[0].rstrip(".") for head in heads_of(task))
    raise fb.ModelError(
        f"{model.path.name} is no model of the task '{task}' that is known here: its inputs are "
        f"{list(model.inputs.values())}, its outputs {list(model.outputs.values())}. Known are: {known}"
    )


def _best(model: Model, task: str) -> tuple[Fit, Head] | None:
    if picture_of(model) is None:
        return None
    found = [(fit, head) for head in heads_of(task) if (fit := head.fits(model)) is not None]
    return max(found, key=lambda each: each[0].match, default=None)
