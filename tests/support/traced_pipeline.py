"""A camera's frames through a model to a picture, everything bound: what the tests of copies and of leaks run.

As a program (``python -m support.traced_pipeline gl|gles MODEL PHOTOGRAPH FRAMES``) it is what test_trace.py traces: it
draws once a frame, reads the last picture, and prints the number of the model's dispatches.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import framebind as fb
from support.video.textures import textures

SIZE = (160, 120)
"""Width and height of a frame."""
FRAME_BYTES = SIZE[0] * SIZE[1] * 3
"""The bytes of an uploaded BGR frame."""

# Redder, the surer face_detection_front is of any face: it reads the frame and every score.
SHADER = """
uniform sampler2D frame;
layout(std430, binding = 0) readonly buffer scores { float score[]; };
void main() {
    float highest = score[0];
    for (int i = 1; i < score.length(); i++) highest = max(highest, score[i]);
    color = vec4(mix(texture(frame, uv).rgb, vec3(1, 0, 0), 0.5 / (1.0 + exp(-highest))), 1.0);
}
"""


@dataclass(frozen=True)
class Pipeline:
    """``draw`` takes a frame through the model, whose tensors are all bound, and draws ``picture``."""

    delegate: fb.GpuDelegate
    picture: fb.GlTexture
    draw: Callable[[fb.GlTexture], None]

    @property
    def dispatches(self) -> int:
        """The number of dispatches that the model makes per frame. It is known after the first frame."""
        (partition,) = self.delegate.engine.partitions
        assert partition.program is not None
        return len(partition.program.steps)


def make_pipeline(model: Path, options: fb.GpuDelegateOptions | None = None) -> Pipeline:
    """face_detection_front on objects of the current GL context. The scores go to two buffers in turn."""
    delegate = fb.GpuDelegate(options)
    interpreter = fb.Interpreter(model_path=model)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    (image,), (boxes, scores) = interpreter.inputs(), interpreter.outputs()
    delegate.bind_buffer_to_tensor(fb.GlBuffer(896 * 16 * 4, label="the boxes"), boxes)
    ring = itertools.cycle([fb.GlBuffer(896 * 4, label=f"the scores {i}") for i in range(2)])
    picture, program = fb.GlTexture(*SIZE, "rgba8", label="the picture"), fb.FragmentProgram(SHADER)

    def draw(frame: fb.GlTexture) -> None:
        buffer = next(ring)
        delegate.bind_buffer_to_tensor(frame, image, mean=0.5, std=0.5)
        delegate.bind_buffer_to_tensor(buffer, scores)
        interpreter.invoke()
        program.draw(picture, {"frame": frame}, {"scores": buffer})

    return Pipeline(delegate, picture, draw)


def camera(context: fb.GlContext, photograph: Path, frames: int) -> Iterator[fb.GlTexture]:
    """Frames of a synthetic camera, decoded on a thread into the ring of upload buffers."""
    with fb.open_source(f"synthetic:{photograph}", size=SIZE) as source:
        yield from itertools.islice(textures(source, context), frames)


def main(api: str, model: str, photograph: str, frames: str) -> None:
    with fb.GlContext.headless(es=api == "gles") as context:
        pipeline = make_pipeline(Path(model))
        for frame in camera(context, Path(photograph), int(frames)):
            pipeline.draw(frame)
        assert pipeline.picture.read(reason="the last picture").std() > 20, "no picture was drawn"
        print(pipeline.dispatches)


if __name__ == "__main__":
    main(*sys.argv[1:])
