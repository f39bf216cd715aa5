"""Duties of every device that computes: conversions between layouts, recording, slots, parameters, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop.device import Device, Operand, Slot, Step
from framebind.interop.null.device import NullDevice
from framebind.kernels.codegen.source import Argument, KernelSource
from framebind.kernels.tensor import Shape
from framebind.kernels.views import Dense, Picture, Sliced, Strided, padding_parameters, picture_parameters
from support.device_steps import (
    FORMATS,
    PLACES,
    SHAPE,
    Array,
    bound,
    chain,
    content,
    convert,
    copy_source,
    random,
    sample,
    step,
    texels,
    texture,
    to_sliced,
    whole,
)

# Buffers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 8, 13])
def test_dense_and_sliced_convert_into_each_other(gpu: Device, channels: int) -> None:
    shape: Shape = (2, 3, 5, channels)
    x = random(shape)
    for storage in ("f32", "f16"):
        sliced = to_sliced(x, storage)
        assert np.array_equal(convert(gpu, Dense(shape), Sliced(shape, storage), x).reshape(sliced.shape), sliced)
        back = convert(gpu, Sliced(shape, storage), Dense(shape), sliced).reshape(shape)
        assert np.array_equal(back, sliced[..., :channels].astype(np.float32))
        other = "f16" if storage == "f32" else "f32"
        out = convert(gpu, Sliced(shape, storage), Sliced(shape, other), sliced)
        assert np.array_equal(out.reshape(sliced.shape), sliced.astype(out.dtype))


@pytest.mark.parametrize("channels", [1, 3, 4, 6])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numbers_by_strides_are_read_and_written_where_they_are(gpu: Device, channels: int, dtype: Any) -> None:
    shape: Shape = (2, 3, 5, channels)
    x, sliced = random(shape).astype(dtype), Sliced(shape)
    content = to_sliced(x.astype(np.float32))
    wide = np.zeros((2, 4, 7, channels + 2), dtype)[:, 1:, 2:, 1:-1]  # rows and pixels with a pitch
    for memory in (np.zeros((2, channels, 3, 5), dtype).transpose(0, 2, 3, 1), wide, np.zeros(shape, dtype)):
        view = Strided(shape, dtype, tuple(stride // x.itemsize for stride in memory.strides))
        stored = np.zeros(-(-view.nbytes // 4) * 4 // x.itemsize, dtype)
        placed = np.lib.stride_tricks.as_strided(stored, shape, memory.strides)
        placed[...] = x
        assert np.array_equal(convert(gpu, view, sliced, stored).reshape(content.shape), content)
        # What lies between the numbers stays as it was: zeros.
        assert np.array_equal(convert(gpu, sliced, view, content), stored[: view.nbytes // x.itemsize])


def test_writes_keep_the_padding_zero_and_a_pixel_stride_leaves_gaps(gpu: Device) -> None:
    shape: Shape = (1, 2, 3, 5)
    x = random(shape)
    wide = Sliced(shape, "f32", pixel_stride=3)
    # The gap behind the last pixel is no part of the tensor.
    out = np.pad(convert(gpu, Dense(shape), wide, x), (0, 4)).reshape(2, 3, 12)
    assert np.array_equal(out[..., :5], x[0]) and not out[..., 5:].any()
    garbage = to_sliced(x)
    garbage[..., 5:] = 7
    assert np.array_equal(convert(gpu, Sliced(shape), Sliced(shape), garbage).reshape(garbage.shape), to_sliced(x))


@pytest.mark.parametrize("storages", [("f32", "f16"), ("f16", "f32"), ("f16", "f16"), ("f32", "f32")])
def test_one_memory_holds_both_storages(gpu: Device, storages: tuple[Any, Any]) -> None:
    shape: Shape = (1, 4, 3, 6)
    src, dst = (Sliced(shape, storage) for storage in storages)
    content = to_sliced(random(shape), storages[0])
    arena = gpu.buffer(8192, "arena")
    gpu.write(arena, content, "test", offset=256)
    source = copy_source(gpu, src, dst, memories=("arena", "arena"))
    gpu.record([step(gpu, source, Operand(arena, 256, src.nbytes), Operand(arena, 4096, dst.nbytes))]).run()
    out = np.empty(content.shape, np.float32 if storages[1] == "f32" else np.float16)
    gpu.read(arena, out, "test", offset=4096)
    assert np.array_equal(out, content.astype(out.dtype))


def test_links_are_applied_to_what_is_written_and_broadcast_their_operand(gpu: Device) -> None:
    shape: Shape = (1, 3, 4, 6)
    x, w = random(shape), random((1, 1, 1, 6), 1)
    arguments = (
        Argument("src", Dense(shape), "r", "source"),
        Argument("dst", Dense(shape), "w", "target"),
        Argument("w0", Dense((1, 1, 1, 6)), "r", "operand"),
    )
    epilogue = (("max(v, F4(0.0f))", ""), ("v * F4(2.0f) + w", "w0"))
    source = KernelSource("copy", arguments, gpu.traits.group_size, 1, epilogue=epilogue)
    a, b, c = (gpu.buffer(n, "x") for n in (x.nbytes, x.nbytes, w.nbytes))
    gpu.write(a, x, "test")
    gpu.write(c, w, "test")
    gpu.record([Step(gpu.kernel(source), {"src": whole(a), "dst": whole(b), "w0": whole(c)}, 1, "linked")]).run()
    out = np.empty_like(x)
    gpu.read(b, out, "test")
    assert np.allclose(out, np.maximum(x, 0) * 2 + w, rtol=1e-6, atol=1e-6)


def test_more_tiles_than_one_dimension_of_a_dispatch_takes(gpu: Device) -> None:
    shape: Shape = (1, 1, 65535 * gpu.traits.group_size + 1000, 1)
    x = np.arange(shape[2], dtype=np.float32)
    a, b = gpu.buffer(x.nbytes, "a"), gpu.buffer(x.nbytes, "b")
    gpu.write(a, x, "test")
    source = copy_source(gpu, Dense(shape), Dense(shape))
    assert source.group_count > 65535
    gpu.record([step(gpu, source, whole(a), whole(b))]).run()
    out = np.empty_like(x)
    gpu.read(b, out, "test")
    assert np.array_equal(out, x)


def test_new_buffers_are_zero_even_where_memory_was_used_before(gpu: Device) -> None:
    for _ in range(3):
        buffer = gpu.buffer(100_003, "odd")
        content = np.empty(100_003, np.uint8)
        gpu.read(buffer, content, "test")
        assert not content.any()
        gpu.write(buffer, np.full(100_003, 255, np.uint8), "test")
        buffer.release()


# Pictures -------------------------------------------------------------------------------------------------------------


def read_picture(gpu: Device, picture: Array, view: Picture, parameters: tuple[float, ...]) -> Array:
    source_texture = texture(gpu, picture)
    assert source_texture.format == view.format
    buffer = gpu.buffer(Dense(view.shape).nbytes, "out")
    source = copy_source(gpu, view, Dense(view.shape))
    gpu.record([step(gpu, source, Operand(source_texture), whole(buffer), src=parameters)]).run()
    out = np.empty(view.shape, np.float32)
    gpu.read(buffer, out, "test")
    return out


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("format,order", FORMATS, ids=str)
def test_a_texture_is_read_with_crop_flip_rotation_and_bilinear_sampling(
    gpu: Device, format: str, order: str, place: dict[str, Any]
) -> None:
    picture = texels(format, 9, 11)
    shape: Shape = (1, 6, 7, len(order))
    parameters = picture_parameters(shape, (11, 9), **place)
    out = read_picture(gpu, picture, Picture(shape, format, order, "bilinear"), parameters)
    expected = sample(picture, parameters, shape, order, True)
    assert np.abs(out - expected).max() <= 2e-5 * max(1.0, np.abs(expected).max())


def test_beyond_a_padded_texture_is_the_padding(gpu: Device) -> None:
    picture, shape, mean, std = texels("rgba8", 9, 11), (1, 12, 14, 3), (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    place: dict[str, Any] = {"crop": (-3.0, -4.0, 17.0, 17.0), "rotation": 30.0, "mean": mean, "std": std}
    parameters = picture_parameters(shape, (11, 9), **place)
    parameters += padding_parameters(3, (114 / 255,), mean=mean, std=std)
    out = read_picture(gpu, picture, Picture(shape, "rgba8", "rgb", "bilinear", is_padded=True), parameters)
    expected = sample(picture, parameters, shape, "rgb", True)
    assert np.abs(out - expected).max() <= 2e-5 * np.abs(expected).max()
    np.testing.assert_allclose(out[0, 0, 0], (114 / 255 - np.array(mean)) / np.array(std), rtol=1e-6)


@pytest.mark.parametrize("format,order", FORMATS, ids=str)
def test_a_texture_of_the_tensors_size_is_read_exactly(gpu: Device, format: str, order: str) -> None:
    picture = texels(format, 5, 7)
    shape: Shape = (1, 5, 7, len(order))
    for flip in ("", "horizontal", "vertical"):
        parameters = picture_parameters(shape, (7, 5), flip=flip)
        out = read_picture(gpu, picture, Picture(shape, format, order), parameters)
        expected = sample(picture, parameters, shape, order, False)
        assert np.abs(out - expected).max() <= 1e-7 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("format,order", FORMATS, ids=str)
def test_a_texture_is_written_with_mean_std_and_crop(gpu: Device, format: str, order: str) -> None:
    if format not in gpu.traits.write_formats:
        with pytest.raises(fb.BindingError, match=f"cannot write {format}"):
            write_picture(gpu, np.zeros((1, 4, 5, 1), np.float32), format, order, {})
        return
    levels = np.random.default_rng(3).integers(0, 256, (1, 4, 5, len(order))).astype(np.float32)
    for place in ({}, {"crop": (2.0, 1.0, 5.0, 4.0)}, {"crop": (0.0, 3.0, 5.0, 4.0), "flip": "vertical"}):
        # Tensor values 0..255 stand for texels 0..1.
        after, before = write_picture(gpu, levels, format, order, {**place, "std": (1 / 255,)})
        x0, y0 = (int(n) for n in place.get("crop", (0.0, 0.0))[:2]) if place else (0, 0)
        rows = levels[0, ::-1] if place.get("flip") else levels[0]
        expected = before.astype(np.float64) / (255 if before.dtype == np.uint8 else 1)
        for channel, name in enumerate("rgba"[: before.shape[2]]):
            if len(order) == 1 and before.shape[2] == 4:
                texel: Any = rows[..., 0] / 255 if name != "a" else 1.0
            else:
                texel = rows[..., order.index(name)] / 255 if name in order else float(name == "a")
            expected[y0 : y0 + 4, x0 : x0 + 5, channel] = texel
        if after.dtype == np.uint8:
            assert np.array_equal(after, np.round(expected * 255))
        else:
            assert np.abs(after - expected).max() <= (1e-3 if after.dtype == np.float16 else 1e-6)


def write_picture(gpu: Device, x: Array, format: str, order: str, place: dict[str, Any]) -> tuple[Array, Array]:
    """Write tensor ``x`` into a texture: its content afterwards and before. It is 8x9 if there is a crop."""
    width, height = (8, 9) if "crop" in place else (x.shape[2], x.shape[1])
    before = texels(format, height, width, 5)
    target, buffer = texture(gpu, before), gpu.buffer(x.nbytes, "x")
    assert target.format == format
    gpu.write(buffer, x, "test")
    shape: Shape = x.shape  # type: ignore[assignment]
    source = copy_source(gpu, Dense(shape), Picture(shape, format, order))
    parameters = picture_parameters(shape, (width, height), write=True, **place)
    gpu.record([step(gpu, source, whole(buffer), Operand(target), dst=parameters)]).run()
    after = np.empty_like(before)
    gpu.read(target, after, "test")
    return after, before


# Command lists --------------------------------------------------------------------------------------------------------


def test_lists_that_share_a_kernel_do_not_disturb_each_other(gpu: Device) -> None:
    sliced = Sliced(SHAPE)
    source = copy_source(gpu, sliced, sliced, memories=("arena", "arena"))
    arenas, lists = [], []
    for offset in (1024, 2048, 4096):
        arena = gpu.buffer(8192, "arena")
        gpu.write(arena, np.full((*SHAPE[:3], 8), offset, np.float32), "test")
        arenas.append(arena)
        lists.append(
            gpu.record([step(gpu, source, Operand(arena, 0, sliced.nbytes), Operand(arena, offset, sliced.nbytes))])
        )
    lists[1].release()
    lists[1] = gpu.record(
        [step(gpu, source, Operand(arenas[1], 0, sliced.nbytes), Operand(arenas[1], 2048, sliced.nbytes))]
    )
    for number in (0, 1, 2, 1, 0, 2, 0):
        gpu.write(arenas[number], np.zeros(1792, np.float32), "test", offset=1024)
        lists[number].run()
        out = np.empty((2048,), np.float32)
        gpu.read(arenas[number], out, "test")
        offset = (1024, 2048, 4096)[number]
        written = out[offset // 4 : offset // 4 + 15 * 8].reshape(15, 8)
        assert np.all(written[:, :6] == offset), f"list {number} wrote elsewhere"


def test_a_list_stays_right_if_the_first_list_of_its_kernel_goes(gpu: Device) -> None:
    sliced = Sliced(SHAPE)
    source = copy_source(gpu, sliced, sliced, memories=("arena", "arena"))
    arena = gpu.buffer(8192, "arena")

    def record(*offsets: int) -> Any:
        parts = [Operand(arena, offset, sliced.nbytes) for offset in offsets]
        return gpu.record([step(gpu, source, Operand(arena, 0, sliced.nbytes), part) for part in parts])

    first, second = record(1024), record(4096, 1024)  # the second list leaves the values of the first one
    first.release()
    third = record(2048)
    gpu.write(arena, np.full(2048, 7, np.float32), "test")
    second.run()
    gpu.write(arena, np.full(256, 9, np.float32), "test")
    third.run()
    out = np.empty(2048, np.float32)
    gpu.read(arena, out, "test")
    written = [out[offset // 4 : offset // 4 + 15 * 8].reshape(15, 8)[:, :6] for offset in (1024, 2048)]
    assert np.all(written[0] == 7) and np.all(written[1] == 9), "the third list wrote where the first one did"


def test_a_slot_can_be_given_another_texture_before_each_run(gpu: Device) -> None:
    shape: Shape = (1, 4, 6, 3)
    source = copy_source(gpu, Picture(shape, "rgba8", "rgb"), Dense(shape))
    buffer = gpu.buffer(Dense(shape).nbytes, "out")
    parameters = picture_parameters(shape, (6, 4))
    list_ = gpu.record([step(gpu, source, Operand(Slot("frame")), whole(buffer), src=parameters)])
    frames = [texels("rgba8", 4, 6, seed) for seed in range(3)]
    ring = [texture(gpu, frame) for frame in frames]
    for i in (0, 1, 2, 0, 0, 2, 1):
        list_.set_slot("frame", ring[i])
        list_.run()
        assert np.abs(content(gpu, buffer, shape)[0] * 255 - frames[i][..., :3]).max() < 1e-3


def test_parameters_can_be_changed_between_runs(gpu: Device) -> None:
    shape: Shape = (1, 2, 3, 3)
    frame = texels("rgba8", 8, 9)
    source = copy_source(gpu, Picture(shape, "rgba8", "rgb"), Dense(shape))
    buffer, picture = gpu.buffer(Dense(shape).nbytes, "out"), texture(gpu, frame)
    steps = [step(gpu, source, Operand(Slot("frame")), whole(buffer),
                  src=picture_parameters(shape, (9, 8), crop=(0, 0, 3, 2)))]  # fmt: skip
    lists = [gpu.record(steps), gpu.record(steps)]
    for turn, (x, y) in enumerate([(4, 5), (1, 3), (6, 0)]):
        for number, list_ in enumerate(lists):
            list_.set_slot("frame", picture)
            list_.set_parameters(0, "src", picture_parameters(shape, (9, 8), crop=(x, y + number, 3, 2)))
        for number in (0, 1, 0, 1) if turn else (1, 0):
            lists[number].run()
            expected = frame[y + number : y + number + 2, x : x + 3, :3] / 255
            assert np.abs(content(gpu, buffer, shape)[0] - expected).max() < 1e-6
    with pytest.raises(fb.BindingError, match="no picture"):
        lists[0].set_parameters(0, "dst", (0.0,) * 16)


def test_timings_name_every_step(gpu: Device) -> None:
    steps, _ = chain(gpu, SHAPE)
    list_ = gpu.record(steps)
    target = bound(gpu, list_, random(SHAPE))
    timings = list_.timings()
    assert [label for label, _ in timings] == [s.label for s in steps]
    assert all(nanoseconds >= 0 for _, nanoseconds in timings) and sum(t for _, t in timings) > 0
    assert np.array_equal(content(gpu, target), random(SHAPE))


def test_a_fence_is_passed_after_waiting(gpu: Device) -> None:
    fence = gpu.fence()
    fence.wait()
    assert fence.done


# Errors ---------------------------------------------------------------------------------------------------------------


def test_a_slot_takes_only_what_fits(gpu: Device) -> None:
    steps, _ = chain(gpu, SHAPE)
    list_ = gpu.record(steps)
    with pytest.raises(fb.BindingError, match="nothing is bound to 'in'"):
        list_.run()
    with pytest.raises(fb.BindingError, match=r"no slot 'other'.*'in', 'out'"):
        list_.set_slot("other", gpu.buffer(4, "b"))
    with pytest.raises(fb.BindingError, match="lie outside 'short'"):
        list_.set_slot("in", gpu.buffer(Dense(SHAPE).nbytes - 4, "short"))
    with pytest.raises(fb.BindingError, match="is a texture, and a buffer is needed"):
        list_.set_slot("in", gpu.texture(4, 4, "rgba8", "t"))
    with pytest.raises(fb.BindingError, match="does not belong"):
        list_.set_slot("in", NullDevice().buffer(1 << 20, "null"))
    target = bound(gpu, list_, random(SHAPE))
    list_.run()
    target.release()
    with pytest.raises(fb.BindingError, match="bound to 'out', is released"):
        list_.run()
    target = bound(gpu, list_, random(SHAPE))
    list_.run()
    assert np.array_equal(content(gpu, target), random(SHAPE))


def test_a_picture_slot_takes_only_its_format_and_size(gpu: Device) -> None:
    shape: Shape = (1, 4, 6, 3)
    source = copy_source(gpu, Picture(shape, "rgba8", "rgb"), Dense(shape))
    buffer = gpu.buffer(Dense(shape).nbytes, "out")
    parameters = picture_parameters(shape, (6, 4))
    list_ = gpu.record([step(gpu, source, Operand(Slot("frame")), whole(buffer), src=parameters)])
    with pytest.raises(fb.BindingError, match="is rgba16f, and rgba8 is needed"):
        list_.set_slot("frame", gpu.texture(6, 4, "rgba16f", "half"))
    with pytest.raises(fb.BindingError, match="is a buffer, and a texture is needed"):
        list_.set_slot("frame", buffer)
    list_.set_slot("frame", gpu.texture(7, 4, "rgba8", "wide"))
    with pytest.raises(fb.BindingError, match=r"is 7x4.*made for 6x4"):
        list_.run()
    list_.set_parameters(0, "src", picture_parameters(shape, (7, 4)))
    list_.run()


def test_a_kernel_that_does_not_compile_shows_log_and_text(gpu: Device) -> None:
    source = copy_source(gpu, Dense(SHAPE), Dense(SHAPE), epilogue=(("nonsense(v)", ""),))
    buffers = [gpu.buffer(Dense(SHAPE).nbytes, name) for name in "ab"]
    with pytest.raises(fb.KernelError, match="nonsense") as caught:
        gpu.compile([step(gpu, source, whole(buffers[0]), whole(buffers[1]))])
    assert caught.value.kernel == "copy" and "   1 #" in str(caught.value)
    assert "nonsense" in caught.value.log


def test_a_buffer_that_kernels_cannot_address_is_refused_with_both_numbers(gpu: Device) -> None:
    limit = gpu.traits.max_buffer_bytes
    with pytest.raises(fb.DeviceError, match=rf"{limit + 4} bytes.*{limit}"):
        gpu.buffer(limit + 4, "huge")


def test_kernels_that_differ_only_in_strides_write_where_each_should(gpu: Device) -> None:
    """OpenCL and CUDA compile them as one kernel, which takes the strides."""
    x, source = random(SHAPE), gpu.buffer(1024, "source")
    gpu.write(source, x, "test")
    views = [Sliced(SHAPE, "f32", stride) for stride in (2, 3, 5)]
    targets = [gpu.buffer(1280, f"target {view.stride}") for view in views]
    copies = [copy_source(gpu, Dense(SHAPE), view) for view in views]
    steps = [step(gpu, each, whole(source), whole(target)) for each, target in zip(copies, targets, strict=True)]
    gpu.record(steps, "separate").run()
    for view, target in zip(views, targets, strict=True):
        found = np.empty(320, np.float32)
        gpu.read(target, found, "test")
        pixels = found[: 15 * view.stride * 4].reshape(15, -1)
        assert np.array_equal(pixels[:, :6], x.reshape(15, 6)) and not pixels[:, 8:].any()
