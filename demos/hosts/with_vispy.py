"""vispy: a gloo texture exists after its commands are flushed; the context's parser knows its GL name."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import typer
from vispy import app, gloo

import framebind as fb

from .style import DEFAULT_STYLE, PHOTOGRAPH, Frames, Model, Output, Picture, load_picture, style_model

VERTEX = """
attribute vec2 corner;
varying vec2 uv;
void main() { uv = vec2(corner.x + 1.0, 1.0 - corner.y) / 2.0; gl_Position = vec4(corner, 0.0, 1.0); }
"""
FRAGMENT = """
uniform sampler2D picture;
varying vec2 uv;
void main() { gl_FragColor = vec4(texture2D(picture, uv).rgb, 1.0); }
"""


def gl_texture(canvas: app.Canvas, texture: gloo.Texture2D) -> fb.GlTexture:
    """A gloo texture as framebind binds it."""
    canvas.context.flush_commands()
    shared: Any = canvas.context.shared
    return fb.GlTexture.from_id(int(shared.parser.get_object(texture.id).handle))


def main(
    picture: Picture = PHOTOGRAPH, model: Model = DEFAULT_STYLE, frames: Frames = 0, output: Output = None
) -> None:
    """Paint a picture in a vispy program."""
    pixels = load_picture(picture)
    height, width = pixels.shape[:2]
    app.use_app("glfw")
    canvas = app.Canvas("vispy and framebind", size=(width, height), show=True)
    program = gloo.Program(VERTEX, FRAGMENT, count=4)
    program["corner"] = [(-1, -1), (1, -1), (-1, 1), (1, 1)]
    textures = [gloo.Texture2D(array, internalformat="rgba8") for array in (pixels, np.zeros_like(pixels))]
    for texture in textures:
        program["picture"] = texture
        program.draw("triangle_strip")  # gloo makes a texture when it first draws with it

    interpreter, delegate = style_model(model, width, height)
    delegate.bind_buffer_to_tensor(gl_texture(canvas, textures[0]), interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(gl_texture(canvas, textures[1]), interpreter.outputs()[0])

    done = 0
    while not canvas._closed and done != (frames or -1):
        interpreter.invoke()
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
