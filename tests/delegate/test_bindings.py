"""Objects that can be bound to a tensor, errors of those that cannot, and the values that textures give and get."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import framebind as fb
from framebind.delegate.plan.binding import TextureMapping
from framebind.delegate.run.bindings import make_binding
from framebind.interop.null.device import NullDevice, NullResource
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import TEXTURE_CHANNELS, Dense, Picture
from support.tiny_models import chain

IMAGE = TensorInfo("image", (1, 4, 6, 3), "float32")
MASK = TensorInfo("mask", (1, 4, 6, 1), "float32")
SCORES = TensorInfo("scores", (1, 4, 6, 21), "float32")
RNG = np.random.default_rng(0)


def buffer(nbytes: int) -> NullResource:
    return NullResource("my buffer", nbytes)


def texture(width: int = 6, height: int = 4, format: str = "rgba8") -> NullResource:
    return NullResource("my texture", 0, (width, height), format)


def bind(obj: Any, tensor: TensorInfo = IMAGE, *, write: bool = False, **mapping: Any) -> Any:
    return make_binding(NullDevice(), obj, tensor, 7, write=write, mapping=TextureMapping(**mapping))


# What fits -----------------------------------------------------------------------------------------------------------


def test_buffers_are_dense_bhwc() -> None:
    for tensor in (IMAGE, MASK, SCORES, TensorInfo("v", (1, 100), "float32")):
        nbytes = int(np.prod(tensor.shape)) * 4
        for given in (nbytes, nbytes + 4000):
            binding = bind(buffer(given), tensor)
            assert (binding.view, binding.parameters, binding.how) == (Dense(tensor.bhwc), (), "direct")


@pytest.mark.parametrize(
    "obj, tensor, write, mapping, view",
    [
        (texture(), IMAGE, False, {}, Picture(IMAGE.bhwc, "rgba8", "rgb", "exact")),
        (texture(format="rgba16f"), IMAGE, False, {"order": "bgr"}, Picture(IMAGE.bhwc, "rgba16f", "bgr", "exact")),
        (texture(640, 480), IMAGE, False, {}, Picture(IMAGE.bhwc, "rgba8", "rgb", "bilinear")),
        (texture(4, 6), IMAGE, False, {"rotation": 90}, Picture(IMAGE.bhwc, "rgba8", "rgb", "exact")),
        (texture(4, 6), IMAGE, False, {"rotation": -270}, Picture(IMAGE.bhwc, "rgba8", "rgb", "exact")),
        (texture(), IMAGE, False, {"flip": "both"}, Picture(IMAGE.bhwc, "rgba8", "rgb", "exact")),
        (texture(), IMAGE, False, {"rotation": 10}, Picture(IMAGE.bhwc, "rgba8", "rgb", "bilinear")),
        (texture(), IMAGE, False, {"crop": (0, 0, 6, 4)}, Picture(IMAGE.bhwc, "rgba8", "rgb", "bilinear")),
        (texture(format="r32f"), MASK, False, {}, Picture(MASK.bhwc, "r32f", "r", "exact")),
        (texture(format="rgba32f"), MASK, False, {"order": "a"}, Picture(MASK.bhwc, "rgba32f", "a", "exact")),
        (texture(), IMAGE, True, {"flip": "vertical"}, Picture(IMAGE.bhwc, "rgba8", "rgb", "exact")),
        (texture(format="r8"), MASK, True, {}, Picture(MASK.bhwc, "r8", "r", "exact")),
    ],
)
def test_textures_are_pictures(
    obj: Any, tensor: TensorInfo, write: bool, mapping: dict[str, Any], view: Picture
) -> None:
    binding = bind(obj, tensor, write=write, **mapping)
    assert binding.view == view and len(binding.parameters) == 16
    assert binding.how == ("direct" if write else "at most one conversion dispatch")


def test_moving_a_crop_changes_parameters_only() -> None:
    one, two = (bind(texture(64, 64), crop=(x, 0, 32, 32)) for x in (0, 7.5))
    assert one.view == two.view and one.parameters != two.parameters


# What does not fit ---------------------------------------------------------------------------------------------------

LABEL = r"tensor 7 'image' \(BHWC 1x4x6x3\) cannot be bound to my "


@pytest.mark.parametrize(
    "obj, mapping, says",
    [
        (
            buffer(100),
            {},
            LABEL + "buffer of 100 bytes: .* BHWC order, 72 elements, 288 bytes. Make a buffer of 288 bytes",
        ),
        (buffer(384), {}, "384 bytes is the size with 4 channels a pixel: write 3 channels without padding, so that "),
        (buffer(288), {"std": 2.0}, LABEL + "buffer, a buffer, with mean, std, .*: those are for textures"),
        (texture(format="r8"), {}, LABEL + "texture: r8 has one channel, the tensor 3; take rgba8 or rgba32f"),
        (texture(), {"order": "rg"}, "order 'rg' must name 3 different channels of 'rgba'"),
        (texture(), {"order": "rgg"}, "order 'rgg' must name 3 different"),
        (texture(), {"order": "xyz"}, "order 'xyz' must name 3 different"),
        (texture(), {"std": (1, 1, 0)}, "std is 0"),
        (texture(), {"mean": (1, 2)}, r"mean \(1, 2\) must be one finite number, or one for each of 3 channels"),
        (texture(), {"mean": float("nan")}, "mean nan must be one finite number"),
        (texture(), {"flip": "sideways"}, "flip 'sideways' must be 'horizontal'"),
        (texture(), {"rotation": float("inf")}, "rotation inf must be a number of degrees"),
        (texture(), {"crop": (0, 0, 0, 4)}, r"crop \(0, 0, 0, 4\) must be \(x, y, width, height\)"),
        (object(), {}, "tensor 7 'image' .* cannot be bound: the null device has no use for a object"),
    ],
)
def test_refusals_say_what_to_do(obj: Any, mapping: dict[str, Any], says: str) -> None:
    with pytest.raises(fb.BindingError, match=says):
        bind(obj, **mapping)


@pytest.mark.parametrize(
    "obj, tensor, mapping, says",
    [
        (texture(7, 4), IMAGE, {}, "an output texture has the tensor's size, 6x4 texels, and this one has 7x4"),
        (texture(), IMAGE, {"rotation": 90.0}, "crop, rotation and pad are for inputs; an output can only be flipped"),
        (texture(), IMAGE, {"crop": (0, 0, 6, 4)}, "crop, rotation and pad are for inputs"),
        (texture(), SCORES, {}, "a texture holds batch 1 and 1 to 4 channels; bind a buffer of 2016 bytes"),
        (texture(), TensorInfo("b", (2, 4, 6, 3), "float32"), {}, "a texture holds batch 1"),
        (buffer(999), TensorInfo("q", (1, 4, 6, 3), "complex64"), {}, "it is complex64, and only floats and integers"),
        (buffer(999), TensorInfo("r", (1,) * 8 + (3,), "float32"), {}, "its rank is 9, and at most 8"),
    ],
)
def test_refused_outputs_say_what_to_do(obj: Any, tensor: TensorInfo, mapping: dict[str, Any], says: str) -> None:
    with pytest.raises(fb.BindingError, match=says):
        bind(obj, tensor, write=True, **mapping)


def test_a_released_object_is_refused() -> None:
    gone = texture()
    gone.release()
    with pytest.raises(fb.BindingError, match="my texture: it is released"):
        bind(gone)


def test_a_format_that_kernels_cannot_write_is_refused(context: fb.GlContext) -> None:
    from framebind.interop.gl.compute.device import GlDevice

    device = GlDevice(context)
    result = fb.GlTexture(6, 4, "r8")
    if "r8" in device.traits.write_formats:
        assert make_binding(device, result, MASK, 7, write=True).view.format == "r8"
    else:
        with pytest.raises(fb.BindingError, match="cannot write r8; take one of r32f, rgba16f, rgba32f, rgba8"):
            make_binding(device, result, MASK, 7, write=True)
    device.close()


# Values, through a model that leaves them as they are ----------------------------------------------------------------


def through(
    source: Any, shape: tuple[int, ...], result: Any = None, output: dict[str, Any] | None = None, **mapping: Any
) -> np.ndarray:
    """The output of a model that passes its input on, if an object is bound."""
    interpreter = fb.Interpreter(model_content=chain("NEG", "NEG", shape=shape))
    delegate = fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    delegate.bind_buffer_to_tensor(source, 0, **mapping)
    if result is not None:
        delegate.bind_buffer_to_tensor(result, 2, **(output or {}))
    interpreter.allocate_tensors()
    interpreter.invoke()
    return interpreter.get_tensor(2)


@pytest.fixture
def picture() -> np.ndarray:
    return RNG.integers(0, 256, (4, 6, 4), np.uint8)


def test_texels_become_values(picture: np.ndarray, context: fb.GlContext) -> None:
    frame = fb.GlTexture.from_array(picture)
    unit = picture[None].astype(np.float32) / 255
    rgb = unit[..., :3]
    cases: list[tuple[dict[str, Any], np.ndarray]] = [
        ({}, rgb),
        ({"mean": 0.5, "std": 0.5}, rgb * 2 - 1),
        ({"order": "bgr"}, rgb[..., ::-1]),
        ({"mean": (0.1, 0.2, 0.3), "std": (1, 2, 4)}, (rgb - (0.1, 0.2, 0.3)) / (1, 2, 4)),
        ({"flip": "horizontal"}, rgb[:, :, ::-1]),
        ({"flip": "vertical"}, rgb[:, ::-1]),
        ({"flip": "both"}, rgb[:, ::-1, ::-1]),
        ({"rotation": 180}, rgb[:, ::-1, ::-1]),
    ]
    for mapping, expected in cases:
        np.testing.assert_allclose(through(frame, (1, 4, 6, 3), **mapping), expected, atol=1e-6, err_msg=str(mapping))
    np.testing.assert_allclose(through(frame, (1, 4, 6, 1), order="a"), unit[..., 3:], atol=1e-6)
    np.testing.assert_allclose(through(frame, (1, 4, 6, 4)), unit, atol=1e-6)
    np.testing.assert_allclose(through(frame, (1, 4, 6, 2)), unit[..., :2], atol=1e-6)


def test_a_quarter_turn_is_exact(picture: np.ndarray, context: fb.GlContext) -> None:
    """A tensor that shows the texture's rectangle turned clockwise: what lay to the right comes to the top."""
    frame, rgb = fb.GlTexture.from_array(picture), picture[..., :3].astype(np.float32) / 255
    for degrees, turns in ((90, 1), (270, 3)):
        expected = np.rot90(rgb, turns)
        np.testing.assert_allclose(through(frame, (1, 6, 4, 3), rotation=degrees)[0], expected, atol=1e-6)


def test_another_size_is_sampled_bilinearly(context: fb.GlContext) -> None:
    big = RNG.random((9, 16, 4), np.float32)
    for width, height in ((7, 5), (16, 18), (32, 9)):
        expected = cv2.resize(big, (width, height), interpolation=cv2.INTER_LINEAR)[..., :3]
        actual = through(fb.GlTexture.from_array(big), (1, height, width, 3))[0]
        np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_crop_and_rotation_are_one_affine_map(context: fb.GlContext) -> None:
    big = RNG.random((20, 30, 4), np.float32)
    frame = fb.GlTexture.from_array(big)
    crop = through(frame, (1, 5, 6, 3), crop=(4, 3, 12, 10))[0]
    inside = cv2.resize(big[3:13, 4:16], (6, 5), interpolation=cv2.INTER_LINEAR)[..., :3]
    np.testing.assert_allclose(crop, inside, atol=1e-5)
    turned = through(frame, (1, 8, 8, 3), crop=(8, 5, 12, 12), rotation=30)[0]
    angle = np.deg2rad(30)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) * 12 / 8
    centre = np.array([14, 11])
    shift = centre - 0.5 - turn @ np.array([3.5, 3.5])
    affine = np.column_stack([turn, shift])
    expected = cv2.warpAffine(big, affine, (8, 8), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)[..., :3]
    # OpenCV rounds positions to 1/32 texel; neighbours differ by at most 1.
    np.testing.assert_allclose(turned, expected, atol=2 / 32)


@pytest.mark.parametrize("format, step", [("rgba8", 1 / 255), ("rgba16f", 1 / 1024), ("rgba32f", 1e-6)])
def test_values_become_texels_and_come_back(format: str, step: float, context: fb.GlContext) -> None:
    values = RNG.random((1, 4, 6, 3), np.float32) * 2 - 1
    source, result = fb.GlBuffer(values.nbytes, values), fb.GlTexture(6, 4, format)
    output = {"mean": 0.5, "std": 0.5, "order": "bgr", "flip": "vertical"}
    back = through(source, (1, 4, 6, 3), result, output)
    np.testing.assert_allclose(back, values, atol=2 * step)
    texels = result.read().astype(np.float32) / (255 if format == "rgba8" else 1)
    np.testing.assert_allclose(texels[::-1, :, 2::-1], values[0] * 0.5 + 0.5, atol=step)
    np.testing.assert_array_equal(texels[..., 3], 1)


def test_one_channel_becomes_grey(context: fb.GlContext) -> None:
    values = RNG.random((1, 4, 6, 1), np.float32)
    source = fb.GlBuffer(values.nbytes, values)
    for format, channels in (("rgba32f", 3), ("r32f", 1)):
        result = fb.GlTexture(6, 4, format)
        np.testing.assert_allclose(through(source, (1, 4, 6, 1), result), values, atol=1e-6)
        np.testing.assert_allclose(result.read()[..., :channels], np.repeat(values[0], channels, 2), atol=1e-6)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8, 13])
def test_buffers_hold_unpadded_channels(channels: int, context: fb.GlContext) -> None:
    values = RNG.random((2, 3, 5, channels), np.float32)
    source, result = fb.GlBuffer(values.nbytes, values), fb.GlBuffer(values.nbytes)
    np.testing.assert_array_equal(through(source, values.shape, result), values)
    np.testing.assert_array_equal(result.read().reshape(values.shape), values)


RED, RG, RGB, RGBA, BYTES, HALF, FLOAT, SHORTS = 0x1903, 0x8227, 0x1907, 0x1908, 0x1401, 0x140B, 0x1406, 0x1403
HOSTS_FORMATS = {
    "rgb8": (0x8051, RGB, BYTES), "rg8": (0x822B, RG, BYTES), "srgb8": (0x8C41, RGB, BYTES),
    "srgb8_alpha8": (0x8C43, RGBA, BYTES),
    "r16f": (0x822D, RED, HALF), "rg16f": (0x822F, RG, HALF), "rgb16f": (0x881B, RGB, HALF),
    "rg32f": (0x8230, RG, FLOAT), "rgb32f": (0x8815, RGB, FLOAT),
    "rgb10_a2": (0x8059, RGBA, 0x8368), "rgb5_a1": (0x8057, RGBA, 0x8034), "rgba4": (0x8056, RGBA, 0x8033),
    "rgb565": (0x8D62, RGB, 0x8363), "r11f_g11f_b10f": (0x8C3A, RGB, 0x8C3B), "rgb9_e5": (0x8C3D, RGB, 0x8C3E),
    "r16": (0x822A, RED, SHORTS), "rg16": (0x822C, RG, SHORTS), "rgb16": (0x8054, RGB, SHORTS),
    "rgba16": (0x805B, RGBA, SHORTS),
}  # fmt: skip
"""GL's enumerants of a format, and of the layout and the type of pixels that are uploaded, by the format's name."""
NORM16 = frozenset({"r16", "rg16", "rgb16", "rgba16"})
"""Formats of desktop GL alone, here."""
FIELDS = {
    "rgb10_a2": ((10, 10, 10, 2), "red lowest", np.uint32), "rgb5_a1": ((5, 5, 5, 1), "red highest", np.uint16),
    "rgba4": ((4, 4, 4, 4), "red highest", np.uint16), "rgb565": ((5, 6, 5), "red highest", np.uint16),
}  # fmt: skip
"""The bits of each channel, their order in a word, and the word's type, by format of packed integers."""


def hosts_texture(context: fb.GlContext, format: str, pixels: np.ndarray) -> fb.GlTexture:
    """A texture that the host makes and fills, of a format that framebind makes none of."""
    gl, name, (internal, layout, kind) = context.gl, ctypes.c_uint(), HOSTS_FORMATS[format]
    gl.glGenTextures(1, ctypes.byref(name))
    gl.glBindTexture(0x0DE1, name)
    gl.glTexStorage2D(0x0DE1, 1, internal, pixels.shape[1], pixels.shape[0])
    gl.glPixelStorei(0x0CF5, 1)
    gl.glTexSubImage2D(0x0DE1, 0, 0, 0, pixels.shape[1], pixels.shape[0], layout, kind, pixels.ctypes.data)
    gl.glPixelStorei(0x0CF5, 4)
    return fb.GlTexture.from_id(name.value)


def hosts_pixels(format: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels as GL takes them, 16 x 32, and the values that a model is to see."""
    count = TEXTURE_CHANNELS[format]
    if format in FIELDS:
        return packed_integers(*FIELDS[format])
    if format == "r11f_g11f_b10f":  # halves without a sign, with 6, 6 and 5 bits behind the point
        halves = np.arange(16 * 32 * 3, dtype=np.uint32).reshape(16, 32, 3) * 9 & [0x7FF0, 0x7FF0, 0x7FE0]
        packed = (halves >> [4, 4, 5] << [0, 11, 22]).sum(2, dtype=np.uint32)
        return packed, halves.astype(np.uint16).view(np.float16).astype(np.float32)
    if format == "rgb9_e5":
        fractions, exponents = RNG.integers(0, 512, (16, 32, 3)), RNG.integers(8, 16, (16, 32, 1))
        packed = (fractions << [0, 9, 18]).sum(2) + (exponents[..., 0] << 27)
        return packed.astype(np.uint32), (fractions * 2.0 ** (exponents - 15 - 9)).astype(np.float32)
    kind = HOSTS_FORMATS[format][2]
    if kind in (HALF, FLOAT):
        values = (RNG.random((16, 32, count)) * 4 - 2).astype(np.float16 if kind == HALF else np.float32)
        return values, values.astype(np.float32)
    if kind == SHORTS:
        stored = RNG.integers(0, 65536, (16, 32, count)).astype(np.uint16)
        return stored, stored.astype(np.float32) / 65535
    stored = RNG.permuted(np.tile(np.arange(256, dtype=np.uint8), 2 * count)).reshape(16, 32, count)
    return stored, stored.astype(np.float32) / 255  # of sRGB too: a model sees the bytes of a photograph


def packed_integers(bits: Sequence[int], order: str, word: type) -> tuple[np.ndarray, np.ndarray]:
    """Random pixels in words, and their values."""
    most = (1 << np.array(bits)) - 1
    channels = RNG.integers(0, most + 1, (16, 32, len(bits)))
    below = [sum(bits[:i] if order == "red lowest" else bits[i + 1 :]) for i in range(len(bits))]
    return (channels << below).sum(2).astype(word), (channels / most).astype(np.float32)


def repeated_in_bytes(values: np.ndarray, bits: Sequence[int]) -> np.ndarray:
    """Values of 1 to 8 bits as bytes that hold these bits, and behind them the first ones again."""
    sizes = np.array(bits)
    channels = np.rint(values * ((1 << sizes) - 1)).astype(np.int64) << 8
    copies = [channels >> number * sizes for number in range(1, 9)]
    return ((np.sum(copies, 0) & 255) / 255).astype(np.float32)


@pytest.mark.parametrize("format", HOSTS_FORMATS)
def test_the_hosts_formats_are_read_as_numpy_reads_their_bytes(format: str, context: fb.GlContext) -> None:
    if context.is_es and format in NORM16:
        pytest.skip("GL ES 3.1 has no normalized format of 16 bits")
    stored, values = hosts_pixels(format)
    texture = hosts_texture(context, format, stored)
    assert texture.format == format
    seen = through(texture, (1, *values.shape))[0]
    if format in FIELDS and not np.allclose(seen, values, atol=1e-6):
        values = repeated_in_bytes(values, FIELDS[format][0])  # NVIDIA's OpenGL keeps such channels in bytes
    np.testing.assert_allclose(seen, values, atol=1e-6)
    halved = through(texture, (1, 8, 16, values.shape[2]))[0]
    expected = values.reshape(8, 2, 16, 2, -1).mean((1, 3))
    np.testing.assert_allclose(halved, expected, atol=2e-6, err_msg="each texel is encoded before they are mixed")
    with pytest.raises(fb.BindingError, match=f"models read {format} in place, and framebind copies rgba8"):
        texture.read()
    with pytest.raises(fb.BindingError, match=rf"kernels of .* cannot write {format}"):
        through(fb.GlBuffer(values.nbytes), (1, *values.shape), texture)
    context.gl.glDeleteTextures(1, ctypes.byref(ctypes.c_uint(texture.id)))


def test_an_image_of_blue_first_is_read_and_written(cl_context: fb.cl.ClContext) -> None:
    kind = cl.ImageFormat(cl.channel_order.BGRA, cl.channel_type.UNORM_INT8)
    frame, result = (cl.create_image(cl_context.context, cl.mem_flags.READ_WRITE, kind, (6, 4)) for _ in range(2))
    pixels = RNG.integers(0, 256, (4, 6, 4), dtype=np.uint8)
    cl.enqueue_copy(cl_context.queue, frame, pixels, origin=(0, 0), region=(6, 4))
    red_first = pixels[..., 2::-1] / 255
    np.testing.assert_allclose(through(frame, (1, 4, 6, 3), result)[0], red_first, atol=1e-6)
    back = np.empty_like(pixels)
    cl.enqueue_copy(cl_context.queue, back, result, origin=(0, 0), region=(6, 4))
    np.testing.assert_array_equal(back[..., :3], pixels[..., :3])
    assert (back[..., 3] == 255).all()


def test_an_image_of_sixteen_bits_is_read(cl_context: fb.cl.ClContext) -> None:
    kind = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNORM_INT16)
    frame = cl.create_image(cl_context.context, cl.mem_flags.READ_WRITE, kind, (6, 4))
    pixels = RNG.integers(0, 65536, (4, 6, 4)).astype(np.uint16)
    cl.enqueue_copy(cl_context.queue, frame, pixels, origin=(0, 0), region=(6, 4))
    np.testing.assert_allclose(through(frame, (1, 4, 6, 4))[0], pixels / 65535, atol=1e-6)
    values = cl.Buffer(cl_context.context, cl.mem_flags.READ_WRITE, 4 * 6 * 4 * 4)
    with pytest.raises(fb.BindingError, match="cannot write rgba16"):
        through(values, (1, 4, 6, 4), frame)


def test_an_image_of_one_half_is_read_but_by_pocl(cl_context: fb.cl.ClContext) -> None:
    """PoCL 3.1 says that it has the format, and reads the same wrong number from each pixel."""
    kind = cl.ImageFormat(cl.channel_order.R, cl.channel_type.HALF_FLOAT)
    frame = cl.create_image(cl_context.context, cl.mem_flags.READ_WRITE, kind, (6, 4))
    values = RNG.random((4, 6, 1)).astype(np.float16)
    cl.enqueue_copy(cl_context.queue, frame, values, origin=(0, 0), region=(6, 4))
    if "Portable" in cl_context.device.platform.name:
        with pytest.raises(fb.BindingError, match="PoCL reads images of one half per pixel wrongly: take r32f"):
            through(frame, (1, 4, 6, 1))
    else:
        np.testing.assert_array_equal(through(frame, (1, 4, 6, 1))[0], values)


def test_parts_of_a_gl_buffer_are_read_and_written_each_in_its_place(context: fb.GlContext) -> None:
    values, alignment = RNG.random((1, 4, 6, 3), np.float32), context.gl.integer(0x90DF)
    whole = fb.GlBuffer(4096, np.full(1024, 7, np.float32))
    parts = [fb.GlBuffer.from_id(whole.id, offset, values.nbytes) for offset in (512, 1024, 2048)]
    parts[0].write(values)
    parts[2].write(values * 2)
    np.testing.assert_array_equal(through(parts[0], values.shape, parts[1]), values)
    np.testing.assert_array_equal(parts[1].read().reshape(values.shape), values)
    interpreter, delegate = bound_pair(values.shape, parts[0], parts[1])
    for source in (parts[2], parts[0]):  # another part of the same buffer is a rebind like any other
        delegate.bind_buffer_to_tensor(source, 0)
        interpreter.invoke()
        np.testing.assert_array_equal(parts[1].read(), source.read())
    untouched = whole.read()
    assert (
        (untouched[:128] == 7).all() and (untouched[256 + 72 : 512] == 7).all() and (untouched[512 + 72 :] == 7).all()
    )
    with pytest.raises(fb.BindingError, match="is bound to tensor 2"):
        delegate.bind_buffer_to_tensor(fb.GlBuffer.from_id(whole.id, 768, 512), 2)
        interpreter.invoke()
    for offset, nbytes, says in (
        (4096, 16, "are no part of"),
        (0, 5000, "are no part of"),
        (-256, 16, "are no part of"),
    ):
        with pytest.raises(fb.BindingError, match=says):
            fb.GlBuffer.from_id(whole.id, offset, nbytes)
    with pytest.raises(fb.BindingError, match=rf"begins at a multiple of {alignment}"):
        fb.GlBuffer.from_id(whole.id, alignment // 2, 16)
    delegate.close()


def bound_pair(shape: tuple[int, ...], source: Any, result: Any) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """A model that passes its input on, with both ends bound."""
    interpreter, delegate = fb.Interpreter(model_content=chain("NEG", "NEG", shape=shape)), fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    delegate.bind_buffer_to_tensor(source, 0)
    delegate.bind_buffer_to_tensor(result, 2)
    interpreter.invoke()
    return interpreter, delegate


def test_slices_of_an_array_are_parts_of_a_buffer(cl_context: fb.cl.ClContext) -> None:
    queue, shape, count = cl_context.queue, (1, 4, 6, 3), 72
    step = max(cl_context.device.mem_base_addr_align // 8, 512) // 4
    whole = cl_array.to_device(queue, RNG.random(4 * step, np.float32))
    parts = [whole[i * step : i * step + count] for i in range(3)]
    interpreter, delegate = bound_pair(shape, parts[1], parts[2])
    np.testing.assert_array_equal(parts[2].get(), parts[1].get())
    delegate.bind_buffer_to_tensor(parts[0], 0)
    interpreter.invoke()
    np.testing.assert_array_equal(parts[2].get(), parts[0].get())
    delegate.bind_buffer_to_tensor(whole, 0)
    with pytest.raises(fb.BindingError, match="is bound to tensor 2"):
        interpreter.invoke()
    with pytest.raises(fb.BindingError, match=r"begins at byte 4 of its buffer, and OpenCL takes parts that begin at"):
        delegate.bind_buffer_to_tensor(whole[1 : 1 + count], 0)
    delegate.close()


def test_a_sub_buffer_and_its_buffer_are_the_same_memory(cl_context: fb.cl.ClContext) -> None:
    whole = cl.Buffer(cl_context.context, cl.mem_flags.READ_WRITE, 8192)
    first, last = whole.get_sub_region(0, 288), whole.get_sub_region(4096, 288)
    interpreter, delegate = bound_pair((1, 4, 6, 3), first, last)
    delegate.bind_buffer_to_tensor(whole, 0)
    with pytest.raises(fb.BindingError, match="is bound to tensor 2"):
        interpreter.invoke()
    delegate.close()


def test_foreign_objects_by_id(picture: np.ndarray, context: fb.GlContext) -> None:
    frame, values = fb.GlTexture.from_array(picture), RNG.random((1, 4, 6, 3), np.float32)
    wrapped = fb.GlTexture.from_id(frame.id, 6, 4, "rgba8")
    np.testing.assert_allclose(through(wrapped, (1, 4, 6, 3))[0], picture[..., :3] / 255, atol=1e-6)
    mine = fb.GlBuffer(values.nbytes, values)
    np.testing.assert_array_equal(through(fb.GlBuffer.from_id(mine.id), values.shape), values)
    frame.release()
    context.objects.drain()
    with pytest.raises(fb.BindingError, match=r"tensor 0 'x' .* cannot be bound"):
        through(wrapped, (1, 4, 6, 3))
