"""The package as others get it: type checkers find it, and the source distribution is whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.environment import ROOT

TAKEN_ALWAYS = {"README.md", "LICENSE", "pyproject.toml", "MANIFEST.in"}
"""setuptools puts these into a source distribution, and the packages with their data."""


def test_type_checkers_find_the_package() -> None:
    """They look into the folders of Python's path, and run no import hooks."""
    assert any((Path(folder) / "framebind" / "py.typed").is_file() for folder in sys.path)


def test_a_source_distribution_has_every_file_and_folder() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git clone: a source distribution itself, for instance")
    top = {name.split("/")[0] for name in listed.stdout.splitlines()}
    manifest = {word for line in (ROOT / "MANIFEST.in").read_text().splitlines() for word in line.split()[1:]}
    packages = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
    modules = {path.name for path in ROOT.iterdir() if path.suffix in (".py", ".typed")}
    assert top <= manifest | packages | modules | TAKEN_ALWAYS
