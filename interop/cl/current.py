"""The ClContexts that are current on each thread, apart from their class: whoever asks for one imports no pyopencl."""

from __future__ import annotations

from typing import Any

from ..record.current import CurrentContexts

cl_contexts: CurrentContexts[Any] = CurrentContexts()
