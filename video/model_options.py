"""Options of a model that goes through frames: plain values, which can be sent to other processes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import framebind as fb

from .apis import BY_NAME, GL, Api, api_of


@dataclass(frozen=True)
class ModelOptions:
    """The backend, the device and the delegate's options of a model."""

    backend: str = GL.short
    """An API's name as command lines or GpuDelegateOptions spell it, or "auto"."""
    device: str = ""
    """The device as ``Api.new_context`` takes it; "" is the first one that works."""
    delegate: fb.GpuDelegateOptions = field(default_factory=fb.GpuDelegateOptions)
    """Its ``backend`` is set by ``options``."""

    def options(self, model: Path) -> fb.GpuDelegateOptions:
        """The delegate's options for a model file. In a cache without a token the file's fingerprint names it."""
        named = BY_NAME.get(self.backend)
        options = replace(self.delegate, backend="auto" if named is None else named.backend)
        if options.serialization_dir is not None and options.model_token is None:
            options = replace(options, model_token=fb.fingerprint(model))
        return options

    @property
    def api(self) -> Api:
        """The chosen API: see ``api_of``."""
        return api_of(self.backend)
