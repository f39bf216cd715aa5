"""Exceptions as those of signal handlers, at each place of a call in turn where Python lets a signal handler run."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupted(BaseException):
    """An exception that no code of the library catches by its type, as KeyboardInterrupt."""


def interrupted_everywhere(action: Callable[[], object], recovered: Callable[[], None]) -> int:
    """Call ``action`` again and again, each time interrupted one place later, until it comes to its end.

    ``recovered`` is called after each, to check that all is well. Returns the number of interruptions.
    """
    count = 0
    while _is_interrupted(action, 1 + count):
        try:
            recovered()
        except BaseException as error:
            raise AssertionError(f"interrupted for the {count + 1}th time, at another place each time") from error
        count += 1
    recovered()
    return count


def _is_interrupted(action: Callable[[], object], place: int) -> bool:
    """Whether ``action`` comes as far as the place of this number: it is then interrupted there."""
    left = place

    def come_to_a_place(frame: FrameType) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Interrupted(f"line {frame.f_lineno} of {frame.f_code.co_filename}")

    def enter(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename == __file__:
            return None
        come_to_a_place(frame)
        frame.f_trace_opcodes = True
        before = ""

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal before
            if event == "opcode":
                # CPython looks for signals at these instructions only, not within the entry and exit of a with block.
                if before.startswith(("CALL", "JUMP_BACKWARD", "JUMP_ABSOLUTE")):
                    come_to_a_place(frame)
                before = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            return trace

        return trace

    tracing = sys.gettrace()
    sys.settrace(enter)
    try:
        action()
    except (Interrupted, KeyboardInterrupt):  # the second, if the first came where ctypes can only print it
        return True
    finally:
        sys.settrace(tracing)
    return left <= 0
