"""Programs that a person runs.

Each task is one file here, ``run.py`` is the runner that they share, and ``commands/`` is the command line.
"""

from importlib.util import find_spec

_missing = [name for name in ("platformdirs", "pooch", "rich", "skimage", "typer") if find_spec(name) is None]
if _missing:
    raise ImportError(
        f"the command line and the demos need {', '.join(_missing)} as well: pip install 'framebind[demos]'"
    )
