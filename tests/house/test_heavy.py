"""benchmarks/heavy.py, costly_steps.py, growth.py and resized.py: their tables, their models, and short runs."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import costly_steps
import growth
import heavy
import numpy as np
import pytest
import torch_peer
from resized import for_any_batch, resized
from samples import Measured, Series

import framebind as fb
from exports.weights import fill, liven
from framebind.tools.certify.cases.operator_models import options
from framebind.tools.measure.measure import Schedule
from framebind.video.apis import BY_NAME
from framebind.video.assets import STYLE_MODEL
from support.tiny_models import G, Op, T, build, chain

EXPORTS = Path(__file__).parents[1] / "support" / "exports"


def measured(*series: Series) -> Measured:
    return Measured("heavy", "GPU", "1.0", "2026-11-26", "", "benchmarks/heavy.py", "ms", list(series))


def frames(model: str, on: str, frame: float, stream: float, error: str) -> list[Series]:
    labels = {"model": model, "on": on, "error": error, "pixels": 512 * 512}
    return [Series({**labels, "figure": "frame"}, [frame] * 3), Series({**labels, "figure": "stream"}, [stream] * 3)]


def test_the_table_compares_with_the_fastest_peer() -> None:
    found = measured(
        *frames("unet_512", "cuda f16", 0.5, 0.4, "1e-03"),
        *frames("unet_512", "torch.compile f16", 0.75, 0.6, "2e-03"),
        *frames("unet_512", "litert-gpu", 1.5, 1.2, "3e-03"),
        *frames("other", "cuda f16", 0.25, 0.2, "4e-03"),
    )
    assert list(heavy.tables(found)) == [
        "| model | cuda f16 | cl f16 | gl f16 | torch.compile f16 | litert-gpu | times the best peer | goal on CUDA |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| unet_512 | 0.500 / 0.400 |  |  | 0.750 / 0.600 | 1.500 / 1.200 | 1.50 | 0.32 |",
        "| other | 0.250 / 0.200 |  |  |  |  |  |  |",
        "",
        "| megapixels per second | cuda f16 | cl f16 | gl f16 | torch.compile f16 | litert-gpu |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| unet_512 | 655 |  |  | 437 | 218 |",
        "| other | 1,311 |  |  |  |  |",
        "",
        "| error of | cuda f16 | cl f16 | gl f16 | torch.compile f16 | litert-gpu |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| unet_512 | 1e-03 |  |  | 2e-03 | 3e-03 |",
        "| other | 4e-03 |  |  |  |  |",
    ]


def test_the_pixels_are_those_of_the_largest_picture(tmp_path: Path) -> None:
    for shape, pixels in (((1, 8, 6, 3), 48), ((1, 3, 8, 6), 48), ((1, 8, 6, 16), 0), ((1, 10), 0)):
        (tmp_path / "m.tflite").write_bytes(chain("EXP", shape=shape))
        assert heavy.pixels_of(tmp_path / "m.tflite") == pixels


def test_a_step_is_held_to_the_longer_of_its_limits() -> None:
    assert costly_steps.least_us("conv", 43_000_000, 0) == pytest.approx(10)
    assert costly_steps.least_us("conv", 1000, 989_000_000) == pytest.approx(2)
    assert costly_steps.least_us("depthwise", 1000, 67_000_000) == pytest.approx(2)


def test_costly_steps_of_a_model_are_kept_and_shown(tmp_path: Path, cl_context: fb.cl.ClContext) -> None:
    model = tmp_path / "tiny.tflite"
    model.write_bytes(chain("EXP", "SOFTMAX", "TANH"))
    series, device = costly_steps.profiled(model, BY_NAME["cl"], "f16", Schedule(runs=2, warm_up_seconds=0.0))
    assert device[0] == cl_context.name and len({str(each.labels["step"]) for each in series[1:]}) == len(series) - 1
    frame, first, *_ = series
    assert frame.labels["steps"] == len(series) - 1 and len(first.samples) == 2
    lines = list(costly_steps.tables(measured(*series), longest=1))
    kernels = {str(each.labels["kernel"]) for each in series[1:]}
    assert lines[0].startswith("tiny on cl f16: a frame takes ") and len(lines) == 7 + len(kernels)
    assert {line.split(" | ")[1] for line in lines[6:-1]} == kernels


def test_multiply_adds_of_computed_matrices_are_counted() -> None:
    tensors = [T("a", (2, 6, 8)), T("b", (2, 8, 12)), T("y", (2, 6, 12))]
    product = build(G(tensors, [Op("BATCH_MATMUL", [0, 1], [2], options("BatchMatMul"))], [0, 1], [2]))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    interpreter = fb.Interpreter(model_content=product, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    delegate.record()
    (step,) = delegate.steps()
    assert step.kernel == "matmul" and step.multiply_adds == 2 * 6 * 8 * 12
    delegate.close()


def test_trials_of_kernels_wait_for_each_other_once() -> None:
    """Twice wrapped, the second lock would wait for the first one of the same process for ever. The first run of a
    trial, which may compile, is outside of the lock.
    """

    class Benchmarker:
        benchmark_gpu = staticmethod(lambda trial, *, scale: trial() * scale)

    def trial() -> int:
        with (Path(tempfile.gettempdir()) / "framebind-trials.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append("free")
            except BlockingIOError:
                found.append("taken")
        return 2

    found, benchmarker = list[str](), Benchmarker()
    torch_peer.try_alone(benchmarker)
    alone = benchmarker.benchmark_gpu
    torch_peer.try_alone(benchmarker)
    assert benchmarker.benchmark_gpu is alone and alone(trial, scale=3) == 6
    trial()
    assert found == ["free", "taken", "free"]


def test_kernels_are_assembled_by_the_ptxas_of_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_PTXAS_PATH", "")  # so that the end of the test removes what is set in between
    monkeypatch.delenv("TRITON_PTXAS_PATH")
    torch_peer.assemble_with(tmp_path / "ptxas")
    assert "TRITON_PTXAS_PATH" not in os.environ
    (tmp_path / "ptxas").touch()
    torch_peer.assemble_with(tmp_path / "ptxas")
    torch_peer.assemble_with(Path(__file__))
    assert os.environ["TRITON_PTXAS_PATH"] == str(tmp_path / "ptxas")


# Growth ---------------------------------------------------------------------------------------------------------------


def test_a_line_is_found_and_where_it_begins() -> None:
    straight = [(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]
    assert growth.line(straight) == pytest.approx((1.0, 2.0, 0.0), abs=1e-9)
    flat_first = [(0.25, 3.0), (0.5, 3.0), *straight]
    assert growth.line(flat_first)[2] > growth.GOOD
    assert growth.straight_from(flat_first)[0][0] > 0.25
    assert growth.straight_from([(1.0, 1.0), (2.0, 9.0), (3.0, 2.0)]) == [(2.0, 9.0), (3.0, 2.0)]


def test_the_table_of_growth_has_a_line_per_model() -> None:
    times = {128: 1.25, 256: 2.0, 512: 5.0}
    labels = {"model": "m", "figure": "pixels", "on": "cuda f16"}
    found = measured(*(Series({**labels, "work": side**2}, [time] * 3) for side, time in times.items()))
    assert list(growth.tables(found)) == [
        "| model | on | 128 squared | 256 squared | 512 squared | start ms | ms per megapixel | off % | from "
        "| off % then |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| m | cuda f16 | 1.250 | 2.000 | 5.000 | 1.000 | 15.2588 | 0 | 128 squared | 0 |",
        "",
    ]


def test_growth_times_batches(tmp_path: Path, cl_context: fb.cl.ClContext) -> None:
    model = tmp_path / "tiny.tflite"
    model.write_bytes(chain("EXP", "TANH"))
    schedule, devices = Schedule(runs=2, warm_up_seconds=0.0), list[tuple[str, str]]()
    labels: dict[str, str | int] = {"model": "tiny", "figure": "frames", "work": 3}
    series = growth.timed(model, BY_NAME["cl"], 3, schedule, labels, None, devices)
    assert series is not None and series.labels["on"] == "cl f16" and len(series.samples) == 2
    assert devices[0][0] == cl_context.name


# Other sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width"), [(48, 80), (64, 32)])
def test_a_resized_model_is_one_of_that_size(height: int, width: int) -> None:
    interpreter = fb.Interpreter(model_content=resized(STYLE_MODEL.read_bytes(), height, width), delegate="cpu")
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], np.full(detail["shape"], 0.5, np.float32))
    interpreter.invoke()
    ends = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    assert [list(end["shape"][1:3]) for end in ends] == [[height, width]] * 2
    assert np.isfinite(interpreter.get_tensor(interpreter.outputs()[0])).all()


def test_a_model_with_a_shape_for_one_frame_takes_several() -> None:
    tensors = [T("x", (1, 4, 6)), T("shape", (3,), np.array([1, 2, 12], np.int32), "int32"), T("y", (1, 2, 12))]
    model = build(G(tensors, [Op("RESHAPE", [0, 1], [2])], [0], [2]))
    for content, shape in ((model, None), (for_any_batch(model), [5, 2, 12])):
        interpreter = fb.Interpreter(model_content=content, delegate="cpu")
        interpreter.resize_tensor_input(0, [5, 4, 6])
        if shape is None:
            with pytest.raises(fb.ModelError):
                interpreter.allocate_tensors()
            continue
        interpreter.allocate_tensors()
        assert list(interpreter.get_output_details()[0]["shape"]) == shape


# Weights --------------------------------------------------------------------------------------------------------------


def test_lively_weights_keep_the_spread_of_values(tmp_path: Path) -> None:
    export, lively = tmp_path / "export.tflite", tmp_path / "lively.tflite"
    fill(EXPORTS / "small_u2netp.tflite", export)
    liven(export, lively)
    shares: list[float] = []
    for path in (export, lively):
        interpreter = fb.Interpreter(model_path=path, delegate="cpu")
        interpreter.allocate_tensors()
        (picture,) = interpreter.get_input_details()
        interpreter.set_tensor(picture["index"], np.random.default_rng(0).random(picture["shape"], np.float32))
        interpreter.invoke()
        result = interpreter.get_tensor(interpreter.outputs()[0])
        shares.append(float(np.ptp(result) / np.abs(result).max()))
    assert shares[1] > 2 * shares[0] and shares[1] > 0.2, shares
