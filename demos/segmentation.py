"""Colours what a camera, a video or a picture shows: people, cats, chairs (DeepLab), or a person (selfie models)."""

from __future__ import annotations

import colorsys

import typer

import framebind as fb

from .options import Options, demo
from .run import main
from .task import Scene, Task

# The scores of the four tensor pixels around a picture's pixel are mixed before they are compared: smooth outlines.
SCORES = """
uniform sampler2D frame;
layout(std430, binding = 0) readonly buffer scores { float score[]; };
float mixed(int channel) {
    vec2 place = clamp(uv * vec2(WIDTH, HEIGHT) - 0.5, vec2(0), vec2(WIDTH - 1, HEIGHT - 1));
    ivec2 a = ivec2(place), b = min(a + 1, ivec2(WIDTH - 1, HEIGHT - 1));
    ivec4 at = ivec4(a.y * WIDTH + a.x, a.y * WIDTH + b.x, b.y * WIDTH + a.x, b.y * WIDTH + b.x) * CHANNELS + channel;
    vec2 rows = mix(vec2(score[at.x], score[at.z]), vec2(score[at.y], score[at.w]), fract(place.x));
    return mix(rows.x, rows.y, fract(place.y));
}
"""
CLASSES = """
void main() {
    int best = 0;
    float highest = mixed(0), value;
    for (int channel = 1; channel < CHANNELS; channel++) {
        if ((value = mixed(channel)) > highest) { highest = value; best = channel; }
    }
    vec3 here = texture(frame, uv).rgb;
    color = vec4(best == 0 ? here : mix(here, PALETTE[best], 0.6), 1.0);
}
"""
PERSON = """
void main() {
    vec3 here = texture(frame, uv).rgb, gray = vec3(dot(here, vec3(0.3, 0.6, 0.1)));
    color = vec4(mix(mix(gray, PALETTE[0], 0.6), here, smoothstep(0.3, 0.7, mixed(0))), 1.0);
}
"""


def prepare(scene: Scene) -> Task:
    """Bind the scores' buffer once; each frame is bound, segmented, and drawn with the buffer's classes over it."""
    network, (image,) = scene.network, scene.network.inputs
    ((output, (_, height, width, channels)),) = network.outputs.items()
    scores = fb.GlBuffer(width * height * channels * 4, label="the scores")
    network.bind(output, scores)
    # Well-spread hues: each is the golden angle from the one before.
    palette = ", ".join(f"vec3{colorsys.hsv_to_rgb(0.62 + 0.618034 * c, 0.8, 1.0)}" for c in range(channels))
    constants = f"const int WIDTH = {width}, HEIGHT = {height}, CHANNELS = {channels};\n"
    constants += f"const vec3 PALETTE[{channels}] = vec3[{channels}]({palette});\n"
    blend = fb.FragmentProgram(constants + SCORES + (PERSON if channels == 1 else CLASSES))
    mean, std = (0.0, 1.0) if channels == 1 else (0.5, 0.5)  # selfie models take 0 to 1, DeepLab -1 to 1

    def draw(frame: fb.GlTexture) -> None:
        network.bind(image, frame, mean=mean, std=std)
        network.run()
        blend.draw(scene.picture, {"frame": frame}, {"scores": scores})

    return Task(draw)


@demo("deeplabv3_257_mv_gpu")
def command(options: Options) -> None:
    """Colour what a camera, a video or a picture shows.

    Example: python -m framebind demo segmentation --camera 0
    """
    main(prepare, options)


if __name__ == "__main__":
    typer.run(command)
