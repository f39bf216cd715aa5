"""The graph that PyTorch is measured with computes what LiteRT does; it needs PyTorch, which nothing else here does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch_peer

import framebind as fb
from exports.weights import fill
from framebind.video.assets import STYLE_MODEL
from support.tiny_models import chain

SIX = (
    "deeplabv3_257_mv_gpu", "face_detection_front", "hand_landmark_lite", "pose_landmark_lite", "selfie_segmentation",
    "style_transfer_f16_384",
)  # fmt: skip


EXPORTS = Path(__file__).parents[1] / "support" / "exports"


def error_of(path: Path, batch: int = 1) -> float:
    """The error of PyTorch's results on the CPU, in float32."""
    torch = pytest.importorskip("torch")
    from torch_graph import TorchGraph

    random = np.random.default_rng(0)
    shapes = [detail["shape"] for detail in fb.Interpreter(model_path=path, delegate="cpu").get_input_details()]
    values = [random.uniform(-0.5, 0.5, (batch, *shape[1:])).astype(np.float32) for shape in shapes]
    with torch.no_grad():
        outputs = TorchGraph(path.read_bytes(), torch.float32, "cpu")(*map(torch.tensor, values))
    return torch_peer.relative_error([output.numpy() for output in outputs], torch_peer.litert_results(path, values))


@pytest.mark.parametrize("name", SIX)
def test_a_model_computes_what_litert_does(name: str, model_path: Callable[[str], Path]) -> None:
    assert error_of(model_path(name)) < 1e-3


@pytest.mark.parametrize("name", sorted(path.stem for path in EXPORTS.glob("*.tflite")))
def test_an_export_computes_what_litert_does(name: str, tmp_path: Path) -> None:
    """Attention, windows, GATHER_ND, sorting: graphs of rank 1 to 6."""
    pytest.importorskip("torch")
    fill(EXPORTS / f"{name}.tflite", tmp_path / "filled.tflite")
    assert error_of(tmp_path / "filled.tflite") < 1e-3


def test_a_batch_is_as_many_frames() -> None:
    assert error_of(STYLE_MODEL, batch=2) < 1e-4


def test_an_operator_that_it_does_not_have_is_named() -> None:
    torch = pytest.importorskip("torch")
    from torch_graph import TorchGraph

    with pytest.raises(fb.ModelError, match="the graph of PyTorch has no CEIL, EXP"):
        TorchGraph(chain("CEIL", "EXP"), torch.float32, "cpu")
