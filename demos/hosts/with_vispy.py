"""vispy: a gloo texture exists after its commands are flushed; the context's parser knows its GL name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import typer
from vispy import app, gloo

import framebind as fb
from framebind.video.assets import PHOTOGRAPH, STYLE_MODEL

VERTEX = """
attribute vec2 corner;
uniform vec2 scale;
uniform vec2 offset;
varying vec2 uv;
void main() { uv = corner * scale + offset; gl_Position = vec4(corner * 2.0 - 1.0, 0.0, 1.0); }
"""
FRAGMENT = """
uniform sampler2D picture;
varying vec2 uv;
void main() { gl_FragColor = texture2D(picture, vec2(1.0 - abs(1.0 - mod(uv.x, 2.0)), uv.y)); }  // mirrored at its edge
"""


def gl_texture(canvas: app.Canvas, texture: gloo.Texture2D) -> fb.GlTexture:
    """Find the GL name of a gloo texture, for framebind to bind."""
    canvas.context.flush_commands()
    shared: Any = canvas.context.shared
    return fb.GlTexture.from_id(int(shared.parser.get_object(texture.id).handle))


def main(picture: Path = PHOTOGRAPH, model: Path = STYLE_MODEL, frames: int = 0, output: Path | None = None) -> None:
    """Paint a moving photograph. With --frames N it ends after N frames, and --output PNG saves the last one."""
    bgr = cv2.imread(str(picture))
    if bgr is None:
        sys.exit(f"'{picture}' is no picture")
    photograph = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGBA)
    height, width = photograph.shape[:2]
    app.use_app("glfw")
    canvas = app.Canvas("vispy and framebind", size=(width, height), show=True)
    program = gloo.Program(VERTEX, FRAGMENT, count=4)
    program["corner"] = [(0, 0), (1, 0), (0, 1), (1, 1)]
    program["scale"], program["offset"] = (1.0, 1.0), (0.0, 0.0)
    source = gloo.Texture2D(photograph, interpolation="linear")
    frame, painted = (gloo.Texture2D(np.zeros_like(photograph), internalformat="rgba8") for _ in range(2))
    for texture in (frame, painted):
        program["picture"] = texture
        program.draw("triangle_strip")  # gloo makes a texture when it first draws with it
    framebuffer = gloo.FrameBuffer(color=frame)

    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))  # in the context that is current
    interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
    interpreter.resize_tensor_input(interpreter.inputs()[0], (1, height, width, 3))
    interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
    delegate.bind_buffer_to_tensor(gl_texture(canvas, frame), interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(gl_texture(canvas, painted), interpreter.outputs()[0])

    done = 0
    while not canvas._closed and done != (frames or -1):
        with framebuffer:
            gloo.set_viewport(0, 0, width, height)
            program["picture"], program["scale"] = source, (1.0, 1.0)
            program["offset"] = 2 * done / width, 0.0  # the photograph moves two pixels per frame
            program.draw("triangle_strip")
        canvas.context.flush_commands()  # gloo collects commands: they come before the model's
        interpreter.invoke()
        gloo.set_viewport(0, 0, *canvas.physical_size)
        program["picture"], program["scale"], program["offset"] = painted, (1.0, -1.0), (0.0, 1.0)
        program.draw("triangle_strip")
        canvas.context.flush_commands()
        done += 1
        if output and done == frames:
            cv2.imwrite(str(output), gloo.read_pixels((0, 0, width, height), alpha=False)[:, :, ::-1])
        canvas.swap_buffers()
        canvas.app.process_events()
    delegate.close()
    canvas.close()


if __name__ == "__main__":
    typer.run(main)
