"""The measurements of SUSTAINED_SPEED: which candidates, how often, and that all of them compute the same."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.delegate.cache import file as cache_file
from framebind.delegate.cache.file import MAGIC
from framebind.delegate.lower.tuning import GROUPS, GROUPS_PER_UNIT, Tuning, TuningError, decode, encode
from framebind.delegate.run.program import Program
from framebind.delegate.run.tuner import Tuner
from framebind.interop.cl.compute.device import ClDevice
from framebind.interop.device import Device
from framebind.interop.discovery.devices import open_device
from framebind.interop.gl.compute.device import GlDevice
from framebind.tools.certify.cases.operator_models import Array, options
from support.environment import CL_DEVICES, is_wanted
from support.tiny_models import G, Op, T, build

SHAPE = (1, 9, 7, 8)
X = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)


def weights(seed: int, *shape: int) -> Array:
    return (np.random.default_rng(seed).normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def model() -> bytes:
    """Three 3x3 convolutions, of which two have the same shape, then a depthwise one and a 1x1 as one step."""
    tensors = [T("x", SHAPE)]
    operators: list[Op] = []

    def add(name: str, kernel: Array, kind: str, **fields: Any) -> None:
        channels = kernel.shape[3] if kind == "DepthwiseConv2D" else kernel.shape[0]
        source = len(tensors) - 1
        tensors.append(T(f"{name} weights", kernel.shape, kernel))
        tensors.append(T(f"{name} bias", (channels,), weights(6, channels)))
        tensors.append(T(name, (*SHAPE[:3], channels)))
        inputs = [source, source + 1, source + 2]
        code = "DEPTHWISE_CONV_2D" if kind == "DepthwiseConv2D" else "CONV_2D"
        operators.append(Op(code, inputs, [source + 3], options(kind, strideH=1, strideW=1, **fields)))

    add("wide", weights(1, 16, 3, 3, 8), "Conv2D", fusedActivationFunction=1)
    add("first", weights(2, 16, 3, 3, 16), "Conv2D")
    add("second", weights(3, 16, 3, 3, 16), "Conv2D")
    add("depthwise", weights(4, 1, 3, 3, 16), "DepthwiseConv2D", depthMultiplier=1)
    add("pointwise", weights(5, 8, 1, 1, 16), "Conv2D")
    return build(G(tensors, operators, [0], [len(tensors) - 1]))


MODEL = model()


@dataclass
class Starts:
    """Starts of the model on one device, which takes itself for a GPU; a test says what is faster, not a clock.

    ``wins`` says whether a whole program with a tuning is the faster one. Of each kernel the last candidate is.
    ``limit`` is the tuner's.
    """

    device: GlDevice | ClDevice
    folder: Path
    wins: Callable[[Tuning], bool] = lambda _: False
    challenged: list[Tuning] = field(default_factory=list)
    rounds: list[Tuning] = field(default_factory=list)
    statistics: fb.Statistics | None = None
    limit: float = float("inf")

    def __call__(self, *, sustained: bool = True, keep: bool = True) -> Array:
        self.challenged.clear()
        self.rounds.clear()
        preference = fb.InferencePreference
        given: dict[str, Any] = {"serialization_dir": self.folder, "model_token": "tuned"} if keep else {}
        given["inference_preference"] = preference.SUSTAINED_SPEED if sustained else preference.FAST_SINGLE_ANSWER
        given["backend"] = "opencl" if isinstance(self.device, ClDevice) else "opengl"
        with closing(fb.GpuDelegate(fb.GpuDelegateOptions(**given))) as delegate:
            delegate.engine.maker.tuner = Told(self.limit, warm_up=0, runs=1, starts=self)
            interpreter = fb.Interpreter(model_content=MODEL)
            interpreter.modify_graph_with_delegate(delegate)
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, X)
            interpreter.invoke()
            self.statistics = delegate.statistics()
            return interpreter.get_tensor(interpreter.outputs()[0])

    def rewrite(self, change: Callable[[bytes], bytes]) -> None:
        """Change what is kept of the tuning, as somebody could who is the user."""
        (file,) = self.folder.iterdir()
        folder = cache_file.open_folder(self.folder)
        key = file.read_bytes()[len(MAGIC) + 32 :][:32]
        sections = {name: bytes(data) for name, data in cache_file.read(folder, file.name, key).items()}
        assert sum(name.startswith("tuning ") for name in sections) == 1
        changed = {name: change(data) if name.startswith("tuning ") else data for name, data in sections.items()}
        cache_file.write(folder, file.name, key, changed)
        os.close(folder)


@dataclass(frozen=True)
class Told(Tuner):
    """Measures, notes what, and finds what the test says."""

    starts: Starts = field(kw_only=True)

    def is_faster(self, device: Device, program: Program, than: Program) -> bool:
        self.starts.challenged.append(program.tuning)
        super().is_faster(device, program, than)
        return self.starts.wins(program.tuning)

    def times(self, program: Program) -> dict[str, float]:
        self.starts.rounds.append(program.tuning)
        found = super().times(program)
        assert found and all(nanoseconds > 0 for nanoseconds in found.values())
        return {key: 1000.0 / (1 + program.tuning.tuned.get(key, 0)) for key in found}


@pytest.fixture(params=["gl", "cl"])
def starts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Starts]:
    name = next(filter(is_wanted, ("gl",) if request.param == "gl" else CL_DEVICES), None)
    if name is None:
        pytest.skip(f"FRAMEBIND_DEVICES leaves out {request.param}")
    with fb.GlContext.headless() if name == "gl" else fb.cl.ClContext(name.removeprefix("cl:")):
        device = open_device("opengl" if request.param == "gl" else "opencl")
        assert isinstance(device, GlDevice | ClDevice)
        device.traits = replace(device.traits, software=False)
        yield Starts(device, tmp_path)
        device.close()


def test_each_decision_is_measured_and_each_candidate_of_each_kernel_once(starts: Starts) -> None:
    starts(keep=False)
    separate, parts = (Tuning(dispatches=way) for way in ("separate", "parts"))
    groups = [group_size for group_size in GROUPS if group_size != starts.device.traits.group_size]
    assert starts.challenged[0] == parts, "five steps are too few for one dispatch by rule"
    assert starts.challenged[1:-1] == [replace(separate, group_size=group_size) for group_size in groups]
    last = starts.challenged[-1].tuned
    assert len(last) == 3, "two of the four convolutions are the same"
    assert [sum(name.startswith(kind) for name in last) for kind in ("conv", "separable")] == [2, 1]
    assert starts.rounds[0].tuned == {} and all(tuning.dispatches == "separate" for tuning in starts.rounds)
    for key, number in last.items():
        asked = [tuning.tuned[key] for tuning in starts.rounds if key in tuning.tuned]
        assert asked == list(range(1, number + 1)), "each candidate but the rule's, and each once"
    assert starts.statistics is not None and starts.statistics.tuning == (), "no program was faster than the rule's"


def test_of_one_dispatch_the_groups_are_measured_too(starts: Starts) -> None:
    starts.wins = lambda tuning: tuning == Tuning(dispatches="parts")
    starts(keep=False)
    assert [tuning.groups_per_unit for tuning in starts.challenged[-len(GROUPS_PER_UNIT) :]] == [*GROUPS_PER_UNIT]
    assert all(tuning.dispatches == "parts" for tuning in starts.challenged), "few parts of so few steps are one"
    assert starts.statistics is not None and starts.statistics.dispatches == 1
    assert starts.statistics.tuning == ("one dispatch for many steps",)


def test_what_is_tuned_computes_the_same(starts: Starts) -> None:
    expected = starts(sustained=False)
    assert starts.challenged == starts.rounds == [] and starts.statistics is not None
    assert starts.statistics.tuning == ()
    group_size = next(group_size for group_size in GROUPS if group_size != starts.device.traits.group_size)
    for way in ("separate", "parts"):
        starts.wins = lambda tuning, way=way: tuning.dispatches == way and tuning.group_size in (0, group_size)
        result = starts(keep=False)
        np.testing.assert_allclose(result, expected, atol=2e-6)
        assert starts.statistics.dispatches == (1 if way == "parts" else 4)
        assert f"work-groups of {group_size}" in starts.statistics.tuning
        assert sum(line.startswith(("conv", "separable")) for line in starts.statistics.tuning) == 3


def test_what_was_measured_is_kept_and_not_measured_again(starts: Starts) -> None:
    starts.wins = lambda tuning: bool(tuning.tuned)
    first = starts()
    assert starts.rounds and starts.statistics is not None
    lines = starts.statistics.tuning
    assert len(lines) == 4, "a dispatch for each step, and three kernels"
    np.testing.assert_array_equal(starts(), first)
    assert starts.challenged == starts.rounds == [] and starts.statistics.tuning == lines
    starts(sustained=False)
    assert starts.statistics.tuning == (), "other options have a file of their own"


def test_that_the_rules_are_the_fastest_is_kept_too(starts: Starts) -> None:
    starts()
    assert starts.challenged
    starts()
    assert starts.challenged == starts.rounds == []


def _with(**changes: Any) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps(json.loads(data) | changes).encode()


STRANGE: dict[str, Callable[[bytes], bytes]] = {
    "no text": lambda _: b"\xff\xfe",
    "no JSON": lambda data: data[:-1],
    "nothing": lambda _: b"",
    "deep": lambda _: b"[" * 100_000,
    "long": lambda data: data + b" " * (1 << 20),
    "a list": lambda _: b"[]",
    "a field less": lambda _: b'{"group": 64}',
    "a field more": _with(other=1),
    "a strange group": _with(group_size=96),
    "a group as text": _with(group_size="64"),
    "a group that is true": _with(group_size=True),
    "strange dispatches": _with(dispatches="two"),
    "dispatches that are a list": _with(dispatches=["one"]),
    "many groups a unit": _with(groups_per_unit=1 << 30),
    "candidates that are no table": _with(tuned=[1]),
    "a strange question": _with(tuned={"conv (1, 2, 3, 4, 5)": 1}),
    "a candidate too many": lambda data: _with(tuned=dict.fromkeys(json.loads(data)["tuned"], 64))(data),
    "a negative candidate": lambda data: _with(tuned=dict.fromkeys(json.loads(data)["tuned"], -1))(data),
    "a candidate that is no number": lambda data: _with(tuned=dict.fromkeys(json.loads(data)["tuned"], "1"))(data),
    "half a candidate": lambda data: _with(tuned=dict.fromkeys(json.loads(data)["tuned"], 1.5))(data),
}


@pytest.mark.parametrize("starts", ["cl"], indirect=True)
def test_what_is_kept_and_strange_is_measured_anew(starts: Starts, caplog: pytest.LogCaptureFixture) -> None:
    starts.wins = lambda tuning: bool(tuning.tuned)
    first = starts()
    for what, change in STRANGE.items():
        starts.rewrite(change)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            result = starts()
        assert starts.challenged and starts.rounds, what
        assert "made anew" in caplog.text, what
        np.testing.assert_array_equal(result, first, what)
        starts()
        assert starts.challenged == starts.rounds == [], f"{what}: what was measured anew is kept"


def test_what_was_kept_for_a_device_with_more_room_is_refused(starts: Starts) -> None:
    starts.wins = lambda tuning: tuning.group_size == 256
    starts()
    starts.device.traits = replace(starts.device.traits, max_group_size=128)
    starts()
    assert max(tuning.group_size for tuning in starts.challenged) <= 128


def test_only_encoded_tunings_are_decoded() -> None:
    tuning = Tuning(128, {"conv": 3}, "one", 2)
    assert decode(encode(tuning)) == tuning and decode(encode(Tuning())) == Tuning()
    for data in (b"null", b"1", b"{}", encode(tuning).replace(b"128", b"127"), encode(tuning).replace(b"3", b"0")):
        with pytest.raises(TuningError):
            decode(data)


def test_no_time_is_left(starts: Starts) -> None:
    starts.limit = 0.0
    starts()
    assert starts.challenged == starts.rounds == []


def test_a_candidate_that_fails_is_left_out(starts: Starts, caplog: pytest.LogCaptureFixture) -> None:
    expected = starts(sustained=False)

    def wins(tuning: Tuning) -> bool:
        if tuning.group_size:
            raise fb.DeviceError("out of registers")
        return bool(tuning.tuned)

    starts.wins = wins
    with caplog.at_level(logging.INFO):
        result = starts(keep=False)
    np.testing.assert_allclose(result, expected, atol=2e-6)
    assert "out of registers" in caplog.text
    assert starts.statistics is not None and not any("work-groups" in line for line in starts.statistics.tuning)


def test_a_cpu_is_not_tuned(starts: Starts) -> None:
    starts.device.traits = replace(starts.device.traits, software=True)
    starts()
    assert starts.challenged == starts.rounds == []


class Clockless(Program):
    """A program on a device that does not tell how long steps take."""

    def __init__(self) -> None: ...

    def timings(self) -> list[tuple[str, int]]:
        raise fb.DeviceError("no timestamps")


def test_on_a_device_without_a_clock_nothing_is_tuned(starts: Starts) -> None:
    def make(tuning: Tuning) -> Program:
        raise AssertionError(tuning)

    told = Told(starts=starts)
    assert told.tune(starts.device, Clockless(), make) == Tuning()
    assert starts.challenged == starts.rounds == []


def test_the_null_device_is_not_tuned() -> None:
    given = fb.GpuDelegateOptions(backend="null", inference_preference=fb.InferencePreference.SUSTAINED_SPEED)
    with closing(fb.GpuDelegate(given)) as delegate:
        interpreter = fb.Interpreter(model_content=MODEL)
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        interpreter.invoke()
        assert delegate.statistics().tuning == () and delegate.statistics().dispatches == 4
