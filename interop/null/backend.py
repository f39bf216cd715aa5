"""The null device in the table of backends: ``backend="null"`` shows a model's program without a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..backends import Backend
from .device import NullDevice, NullResource


class _NoContext:
    """The class of contexts that do not exist."""

    @staticmethod
    def is_current() -> bool:
        return False

    @staticmethod
    def current() -> None:
        return


def _new_context(device: str = "", *, independent: bool = False) -> AbstractContextManager[Any]:
    return nullcontext()


BACKEND = Backend(
    name="null", short="null", title="null", rank=None, dialect=None, open=NullDevice, context=lambda: _NoContext,
    is_current=lambda: False, is_present=lambda: False, new_context=_new_context,
    new_buffer=lambda values: NullResource("buffer", values.nbytes),
    new_texture=lambda pixels: NullResource("texture", 0, (pixels.shape[1], pixels.shape[0]), "rgba8"),
    owns=lambda native: isinstance(native, NullResource), objects="null objects", needs_context=False,
    gl_objects="copied", decodes=False, loaders=(), find_devices=list, find_gpus=None, device_help="nothing",
)  # fmt: skip
