"""No byte but the camera's crosses between host and GPU in a bound pipeline: by our own counter, and by a trace of all
GL calls that the process makes, which no mistake of ours can hide from.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import framebind as fb
from support import traced_pipeline
from support.environment import photograph_path
from support.traced_pipeline import FRAME_BYTES, SIZE

FRAMES = 100
CAMERA = "camera frame"
"""The reason under which the camera's uploads are counted."""

TESTS = Path(__file__).parents[1]
COPIES = re.compile(
    r"gl(?!Copy)\w*(Readn?Pixels|DrawPixels|Get\w*Image|BufferSubData|BufferData|BufferStorage|[Mm]apBuffer|[Mm]apNamedBuffer"
    r"|MappedBuffer|MappedNamedBuffer|Tex(ture)?(Sub)?Image|Tex(ture)?Storage)"
)
"""Calls that copy between host and GPU or allocate there, in all their forms (glGetnTexImage, glTextureSubImage2D)."""
CALL = re.compile(r"^(\d+) (\w+)\((.*)", re.MULTILINE)

FindModel = Callable[[str], Path]


@dataclass(frozen=True)
class Call:
    """A line of ``apitrace dump``: the function and the text of its arguments, as name = value."""

    name: str
    arguments: str

    def __getitem__(self, argument: str) -> str:
        found = re.search(rf"\b{argument} = ([^,)]+)", self.arguments)
        assert found is not None, f"{self.name} was traced without {argument}: {self.arguments}"
        return found[1]


def trace(tool: Callable[[str], str], folder: Path, api: str, model: Path) -> tuple[list[Call], int]:
    """Every GL and EGL call of a process that runs the pipeline, and how many dispatches it says the model makes."""
    apitrace, file = tool("apitrace"), folder / "pipeline.trace"
    program = [sys.executable, "-m", "support.traced_pipeline", api, str(model), str(photograph_path()), str(FRAMES)]
    environment = {**os.environ, "EGL_PLATFORM": "surfaceless", "PYTHONPATH": str(TESTS)}
    command = [apitrace, "trace", "--api", "egl", "--output", str(file), *program]
    traced = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert traced.returncode == 0, traced.stderr
    # Verbose, or calls that apitrace thinks dull are left out.
    command = [apitrace, "dump", "--verbose", "--color=never", str(file)]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    calls = [Call(name, arguments) for _, name, arguments in CALL.findall(dumped.stdout)]
    return calls, int(traced.stdout)


def by_frames(calls: list[Call]) -> list[list[Call]]:
    """The calls of each frame, which ends with its second draw; then those after the last.

    The first draw turns the camera's BGR into RGBA.
    """
    frames: list[list[Call]] = [[]]
    for call in calls:
        frames[-1].append(call)
        if [each.name for each in frames[-1]].count("glDrawArrays") == 2:
            frames.append([])
    return frames


def mapped_for_upload(calls: list[Call]) -> list[range]:
    """The addresses of the camera's buffers. They stay mapped, and writes to them are traced as memcpy."""
    maps = [c for c in calls if c.name == "glMapBufferRange" and c["target"] == "GL_PIXEL_UNPACK_BUFFER"]
    starts = [int(call.arguments.rpartition(" = ")[2], 16) for call in maps]
    return [range(start, start + int(call["length"])) for start, call in zip(starts, maps, strict=True)]


def check_upload(frame: list[Call]) -> None:
    """The one copy of a frame is of a whole picture, from a buffer for pixels, to the camera's texture."""
    copies = [call for call in frame if COPIES.match(call.name)]
    assert [call.name for call in copies] == ["glTexSubImage2D"], copies
    (upload,) = copies
    assert (int(upload["width"]), int(upload["height"])) == SIZE and upload["pixels"] == "NULL"
    before = frame[: frame.index(upload)]
    bound = [c["buffer"] for c in before if c.name == "glBindBuffer" and c["target"] == "GL_PIXEL_UNPACK_BUFFER"]
    assert int(bound[-1]) > 0


@pytest.mark.parametrize("context", ["gl", "gles"], indirect=True)
def test_a_trace_shows_no_copy_but_the_cameras(
    context: fb.GlContext, tool: Callable[[str], str], model_path: FindModel, tmp_path: Path
) -> None:
    api = "gles" if context.is_es else "gl"
    calls, dispatches = trace(tool, tmp_path, api, model_path("face_detection_front"))
    first, *frames, rest = by_frames(calls)
    assert len(frames) == FRAMES - 1
    for frame in frames:
        check_upload(frame)
        assert [call.name for call in frame].count("glDispatchCompute") == dispatches
    names = [Counter(call.name for call in frame if call.name.startswith("gl")) for frame in frames]
    assert all(counts == names[0] for counts in names), "every frame makes the same calls"
    assert not any(re.match("gl(Gen|Create|Compile|Link)", name) for name in names[0]), "and makes nothing new"
    memories = mapped_for_upload(first)
    written = [int(call["dest"], 16) for frame in frames for call in frame if call.name == "memcpy"]
    assert all(any(address in memory for memory in memories) for address in written)
    assert written or context.is_es, "apitrace follows writes to memory that stays mapped, but not in OpenGL ES"
    # The trace is not blind: it has the first frame's loading of weights, and the reading of the last picture.
    assert dispatches > 20
    assert any(COPIES.match(call.name) and "blob(" in call.arguments for call in first)
    assert [call.name for call in rest if COPIES.match(call.name)] == ["glReadPixels"]


def test_the_counter_shows_no_byte_but_the_cameras(context: fb.GlContext, model_path: FindModel) -> None:
    pipeline = traced_pipeline.make_pipeline(model_path("face_detection_front"))
    frames = traced_pipeline.camera(context, photograph_path(), FRAMES + 1)
    pipeline.draw(next(frames))
    assert fb.transfers.bytes_except(CAMERA) > 0, "the first frame loads the weights"
    fb.transfers.reset()
    drawn = 0
    with fb.transfer_guard("disallow", exempt=(CAMERA,)):
        for frame in frames:
            pipeline.draw(frame)
            drawn += 1
    assert drawn == FRAMES
    assert fb.transfers.bytes_except(CAMERA) == 0
    uploaded = fb.transfers.by_reason["upload", CAMERA]
    assert (uploaded.calls, uploaded.bytes) == (FRAMES, FRAMES * FRAME_BYTES)
    assert pipeline.picture.read(reason="the last picture").std() > 20
    pipeline.delegate.close()
