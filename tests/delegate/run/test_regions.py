"""Crops whose places lie in a buffer on the GPU: of textures, bytes and video, against NumPy and OpenCV."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

import framebind as fb
from framebind.delegate.plan.binding import Binding
from framebind.interop.cuda import nvrtc
from framebind.interop.device import Device
from framebind.kernels.codegen.cuda import CUDA
from framebind.kernels.codegen.render import render_together
from framebind.kernels.tensor import Shape
from support.device_steps import sample, texture
from support.environment import absent
from support.recording_driver import RecordingDriver
from support.tiny_models import chain

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (40, 56, 4), np.uint8)
SHAPE: Shape = (1, 12, 16, 3)
TURN = 0.4
ROWS = np.zeros((3, 8), np.float32)
"""The whole picture; a rectangle that is turned and reaches beyond the picture; one upright."""
ROWS[0, [0, 5]] = 56, 40
ROWS[1] = [
    30 * math.cos(TURN), -20 * math.sin(TURN), 5.3, 7, 30 * math.sin(TURN), 20 * math.cos(TURN), -2.1, 7,
]  # fmt: skip
ROWS[2] = [12, 0, 8.25, 0, 0, 10, 4.5, 0]


def ready(shape: Shape = SHAPE) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """A model that computes -(-x)."""
    delegate = fb.GpuDelegate()
    interpreter = fb.Interpreter(model_content=chain("NEG", "NEG", shape=shape), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    return interpreter, delegate


def buffer_of(gpu: Device, rows: Array) -> Any:
    buffer = gpu.buffer(rows.nbytes, "regions")
    gpu.write(buffer, np.ascontiguousarray(rows), "test")
    return buffer


def expected(picture: Array, row: Array) -> Array:
    """The region that a row describes (height, width, 3), sampled by NumPy."""
    _, height, width, _ = SHAPE
    rows = [(*row[[0, 1]] / (width, height), row[2], 0.0), (*row[[4, 5]] / (width, height), row[6], 0.0)]
    parameters = np.array([*rows[0], *rows[1], 1, 1, 1, 0, 0, 0, 0, 0])
    parameters[[3, 7]] = picture.shape[1], picture.shape[0]
    return sample(picture, tuple(parameters), SHAPE, "rgb", True)[0]


@pytest.mark.parametrize("kind", ["texture", "bytes", "video", "upright"])
def test_a_run_reads_where_its_region_is(kind: str, gpu: Device) -> None:
    rows, picture = buffer_of(gpu, ROWS), PICTURE[..., :3]
    obj: Any = texture(gpu, PICTURE) if kind == "texture" else picture
    if kind == "video":  # grey: chroma, which has half the places, would be another test
        obj = fb.YuvPicture([picture[..., 0], np.full((20, 28, 2), 128, np.uint8)], matrix="bt709", range="full")
        picture = np.repeat(picture[..., :1], 3, axis=-1)
    if kind == "upright":  # stored turned by a quarter, as cameras do
        obj = fb.Frame(_stored(picture), rotation=90)
        picture = np.repeat(picture[..., :1], 3, axis=-1)
    interpreter, delegate = ready()
    for index, row in enumerate(ROWS):
        delegate.bind_buffer_to_tensor(obj, 0, crop=fb.Region(rows, index))
        interpreter.invoke()
        assert np.abs(interpreter.get_tensor(2)[0] - expected(picture, row)).max() <= 1e-4, index
    interpreter.set_allow_buffer_handle_output(True)
    moved = ROWS[[1, 1, 0]]
    gpu.write(rows, moved, "test")  # as a kernel before would: nothing is bound or recorded again
    fb.transfers.reset()
    interpreter.invoke()
    interpreter.ensure_tensor_data_is_readable(2)
    assert np.abs(interpreter.get_tensor(2)[0] - expected(picture, moved[2])).max() <= 1e-4
    delegate.close()


def _stored(picture: Array) -> fb.YuvPicture:
    """The red of a picture as grey video, turned clockwise, as a rectangle would be that shows it upright."""
    luma = np.ascontiguousarray(np.rot90(picture[..., 0], -1))
    return fb.YuvPicture(
        [luma, np.full((luma.shape[0] // 2, luma.shape[1] // 2, 2), 128, np.uint8)], matrix="bt709", range="full"
    )


def test_pixels_beyond_the_picture_are_padded(gpu: Device) -> None:
    interpreter, delegate = ready((1, 8, 8, 3))
    row = np.array([[112, 0, 0, 0, 0, 80, -40, 0]], np.float32)  # twice the size: the left half, below the middle
    region = fb.Region(buffer_of(gpu, row))
    delegate.bind_buffer_to_tensor(PICTURE[..., :3], 0, crop=region, mean=0.5, std=0.5, pad=1.0)
    interpreter.invoke()
    seen = interpreter.get_tensor(2)[0]
    inside = np.zeros((8, 8), bool)
    inside[4:, :4] = True
    assert (seen[~inside] == 1).all() and (seen[inside] < 1).any(axis=-1).all()
    delegate.close()


def opencv_crop(picture: Array, row: Array, side: int) -> Array:
    """A region as OpenCV 4's warpAffine samples it: from points at 32 steps of a pixel.

    OpenCV 5's warpAffine no longer rounds. Its remap with maps of fixed points does what both did before.
    """
    x, y = np.meshgrid(*[(np.arange(side) + 0.5) / side] * 2)
    across, down = [(row[i] * x + row[i + 1] * y + row[i + 2] - 0.5).astype(np.float32) for i in (0, 4)]
    whole, parts = cv2.convertMaps(across, down, cv2.CV_16SC2)
    return cv2.remap(picture, whole, parts, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def test_steps_round_coordinates_and_values_as_opencv_does(gpu: Device) -> None:
    interpreter, delegate = ready((1, 48, 48, 3))
    rows = ROWS[1:2].copy()
    rows[0, [0, 1, 4, 5]] *= 0.4  # a pixel of the network is a quarter of a texel: steps matter
    region, crop = buffer_of(gpu, rows), opencv_crop(PICTURE[..., :3], rows[0], 48)
    differences = {}
    for steps in (0, 32):
        delegate.bind_buffer_to_tensor(PICTURE[..., :3], 0, crop=fb.Region(region, steps=steps))
        interpreter.invoke()
        differences[steps] = np.abs(interpreter.get_tensor(2)[0] * 255 - crop).max(axis=-1)
    rounded = differences[32] <= 0.001  # OpenCV's result is bytes, and so are these
    assert rounded.mean() >= 0.99, "all but coordinates that a float puts on the other side of a half step"
    assert (differences[0] <= 0.51).mean() < 0.5 and differences[0].max() > 2
    delegate.close()


def test_each_frame_of_a_batch_has_its_own_row(gpu: Device) -> None:
    interpreter, delegate = ready((3, *SHAPE[1:]))
    rows, frame = buffer_of(gpu, ROWS), texture(gpu, PICTURE)
    crops = [fb.Region(rows, index) for index in range(3)]
    for _ in range(2):  # the second time nothing is decided anew
        delegate.bind_buffer_to_tensor([frame] * 3, 0, crop=crops)
        interpreter.invoke()
        for seen, row in zip(interpreter.get_tensor(2), ROWS, strict=True):
            assert np.abs(seen - expected(PICTURE[..., :3], row)).max() <= 1e-4
    delegate.close()


def test_crops_of_a_batch_are_decided_once_and_may_move(gpu: Device) -> None:
    interpreter, delegate = ready((2, *SHAPE[1:]))
    frame, crops = texture(gpu, PICTURE), [(0.0, 0.0, 16.0, 12.0), (8.0, 4.0, 16.0, 12.0)]
    delegate.bind_buffer_to_tensor([frame] * 2, 0, crop=crops)
    interpreter.invoke()
    memory = delegate.engine.boundary.memory
    decided = memory.used((0, 0))
    assert decided is not None
    delegate.bind_buffer_to_tensor([texture(gpu, PICTURE)] * 2, 0, crop=crops)
    interpreter.invoke()
    again = memory.source((0, 0))
    assert isinstance(again, Binding) and again.view is decided.view, "other textures need no decision"
    crops[1] = (20.0, 9.0, 16.0, 12.0)  # the same list
    delegate.bind_buffer_to_tensor([frame] * 2, 0, crop=crops)
    interpreter.invoke()
    seen = interpreter.get_tensor(2)
    for values, (x, y, width, height) in zip(seen, crops, strict=True):
        inside = PICTURE[int(y) : int(y + height), int(x) : int(x + width), :3] / 255
        assert np.abs(values - inside).max() <= 1e-4
    delegate.close()


def test_another_picture_of_a_ring_is_not_recorded_again(gpu: Device) -> None:
    interpreter, delegate = ready()
    ring, region = [texture(gpu, PICTURE[::step]) for step in (1, 1)], fb.Region(buffer_of(gpu, ROWS), 2)
    delegate.bind_buffer_to_tensor(ring[0], 0, crop=region)
    interpreter.invoke()
    (partition,) = delegate.engine.partitions
    recorded = partition.program.recorded if partition.program else None
    assert recorded is not None
    for obj in ring[::-1]:
        delegate.bind_buffer_to_tensor(obj, 0, crop=region)
        interpreter.invoke()
        assert partition.program is not None and partition.program.recorded is recorded
    delegate.close()


@pytest.mark.parametrize("count", [1, 2])
def test_rows_of_another_buffer_need_no_decision(count: int, gpu: Device) -> None:
    interpreter, delegate = ready((count, *SHAPE[1:]))
    frame, buffers = texture(gpu, PICTURE), [buffer_of(gpu, ROWS), buffer_of(gpu, ROWS[::-1]), buffer_of(gpu, ROWS[:2])]

    def bind(buffer: Any, *, rows: tuple[int, int] = (0, 1), **given: Any) -> None:
        regions = [fb.Region(buffer, row) for row in rows[:count]]
        objects, crops = ([frame] * count, regions) if count > 1 else (frame, regions[0])
        delegate.bind_buffer_to_tensor(objects, 0, crop=crops, **given)

    bind(buffers[0])
    interpreter.invoke()
    memory, (partition,) = delegate.engine.boundary.memory, delegate.engine.partitions
    decided, recorded = memory.used((0, 0)), partition.program.recorded if partition.program else None
    assert decided is not None
    for buffer, rows in zip((buffers[1], buffers[0], buffers[1]), (ROWS[::-1], ROWS, ROWS[::-1]), strict=True):
        bind(buffer)
        interpreter.invoke()
        again = memory.source((0, 0))
        assert isinstance(again, Binding) and again.view is decided.view and again.parameters is decided.parameters
        assert partition.program is not None and partition.program.recorded is recorded
        for values, row in zip(interpreter.get_tensor(2), rows, strict=False):
            assert np.abs(values - expected(PICTURE, row)).max() <= 1e-4
    others: list[dict[str, Any]] = [
        {"buffer": buffers[2]}, {"buffer": buffers[0], "mean": 0.5}, {"buffer": buffers[0], "rows": (1, 2)},
    ]  # fmt: skip
    for given in others:
        bind(**given)
        again = memory.source((0, 0))
        assert isinstance(again, Binding) and again.view is not decided.view, "this is decided"
    bind(buffers[1])
    buffers[0].release()
    with pytest.raises(fb.BindingError, match=r"regions.* is released"):
        bind(buffers[0])
    interpreter.invoke()
    assert np.abs(interpreter.get_tensor(2)[0] - expected(PICTURE, ROWS[2])).max() <= 1e-4
    delegate.close()


def test_a_surface_that_comes_again_is_read_at_the_region_of_now(gpu: Device) -> None:
    interpreter, delegate = ready()
    buffers, rows = [buffer_of(gpu, ROWS), buffer_of(gpu, ROWS[::-1])], (ROWS[0], ROWS[2])
    grey = [np.ascontiguousarray(PICTURE[..., channel]) for channel in (0, 1)]
    chroma = buffer_of(gpu, np.full((20, 28, 2), 128, np.uint8))
    surfaces = [
        fb.YuvPicture([buffer_of(gpu, luma), chroma], matrix="bt709", range="full", width=56, height=40)
        for luma in grey
    ]
    for surface, place in ((0, 0), (1, 0), (0, 0), (0, 1), (1, 1), (1, 0), (0, 0), (0, 1)):
        delegate.bind_buffer_to_tensor(surfaces[surface], 0, crop=fb.Region(buffers[place]))
        interpreter.invoke()
        picture = np.repeat(grey[surface][..., None], 3, axis=-1)
        assert np.abs(interpreter.get_tensor(2)[0] - expected(picture, rows[place])).max() <= 1e-4, (surface, place)
    delegate.close()


REFUSED: dict[str, tuple[Callable[[Device], Any], dict[str, Any], str]] = {
    "no such row": (lambda gpu: gpu.buffer(96, "three rows"), {"index": 3}, "has 96 bytes, and row 3 .* ends at 128"),
    "a row before the first": (lambda gpu: gpu.buffer(96, "three rows"), {"index": -1}, "index of its Region is -1"),
    "an array": (lambda _: ROWS, {}, "in the CPU's memory; give one on the GPU"),
    "a texture": (lambda gpu: texture(gpu, PICTURE), {}, "is no buffer"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_row_of_a_buffer_is_refused(case: str, gpu: Device) -> None:
    make, given, message = REFUSED[case]
    interpreter, delegate = ready()
    region = fb.Region(make(gpu), **given)
    with pytest.raises(fb.BindingError, match=message):
        delegate.bind_buffer_to_tensor(PICTURE[..., :3], 0, crop=region)
    with pytest.raises(fb.BindingError, match="rotation 30 turns the picture before a Region is taken"):
        delegate.bind_buffer_to_tensor(PICTURE[..., :3], 0, crop=fb.Region(buffer_of(gpu, ROWS)), rotation=30)
    delegate.bind_buffer_to_tensor(PICTURE[..., :3], 0, crop=fb.Region(buffer_of(gpu, ROWS)))
    interpreter.invoke()
    delegate.close()


def test_a_buffer_of_rows_is_no_output_of_the_same_model(gpu: Device) -> None:
    interpreter, delegate = ready((1, 1, 3, 8))
    rows = buffer_of(gpu, ROWS)
    delegate.bind_buffer_to_tensor(rows, 2)
    delegate.close()
    interpreter, delegate = ready((1, 4, 4, 3))
    big = gpu.buffer(192, "rows and output")
    delegate.bind_buffer_to_tensor(big, 2)
    delegate.bind_buffer_to_tensor(PICTURE[..., :3], 0, crop=fb.Region(big))
    with pytest.raises(fb.BindingError, match="rows and output"):
        interpreter.invoke()
    delegate.close()


def test_cuda_compiles_the_reads_and_launches_them_with_the_rows(recorder: RecordingDriver) -> None:
    try:
        nvrtc.version()
    except fb.DeviceError as error:
        absent("nvrtc", str(error))
    with fb.cuda.CudaContext():
        delegate = fb.GpuDelegate("cuda")
        interpreter = fb.Interpreter(model_content=chain("NEG", "NEG", shape=SHAPE), experimental_delegates=[delegate])
        interpreter.allocate_tensors()
        rows = fb.cuda.CudaArray.from_array(ROWS)
        video = fb.YuvPicture(
            [fb.cuda.CudaArray.from_array(each) for each in (PICTURE[..., 0], np.zeros((20, 28, 2), np.uint8))]
        )
        for obj in (fb.cuda.CudaImage.from_array(PICTURE), video):
            delegate.bind_buffer_to_tensor(obj, 0, crop=fb.Region(rows, 1, steps=32))
            interpreter.set_allow_buffer_handle_output(True)
            interpreter.invoke()
            program = delegate.engine.programs[0]
            sources = [step.kernel.source for step in program.steps]
            assert nvrtc.machine_code(render_together(sources, CUDA)[0], 90)
            step = program.steps[0]
            assert "src_region" in step.operands and rows in program.bindings[0].others
        delegate.close()
