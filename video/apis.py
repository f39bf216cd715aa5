"""The APIs that run models, by name, and the choice of one where none is named."""

from __future__ import annotations

import framebind as fb

APIS = fb.list_backends()
BY_NAME = {name: api for api in APIS for name in (api.short, api.name)}
"""The APIs by both of their names."""
GL = next(api for api in APIS if api.gl_objects == "own")
"""The API that demos draw with."""
DECODING = next(api for api in APIS if api.decodes)
"""The API into whose memory videos are decoded, CUDA."""


def api_of(backend: str) -> fb.Backend:
    """The API of that name. "auto" is the API whose context is current, or else the best one on this machine."""
    named = BY_NAME.get(backend) or _current()
    if named is not None:
        return named
    found = fb.CompatibilityList()
    best = found.best_options_for_this_device().backend
    if best is not None:
        return BY_NAME[best]
    usable = {device.api for device in found.devices if not device.unusable}
    return next((api for api in reversed(APIS) if usable.intersection(api.titles.values())), GL)


def is_decoding(backend: str) -> bool:
    """True if ``api_of`` a backend is DECODING. No other API is asked, which would take up to seconds."""
    named = BY_NAME.get(backend) or _current()
    if named is not None:
        return named is DECODING
    return any(not device.unusable for device in fb.CompatibilityList().devices_of(DECODING.name))


def first_gpu_of_gl() -> int | None:
    """The number, for GL contexts, of the first GPU that CUDA shows this process; None if there is none."""
    return next((gpu.numbers.get(GL.name) for gpu in fb.find_gpus() if gpu.numbers.get(DECODING.name) == 0), None)


def _current() -> fb.Backend | None:
    """The API whose context is current on this thread. Who makes one of CUDA or OpenCL current means it."""
    return next((api for api in reversed(APIS) if api.is_current()), None)
