"""CuPy: a model reads one array and writes another, in CuPy's memory and on CuPy's stream."""

# pyright: reportMissingImports=false
from __future__ import annotations

import sys
import time
from pathlib import Path

import cv2
import numpy as np
import typer

import framebind as fb
from framebind.video.assets import PHOTOGRAPH, STYLE_MODEL

try:
    import cupy as cp
except ImportError:
    sys.exit("This program needs CuPy: pip install cupy-cuda13x, or cupy-cuda12x for an older driver")


def main(
    picture: Path = PHOTOGRAPH, model: Path = STYLE_MODEL, frames: int = 100, output: Path | None = None,
    check: bool = False,
) -> None:  # fmt: skip
    """Paint a moving photograph. --output PNG saves the last frame, --check compares it with LiteRT's CPU kernels."""
    if not cp.cuda.is_available():
        sys.exit("CuPy finds no GPU of CUDA, and this program needs one")
    bgr = cv2.imread(str(picture))
    if bgr is None:
        sys.exit(f"'{picture}' is no picture")
    height, width = bgr.shape[:2]

    with (
        cp.cuda.Stream(non_blocking=True) as stream,  # the one on which CuPy works in this block
        fb.cuda.CudaContext(stream=stream.ptr) as context,
        fb.GpuDelegate("cuda") as delegate,
    ):
        rgb = cp.asarray(bgr[None, :, :, ::-1]).astype(cp.float32) / 255
        photograph = cp.concatenate([rgb, rgb[:, :, ::-1]], axis=2)  # mirrored beyond its edge
        frame, painted = cp.empty_like(rgb, order="C"), cp.empty_like(rgb, order="C")

        interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
        interpreter.resize_tensor_input(interpreter.inputs()[0], (1, height, width, 3))
        interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
        delegate.bind_buffer_to_tensor(frame, interpreter.inputs()[0])
        delegate.bind_buffer_to_tensor(painted, interpreter.outputs()[0])
        interpreter.invoke()  # which compiles the model
        stream.synchronize()

        fb.transfers.reset()
        started = time.perf_counter()
        for number in range(frames):
            # The stream runs in order: CuPy's kernels, the model, and whatever CuPy does with `painted` next.
            frame[...] = cp.roll(photograph, -2 * number, axis=2)[:, :, :width]  # two pixels farther per frame
            interpreter.invoke()
        stream.synchronize()
        each = (time.perf_counter() - started) / frames * 1e3
        print(f"{frames} frames of {width}x{height} on {context.name}: {each:.3f} ms each")
        print(f"copies between CPU and GPU: {fb.transfers.bytes} bytes")
        if output:
            pixels = cp.rint(painted[0].clip(0, 1) * 255).astype(cp.uint8)
            cv2.imwrite(str(output), pixels.get()[:, :, ::-1])
        if check:
            error = float(np.abs(painted.get() - litert_result(model, frame.get())).max())
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
