"""benchmarks/inside.py: the program with clocks compiles and runs, with counters where NVIDIA has clocks."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from framebind.interop.cl.compute import one_dispatch as cl_one_dispatch
from framebind.interop.cl.compute.device import ClDevice
from framebind.interop.device import Device
from support.device_steps import SHAPE, bound, chain, content, random

COUNTERS = "#define CLOCK(t) t = ++clocks[10]\n#define NANOSECONDS(t) t = clocks[10]\n"


@pytest.mark.parametrize("gpu", ["cl:pocl"], indirect=True)
def test_each_step_notes_when_it_arrives_and_begins(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(folder)
    spec = importlib.util.spec_from_file_location("inside", folder / "inside.py")
    assert spec is not None and spec.loader is not None and isinstance(gpu, ClDevice)
    inside = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(inside)
    clocks = gpu.buffer(8 * 64, "clocks")
    gpu.write(clocks, np.zeros(128, np.uint32), "test")
    monkeypatch.setattr(inside, "CLOCKS", COUNTERS)
    monkeypatch.setattr(cl_one_dispatch, "render_program", inside.render_timed)
    monkeypatch.setitem(vars(gpu._barrier), "state", clocks.memory)
    steps, _ = chain(gpu, SHAPE)
    commands, x = gpu.record(steps, "one"), random(SHAPE, 0)
    target = bound(gpu, commands, x)
    commands.run()
    np.testing.assert_array_equal(content(gpu, target), x)
    noted = np.zeros(64, np.uint64)
    gpu.read(clocks, noted, "test")
    ticks = noted[inside.FIRST : inside.FIRST + 2 * len(steps) + 1].astype(int)
    np.testing.assert_array_equal(np.diff(ticks), 1)
