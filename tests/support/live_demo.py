"""A demo with a model that changes nothing and two variants, for test_live.py to run as a program."""

from __future__ import annotations

import typer

import framebind as fb
from framebind.tools.player.options import Options, demo
from framebind.tools.player.run import main
from framebind.video.task import Drawing, Scene, Variant


def prepare(scene: Scene) -> Drawing:
    network, (image,), ((output, (_, height, width, _)),) = (
        scene.network,
        scene.network.inputs,
        scene.network.outputs.items(),
    )
    shown = fb.GlTexture(width, height)
    network.bind(output, shown)
    show = fb.FragmentProgram("uniform sampler2D shown;\nuniform vec3 tint;\nvoid main() {"
                              "color = vec4(texture(shown, uv).rgb * tint, 1.0); }")  # fmt: skip
    tint = [(1.0, 1.0, 1.0)]

    def draw(frame: fb.GlTexture) -> None:
        network.bind(image, frame)
        network.run()
        show.draw(scene.picture, {"shown": shown}, uniforms={"tint": tint[0]})

    def choose(number: int) -> None:
        tint[0] = ((1.0, 1.0, 1.0), (1.0, 0.0, 0.0))[number]

    variants = [Variant("plain", lambda: choose(0)), Variant("red", lambda: choose(1))]
    return Drawing(draw, variants, lambda marks: marks.fill(0, 0, 8, 8, (0.0, 1.0, 0.0)))


@demo("")
def command(options: Options) -> None:
    """The command that tests run."""
    main(prepare, options)


if __name__ == "__main__":
    typer.run(command)
