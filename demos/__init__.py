"""Programs that a person runs: each task is one file here, and ``run.py`` is the runner that they share."""

from importlib.util import find_spec

_missing = [name for name in ("platformdirs", "pooch", "rich", "skimage", "typer") if find_spec(name) is None]
if _missing:
    raise ImportError(f"the demos need {', '.join(_missing)} as well: pip install 'framebind[demos]'")
