"""benchmarks/heavy.py and costly_steps.py: their tables, and a short run of each without a GPU's times."""

from __future__ import annotations

from pathlib import Path

import costly_steps
import heavy
import pytest
from samples import Measured, Series

import framebind as fb
from framebind.tools.certify.cases.operator_models import options
from framebind.tools.measure.measure import Schedule
from framebind.video.apis import BY_NAME
from support.tiny_models import G, Op, T, build, chain


def measured(*series: Series) -> Measured:
    return Measured("heavy", "GPU", "1.0", "2026-11-26", "", "benchmarks/heavy.py", "ms", list(series))


def frames(model: str, on: str, frame: float, stream: float, error: str) -> list[Series]:
    labels = {"model": model, "on": on, "error": error}
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
        "| error of | cuda f16 | cl f16 | gl f16 | torch.compile f16 | litert-gpu |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| unet_512 | 1e-03 |  |  | 2e-03 | 3e-03 |",
        "| other | 4e-03 |  |  |  |  |",
    ]


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
    assert lines[0].startswith("tiny on cl f16: a frame takes ") and len(lines) == 8
    assert lines[-2].startswith(f"| {len(series) - 2} others |")


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
