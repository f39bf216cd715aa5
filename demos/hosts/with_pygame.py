"""pygame: a window with a GL context; PyOpenGL makes textures from pygame's surfaces."""

from __future__ import annotations

import pygame
import typer
from OpenGL import GL

import framebind as fb

from .style import DEFAULT_STYLE, PHOTOGRAPH, Frames, Model, Output, Picture, style_model


def texture(width: int, height: int, pixels: bytes | None) -> int:
    """The name of a new RGBA8 texture without mipmaps."""
    name = int(GL.glGenTextures(1))
    GL.glBindTexture(GL.GL_TEXTURE_2D, name)
    GL.glTexParameteri(GL.GL_TEXTURE_2D, GL.GL_TEXTURE_MIN_FILTER, GL.GL_LINEAR)
    GL.glTexImage2D(GL.GL_TEXTURE_2D, 0, GL.GL_RGBA8, width, height, 0, GL.GL_RGBA, GL.GL_UNSIGNED_BYTE, pixels)
    return name


def main(
    picture: Picture = PHOTOGRAPH, model: Model = DEFAULT_STYLE, frames: Frames = 0, output: Output = None
) -> None:
    """Paint a picture in a pygame program."""
    pygame.display.init()
    image = pygame.image.load(picture)
    width, height = image.get_size()
    pygame.display.gl_set_attribute(pygame.GL_CONTEXT_MAJOR_VERSION, 4)
    pygame.display.gl_set_attribute(pygame.GL_CONTEXT_MINOR_VERSION, 3)
    pygame.display.gl_set_attribute(pygame.GL_CONTEXT_PROFILE_MASK, pygame.GL_CONTEXT_PROFILE_CORE)
    pygame.display.set_mode((width, height), pygame.OPENGL | pygame.DOUBLEBUF)
    source = texture(width, height, pygame.image.tobytes(image, "RGBA"))
    painted = texture(width, height, None)
    framebuffer = GL.glGenFramebuffers(1)  # the picture goes to the window as a copy between framebuffers
    GL.glBindFramebuffer(GL.GL_READ_FRAMEBUFFER, framebuffer)
    GL.glFramebufferTexture2D(GL.GL_READ_FRAMEBUFFER, GL.GL_COLOR_ATTACHMENT0, GL.GL_TEXTURE_2D, painted, 0)

    interpreter, delegate = style_model(model, width, height)
    delegate.bind_buffer_to_tensor(fb.GlTexture.from_id(source), interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(fb.GlTexture.from_id(painted), interpreter.outputs()[0])

    done, open_ = 0, True
    while open_ and done != (frames or -1):
        interpreter.invoke()
        GL.glBlitFramebuffer(  # pictures are top row first, windows bottom row first
            0, 0, width, height, 0, height, width, 0, GL.GL_COLOR_BUFFER_BIT, GL.GL_NEAREST
        )
        done += 1
        if output and done == frames:
            GL.glBindFramebuffer(GL.GL_READ_FRAMEBUFFER, 0)
            screen = bytes(GL.glReadPixels(0, 0, width, height, GL.GL_RGB, GL.GL_UNSIGNED_BYTE))
            bottom_up = pygame.image.frombytes(screen, (width, height), "RGB")
            pygame.image.save(pygame.transform.flip(bottom_up, False, True), output)
        pygame.display.flip()
        open_ = not any(event.type == pygame.QUIT for event in pygame.event.get())
    delegate.close()
    pygame.quit()


if __name__ == "__main__":
    typer.run(main)
