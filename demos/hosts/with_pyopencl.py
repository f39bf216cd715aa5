"""pyopencl alone, without a window: your kernel writes an image, a model reads it, its result is copied to a video."""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
import pyopencl as cl
import typer

import framebind as fb
from framebind.video.assets import PHOTOGRAPH, STYLE_MODEL

MOVE = """
constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
kernel void move(read_only image2d_t photograph, write_only image2d_t frame, int offset) {
    int2 place = (int2)(get_global_id(0), get_global_id(1));
    int width = get_image_width(photograph);
    int x = (place.x + offset) % (2 * width);  // mirrored beyond its edge
    write_imagef(frame, place, read_imagef(photograph, nearest, (int2)(x < width ? x : 2 * width - 1 - x, place.y)));
}
"""


def main(
    picture: Path = PHOTOGRAPH, model: Path = STYLE_MODEL, frames: int = 48, output: Path = Path("painted.mp4"),
    device: str | None = None,
) -> None:  # fmt: skip
    """Paint a moving photograph into a video, or the last of --frames N into a PNG file.

    --device is a part of the name of an OpenCL device or platform.
    """
    bgr = cv2.imread(str(picture))
    if bgr is None:
        sys.exit(f"'{picture}' is no picture")
    photograph = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGBA)
    height, width = photograph.shape[:2]
    context = fb.cl.ClContext(device)  # or ClContext(queue=yours)
    queue, flags = context.queue, cl.mem_flags.READ_WRITE
    rgba8 = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNORM_INT8)
    source, frame, painted = (cl.create_image(context.context, flags, rgba8, (width, height)) for _ in range(3))
    cl.enqueue_copy(queue, source, photograph, origin=(0, 0), region=(width, height))
    move = cl.Kernel(cl.Program(context.context, MOVE).build(), "move")

    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opencl"))
    interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
    interpreter.resize_tensor_input(interpreter.inputs()[0], (1, height, width, 3))
    interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
    delegate.bind_buffer_to_tensor(frame, interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(painted, interpreter.outputs()[0])

    rgba, video = np.empty_like(photograph), None
    if output.suffix != ".png":
        video = cv2.VideoWriter(str(output), cv2.VideoWriter.fourcc(*"mp4v"), 30.0, (width, height))
    for number in range(frames):
        # The queue runs what it is given in order: your kernel, the model, the copy.
        move(queue, (width, height), None, source, frame, np.int32(2 * number))
        interpreter.invoke()
        cl.enqueue_copy(queue, rgba, painted, origin=(0, 0), region=(width, height))  # the only copy to the CPU
        cv2.cvtColor(rgba, cv2.COLOR_RGBA2BGR, dst=bgr)
        if video is not None:
            video.write(bgr)
        print(f"\rframe {number + 1} of {frames} on {context.name}", end="", flush=True)
    if video is not None:
        video.release()
    else:
        cv2.imwrite(str(output), bgr)
    print(f"\nwrote {output}")
    delegate.close()
    context.close()


if __name__ == "__main__":
    typer.run(main)
