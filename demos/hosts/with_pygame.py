"""pygame: it draws on the CPU, so PyOpenGL uploads each frame to a texture. From there on nothing is copied."""

from __future__ import annotations

from pathlib import Path

import pygame
import typer
from OpenGL import GL

import framebind as fb
from framebind.video.assets import PHOTOGRAPH, STYLE_MODEL


def make_texture(width: int, height: int) -> int:
    """Make an RGBA8 texture without mipmaps."""
    name = int(GL.glGenTextures(1))
    GL.glBindTexture(GL.GL_TEXTURE_2D, name)
    GL.glTexParameteri(GL.GL_TEXTURE_2D, GL.GL_TEXTURE_MIN_FILTER, GL.GL_LINEAR)
    GL.glTexImage2D(GL.GL_TEXTURE_2D, 0, GL.GL_RGBA8, width, height, 0, GL.GL_RGBA, GL.GL_UNSIGNED_BYTE, None)
    return name


def open_window(width: int, height: int) -> None:
    """Open a window whose OpenGL context is current."""
    pygame.display.init()
    pygame.display.gl_set_attribute(pygame.GL_CONTEXT_MAJOR_VERSION, 4)
    pygame.display.gl_set_attribute(pygame.GL_CONTEXT_MINOR_VERSION, 3)
    pygame.display.gl_set_attribute(pygame.GL_CONTEXT_PROFILE_MASK, pygame.GL_CONTEXT_PROFILE_CORE)
    pygame.display.set_mode((width, height), pygame.OPENGL | pygame.DOUBLEBUF)
    pygame.display.set_caption("pygame and framebind")


def save(path: Path, width: int, height: int) -> None:
    """Write the window's picture to a PNG file."""
    GL.glBindFramebuffer(GL.GL_READ_FRAMEBUFFER, 0)
    screen = bytes(GL.glReadPixels(0, 0, width, height, GL.GL_RGB, GL.GL_UNSIGNED_BYTE))
    bottom_up = pygame.image.frombytes(screen, (width, height), "RGB")
    pygame.image.save(pygame.transform.flip(bottom_up, False, True), path)


def main(picture: Path = PHOTOGRAPH, model: Path = STYLE_MODEL, frames: int = 0, output: Path | None = None) -> None:
    """Paint a moving photograph. With --frames N it ends after N frames, and --output PNG saves the last one."""
    photograph = pygame.image.load(picture)
    (width, height), mirrored = photograph.get_size(), pygame.transform.flip(photograph, True, False)
    surface = pygame.Surface((width, height), depth=32)
    open_window(width, height)
    frame, painted = make_texture(width, height), make_texture(width, height)
    framebuffer = GL.glGenFramebuffers(1)  # the picture goes to the window as a copy between framebuffers
    GL.glBindFramebuffer(GL.GL_READ_FRAMEBUFFER, framebuffer)
    GL.glFramebufferTexture2D(GL.GL_READ_FRAMEBUFFER, GL.GL_COLOR_ATTACHMENT0, GL.GL_TEXTURE_2D, painted, 0)

    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))  # in the context that is current
    interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
    interpreter.resize_tensor_input(interpreter.inputs()[0], (1, height, width, 3))
    interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
    delegate.bind_buffer_to_tensor(fb.GlTexture.from_id(frame), interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(fb.GlTexture.from_id(painted), interpreter.outputs()[0])

    done, is_open = 0, True
    while is_open and done != (frames or -1):
        left = -2 * done % (2 * width) - 2 * width  # the photograph moves two pixels per frame
        for column, part in enumerate((photograph, mirrored, photograph, mirrored)):
            surface.blit(part, (left + column * width, 0))
        pixels = pygame.image.tobytes(surface, "RGBA")
        GL.glBindTexture(GL.GL_TEXTURE_2D, frame)
        GL.glTexSubImage2D(GL.GL_TEXTURE_2D, 0, 0, 0, width, height, GL.GL_RGBA, GL.GL_UNSIGNED_BYTE, pixels)
        interpreter.invoke()
        GL.glBlitFramebuffer(  # pictures begin with the top row, windows with the bottom row
            0, 0, width, height, 0, height, width, 0, GL.GL_COLOR_BUFFER_BIT, GL.GL_NEAREST
        )
        done += 1
        if output and done == frames:
            save(output, width, height)
        pygame.display.flip()
        is_open = not any(event.type == pygame.QUIT for event in pygame.event.get())
    delegate.close()
    pygame.quit()


if __name__ == "__main__":
    typer.run(main)
