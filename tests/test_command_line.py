"""``python -m framebind``: what every command has in common, and what each prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = ("devices",)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m framebind`` in a process of its own, as a person runs it."""
    return subprocess.run(
        [sys.executable, "-m", "framebind", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "COLUMNS": "250", **environment},
    )


def test_help_lists_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0, done.stderr
    listed = [line.split()[1] for line in done.stdout.partition("Commands")[2].splitlines() if line.startswith("│ ")]
    assert [word for word in listed if word in COMMANDS] == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_shows_an_example(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0, done.stderr
    assert f"Example: python -m framebind {command}" in done.stdout
    assert "\x1b" not in done.stdout, "colours are for terminals"


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["devices", "--nonsense"]], ids=str)
def test_a_wrong_command_line_ends_with_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "Usage: python -m framebind" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_packages_it_says_what_to_install(package: str, tmp_path: Path) -> None:
    """A finder that does not see the package stands for an environment without it."""
    hide = "import importlib.util as u; real = u.find_spec\n"
    hide += f"u.find_spec = lambda name, *rest: None if name == {package!r} else real(name, *rest)\n"
    (tmp_path / "sitecustomize.py").write_text(hide)
    done = run("devices", PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert done.returncode == 1
    assert done.stderr == (f"the command line and the demos need {package} as well: pip install 'framebind[demos]'\n")
