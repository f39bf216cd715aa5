"""Counts the GL calls that a context issues, by wrapping its entry points."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import framebind as fb
from framebind.interop.gl.api import GlApi


class _CountingApi(GlApi):
    """Entry points that add themselves to ``calls`` each time they are called."""

    def __init__(self, api: GlApi) -> None:
        super().__init__(api._find)
        self.version, self.calls = api.version, Counter[str]()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = self._counted(name, super().__getattr__(name))
        setattr(self, name, function)
        return function

    def prebound(self, name: str) -> Callable[..., Any]:
        return self._counted(name, super().prebound(name))

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            return function(*arguments)

        return call


@contextlib.contextmanager
def counted_calls(context: fb.GlContext) -> Iterator[Counter[str]]:
    """Count by name the calls made through the context within the block, and those that lists recorded there make.

    A command list keeps the entry points that it was recorded with: record it within the block.
    """
    plain = context.gl
    context.gl = counting = _CountingApi(plain)
    try:
        yield counting.calls
    finally:
        context.gl = plain
