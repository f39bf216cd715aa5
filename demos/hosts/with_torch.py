"""PyTorch: a model reads one tensor and writes another, in PyTorch's memory and on PyTorch's stream."""

# pyright: reportMissingImports=false
from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
import typer

import framebind as fb
from framebind.video.assets import PHOTOGRAPH, STYLE_MODEL

try:
    import torch
except ImportError:
    sys.exit("This program needs PyTorch: pip install torch")


def main(
    picture: Path = PHOTOGRAPH, model: Path = STYLE_MODEL, frames: int = 100, output: Path | None = None,
    check: bool = False,
) -> None:  # fmt: skip
    """Paint a moving photograph. --output PNG saves the last frame, --check compares it with LiteRT's CPU kernels."""
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU of CUDA, and this program needs one")
    bgr = cv2.imread(str(picture))
    if bgr is None:
        sys.exit(f"'{picture}' is no picture")
    height, width = bgr.shape[:2]
    rgb = torch.from_numpy(bgr[:, :, ::-1].copy()).cuda().permute(2, 0, 1)[None] / 255  # BCHW, as PyTorch has pictures
    photograph = torch.cat([rgb, rgb.flip(3)], 3)  # mirrored beyond its edge
    frame, painted = (torch.empty_like(rgb, memory_format=torch.channels_last) for _ in range(2))

    stream = torch.cuda.current_stream().cuda_stream
    with fb.cuda.CudaContext(stream=stream) as context, fb.GpuDelegate("cuda") as delegate:
        interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
        interpreter.resize_tensor_input(interpreter.inputs()[0], (1, height, width, 3))
        interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
        # BCHW tensors in channels-last order lie in memory as the model's BHWC ones do. Other orders are bound as well.
        delegate.bind_buffer_to_tensor(frame, interpreter.inputs()[0])
        delegate.bind_buffer_to_tensor(painted, interpreter.outputs()[0])
        interpreter.invoke()  # which compiles the model

        fb.transfers.reset()
        started, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        started.record()
        for number in range(frames):
            # The stream runs in order: PyTorch's copy, the model, and whatever PyTorch does with `painted` next.
            frame.copy_(photograph.roll(-2 * number, 3)[:, :, :, :width])  # two pixels farther per frame
            interpreter.invoke()
        ended.record()
        ended.synchronize()
        each = started.elapsed_time(ended) / frames
        print(f"{frames} frames of {width}x{height} on {context.name}: {each:.3f} ms each")
        print(f"copies between CPU and GPU: {fb.transfers.bytes} bytes")
    if output:
        rgb = painted[0].permute(1, 2, 0).clamp(0, 1).mul(255).round().byte().cpu().numpy()
        cv2.imwrite(str(output), rgb[:, :, ::-1])
    if check:
        expected = litert_result(model, frame.permute(0, 2, 3, 1).cpu().numpy())
        error = float(np.abs(painted.permute(0, 2, 3, 1).cpu().numpy() - expected).max())
        print(f"largest difference from LiteRT's CPU kernels: {error:.1e}")
        if error > 1e-3:
            sys.exit("The last frame is not what LiteRT computes")


def litert_result(model: Path, frame: np.ndarray) -> np.ndarray:
    """Run a frame on LiteRT's CPU kernels."""
    interpreter = fb.Interpreter(model, delegate="cpu")
    interpreter.resize_tensor_input(interpreter.inputs()[0], frame.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.inputs()[0], frame)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.outputs()[0])


if __name__ == "__main__":
    typer.run(main)
