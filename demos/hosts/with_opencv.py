"""OpenCV: its VideoCapture reads a webcam, and framebind's window shows the frames as a model paints them. One copy is
made per frame: the upload to a texture. cv2.imshow would need the result in CPU memory, a second copy.
``fb.open_source`` also reads cameras, on its own thread and without the conversion on the CPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import typer

import framebind as fb
from framebind.video.assets import STYLE_MODEL


def main(source: str = "0", model: Path = STYLE_MODEL, frames: int = 0, output: Path | None = None) -> None:
    """Paint a webcam, given by its number, or a video. It ends after --frames N; --output PNG saves the last one."""
    camera = cv2.VideoCapture(int(source) if source.isdecimal() else source)
    is_read, bgr = camera.read()
    if not is_read:
        sys.exit(f"OpenCV reads no frame of '{source}': give --source the number of another camera, or a video")
    height, width = (side // 4 * 4 for side in bgr.shape[:2])  # this model takes multiples of 4
    with fb.Window(width, height, "OpenCV and framebind") as window:
        frame, painted = fb.GlTexture(width, height), fb.GlTexture(width, height)
        delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))  # in the window's context
        interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
        interpreter.resize_tensor_input(interpreter.inputs()[0], (1, height, width, 3))
        interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
        delegate.bind_buffer_to_tensor(frame, interpreter.inputs()[0])
        delegate.bind_buffer_to_tensor(painted, interpreter.outputs()[0])

        done = 0
        while is_read and not window.should_close and done != (frames or -1):
            frame.write(cv2.cvtColor(bgr[:height, :width], cv2.COLOR_BGR2RGBA), reason="camera frame")
            interpreter.invoke()
            window.show(painted)
            done += 1
            if output and done == frames:
                cv2.imwrite(str(output), cv2.cvtColor(painted.read(), cv2.COLOR_RGBA2BGR))
            is_read, bgr = camera.read()
        delegate.close()


if __name__ == "__main__":
    typer.run(main)
