"""The key of a cache file has every file of the product that decides what is kept: no other code reads it."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import framebind as fb
from framebind.delegate.cache import cache as cache_module
from framebind.delegate.cache.cache import Cache
from framebind.interop.null.device import NullDevice
from support.environment import ROOT

PACKAGES = ("kernels", "interop", "delegate")
CONTENT = b"a model"
KEEP = """
import sys
sys.path[0] = sys.argv[1]
import framebind as fb
from framebind.delegate.cache.cache import Cache
from framebind.interop.null.device import NullDevice
assert fb.__file__.startswith(sys.argv[1]), fb.__file__
options = fb.GpuDelegateOptions(serialization_dir=sys.argv[2], model_token="tiny")
cache = Cache(options, b"a model", NullDevice().traits)
cache.keep_number("groups", 35)
cache.save()
"""
"""Writes a cache file with the package in a folder, which is not the one that is tested."""


def open_cache(folder: Path) -> Cache:
    options = fb.GpuDelegateOptions(serialization_dir=folder, model_token="tiny")
    return Cache(options, CONTENT, NullDevice().traits)


def kept_by(package: Path, folder: Path) -> Path:
    """The cache file that a process with this copy of the package writes."""
    subprocess.run([sys.executable, "-c", KEEP, str(package.parent), str(folder)], check=True, timeout=100)
    (file,) = folder.glob("*.cache")
    return file


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package in a folder of its own, with what Python has compiled of it."""
    copy = tmp_path / "site" / "framebind"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copy2(ROOT / "__init__.py", copy)
    return copy


def test_every_product_file_is_part_of_the_key() -> None:
    """All that git would add of the three packages: Python, kernel texts, and whatever comes beside them."""
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"kernels/ops/convolution/conv.kern", "kernels/codegen/prelude.cl", "delegate/cache/cache.py"} <= files
    assert {name for name, *_ in cache_module._code()} == files


def test_another_text_of_a_file_is_another_cache_file(package: Path, tmp_path: Path) -> None:
    names = [kept_by(package, tmp_path / "before").name]
    assert kept_by(package, tmp_path / "same").name == names[0]
    for changed in ("kernels/ops/convolution/conv.kern", "interop/record/hazards.py", "delegate/lower/pack.py"):
        with (package / changed).open("a") as file:
            file.write("\n")
        names.append(kept_by(package, tmp_path / Path(changed).stem).name)
    assert len({*names}) == 4


def test_a_file_of_another_layout_is_refused(package: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A version whose files lay in other places kept something; under today's name it is not read either."""
    (package / "kernels" / "conv.kern").write_text("KERNEL {}")
    old = kept_by(package, tmp_path / "cache")
    now = open_cache(tmp_path / "cache")
    assert now.known_number("groups") is None and not caplog.records, "the old file has another name"
    now.keep_number("groups", 7)
    now.save()
    (new,) = set((tmp_path / "cache").glob("*.cache")) - {old}
    assert open_cache(tmp_path / "cache").known_number("groups") == 7
    shutil.copy2(old, new)
    with caplog.at_level(logging.WARNING, "framebind"):
        assert open_cache(tmp_path / "cache").known_number("groups") is None
    assert "is not used and made anew" in caplog.text
