"""framebind's own window: a FragmentProgram shows a photograph beside its painting, an Overlay draws lines and text."""

from __future__ import annotations

import math
from pathlib import Path

import typer

import framebind as fb
from framebind.video.assets import PHOTOGRAPH, STYLE_MODEL

WIDTH, HEIGHT = 640, 480
WIPE = """
uniform sampler2D original, painted;
uniform float divider;
void main() {
    vec3 picture = uv.x < divider ? texture(original, uv).rgb : texture(painted, uv).rgb;
    color = vec4(picture * smoothstep(1.0, 0.4, distance(uv, vec2(0.5))), 1.0);  // darker towards the corners
}
"""
WHITE, SHADE = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 0.6)


def add_label(overlay: fb.video.Overlay, text: str, x: float, y: float) -> None:
    """Add a line of text on a dark background with round corners; x is its middle."""
    width = overlay.text_width(text, height=22)
    overlay.fill(x - width / 2 - 10, y - 5, width + 20, 32, SHADE, radius=8)
    overlay.text(text, round(x - width / 2), y, WHITE, height=22)


def main(picture: Path = PHOTOGRAPH, model: Path = STYLE_MODEL, frames: int = 0, output: Path | None = None) -> None:
    """Wipe between a moving photograph and its painting; --frames N shows N frames, --output PNG saves the last one."""
    with (
        fb.Window(WIDTH, HEIGHT, "Drawing with framebind") as window,
        fb.open_source(f"synthetic:{picture}", size=(WIDTH, HEIGHT)) as source,
        fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl")) as delegate,
    ):
        interpreter = fb.Interpreter(model, experimental_delegates=[delegate])
        interpreter.resize_tensor_input(interpreter.inputs()[0], (1, HEIGHT, WIDTH, 3))
        interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
        painted, shown = fb.GlTexture(WIDTH, HEIGHT), fb.GlTexture(WIDTH, HEIGHT)
        delegate.bind_buffer_to_tensor(painted, interpreter.outputs()[0])
        wipe, overlay = fb.FragmentProgram(WIPE), fb.video.Overlay()
        for number, frame in enumerate(source.frames(window)):
            if frames and number == frames:
                break
            delegate.bind_buffer_to_tensor(frame, interpreter.inputs()[0])
            interpreter.invoke()
            divider = 0.5 + 0.25 * math.sin(number / 40)
            wipe.draw(shown, {"original": frame.texture, "painted": painted}, uniforms={"divider": divider})
            overlay.line(divider * WIDTH, 0, divider * WIDTH, HEIGHT, WHITE, thickness=2)
            overlay.point(divider * WIDTH, HEIGHT / 2, WHITE, diameter=22)
            overlay.box(12, 12, WIDTH - 24, HEIGHT - 24, WHITE, thickness=2, radius=12)
            add_label(overlay, "photograph", divider * WIDTH / 2, 28)
            add_label(overlay, "painted", (1 + divider) * WIDTH / 2, 28)
            overlay.draw(shown)
            window.show(shown)
        if output is not None:
            with fb.video.VideoWriter(output) as file:
                file.put(shown)


if __name__ == "__main__":
    typer.run(main)
