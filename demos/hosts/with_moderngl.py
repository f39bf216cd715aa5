"""moderngl: its textures and buffers are bound directly."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cv2
import glfw
import moderngl
import numpy as np
import typer

import framebind as fb
from framebind.video.assets import PHOTOGRAPH, STYLE_MODEL

VERTEX = """#version 430
out vec2 uv;
void main() {
    uv = vec2(gl_VertexID & 1, gl_VertexID >> 1);
    gl_Position = vec4(uv * 2.0 - 1.0, 0.0, 1.0);
}
"""
FRAGMENT = """#version 430
uniform sampler2D picture;
uniform vec2 scale = vec2(1.0), offset = vec2(0.0);
in vec2 uv;
out vec4 color;
void main() {
    vec2 place = uv * scale + offset;
    color = texture(picture, vec2(1.0 - abs(1.0 - mod(place.x, 2.0)), place.y));  // mirrored beyond its edge
}
"""


def open_window(width: int, height: int) -> Any:
    """Open a window whose OpenGL context is current."""
    if not glfw.init():
        sys.exit("GLFW finds no display")
    glfw.window_hint(glfw.CONTEXT_VERSION_MAJOR, 4)
    glfw.window_hint(glfw.CONTEXT_VERSION_MINOR, 3)
    glfw.window_hint(glfw.OPENGL_PROFILE, glfw.OPENGL_CORE_PROFILE)
    window = glfw.create_window(width, height, "moderngl and framebind", None, None)
    glfw.make_context_current(window)
    return window


def main(picture: Path = PHOTOGRAPH, model: Path = STYLE_MODEL, frames: int = 0, output: Path | None = None) -> None:
    """Paint a moving photograph. With --frames N it ends after N frames, and --output PNG saves the last one."""
    bgr = cv2.imread(str(picture))
    if bgr is None:
        sys.exit(f"'{picture}' is no picture")
    photograph = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGBA)
    height, width = photograph.shape[:2]
    window = open_window(width, height)
    gl = moderngl.create_context()
    mover, shower = (gl.program(vertex_shader=VERTEX, fragment_shader=FRAGMENT) for _ in range(2))
    move, show = (gl.vertex_array(program, []) for program in (mover, shower))
    shower["scale"], shower["offset"] = (
        (1.0, -1.0),
        (0.0, 1.0),
    )  # pictures begin with the top row, windows with the bottom row
    source, frame, painted = (gl.texture((width, height), 4, pixels) for pixels in (photograph.tobytes(), None, None))
    canvas = gl.framebuffer(frame)

    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))  # in the context that is current
    interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
    interpreter.resize_tensor_input(interpreter.inputs()[0], (1, height, width, 3))
    interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
    delegate.bind_buffer_to_tensor(frame, interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(painted, interpreter.outputs()[0])

    done = 0
    while not glfw.window_should_close(window) and done != (frames or -1):
        canvas.use()
        source.use(0)
        mover["offset"] = (2 * done / width, 0.0)  # the photograph moves two pixels per frame
        move.render(moderngl.TRIANGLE_STRIP, vertices=4)
        interpreter.invoke()
        gl.screen.use()
        painted.use(0)
        show.render(moderngl.TRIANGLE_STRIP, vertices=4)
        done += 1
        if output and done == frames:
            screen = np.frombuffer(gl.screen.read(components=3), np.uint8).reshape(height, width, 3)
            cv2.imwrite(str(output), screen[::-1, :, ::-1])
        glfw.swap_buffers(window)
        glfw.poll_events()
    delegate.close()
    glfw.terminate()


if __name__ == "__main__":
    typer.run(main)
