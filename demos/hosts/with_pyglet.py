"""pyglet: textures by their id. Its pictures have the bottom row first, so the bindings say ``flip``."""

from __future__ import annotations

from pathlib import Path

import pyglet
import typer
from pyglet.image.buffer import Framebuffer

import framebind as fb
from framebind.video.assets import PHOTOGRAPH, STYLE_MODEL


def main(picture: Path = PHOTOGRAPH, model: Path = STYLE_MODEL, frames: int = 0, output: Path | None = None) -> None:
    """Paint a moving photograph. With --frames N it ends after N frames, and --output PNG saves the last one."""
    photograph = pyglet.image.load(str(picture))
    width, height = photograph.width, photograph.height
    config = pyglet.gl.Config(major_version=4, minor_version=3, double_buffer=True)
    window = pyglet.window.Window(width, height, "pyglet and framebind", config=config)
    source = photograph.get_texture()
    mirrored = source.get_transform(flip_x=True)
    mirrored.anchor_x = 0
    # Models read RGBA textures, which pyglet makes by default, and no RGB ones.
    frame, painted = (pyglet.image.Texture.create(width, height) for _ in range(2))
    canvas = Framebuffer()
    canvas.attach_texture(frame)

    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))  # in the context that is current
    interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
    interpreter.resize_tensor_input(interpreter.inputs()[0], (1, height, width, 3))
    interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
    for texture, tensor in ((frame, interpreter.inputs()[0]), (painted, interpreter.outputs()[0])):
        assert texture.id is not None
        delegate.bind_buffer_to_tensor(fb.GlTexture.from_id(texture.id), tensor, flip="vertical")

    done = 0

    @window.event
    def on_draw() -> None:
        nonlocal done
        canvas.bind()
        left = -2 * done % (2 * width) - 2 * width  # the photograph moves two pixels per frame
        for column, part in enumerate((source, mirrored, source, mirrored)):
            part.blit(left + column * width, 0)
        canvas.unbind()
        interpreter.invoke()
        window.clear()
        painted.blit(0, 0)
        done += 1
        if done == frames:
            if output:
                pyglet.image.get_buffer_manager().get_color_buffer().save(str(output))
            pyglet.app.exit()

    pyglet.app.run()
    delegate.close()
    window.close()


if __name__ == "__main__":
    typer.run(main)
