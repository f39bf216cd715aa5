"""Build backend: setuptools', with an editable install that type checkers and editors can follow.

The repository is the package, so that no folder of it can be put on Python's path. For ``pip install -e`` setuptools
maps the name framebind by an import hook, which type checkers do not run; in its strict mode it makes a folder with a
link for each file, in which new files would be missing. Here that folder has one link, to the repository.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from setuptools import build_meta

ROOT = Path(__file__).resolve().parents[1]

build_sdist = build_meta.build_sdist
build_wheel = build_meta.build_wheel
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel


def build_editable(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel of an editable install: it has one file, which puts build/__editable__.* on Python's path."""
    settings = {"editable_mode": "strict"} | (config_settings or {})
    wheel = build_meta.build_editable(wheel_directory, settings, metadata_directory)
    for package in (ROOT / "build").glob("__editable__.*/framebind"):
        shutil.rmtree(package)
        package.symlink_to(ROOT, target_is_directory=True)
    return wheel
