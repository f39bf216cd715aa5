"""PyOpenGL and glfw: a model reads and writes textures that this program made, by their GL names."""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import glfw
import numpy as np
import typer
from OpenGL import GL
from OpenGL.GL import shaders

import framebind as fb
from framebind.video.assets import PHOTOGRAPH, STYLE_MODEL

VERTEX = """#version 430 core
out vec2 uv;
void main() {
    uv = vec2(gl_VertexID & 1, gl_VertexID >> 1);
    gl_Position = vec4(uv * 2.0 - 1.0, 0.0, 1.0);
}
"""
FRAGMENT = """#version 430 core
uniform sampler2D picture;
uniform vec2 scale, offset;
in vec2 uv;
out vec4 color;
void main() {
    vec2 place = uv * scale + offset;
    color = texture(picture, vec2(1.0 - abs(1.0 - mod(place.x, 2.0)), place.y));  // mirrored beyond its edge
}
"""


def make_texture(width: int, height: int, pixels: np.ndarray | None = None) -> int:
    """Make an RGBA8 texture without mipmaps. Row 0 of ``pixels`` is the top of the picture."""
    name = int(GL.glGenTextures(1))
    GL.glBindTexture(GL.GL_TEXTURE_2D, name)
    GL.glTexParameteri(GL.GL_TEXTURE_2D, GL.GL_TEXTURE_MIN_FILTER, GL.GL_LINEAR)
    GL.glTexImage2D(GL.GL_TEXTURE_2D, 0, GL.GL_RGBA8, width, height, 0, GL.GL_RGBA, GL.GL_UNSIGNED_BYTE, pixels)
    return name


def make_drawing() -> tuple[int, int]:
    """Use one shader program for everything that is drawn, and find its two uniforms."""
    GL.glBindVertexArray(GL.glGenVertexArrays(1))
    program = shaders.compileProgram(
        shaders.compileShader(VERTEX, GL.GL_VERTEX_SHADER), shaders.compileShader(FRAGMENT, GL.GL_FRAGMENT_SHADER)
    )
    GL.glUseProgram(program)
    return GL.glGetUniformLocation(program, "scale"), GL.glGetUniformLocation(program, "offset")


def save(path: Path, width: int, height: int) -> None:
    """Write the window's picture to a PNG file."""
    pixels = np.empty((height, width, 3), np.uint8)
    GL.glReadPixels(0, 0, width, height, GL.GL_BGR, GL.GL_UNSIGNED_BYTE, pixels)
    cv2.imwrite(str(path), pixels[::-1])


def main(picture: Path = PHOTOGRAPH, model: Path = STYLE_MODEL, frames: int = 0, output: Path | None = None) -> None:
    """Paint a moving photograph. With --frames N it ends after N frames, and --output PNG saves the last one."""
    bgr = cv2.imread(str(picture))
    if bgr is None:
        sys.exit(f"'{picture}' is no picture")
    photograph = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGBA)
    height, width = photograph.shape[:2]
    if not glfw.init():
        sys.exit("GLFW finds no display")
    glfw.window_hint(glfw.CONTEXT_VERSION_MAJOR, 4)
    glfw.window_hint(glfw.CONTEXT_VERSION_MINOR, 3)
    glfw.window_hint(glfw.OPENGL_PROFILE, glfw.OPENGL_CORE_PROFILE)
    window = glfw.create_window(width, height, "PyOpenGL and framebind", None, None)
    glfw.make_context_current(window)
    scale, offset = make_drawing()
    source, frame, painted = (make_texture(width, height, pixels) for pixels in (photograph, None, None))
    framebuffer = GL.glGenFramebuffers(1)
    GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, framebuffer)
    GL.glFramebufferTexture2D(GL.GL_FRAMEBUFFER, GL.GL_COLOR_ATTACHMENT0, GL.GL_TEXTURE_2D, frame, 0)

    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))  # in the context that is current
    interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
    interpreter.resize_tensor_input(interpreter.inputs()[0], (1, height, width, 3))
    interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
    delegate.bind_buffer_to_tensor(fb.GlTexture.from_id(frame), interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(fb.GlTexture.from_id(painted), interpreter.outputs()[0])

    done = 0
    while not glfw.window_should_close(window) and done != (frames or -1):
        GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, framebuffer)
        GL.glViewport(0, 0, width, height)
        GL.glBindTexture(GL.GL_TEXTURE_2D, source)
        GL.glUniform2f(scale, 1.0, 1.0)
        GL.glUniform2f(offset, 2 * done / width, 0.0)  # the photograph moves two pixels per frame
        GL.glDrawArrays(GL.GL_TRIANGLE_STRIP, 0, 4)
        interpreter.invoke()  # reads ``frame``, writes ``painted``: no copy, and no other GL state
        GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, 0)
        GL.glViewport(0, 0, *glfw.get_framebuffer_size(window))
        GL.glBindTexture(GL.GL_TEXTURE_2D, painted)
        GL.glUniform2f(scale, 1.0, -1.0)  # pictures begin with the top row, windows with the bottom row
        GL.glUniform2f(offset, 0.0, 1.0)
        GL.glDrawArrays(GL.GL_TRIANGLE_STRIP, 0, 4)
        done += 1
        if output and done == frames:
            save(output, width, height)
        glfw.swap_buffers(window)
        glfw.poll_events()
    delegate.close()
    glfw.terminate()


if __name__ == "__main__":
    typer.run(main)
