"""Runs framebind on each Python that pyproject.toml promises: import, a demo, MediaPipe's programs, some quick tests.

``make pythons`` does it; the quick tests are for the lowest one. The lowest Python gets the lowest version of every
dependency that pyproject.toml allows, the others the newest ones. A Python is found as ``python3.N`` on the path or
among those of pyenv. One that is not installed is named: for it the rules of ruff and basedpyright, which refuse syntax
and library features newer than the lowest Python, are the only check.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".venv" / "pythons"
"""Environments, one for each Python."""
UV = str(Path(sys.executable).with_name("uv"))
DEMO = ["demo", "style_transfer", "--frames", "2", "--size", "128x128"]


def promised() -> list[str]:
    """The versions that pyproject.toml names, such as 3.10, the lowest first."""
    text = (ROOT / "pyproject.toml").read_text()
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def find(version: str) -> str | None:
    """The program of a Python, or None if there is none."""
    pyenv = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    for program in (shutil.which(f"python{version}"), *sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python"))):
        if program is not None and _runs(program):  # pyenv's shims run only what it has activated
            return program
    return None


def _runs(program: str) -> bool:
    return subprocess.run([program, "-c", "import venv"], capture_output=True, check=False).returncode == 0


def check(version: str, program: str, *, lowest: bool) -> None:
    """Install framebind for a Python and run it. Raises CalledProcessError if something fails."""
    python = str(FOLDER / version / "bin" / "python")
    _run(UV, "venv", "--quiet", "--clear", "--python", program, str(FOLDER / version))
    options = ["--resolution=lowest-direct", ".[test]"] if lowest else ["."]
    _run(UV, "pip", "install", "--quiet", "--only-binary=:all:", "--no-binary=framebind", "--python", python, *options)
    with tempfile.TemporaryDirectory() as folder:  # where no source of framebind can be imported instead
        _run(python, "-c", "import framebind", folder=folder)
        _run(python, "-m", "framebind", *DEMO, "--output", f"{folder}/painted.png", folder=folder)
        assert os.path.getsize(f"{folder}/painted.png") > 5000, "the demo's picture is empty"
        _run(python, str(ROOT / "scripts" / "mediapipe_programs.py"), folder=folder)
    if lowest:
        _run(python, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "--tier", "quick")


def _run(*command: str, folder: Path | str = ROOT) -> None:
    subprocess.run(command, cwd=folder, check=True)


def main() -> None:
    """Check every Python, and print how long each took."""
    for number, version in enumerate(promised()):
        program, begin = find(version), time.monotonic()
        if program is None:
            print(f"Python {version} is not installed: only ruff and basedpyright check for it", flush=True)
            continue
        check(version, program, lowest=number == 0)
        versions = "the lowest versions of all dependencies, the quick tests" if number == 0 else "the newest versions"
        print(f"Python {version}: import, a demo, {versions}: {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
