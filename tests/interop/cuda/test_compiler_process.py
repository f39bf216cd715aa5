"""Texts compiled by several processes with NVRTC, which needs no GPU."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from framebind.interop.cuda import compiler_process, nvrtc
from framebind.interop.errors import DeviceError
from support.environment import absent

ELF = b"\x7fELF"
REFUSED = "this is no C++"


def text_of(name: str) -> str:
    return f'extern "C" __global__ void {name}(int* p) {{ p[threadIdx.x] = {len(name)}; }}'


def children() -> set[str]:
    """The processes that this one has started and not yet reaped."""
    return {child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()}


@pytest.fixture(autouse=True)
def compiler() -> Iterator[None]:
    try:
        nvrtc.version()
    except DeviceError as error:
        absent("nvrtc", str(error))
    before = children()
    yield
    assert children() == before, "no process stays behind"


def test_each_text_becomes_its_own_machine_code() -> None:
    names = "first", "second", "third"
    codes = nvrtc.machine_codes([text_of(name) for name in names], 90)
    for name, code in zip(names, codes, strict=True):
        assert code[:4] == ELF and [each for each in names if each.encode() in code] == [name]


def test_machine_code_is_the_same_whichever_process_compiles() -> None:
    here, elsewhere = nvrtc.machine_codes([text_of("a"), text_of("a")], 90)
    assert here == elsewhere


@pytest.mark.parametrize("place", (0, 1))
def test_a_text_that_is_refused_raises_with_the_log_of_the_compiler(place: int) -> None:
    texts = [text_of("a"), text_of("b")]
    texts[place] = REFUSED
    with pytest.raises(nvrtc.CompileError, match="error: expected a declaration\\n  this is no"):
        nvrtc.machine_codes(texts, 90)


@pytest.mark.parametrize(
    ("mode", "answer", "said"),
    ((0o755, "", "without an answer"), (0o755, r"\000\177ELF", "without an answer"), (0o644, "", "cannot start")),
)
def test_the_text_of_a_process_that_fails_is_compiled_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: int, answer: str, said: str
) -> None:
    broken = tmp_path / "python3"
    broken.write_text(f"#!/bin/sh\nprintf '{answer}'\nexit 1\n")
    broken.chmod(mode)
    monkeypatch.setattr(sys, "executable", str(broken))
    with caplog.at_level(logging.INFO, "framebind"):
        codes = nvrtc.machine_codes([text_of("a"), text_of("b")], 90)
    assert [code[:4] for code in codes] == [ELF, ELF] and b"b" in codes[1]
    assert said in caplog.text


def test_a_process_ends_with_the_one_that_started_it() -> None:
    content = text_of("a").encode()
    command = [sys.executable, "-I", "-S", compiler_process.__file__, nvrtc.library_file(), "--gpu-architecture=sm_90"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    answer, _ = process.communicate(len(content).to_bytes(8, "little") + content, timeout=60)
    assert (answer, process.returncode) == (b"", 1)


def test_there_are_as_many_processes_as_cores_and_kernels_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system cannot choose the cores of a process")
    cores = os.sched_getaffinity(0)
    assert nvrtc.processes(nvrtc.LEAST_KERNELS * 2 - 1) == 1
    assert nvrtc.processes(1000) == min(len(cores), nvrtc.MOST_PROCESSES)
    try:
        os.sched_setaffinity(0, [min(cores)])
        assert nvrtc.processes(1000) == 1
    finally:
        os.sched_setaffinity(0, cores)
    monkeypatch.setattr(sys, "executable", "/usr/bin/an_application")
    assert nvrtc.processes(1000) == 1, "that program is not Python"
