"""What the making of a delegate's programs is measured by, and taken from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...interop.device import Traits
from ..lower.pack import Constants
from ..lower.tuning import Tuning
from ..options import GpuDelegateOptions
from ..read.model import Model
from .cache import Cache, Fits
from .stopwatch import Phase, Stopwatch


@dataclass
class BuildContext:
    """``tuned``: measure on the device how programs run fastest, where that is not kept."""

    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    cache: Cache | None = None
    tuned: bool = False

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Count the time within the block for ``name``."""
        with self.stopwatch.phase(name):
            yield

    def open_cache(self, options: GpuDelegateOptions, model: Model | None, traits: Traits) -> None:
        """Read what is kept of the model for a device, where the options say that something is."""
        if options.serialization_dir is not None and model is not None:
            with self.stopwatch.phase("read"):
                self.cache = Cache(options, model.content, traits)

    def save(self, finish: Callable[[], None] = lambda: None) -> None:
        """Write what is new, where something is kept at all, after ``finish``: drivers compile as late as that."""
        if self.cache is not None and self.cache.is_new:
            finish()
            self.cache.save()

    def constants(self, what: str, fits: Fits, pack: Callable[[], Constants]) -> Constants:
        """``pack()``, or what an earlier process made of it, where that ``fits``."""
        return pack() if self.cache is None else self.cache.constants(what, fits, pack)

    def tuning(self, what: str) -> Tuning | None:
        """What an earlier start measured of ``what``."""
        return None if self.cache is None else self.cache.tuning(what)

    def keep_tuning(self, what: str, tuning: Tuning) -> None:
        """Keep what was measured, where something is kept at all."""
        if self.cache is not None:
            self.cache.keep_tuning(what, tuning)
