"""Every public object says in one short line what it is: in a notebook, a debugger and a test's message."""

from __future__ import annotations

import enum
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import framebind as fb
from framebind.interop.processes import messages
from framebind.interop.processes.exported import export_by
from framebind.interop.processes.host_slots import CopiedSlots
from framebind.interop.processes.messages import Description
from support.public_names import public_names
from support.recording_driver import RecordingDriver
from support.tiny_models import chain

LONGEST = 200


def interpreter_with(delegate: fb.GpuDelegate) -> fb.Interpreter:
    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH"), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    delegate.record()
    return interpreter


def _signed() -> fb.Interpreter:
    return fb.Interpreter(model_content=chain("EXP", signature="serve"))


def delegate() -> fb.GpuDelegate:
    return fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))


WITHOUT_DEVICE: dict[str, tuple[Callable[[], object], str]] = {
    "Backend": (lambda: fb.list_backends()[0], "OpenGL, 'gl' or 'opengl'"),
    "BestOptions": (lambda: fb.BestOptions(None, False, 4, "no GPU"), "no GPU"),
    "video.Camera": (lambda: fb.video.Camera(0, "a webcam"), "a webcam"),
    "video.VirtualCameraPlace": (lambda: fb.video.VirtualCameraPlace("pipewire", True, "it answers"), "it answers"),
    "CompiledModel": (
        lambda: fb.CompiledModel.from_buffer(chain("EXP"), backend="null"),
        "1 operator from x to t1, <Gpu",
    ),
    "DelegatedOp": (lambda: interpreter_with(delegate()).delegated_ops()[0], "EXP"),
    "FoundGpu": (lambda: fb.FoundGpu("GPU-0", "NVIDIA H200", {"cuda": 0}), "NVIDIA H200"),
    "GpuDelegate": (delegate, "backend 'null', serves no interpreter"),
    "GpuDelegateOptions": (lambda: fb.GpuDelegateOptions(backend="null"), "backend='null'"),
    "Interpreter": (
        lambda: interpreter_with(delegate()),
        "2 operators from x to t2, <GpuDelegate: backend 'null', 2 op",
    ),
    "InterpreterWithCustomOps": (lambda: fb.InterpreterWithCustomOps(model_content=chain("EXP")), "1 operator from x"),
    "video.VideoWriter": (lambda: fb.video.VideoWriter("marked.mp4", fps=24), "'marked.mp4', 24 fps"),
    "video.Marks": (fb.video.Marks, "to draw: 0"),
    "PartitionReport": (lambda: _served().partitions()[0], "2 operators, 1 dispatch>"),
    "Region": (lambda: fb.Region(np.zeros(8, np.float32), 0, steps=32), "row 0 of a ndarray, 32 steps"),
    "video.Planes": (
        lambda: fb.video.Planes([np.zeros((4, 6), np.uint8)] * 3, 1, 1, fb.YuvPicture([None, None]).colours),
        "6x4 of 1x1 pixels per chroma, bt709",
    ),
    "cl.SharingReport": (lambda: fb.cl.SharingReport("a", "b", None, {"way": "long" * 99}, 0), "a and b share by None"),
    "mp.Image": (lambda: fb.mp.Image(fb.mp.ImageFormat.GRAY8, np.zeros((2, 3), np.uint8)), "3x2, GRAY8"),
    "video.WorkTime": (lambda: fb.video.WorkTime(1.5, 0.5, 1.0), "busy=1.5"),
    "StageTime": (lambda: fb.StageTime("upload", (0, 1), None), "upload"),
    "Statistics": (lambda: _served().statistics(), "2 of 2 operators"),
    "SignatureRunner": (lambda: fb.SignatureRunner(_signed(), "serve"), "'serve' of <Interpreter"),
    "StepCost": (lambda: _served().steps()[0], "0 EXP"),
    "StepTime": (lambda: fb.StepTime("0 EXP 0", "copy", 12), "0 EXP 0"),
    "video.StreamOptions": (lambda: fb.video.StreamOptions(stall=3), "stall=3"),
    "TensorBuffer": (lambda: fb.TensorBuffer.create_from_host_memory(np.zeros((2, 3), np.int8)), "(2, 3) int8"),
    "TensorMemory": (lambda: fb.TensorMemory(0, None, 0, 240, 0, 1), "nbytes=240"),
    "video.VideoPart": (lambda: fb.video.VideoPart(0.0, 1.0, 0, 25), "frames=25"),
    "video.VideoStage": (lambda: fb.video.VideoStage("detect"), "detect with face_detection_front"),
    "video.VideoTags": (fb.video.VideoTags, "pixel_aspect=Fraction(1, 1)"),
    "transfers": (lambda: fb.transfers, "copies"),
}
"""The way in which an object is made, and a part of its repr, by public name."""


def _served() -> fb.GpuDelegate:
    served = delegate()
    _alive.append(interpreter_with(served))
    return served


_alive: list[fb.Interpreter] = []


def with_gl(tmp_path: Path) -> dict[str, tuple[object, str]]:
    """Objects of the GL context that is current, as in WITHOUT_DEVICE."""
    context = fb.GlContext.current()
    exported = export_by((), fb.GlTexture(8, 8), 1, copies_allowed=True)
    slots = CopiedSlots.allocate(context, Description("", 8, 8, "rgba8", 1, 4096, 4096, ""))
    imported = fb.ImportedTexture(context, messages.connect(exported.address), slots)
    return {
        "CompatibilityList": (fb.CompatibilityList(), "OpenGL"),
        "ExportedTexture": (exported, "0 processes read it"),
        "ImportedTexture": (imported, f"of process {os.getpid()} by copies through the CPU; frame -1"),
        "FragmentProgram": (fb.FragmentProgram("void main() {\n  color = vec4(uv, 0.0, 1.0);\n}"), "color = vec4(uv"),
        "GlBuffer": (fb.GlBuffer(16), "16 bytes"),
        "GlContext": (context, context.renderer),
        "GlTexture": (fb.GlTexture(64, 48, label="mine"), "64x48 rgba8"),
        "GlTimer": (fb.GlTimer(), "frames late"),
        "video.Overlay": (fb.video.Overlay(), "to draw: 0"),
        "YuvPicture": (fb.YuvPicture([None, None], matrix="bt601"), "nv12, bt601, limited range"),
        "Frame": (fb.Frame(fb.GlTexture(64, 48)), "64x48, rgba8"),
        "video.Source": (fb.open_source("synthetic", size=(64, 48)), "64x48"),
    }


WITH_CL: dict[str, tuple[Callable[[], object], str]] = {
    "cl.ClBuffer": (lambda: fb.cl.ClBuffer.from_array(np.zeros(4, np.float32)), "16 bytes"),
    "cl.ClContext": (fb.cl.ClContext.current, "ClContext"),
    "cl.ClImage": (lambda: fb.cl.ClImage.from_array(np.zeros((48, 64, 4), np.uint8)), "64x48 rgba8"),
}
WITH_CUDA: dict[str, tuple[Callable[[], object], str]] = {
    "cuda.CudaArray": (lambda: fb.cuda.CudaArray.from_array(np.zeros((2, 4), np.float32)), "of (2, 4) float32"),
    "cuda.CudaContext": (fb.cuda.CudaContext, "Recorder"),
    "cuda.CudaImage": (lambda: fb.cuda.CudaImage.from_array(np.zeros((48, 64, 4), np.uint8)), "64x48 rgba8"),
}
ON_A_DISPLAY = {"Window"}
LITERTS_OWN = {"Delegate"}


WATCHING = {"video.Watch": "style", "video.WatchResult": "frame=0"}


def check(name: str, value: object, part: str) -> None:
    said = repr(value)
    assert part in said and " object at 0x" not in said, f"fb.{name}: {said}"
    assert len(said) <= LONGEST and said.isprintable(), f"fb.{name} is long: {said}"


def is_error_or_enum(value: Any) -> bool:
    """Python's own reprs of these say what they are."""
    return inspect.isclass(value) and issubclass(value, Exception | enum.Enum)


def test_every_public_object_is_tested_here(context: fb.GlContext, tmp_path: Path) -> None:
    public = public_names()
    named = {name for name, value in public.items() if not (inspect.isroutine(value) or is_error_or_enum(value))}
    objects = with_gl(tmp_path)
    assert named - LITERTS_OWN == {*WITHOUT_DEVICE, *objects, *WITH_CL, *WITH_CUDA, *ON_A_DISPLAY, *WATCHING}
    for name, (value, part) in objects.items():
        check(name, value, part)


@pytest.mark.parametrize("name", WITHOUT_DEVICE)
def test_what_needs_no_device_says_what_it_is(name: str) -> None:
    make, part = WITHOUT_DEVICE[name]
    check(name, make(), part)


def test_objects_of_opencl_say_what_they_are(cl_context: fb.cl.ClContext) -> None:
    for name, (make, part) in WITH_CL.items():
        check(name, make(), part)


def test_objects_of_cuda_say_what_they_are(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        for name, (make, part) in WITH_CUDA.items():
            check(name, make(), part)


def test_a_watch_and_its_results_say_what_they_are(context: fb.GlContext, tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "picture.png"), np.zeros((48, 64, 3), np.uint8))
    with fb.video.Watch([tmp_path / "picture.png"], "style", backend="opengl") as watch:
        check("video.Watch", watch, WATCHING["video.Watch"])
        check("video.WatchResult", next(watch), WATCHING["video.WatchResult"])


def test_a_window_says_what_it_is(display: object) -> None:
    window = fb.Window(64, 48, "pictures", vsync=False)
    check("Window", window, "'pictures', 64x48 pixels")
    window.close()
    check("Window", window, "closed")


def test_what_is_closed_is_a_context_manager(context: fb.GlContext, tmp_path: Path) -> None:
    """A public class with ``close``, ``stop`` or ``release`` has ``__exit__``, which calls it."""
    for name, value in public_names().items():
        if inspect.isclass(value) and any(hasattr(value, closing) for closing in ("close", "stop", "release")):
            assert hasattr(value, "__enter__") and hasattr(value, "__exit__"), name
    with fb.GlTexture(64, 48) as texture, fb.video.VideoWriter(tmp_path / "a.png", (64, 48)) as sink:
        sink.put(texture)
    assert texture.released and "released" in repr(texture) and (tmp_path / "a.png").is_file()
    with delegate() as served:
        interpreter_with(served)
    assert "closed" in repr(served)
