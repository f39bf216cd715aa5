"""JAX: a model reads each array that JAX computes, and JAX reads the model's result, both by DLPack. JAX's arrays
never change, and it has no stream to share. So each frame is a new array, which is bound in place, and the result is in
an array of framebind. The GPU waits at both transitions, not the CPU.
"""

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
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit("This program needs JAX: pip install 'jax[cuda13]', or 'jax[cuda12]' for an older driver")


def main(
    picture: Path = PHOTOGRAPH, model: Path = STYLE_MODEL, frames: int = 100, output: Path | None = None,
    check: bool = False,
) -> None:  # fmt: skip
    """Paint a moving photograph. --output PNG saves the last frame, --check compares it with LiteRT's CPU kernels."""
    try:
        context = fb.cuda.CudaContext()
    except fb.DeviceError as error:
        sys.exit(f"JAX finds no GPU of CUDA, and this program needs one: {error}")
    if jax.default_backend() != "gpu":
        sys.exit("JAX finds no GPU of CUDA, and this program needs one")
    bgr = cv2.imread(str(picture))
    if bgr is None:
        sys.exit(f"'{picture}' is no picture")
    height, width = bgr.shape[:2]
    rgb = jnp.asarray(bgr[None, :, :, ::-1], jnp.float32) / 255
    photograph = jnp.concatenate([rgb, rgb[:, :, ::-1]], axis=2)  # mirrored beyond its edge
    moved = jax.jit(lambda pixels: jnp.roll(photograph, -pixels, axis=2)[:, :, :width])
    frame = moved(0)

    with context, fb.GpuDelegate("cuda") as delegate:
        interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
        interpreter.resize_tensor_input(interpreter.inputs()[0], (1, height, width, 3))
        interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
        painted = fb.cuda.CudaArray.from_array(np.zeros((1, height, width, 3), np.float32))
        delegate.bind_buffer_to_tensor(frame, interpreter.inputs()[0])
        delegate.bind_buffer_to_tensor(painted, interpreter.outputs()[0])
        interpreter.invoke()  # which compiles the model

        fb.transfers.reset()
        started, lightness = time.perf_counter(), jnp.zeros(())
        for number in range(frames):
            frame = moved(2 * number)  # two pixels farther per frame
            delegate.bind_buffer_to_tensor(frame, interpreter.inputs()[0])
            interpreter.invoke()
            lightness = jnp.from_dlpack(painted).mean()
            lightness.block_until_ready()  # before the next frame is written over this one
        each = (time.perf_counter() - started) / frames * 1e3
        print(f"{frames} frames of {width}x{height} on {context.name}: {each:.3f} ms each")
        print(f"lightness of the last one: {lightness:.3f}")
        print(f"copies between CPU and GPU: {fb.transfers.bytes} bytes")
        result = np.asarray(jnp.from_dlpack(painted))
    if output:
        cv2.imwrite(str(output), np.rint(result[0].clip(0, 1) * 255).astype(np.uint8)[:, :, ::-1])
    if check:
        error = float(np.abs(result - litert_result(model, np.asarray(frame))).max())
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
