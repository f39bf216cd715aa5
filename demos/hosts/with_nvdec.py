"""PyAV and NVDEC: the GPU decodes a video, and a model reads luma and chroma in the decoder's memory. No RGB frame is
made, and no frame comes to the CPU, except painted frames for the encoder of --output.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import typer

import framebind as fb
from framebind.video.assets import PHOTOGRAPH, STYLE_MODEL

try:
    import av
    from av.codec.hwaccel import HWAccel
except ImportError:
    sys.exit("This program needs PyAV: pip install av")


def main(
    source: Path | None = None, model: Path = STYLE_MODEL, frames: int = 0, output: Path | None = None,
    check: bool = False,
) -> None:  # fmt: skip
    """Paint a video; without --source it is a moving photograph.

    --frames N ends after N frames, --output MP4 saves them, --check compares the last one with LiteRT's CPU kernels.
    """
    folder = tempfile.TemporaryDirectory()
    video = source or moving_photograph(Path(folder.name) / "photograph.mp4")
    on_gpu = HWAccel("cuda", allow_software_fallback=False, is_hw_owned=True)  # frames stay in CUDA's memory
    try:
        reader = av.open(str(video), hwaccel=on_gpu)  # first: FFmpeg makes the GPU's primary context with its own flags
        context = fb.cuda.CudaContext()
    except (OSError, fb.DeviceError) as error:
        sys.exit(f"This program needs a video, and a GPU of NVIDIA that decodes it: {error}")
    with folder, reader, context, fb.GpuDelegate("cuda") as delegate:
        stream = reader.streams.video[0]
        size = stream.height, stream.width
        writer = VideoWriter(output, *size) if output else None

        interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
        interpreter.resize_tensor_input(interpreter.inputs()[0], (1, *size, 3))
        interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
        painted = fb.cuda.CudaArray.from_array(np.zeros((1, *size, 3), np.float32))
        delegate.bind_buffer_to_tensor(painted, interpreter.outputs()[0])

        started, done = time.perf_counter(), 0
        for frame in reader.decode(stream):
            if done == 1:  # the first frame compiled the model and loaded its weights
                fb.transfers.reset()
                started = time.perf_counter()
            delegate.bind_buffer_to_tensor(fb.YuvPicture.from_frame(frame), interpreter.inputs()[0])
            interpreter.invoke()
            delegate.fence().wait()  # before the decoder takes the frame's memory again
            if writer is not None:
                writer.write(np.rint(result_of(interpreter)[0].clip(0, 1) * 255).astype(np.uint8))
            done += 1
            if done == frames:
                break
        each = (time.perf_counter() - started) / max(done - 1, 1) * 1e3
        print(f"{done} frames of {size[1]}x{size[0]} on {context.name}: {each:.3f} ms each behind the first")
        print(f"copies between CPU and GPU: {fb.transfers.bytes} bytes")
        if writer is not None:
            writer.close()
            print(f"wrote {output}")
        if check:
            compare(result_of(interpreter), model, video, done)


def result_of(interpreter: fb.Interpreter) -> np.ndarray:
    """Copy the result, numbers from 0 to 1, to the CPU."""
    interpreter.ensure_tensor_data_is_readable(interpreter.outputs()[0])
    return interpreter.get_tensor(interpreter.outputs()[0])


def moving_photograph(path: Path) -> Path:
    """Write a video in which the bundled photograph moves two pixels per frame."""
    bgr = cv2.imread(str(PHOTOGRAPH))
    assert bgr is not None
    rgb = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
    mirrored = np.hstack([rgb, rgb[:, ::-1]])
    writer = VideoWriter(path, *rgb.shape[:2])
    for number in range(60):
        writer.write(np.roll(mirrored, -2 * number, axis=1)[:, : rgb.shape[1]])
    writer.close()
    return path


class VideoWriter:
    """An H.264 file that the CPU encodes."""

    def __init__(self, path: Path, height: int, width: int) -> None:
        self.file = av.open(str(path), "w")
        self.stream: Any = self.file.add_stream("libx264", rate=30)
        self.stream.height, self.stream.width, self.stream.pix_fmt = height, width, "yuv420p"

    def write(self, rgb: np.ndarray) -> None:
        """Add a frame, (height, width, 3) of bytes."""
        self.file.mux(self.stream.encode(av.VideoFrame.from_ndarray(rgb, format="rgb24")))

    def close(self) -> None:
        """Write the frames that the encoder still holds, and the end of the file."""
        self.file.mux(self.stream.encode(None))
        self.file.close()


def compare(result: np.ndarray, model: Path, video: Path, frames: int) -> None:
    """Decode the video on the CPU, and run its last frame on LiteRT's CPU kernels."""
    with av.open(str(video)) as reader:
        last = [frame for _, frame in zip(range(frames), reader.decode(video=0), strict=False)][-1]
        rgb = last.to_ndarray(format="rgb24")[None].astype(np.float32) / 255
    interpreter = fb.Interpreter(model, delegate="cpu")
    interpreter.resize_tensor_input(interpreter.inputs()[0], rgb.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.inputs()[0], rgb)
    interpreter.invoke()
    error = float(np.abs(result - interpreter.get_tensor(interpreter.outputs()[0])).mean())
    print(f"mean difference from LiteRT's CPU kernels, whose frame FFmpeg converted to RGB: {error:.1e}")
    if error > 1e-2:
        sys.exit("The last frame is not what LiteRT computes")


if __name__ == "__main__":
    typer.run(main)
