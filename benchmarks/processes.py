"""Measurements in processes of their own: all get ready side by side, then each in turn has the machine for itself.

A process calls ``run``, which sends "ready", waits for its turn, and sends what it measured.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

LONGEST = 60.0
"""Seconds that the figures of one process may take, when it has the machine for itself."""


class Child(NamedTuple):
    """A process and its connection, for the messages "ready" and "go on", and for what was measured."""

    model: str
    way: str
    process: BaseProcess
    connection: Any


def start(model: str, way: str, target: Callable[..., None], *given: Any) -> Child:
    """Start the process of a model and a way, which calls ``target`` with what is given and its connection."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(*given, theirs), daemon=False)
    process.start()
    theirs.close()  # so that the end of the process is the end of the connection
    return Child(model, way, process, ours)


def take_turn(connection: Any, measures: list[Callable[[], Any]]) -> None:
    """Say that the process is ready, wait for its turn, and send what each function returns."""
    connection.send("ready")
    connection.recv()
    for measure in measures:
        connection.send(measure())
    connection.send(None)


def next_message(child: Child, until: float) -> Any:
    """The next message of the process. Raises TimeoutError at that time, and EOFError if the process has ended."""
    if not child.connection.poll(max(until - time.monotonic(), 0.0)):
        raise TimeoutError
    return child.connection.recv()


def is_ready(child: Child, began: float, until: float) -> bool:
    """Whether the process has compiled by then; else it is ended."""
    try:
        next_message(child, until)
    except (TimeoutError, EOFError) as error:
        why = "it was not compiled by then" if isinstance(error, TimeoutError) else "its process ended"
        print(f"{child.model} {child.way}: {why}, after {time.monotonic() - began:.0f} s", flush=True)
        end(child)
        return False
    print(f"{child.model} {child.way}: compiled after {time.monotonic() - began:.0f} s", flush=True)
    return True


def answers(child: Child) -> Iterator[Any]:
    """Let the process measure, and end it; a text says that it did not answer."""
    try:
        child.connection.send("go on")
        while (row := next_message(child, time.monotonic() + LONGEST)) is not None:
            yield row
    except (TimeoutError, EOFError, BrokenPipeError):
        yield f"{child.model} {child.way}: its process did not answer"
    end(child)


def end(child: Child) -> None:
    """End the process; those that torch.compile started for it end with it."""
    child.process.kill()
    child.process.join()
