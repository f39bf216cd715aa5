"""pyglet: textures by their id. Its pictures have the bottom row first, so the bindings say ``flip``."""

from __future__ import annotations

import pyglet
import typer

import framebind as fb

from .style import DEFAULT_STYLE, PHOTOGRAPH, Frames, Model, Output, Picture, style_model


def main(
    picture: Picture = PHOTOGRAPH, model: Model = DEFAULT_STYLE, frames: Frames = 0, output: Output = None
) -> None:
    """Paint a picture in a pyglet program."""
    image = pyglet.image.load(str(picture)).get_image_data()
    config = pyglet.gl.Config(major_version=4, minor_version=3, double_buffer=True)
    window = pyglet.window.Window(image.width, image.height, "pyglet and framebind", config=config)
    pixels = image.get_data("RGBA", image.width * 4)  # models can read RGBA textures, not RGB ones
    source = pyglet.image.ImageData(image.width, image.height, "RGBA", pixels).get_texture()
    painted = pyglet.image.Texture.create(image.width, image.height)

    interpreter, delegate = style_model(model, image.width, image.height)
    for texture, tensor in ((source, interpreter.inputs()[0]), (painted, interpreter.outputs()[0])):
        assert texture.id is not None
        delegate.bind_buffer_to_tensor(fb.GlTexture.from_id(texture.id), tensor, flip="vertical")

    done = 0

    @window.event
    def on_draw() -> None:
        nonlocal done
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
