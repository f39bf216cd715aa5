"""moderngl: its textures and buffers are bound as they are."""

from __future__ import annotations

import cv2
import glfw
import moderngl
import numpy as np
import typer

from .style import DEFAULT_STYLE, PHOTOGRAPH, Frames, Model, Output, Picture, load_picture, style_model

VERTEX = """#version 430
out vec2 uv;
void main() {
    uv = vec2(gl_VertexID & 1, gl_VertexID >> 1);
    gl_Position = vec4(uv.x * 2.0 - 1.0, 1.0 - uv.y * 2.0, 0.0, 1.0);
}
"""
FRAGMENT = """#version 430
uniform sampler2D painted;
in vec2 uv;
out vec4 color;
void main() { color = vec4(texture(painted, uv).rgb, 1.0); }
"""


def main(
    picture: Picture = PHOTOGRAPH, model: Model = DEFAULT_STYLE, frames: Frames = 0, output: Output = None
) -> None:
    """Paint a picture in a moderngl program."""
    pixels = load_picture(picture)
    height, width = pixels.shape[:2]
    glfw.init()
    glfw.window_hint(glfw.CONTEXT_VERSION_MAJOR, 4)
    glfw.window_hint(glfw.CONTEXT_VERSION_MINOR, 3)
    glfw.window_hint(glfw.OPENGL_PROFILE, glfw.OPENGL_CORE_PROFILE)
    window = glfw.create_window(width, height, "moderngl and framebind", None, None)
    glfw.make_context_current(window)
    context = moderngl.create_context()
    program = context.program(vertex_shader=VERTEX, fragment_shader=FRAGMENT)
    quad = context.vertex_array(program, [])
    source = context.texture((width, height), 4, pixels.tobytes())
    painted = context.texture((width, height), 4)

    interpreter, delegate = style_model(model, width, height)
    delegate.bind_buffer_to_tensor(source, interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(painted, interpreter.outputs()[0])

    done = 0
    while not glfw.window_should_close(window) and done != (frames or -1):
        interpreter.invoke()
        context.screen.use()
        painted.use(0)
        quad.render(moderngl.TRIANGLE_STRIP, vertices=4)
        done += 1
        if output and done == frames:
            screen = np.frombuffer(context.screen.read(components=3), np.uint8).reshape(height, width, 3)
            cv2.imwrite(str(output), screen[::-1, :, ::-1])
        glfw.swap_buffers(window)
        glfw.poll_events()
    delegate.close()
    glfw.terminate()


if __name__ == "__main__":
    typer.run(main)
