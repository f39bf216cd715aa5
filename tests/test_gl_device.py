"""The GL devices, desktop and ES: conversions between layouts, recording, slots, uniforms, barriers, errors."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.device import Operand, Slot, Step
from framebind.interop.devices import open_device
from framebind.interop.gl import GlDevice
from framebind.interop.gl_api import counting
from framebind.interop.gl_commands import GlCommandList
from framebind.interop.null import NullDevice
from framebind.kernels.dialect import Argument, KernelSource
from framebind.kernels.layout import Dense, Picture, Shape, Sliced, Table, View, picture_parameters, slices

Array = npt.NDArray[Any]


@pytest.fixture
def gl(context: fb.GlContext) -> GlDevice:
    return GlDevice(context)


def copy_source(
    device: GlDevice, src: View, dst: View, *, memories: tuple[str, str] = ("source", "target"), links: Any = ()
) -> KernelSource:
    assert not isinstance(dst, Table)
    shape = dst.shape
    group = device.traits.group
    tiles = -(-shape[0] * shape[1] * shape[2] * slices(shape[3]) // group)
    arguments = (Argument("src", src, "r", memories[0]), Argument("dst", dst, "w", memories[1]))
    return KernelSource("copy", arguments, group, tiles, links=links)


def step(
    device: GlDevice, source: KernelSource, src: Operand, dst: Operand, label: str = "copy", /, **given: Any
) -> Step:
    return Step(device.kernel(source), {"src": src, "dst": dst}, source.tiles, label, given)


def whole(resource: Any) -> Operand:
    return Operand(resource, 0, resource.nbytes)


def to_sliced(x: Array, storage: str = "f32") -> Array:
    pad = slices(x.shape[3]) * 4 - x.shape[3]
    return np.pad(x, ((0, 0),) * 3 + ((0, pad),)).astype(np.float32 if storage == "f32" else np.float16)


def random(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def convert(device: GlDevice, src: View, dst: View, content: Array) -> Array:
    """Run one copy from a buffer with ``content``; the bytes of the target as float32 or float16, flat."""
    a, b = device.buffer(src.nbytes, "a"), device.buffer(dst.nbytes, "b")
    device.write(a, content, "test")
    device.record([step(device, copy_source(device, src, dst), whole(a), whole(b))]).run()
    dtype = np.dtype(np.float16 if isinstance(dst, Sliced) and dst.storage == "f16" else np.float32)
    out = np.empty(dst.nbytes // dtype.itemsize, dtype)
    device.read(b, out, "test")
    return out


# Buffers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 8, 13])
def test_dense_and_sliced_convert_into_each_other(gl: GlDevice, channels: int) -> None:
    shape: Shape = (2, 3, 5, channels)
    x = random(shape)
    for storage in ("f32", "f16"):
        sliced = to_sliced(x, storage)
        assert np.array_equal(convert(gl, Dense(shape), Sliced(shape, storage), x).reshape(sliced.shape), sliced)
        back = convert(gl, Sliced(shape, storage), Dense(shape), sliced).reshape(shape)
        assert np.array_equal(back, sliced[..., :channels].astype(np.float32))
        other = "f16" if storage == "f32" else "f32"
        out = convert(gl, Sliced(shape, storage), Sliced(shape, other), sliced)
        assert np.array_equal(out.reshape(sliced.shape), sliced.astype(out.dtype))


def test_writes_keep_the_padding_zero_and_a_pixel_stride_leaves_gaps(gl: GlDevice) -> None:
    shape: Shape = (1, 2, 3, 5)
    x = random(shape)
    wide = Sliced(shape, "f32", pixel_stride=3)
    out = convert(gl, Dense(shape), wide, x).reshape(2, 3, 12)
    assert np.array_equal(out[..., :5], x[0]) and not out[..., 5:].any()
    garbage = to_sliced(x)
    garbage[..., 5:] = 7
    assert np.array_equal(convert(gl, Sliced(shape), Sliced(shape), garbage).reshape(garbage.shape), to_sliced(x))


@pytest.mark.parametrize("storages", [("f32", "f16"), ("f16", "f32"), ("f16", "f16"), ("f32", "f32")])
def test_one_memory_holds_both_storages(gl: GlDevice, storages: tuple[Any, Any]) -> None:
    shape: Shape = (1, 4, 3, 6)
    src, dst = (Sliced(shape, storage) for storage in storages)
    content = to_sliced(random(shape), storages[0])
    arena = gl.buffer(8192, "arena")
    gl.write(arena, content, "test", offset=256)
    source = copy_source(gl, src, dst, memories=("arena", "arena"))
    gl.record([step(gl, source, Operand(arena, 256, src.nbytes), Operand(arena, 4096, dst.nbytes))]).run()
    out = np.empty(content.shape, np.float32 if storages[1] == "f32" else np.float16)
    gl.read(arena, out, "test", offset=4096)
    assert np.array_equal(out, content.astype(out.dtype))


def test_links_are_applied_to_what_is_written_and_broadcast_their_operand(gl: GlDevice) -> None:
    shape: Shape = (1, 3, 4, 6)
    x, w = random(shape), random((1, 1, 1, 6), 1)
    arguments = (
        Argument("src", Dense(shape), "r", "source"),
        Argument("dst", Dense(shape), "w", "target"),
        Argument("w0", Dense((1, 1, 1, 6)), "r", "operand"),
    )
    links = (("max(v, F4(0.0f))", ""), ("v * F4(2.0f) + w", "w0"))
    source = KernelSource("copy", arguments, gl.traits.group, 1, links=links)
    a, b, c = (gl.buffer(n, "x") for n in (x.nbytes, x.nbytes, w.nbytes))
    gl.write(a, x, "test")
    gl.write(c, w, "test")
    gl.record([Step(gl.kernel(source), {"src": whole(a), "dst": whole(b), "w0": whole(c)}, 1, "linked")]).run()
    out = np.empty_like(x)
    gl.read(b, out, "test")
    assert np.allclose(out, np.maximum(x, 0) * 2 + w, rtol=1e-6, atol=1e-6)


def test_more_tiles_than_one_dimension_of_a_dispatch_takes(gl: GlDevice) -> None:
    shape: Shape = (1, 1, 65535 * gl.traits.group + 1000, 1)
    x = np.arange(shape[2], dtype=np.float32)
    a, b = gl.buffer(x.nbytes, "a"), gl.buffer(x.nbytes, "b")
    gl.write(a, x, "test")
    source = copy_source(gl, Dense(shape), Dense(shape))
    assert source.tiles > 65535
    gl.record([step(gl, source, whole(a), whole(b))]).run()
    out = np.empty_like(x)
    gl.read(b, out, "test")
    assert np.array_equal(out, x)


def test_new_buffers_are_zero_even_where_memory_was_used_before(gl: GlDevice) -> None:
    for _ in range(3):
        buffer = gl.buffer(100_003, "odd")
        content = np.empty(100_003, np.uint8)
        gl.read(buffer, content, "test")
        assert not content.any()
        gl.write(buffer, np.full(100_003, 255, np.uint8), "test")
        buffer.release()


# Pictures -------------------------------------------------------------------------------------------------------------


def sample(texture: Array, parameters: tuple[float, ...], shape: Shape, order: str, bilinear: bool) -> Array:
    """What a kernel must read: NumPy, in float64, straight from the meaning of the parameters."""
    row0, row1, factor, addend = np.array(parameters, np.float64).reshape(4, 4)
    y, x = np.mgrid[0 : shape[1], 0 : shape[2]] + 0.5
    u, v = row0[0] * x + row0[1] * y + row0[2], row1[0] * x + row1[1] * y + row1[2]
    texels = np.asarray(texture, np.float64) / (255 if texture.dtype == np.uint8 else 1)
    height, width = texture.shape[:2]
    if not bilinear:
        found = texels[np.floor(v).astype(int), np.floor(u).astype(int)]
    else:
        left, top = np.floor(u - 0.5).astype(int), np.floor(v - 0.5).astype(int)
        part_u, part_v = (u - 0.5 - left)[..., None], (v - 0.5 - top)[..., None]
        columns = [np.clip(left + i, 0, width - 1) for i in (0, 1)]
        rows = [np.clip(top + i, 0, height - 1) for i in (0, 1)]
        above = texels[rows[0], columns[0]] * (1 - part_u) + texels[rows[0], columns[1]] * part_u
        below = texels[rows[1], columns[0]] * (1 - part_u) + texels[rows[1], columns[1]] * part_u
        found = above * (1 - part_v) + below * part_v
    channels = [found[..., "rgba".index(c)] for c in order]
    values = np.stack(channels, -1) * factor[: len(order)] + addend[: len(order)]
    return values[None].astype(np.float32)


def texels(format: str, height: int, width: int, seed: int = 0) -> Array:
    rng, channels = np.random.default_rng(seed), 4 if format.startswith("rgba") else 1
    if format.endswith("8"):
        return rng.integers(0, 256, (height, width, channels), np.uint8)
    return rng.normal(size=(height, width, channels)).astype(np.float16 if format.endswith("16f") else np.float32)


FORMATS = [("rgba8", "rgb"), ("rgba8", "bgr"), ("rgba16f", "rgba"), ("rgba32f", "rgb"), ("rgba32f", "ba"),
           ("rgba8", "g"), ("r8", "r"), ("r32f", "r")]  # fmt: skip
PLACES: list[dict[str, Any]] = [
    {},
    {"crop": (3.0, 2.0, 5.0, 4.0)},
    {"flip": "horizontal"},
    {"flip": "both"},
    {"crop": (1.0, 1.0, 9.0, 7.0), "rotation": 90.0},
    {"crop": (2.5, 1.25, 6.5, 5.0), "rotation": 30.0, "flip": "vertical", "mean": (0.5,), "std": (0.25,)},
]


def read_picture(gl: GlDevice, picture: Array, view: Picture, parameters: tuple[float, ...]) -> Array:
    texture = fb.GlTexture.from_array(picture)
    assert texture.format == view.format
    buffer = gl.buffer(Dense(view.shape).nbytes, "out")
    source = copy_source(gl, view, Dense(view.shape))
    gl.record([step(gl, source, Operand(texture), whole(buffer), src=parameters)]).run()
    out = np.empty(view.shape, np.float32)
    gl.read(buffer, out, "test")
    return out


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("format,order", FORMATS, ids=str)
def test_a_texture_is_read_with_crop_flip_rotation_and_bilinear_sampling(
    gl: GlDevice, format: str, order: str, place: dict[str, Any]
) -> None:
    picture = texels(format, 9, 11)
    shape: Shape = (1, 6, 7, len(order))
    parameters = picture_parameters(shape, (11, 9), order, **place)
    out = read_picture(gl, picture, Picture(shape, format, order, "bilinear"), parameters)
    expected = sample(picture, parameters, shape, order, True)
    assert np.abs(out - expected).max() <= 2e-5 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("format,order", FORMATS, ids=str)
def test_a_texture_of_the_tensors_size_is_read_exactly(gl: GlDevice, format: str, order: str) -> None:
    picture = texels(format, 5, 7)
    shape: Shape = (1, 5, 7, len(order))
    for flip in ("", "horizontal", "vertical"):
        parameters = picture_parameters(shape, (7, 5), order, flip=flip)
        out = read_picture(gl, picture, Picture(shape, format, order), parameters)
        expected = sample(picture, parameters, shape, order, False)
        assert np.abs(out - expected).max() <= 1e-7 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("format,order", FORMATS, ids=str)
def test_a_texture_is_written_with_mean_std_and_crop(gl: GlDevice, format: str, order: str) -> None:
    if format not in gl.traits.write_formats:
        with pytest.raises(fb.BindingError, match=f"cannot write {format}"):
            write_picture(gl, np.zeros((1, 4, 5, 1), np.float32), format, order, {})
        return
    levels = np.random.default_rng(3).integers(0, 256, (1, 4, 5, len(order))).astype(np.float32)
    for place in ({}, {"crop": (2.0, 1.0, 5.0, 4.0)}, {"crop": (0.0, 3.0, 5.0, 4.0), "flip": "vertical"}):
        # Tensor values 0..255 stand for texels 0..1.
        after, before = write_picture(gl, levels, format, order, {**place, "std": (1 / 255,)})
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


def write_picture(gl: GlDevice, x: Array, format: str, order: str, place: dict[str, Any]) -> tuple[Array, Array]:
    """Write tensor ``x`` into a texture: its content afterwards and before. It is 8x9 where there is a crop."""
    width, height = (8, 9) if "crop" in place else (x.shape[2], x.shape[1])
    before = texels(format, height, width, 5)
    texture, buffer = fb.GlTexture.from_array(before), gl.buffer(x.nbytes, "x")
    assert texture.format == format
    gl.write(buffer, x, "test")
    shape: Shape = x.shape  # type: ignore[assignment]
    source = copy_source(gl, Dense(shape), Picture(shape, format, order))
    parameters = picture_parameters(shape, (width, height), order, write=True, **place)
    gl.record([step(gl, source, whole(buffer), Operand(texture), dst=parameters)]).run()
    return texture.read(), before


def test_a_mutable_texture_without_mipmaps_is_read_all_the_same(gl: GlDevice) -> None:
    api = gl.context.gl
    picture = texels("rgba8", 4, 6)
    texture = fb.GlTexture.from_id(foreign_texture(gl.context, picture))
    shape: Shape = (1, 4, 6, 4)
    buffer = gl.buffer(Dense(shape).nbytes, "out")
    source = copy_source(gl, Picture(shape, "rgba8", "rgba"), Dense(shape))
    parameters = picture_parameters(shape, (6, 4), "rgba")
    gl.record([step(gl, source, Operand(texture), whole(buffer), src=parameters)]).run()
    out = np.empty(shape, np.float32)
    gl.read(buffer, out, "test")
    assert np.abs(out[0] * 255 - picture).max() < 1e-3
    delete_foreign(gl.context, texture.id)
    assert not api.glIsTexture(texture.id)


def foreign_texture(context: fb.GlContext, picture: Array) -> int:
    """What another library's glTexImage2D makes: mutable, no mipmaps, the default filter that wants some."""
    import ctypes

    gl, name = context.gl, ctypes.c_uint()
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_uint] * 2, *[ctypes.c_int] * 4, *[ctypes.c_uint] * 2, ctypes.c_void_p)
    tex_image = prototype(gl._find("glTexImage2D"))
    gl.glGenTextures(1, ctypes.byref(name))
    gl.glBindTexture(0x0DE1, name.value)
    tex_image(0x0DE1, 0, 0x1908, picture.shape[1], picture.shape[0], 0, 0x1908, 0x1401, picture.ctypes.data)
    return name.value


def delete_foreign(context: fb.GlContext, name: int) -> None:
    import ctypes

    context.gl.glDeleteTextures(1, ctypes.byref(ctypes.c_uint(name)))


# Command lists --------------------------------------------------------------------------------------------------------


def chain(gl: GlDevice, shape: Shape) -> tuple[list[Step], Any]:
    """in (slot) -> arena f32 -> arena f32 (same kernel, other offsets) -> out (slot)."""
    dense, sliced = Dense(shape), Sliced(shape)
    arena = gl.buffer(4 * 4096, "arena")
    first, last = copy_source(gl, dense, sliced), copy_source(gl, sliced, dense)
    middle = copy_source(gl, sliced, sliced, memories=("arena", "arena"))
    places = [Operand(arena, 4096 * i, sliced.nbytes) for i in range(4)]
    steps = [step(gl, first, Operand(Slot("in"), 0, dense.nbytes), places[0], "first")]
    steps += [step(gl, middle, places[i], places[i + 1], f"middle {i}") for i in range(3)]
    steps.append(step(gl, last, places[3], Operand(Slot("out"), 0, dense.nbytes), "last"))
    return steps, arena


SHAPE: Shape = (1, 3, 5, 6)


def bound(gl: GlDevice, list_: GlCommandList, x: Array) -> Any:
    source, target = gl.buffer(x.nbytes, "in"), gl.buffer(x.nbytes, "out")
    gl.write(source, x, "test")
    list_.set_slot("in", source)
    list_.set_slot("out", target)
    return target


def content(gl: GlDevice, buffer: Any, shape: Shape = SHAPE) -> Array:
    out = np.empty(shape, np.float32)
    gl.read(buffer, out, "test")
    return out


def test_a_run_issues_each_call_once_and_sets_no_state_twice(gl: GlDevice) -> None:
    steps, _ = chain(gl, SHAPE)
    list_ = gl.record(steps)
    x = random(SHAPE)
    target = bound(gl, list_, x)
    list_.run()
    with counting(gl.context.gl) as calls:
        list_.run()
    assert list_.barriers == 4
    # Three programs; the middle one is used with three sets of offsets, the others hold theirs.
    assert dict(calls) == {
        "glUseProgram": 3,
        "glBindBufferBase": 4,
        "glUniform1iv": 3,
        "glDispatchCompute": 5,
        "glMemoryBarrier": 5,
    }
    assert sum(calls.values()) == list_.calls_per_run
    assert np.array_equal(content(gl, target), x)


def test_lists_that_share_a_kernel_do_not_disturb_each_other(gl: GlDevice) -> None:
    sliced = Sliced(SHAPE)
    source = copy_source(gl, sliced, sliced, memories=("arena", "arena"))
    arenas, lists = [], []
    for offset in (1024, 2048, 4096):
        arena = gl.buffer(8192, "arena")
        gl.write(arena, np.full((*SHAPE[:3], 8), offset, np.float32), "test")
        arenas.append(arena)
        lists.append(
            gl.record([step(gl, source, Operand(arena, 0, sliced.nbytes), Operand(arena, offset, sliced.nbytes))])
        )
    lists[1].release()
    lists[1] = gl.record(
        [step(gl, source, Operand(arenas[1], 0, sliced.nbytes), Operand(arenas[1], 2048, sliced.nbytes))]
    )
    for number in (0, 1, 2, 1, 0, 2, 0):
        gl.write(arenas[number], np.zeros(1792, np.float32), "test", offset=1024)
        lists[number].run()
        out = np.empty((2048,), np.float32)
        gl.read(arenas[number], out, "test")
        offset = (1024, 2048, 4096)[number]
        written = out[offset // 4 : offset // 4 + 15 * 8].reshape(15, 8)
        assert np.all(written[:, :6] == offset), f"list {number} wrote elsewhere"
    # The first one holds its offsets in the program: nothing to set, nothing to put back.
    assert lists[0].calls_per_run == 4 and lists[2].calls_per_run == 6


def test_an_owner_that_is_released_makes_room_for_the_next(gl: GlDevice) -> None:
    steps, _ = chain(gl, SHAPE)
    first = gl.record(steps)
    calls = first.calls_per_run
    first.release()
    assert gl.record(steps).calls_per_run == calls
    with pytest.raises(fb.BindingError, match="released"):
        first.run()


def test_a_ring_of_textures_needs_no_new_object_and_no_compilation(gl: GlDevice) -> None:
    shape: Shape = (1, 4, 6, 3)
    picture = Picture(shape, "rgba8", "rgb")
    source = copy_source(gl, picture, Dense(shape))
    buffer = gl.buffer(Dense(shape).nbytes, "out")
    parameters = picture_parameters(shape, (6, 4), "rgb")
    list_ = gl.record([step(gl, source, Operand(Slot("frame")), whole(buffer), src=parameters)])
    frames = [texels("rgba8", 4, 6, seed) for seed in range(3)]
    ring = [fb.GlTexture.from_array(frame) for frame in frames]
    list_.set_slot("frame", ring[0])
    list_.run()
    live = dict(gl.context.live)
    for i in range(9):
        with counting(gl.context.gl) as calls:
            list_.set_slot("frame", ring[i % 3])
            list_.run()
        assert sum(calls.values()) == list_.calls_per_run == 8
        assert np.abs(content(gl, buffer, shape)[0] * 255 - frames[i % 3][..., :3]).max() < 1e-3
    assert dict(gl.context.live) == live


def test_parameters_can_be_changed_between_runs(gl: GlDevice) -> None:
    shape: Shape = (1, 2, 3, 3)
    frame = texels("rgba8", 8, 9)
    source = copy_source(gl, Picture(shape, "rgba8", "rgb"), Dense(shape))
    buffer, texture = gl.buffer(Dense(shape).nbytes, "out"), fb.GlTexture.from_array(frame)
    steps = [step(gl, source, Operand(Slot("frame")), whole(buffer),
                  src=picture_parameters(shape, (9, 8), "rgb", crop=(0, 0, 3, 2)))]  # fmt: skip
    # The first list's parameters live in the program; the second sets its own and puts the first's back.
    lists = [gl.record(steps), gl.record(steps)]
    for turn, (x, y) in enumerate([(4, 5), (1, 3), (6, 0)]):
        for number, list_ in enumerate(lists):
            list_.set_slot("frame", texture)
            list_.set_parameters(0, "src", picture_parameters(shape, (9, 8), "rgb", crop=(x, y + number, 3, 2)))
        for number in (0, 1, 0, 1) if turn else (1, 0):
            lists[number].run()
            expected = frame[y + number : y + number + 2, x : x + 3, :3] / 255
            assert np.abs(content(gl, buffer, shape)[0] - expected).max() < 1e-6
    with pytest.raises(fb.BindingError, match="no picture"):
        lists[0].set_parameters(0, "dst", (0.0,) * 16)


def test_a_thousand_runs_leak_nothing(gl: GlDevice) -> None:
    steps, _ = chain(gl, SHAPE)
    list_ = gl.record(steps)
    target = bound(gl, list_, random(SHAPE))
    list_.run()
    live = dict(gl.context.live)
    fb.transfers.reset()
    for _ in range(1000):
        list_.run()
    gl.finish()
    assert dict(gl.context.live) == live
    assert fb.transfers.calls == 0
    assert np.array_equal(content(gl, target), random(SHAPE))


def test_what_is_dropped_is_deleted_on_the_owner_thread(gl: GlDevice) -> None:
    gc.collect()
    gl.context.drain()
    live = dict(gl.context.live)
    things: list[Any] = [gl.buffer(64, "b"), gl.texture(4, 4, "rgba8", "t"), gl.fence()]
    things[1].framebuffer()
    assert dict(gl.context.live) != live
    thread = threading.Thread(target=lambda: (things.clear(), gc.collect()))
    thread.start()
    thread.join()
    gl.context.drain()
    assert {k: v for k, v in gl.context.live.items() if v} == {k: v for k, v in live.items() if v}


def test_timings_name_every_step(gl: GlDevice) -> None:
    steps, _ = chain(gl, SHAPE)
    list_ = gl.record(steps)
    target = bound(gl, list_, random(SHAPE))
    timings = list_.timings()
    assert [label for label, _ in timings] == [s.label for s in steps]
    assert all(nanoseconds >= 0 for _, nanoseconds in timings) and sum(t for _, t in timings) > 0
    assert np.array_equal(content(gl, target), random(SHAPE))


def test_a_fence_is_passed_after_waiting(gl: GlDevice) -> None:
    fence = gl.fence()
    fence.wait()
    assert fence.done


# Errors ---------------------------------------------------------------------------------------------------------------


def test_a_slot_takes_only_what_fits(gl: GlDevice) -> None:
    steps, _ = chain(gl, SHAPE)
    list_ = gl.record(steps)
    with pytest.raises(fb.BindingError, match="nothing is bound to 'in'"):
        list_.run()
    with pytest.raises(fb.BindingError, match=r"no slot 'other'.*'in', 'out'"):
        list_.set_slot("other", gl.buffer(4, "b"))
    with pytest.raises(fb.BindingError, match="lie outside 'short'"):
        list_.set_slot("in", gl.buffer(Dense(SHAPE).nbytes - 4, "short"))
    with pytest.raises(fb.BindingError, match="is a texture, and a buffer is needed"):
        list_.set_slot("in", gl.texture(4, 4, "rgba8", "t"))
    with pytest.raises(fb.BindingError, match="does not belong"):
        list_.set_slot("in", NullDevice().buffer(1 << 20, "null"))
    target = bound(gl, list_, random(SHAPE))
    list_.run()
    target.release()
    with pytest.raises(fb.BindingError, match="bound to 'out', is released"):
        list_.run()
    target = bound(gl, list_, random(SHAPE))
    list_.run()
    assert np.array_equal(content(gl, target), random(SHAPE))


def test_a_picture_slot_takes_only_its_format_and_size(gl: GlDevice) -> None:
    shape: Shape = (1, 4, 6, 3)
    source = copy_source(gl, Picture(shape, "rgba8", "rgb"), Dense(shape))
    buffer = gl.buffer(Dense(shape).nbytes, "out")
    parameters = picture_parameters(shape, (6, 4), "rgb")
    list_ = gl.record([step(gl, source, Operand(Slot("frame")), whole(buffer), src=parameters)])
    with pytest.raises(fb.BindingError, match="is rgba16f, and rgba8 is needed"):
        list_.set_slot("frame", fb.GlTexture(6, 4, "rgba16f"))
    with pytest.raises(fb.BindingError, match="is a buffer, and a texture is needed"):
        list_.set_slot("frame", buffer)
    list_.set_slot("frame", fb.GlTexture(7, 4, "rgba8"))
    with pytest.raises(fb.BindingError, match=r"is 7x4.*made for 6x4"):
        list_.run()
    list_.set_parameters(0, "src", picture_parameters(shape, (7, 4), "rgb"))
    list_.run()


def test_running_needs_the_right_thread_and_context(gl: GlDevice) -> None:
    steps, _ = chain(gl, SHAPE)
    list_ = gl.record(steps)
    bound(gl, list_, random(SHAPE))
    caught: list[str] = []

    def elsewhere() -> None:
        try:
            list_.run()
        except fb.DeviceError as error:
            caught.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(caught) == 1 and "this call came from thread" in caught[0]
    with fb.GlContext.headless():
        with pytest.raises(fb.DeviceError, match="not current on this thread"):
            list_.run()
        with pytest.raises(fb.DeviceError, match="not current"):
            gl.buffer(16, "b")
    list_.run()


def test_a_closed_context_is_told_from_one_that_is_not_current() -> None:
    with fb.GlContext.headless() as context:
        device = GlDevice(context)
        steps, _ = chain(device, SHAPE)
        list_ = device.record(steps)
        target = bound(device, list_, random(SHAPE))
    assert target.released
    with pytest.raises(fb.DeviceError, match="is closed"):
        list_.run()


def test_a_kernel_that_does_not_compile_shows_log_and_text(gl: GlDevice) -> None:
    source = copy_source(gl, Dense(SHAPE), Dense(SHAPE), links=(("nonsense(v)", ""),))
    with pytest.raises(fb.KernelError, match="nonsense") as caught:
        gl.kernel(source)
    assert caught.value.kernel == "copy" and "1 #version" in str(caught.value)


def test_a_buffer_that_kernels_cannot_address_is_refused_with_both_numbers(gl: GlDevice) -> None:
    limit = gl.traits.max_buffer_bytes
    with pytest.raises(fb.DeviceError, match=rf"{limit + 4} bytes.*{limit}"):
        gl.buffer(limit + 4, "huge")


# Opening --------------------------------------------------------------------------------------------------------------


def test_kernels_are_compiled_once_per_context(context: fb.GlContext) -> None:
    first, second = open_device("opengl"), open_device("opengl")
    assert first is second
    source = copy_source(first, Dense(SHAPE), Sliced(SHAPE))  # type: ignore[arg-type]
    programs = context.live["program"]
    assert first.kernel(source) is second.kernel(source)
    assert context.live["program"] == programs + 1
    first.close()
    assert second.kernel(source) is not None and context.live["program"] == programs + 1
    second.close()
    context.drain()
    assert context.live["program"] == programs
    assert open_device("opengl") is not first


def test_a_device_makes_its_own_context_where_none_is_current() -> None:
    results: list[Any] = []

    def work() -> None:
        assert not fb.GlContext.is_current()
        device = open_device("opengl")
        buffer = device.buffer(16, "b")
        results.append(buffer.nbytes)
        device.close()
        results.append(fb.GlContext.is_current())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [16, False]


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(fb.DeviceError, match=r"'vulkan'.*null, opengl"):
        open_device("vulkan")
