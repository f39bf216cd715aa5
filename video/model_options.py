"""Options of a model that goes through frames: plain values, which can be sent to other processes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import framebind as fb

from .apis import BY_NAME, GL, api_of
from .feedback import AUTO
from .further_inputs import FurtherInputs

MOST_THINGS = 16
"""The most faces, hands or persons that a bundle may be asked to look for: memory grows with each."""


@dataclass(frozen=True)
class ModelOptions:
    """The backend, the device and the delegate's options of a model."""

    backend: str = GL.short
    """An API's name as command lines or GpuDelegateOptions spell it, or "auto"."""
    device: str = ""
    """The device as ``Backend.new_context`` takes it; "" is the first one that works."""
    delegate: fb.GpuDelegateOptions = field(default_factory=fb.GpuDelegateOptions)
    """The delegate's options, of which ``options`` sets the backend and the cache."""
    cache: Path | None = None
    """The folder that keeps compiled programs and packed weights; None keeps nothing."""
    token: str | None = None
    """The model's name in the cache; None is the fingerprint of its file."""

    feedback: str = AUTO
    """The states of a recurrent model: see ``feedback_of``."""
    input: str = ""
    """Values of inputs that are no picture and no state: see ``values_of``."""

    @property
    def further(self) -> FurtherInputs:
        """The options for all inputs but the picture."""
        return FurtherInputs(self.feedback, self.input)

    def options(self, model: Path) -> fb.GpuDelegateOptions:
        """The delegate's options for a model file."""
        named = BY_NAME.get(self.backend)
        token = fb.fingerprint(model) if self.cache is not None and self.token is None else self.token
        return replace(
            self.delegate,
            backend="auto" if named is None else named.name,
            serialization_dir=self.cache,
            model_token=token,
        )

    @property
    def api(self) -> fb.Backend:
        """The chosen API: see ``api_of``."""
        return api_of(self.backend)
