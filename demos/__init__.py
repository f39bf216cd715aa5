"""Programs that a person runs: demos, and the command line.

A demo is a file in this folder. ``player/`` runs demos, ``vision/`` is their arithmetic, ``commands/`` the command
line, ``hosts/`` has examples in the GL contexts of other libraries.
"""

from importlib.util import find_spec

_missing = [name for name in ("platformdirs", "pooch", "rich", "skimage", "typer") if find_spec(name) is None]
if _missing:
    raise ImportError(
        f"the command line and the demos need {', '.join(_missing)} as well: pip install 'framebind[demos]'"
    )
