"""Networks of PyTorch that litert-torch exported, with channels first: each runs whole, and right, on the GPU.

scripts/exports made them and took their weights out; random ones of the same statistics are put in here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from stock_models import check, inputs_of, is_right, outputs_of

from exports.weights import fill
from framebind.interop.device import Device
from framebind.video.apis import BY_NAME
from support.model_runs import backend_of

FOLDER = Path(__file__).parents[1] / "support" / "exports"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.tflite")))
def test_an_export_runs_whole_and_right(name: str, gpu: Device, tmp_path: Path) -> None:
    model = tmp_path / f"{name}.tflite"
    fill(FOLDER / model.name, model)
    values = inputs_of(model)
    row = check(model, BY_NAME[backend_of(gpu)], "f32", values, outputs_of(model, values), 0)
    assert is_right(row), row
