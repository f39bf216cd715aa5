"""The names of ``fb`` and of its public modules, and the old ones, which say where they are now."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import framebind as fb
from framebind import _MOVED  # pyright: ignore[reportPrivateUsage]

OLD_ARE = "is deprecated since framebind 0.2.0 and goes away in 0.3.0: use "


@pytest.mark.parametrize("module", ["", "cl", "cuda", "mp", "video"])
def test_dir_shows_what_is_public(module: str) -> None:
    opened = getattr(fb, module) if module else fb
    assert set(dir(opened)) - {"__version__"} == set(opened.__all__)
    assert not [name for name in dir(opened) if not hasattr(opened, name)]


@pytest.mark.parametrize("name", _MOVED)
def test_an_old_name_says_where_it_is_now(name: str) -> None:
    new = f"framebind.{_MOVED[name]}.{name}"
    assert name not in fb.__all__
    with pytest.warns(DeprecationWarning, match=f"^framebind.{name} {re.escape(OLD_ARE + new)}$") as warned:
        old = getattr(fb, name)
    assert old is getattr(getattr(fb, _MOVED[name]), name)
    assert [warning.filename for warning in warned] == [__file__]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'framebind' has no attribute 'ClWindow'"):
        _ = fb.ClWindow  # pyright: ignore[reportAttributeAccessIssue]


def test_modules_are_imported_when_they_are_used() -> None:
    program = (
        "import sys, framebind as fb; heavy = {'pyopencl', 'framebind.cl', 'framebind.video'}; "
        "early = heavy & set(sys.modules); fb.cl.ClContext; "
        "print(sorted(early), 'pyopencl' in sys.modules, fb.cl.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["[]", "True", "framebind.cl"]


def test_an_old_name_is_imported_from_the_package_too() -> None:
    program = "from framebind import CudaArray; import framebind; print(CudaArray is framebind.cuda.CudaArray)"
    command = [sys.executable, "-W", "default::DeprecationWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True\n" and done.stderr.count(OLD_ARE + "framebind.cuda.CudaArray") == 1
