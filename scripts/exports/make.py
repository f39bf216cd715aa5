"""Converts stock PyTorch models with random weights to .tflite files, as people do: pictures have channels first.

    pip install litert-torch torch torchvision transformers timm       # in an environment of its own: 7 GB
    python scripts/exports/make.py FOLDER [NAME ...]

Ultralytics' models are made by its program ``yolo``, if it is installed: it has a licence of its own (AGPL-3.0), and is
for trying only. Random weights show operators, shapes and speed. Each model takes 20 s to 5 minutes.
"""

# PyTorch is no package of this environment.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import litert_torch
import timm
import torch
import torchvision
import transformers
from networks import QueryDetector, RecurrentMatting, Srvgg, U2NetP, VisionTransformer, state_shapes

Made = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]
"""A network, and inputs of the shapes that it is to take."""
YOLO = ("yolo11n", "yolo11n-seg", "yolo11n-pose", "yolo26n", "yolo26n-seg", "yolo26n-pose", "rtdetr-l")
YOLO_SIZE = 320


class _Part(torch.nn.Module):
    """A network of which one result is wanted."""

    def __init__(self, network: torch.nn.Module, part: Callable[[Any], Any]) -> None:
        super().__init__()
        self.network, self.part = network, part

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.part(self.network(*inputs))


def _picture(height: int, width: int | None = None) -> torch.Tensor:
    return torch.rand(1, 3, height, width or height)


def _of_timm(name: str, size: int = 224) -> Callable[[], Made]:
    return lambda: (timm.create_model(name, pretrained=False), (_picture(size),))


def _of_torchvision(make: Callable[..., torch.nn.Module], size: int) -> Callable[[], Made]:
    def made() -> Made:
        return _Part(make(weights=None, weights_backbone=None), lambda found: found["out"]), (_picture(size),)

    return made


def _raft() -> Made:
    network = torchvision.models.optical_flow.raft_small(weights=None)
    return _Part(network, lambda flows: flows[-1]), (_picture(128, 160), _picture(128, 160))


def _depth_anything() -> Made:
    backbone = transformers.Dinov2Config(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=224, patch_size=14,
        out_indices=[3, 6, 9, 12], reshape_hidden_states=False, apply_layernorm=True,
    )  # fmt: skip
    configuration = transformers.DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=384, neck_hidden_sizes=[48, 96, 192, 384],
        fusion_hidden_size=64, patch_size=14, reassemble_factors=[4, 2, 1, 0.5], head_in_index=-1, head_hidden_size=32,
    )  # fmt: skip
    network = transformers.DepthAnythingForDepthEstimation(configuration)
    return _Part(network, lambda found: found.predicted_depth), (_picture(224),)


def _sam2_encoder() -> Made:
    backbone = transformers.Sam2HieraDetConfig(image_size=[256, 256])
    sizes = [[64, 64], [32, 32], [16, 16]]
    configuration = transformers.Sam2VisionConfig(backbone_config=backbone, backbone_feature_sizes=sizes)
    return _Part(transformers.Sam2VisionModel(configuration), lambda found: found.last_hidden_state), (_picture(256),)


def _segformer() -> Made:
    network = transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig())
    return _Part(network, lambda found: found.logits), (_picture(256),)


def _matting(size: int) -> Callable[[], Made]:
    states = [torch.zeros(shape) for shape in state_shapes(size, size)]
    return lambda: (RecurrentMatting(), (_picture(size), *states))


NETWORKS: dict[str, Callable[[], Made]] = {
    "lraspp": _of_torchvision(torchvision.models.segmentation.lraspp_mobilenet_v3_large, 320),
    "deeplabv3_mobilenet": _of_torchvision(torchvision.models.segmentation.deeplabv3_mobilenet_v3_large, 256),
    "segformer_b0": _segformer,
    "u2netp": lambda: (U2NetP(), (_picture(320),)),
    "srvgg_x4": lambda: (Srvgg(), (_picture(64),)),
    "raft_small": _raft,
    "depth_anything_small": _depth_anything,
    "sam2_encoder": _sam2_encoder,
    "recurrent_matting": _matting(256),
    "mobilenetv4_small": _of_timm("mobilenetv4_conv_small"),
    "convnext_atto": _of_timm("convnext_atto"),
    "efficientvit_b0": _of_timm("efficientvit_b0"),
    "vit_tiny": _of_timm("vit_tiny_patch16_224"),
    "edgenext_xx_small": _of_timm("edgenext_xx_small", 256),
}
SMALL: dict[str, Callable[[], Made]] = {
    "small_srvgg": lambda: (Srvgg(layers=2, filters=16, scale=2), (_picture(24, 32),)),
    "small_u2netp": lambda: (U2NetP(((4, False), (3, True)), 16), (_picture(32),)),
    "small_matting": _matting(64),
    "small_transformer": lambda: (VisionTransformer(), (_picture(64),)),
    "small_detector": lambda: (QueryDetector(), (_picture(64),)),
}
"""Networks of networks.py at sizes for tests: tests/support/exports has them without weights."""


def make_yolo(name: str, folder: Path) -> None:
    """Make a model of Ultralytics by its program, in a folder of its own."""
    program = shutil.which("yolo", path=str(Path(sys.executable).parent)) or shutil.which("yolo")
    if program is None:
        raise FileNotFoundError("its program 'yolo' is not installed")
    with tempfile.TemporaryDirectory() as place:
        words = ["export", f"model={name}.yaml", "format=litert", f"imgsz={YOLO_SIZE}"]
        done = subprocess.run([program, *words], cwd=place, capture_output=True, text=True)
        found = sorted(Path(place).rglob("*.tflite"))
        if not found:
            raise ChildProcessError((done.stdout + done.stderr)[-300:])
        shutil.move(found[0], folder / f"{name}.tflite")


def main() -> None:
    """Make the models that the command line names, or all."""
    folder, names, networks = Path(sys.argv[1]), sys.argv[2:] or [*NETWORKS, *YOLO], NETWORKS | SMALL
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        torch.manual_seed(0)
        begin = time.monotonic()
        try:
            if name in networks:
                network, inputs = networks[name]()
                litert_torch.convert(network.eval(), inputs).export(str(folder / f"{name}.tflite"))
            else:
                make_yolo(name, folder)
            size = (folder / f"{name}.tflite").stat().st_size
            print(f"{name}: {size / 1e6:.1f} MB in {time.monotonic() - begin:.0f} s", flush=True)
        except Exception as error:  # converters raise anything; the next model is made all the same
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)


if __name__ == "__main__":
    main()
