"""Textures and buffers: made, wrapped, read, written, counted, released, refused; and drawing with a shader."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import moderngl
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.interop.gl.draw.draw import FragmentProgram, letterbox
from framebind.interop.gl.khronos import GL
from framebind.interop.gl.query import FORMATS
from framebind.interop.gl.user_objects import as_gl_object
from support.environment import is_wanted

Array = npt.NDArray[Any]
TEXTURE_2D, RGBA, UNSIGNED_BYTE = 0x0DE1, 0x1908, 0x1401
RGBA8, RGBA8UI, RGBA_INTEGER = 0x8058, 0x8D7C, 0x8D99


def texels(format: str, height: int = 6, width: int = 9) -> Array:
    pixels = FORMATS[format]
    values = np.random.default_rng(1).random((height, width, pixels.channels)) * 200
    return values.astype(pixels.dtype)


def foreign_texture(context: fb.GlContext, target: int = TEXTURE_2D, internal: int = RGBA, width: int = 4) -> int:
    """A texture of another library's glTexImage2D: mutable, without mipmaps."""
    name = ctypes.c_uint()
    context.gl.glGenTextures(1, ctypes.byref(name))
    context.gl.glBindTexture(target, name.value)
    if width:
        unsigned, signed = ctypes.c_uint, ctypes.c_int
        arguments = (unsigned, signed, signed, signed, signed, signed, unsigned, unsigned, ctypes.c_void_p)
        external = RGBA_INTEGER if internal == RGBA8UI else RGBA
        tex_image = ctypes.CFUNCTYPE(None, *arguments)(context.gl._find("glTexImage2D"))
        tex_image(target, 0, internal, width, 3, 0, external, UNSIGNED_BYTE, None)
    return name.value


def delete(context: fb.GlContext, kind: str, name: int) -> None:
    getattr(context.gl, f"glDelete{kind}")(1, ctypes.byref(ctypes.c_uint(name)))


# Textures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_a_texture_gives_back_what_was_written(context: fb.GlContext, format: str) -> None:
    content = texels(format)
    texture = fb.GlTexture(9, 6, format, content)
    assert (texture.size, texture.format, texture.nbytes) == ((9, 6), format, 0)
    assert format in texture.label and "9x6" in texture.label
    back = texture.read()
    assert back.dtype == content.dtype and np.array_equal(back, content)
    assert back.flags.c_contiguous and back.flags.writeable


@pytest.mark.parametrize(
    "shape,dtype,format",
    [
        ((5, 7), np.uint8, "r8"), ((5, 7, 1), np.float32, "r32f"), ((5, 7, 4), np.float16, "rgba16f"),
        ((5, 7, 3), np.uint8, "rgba8"), ((5, 7, 3), np.float32, "rgba32f"), ((5, 7), np.float16, "r32f"),
    ],
)  # fmt: skip
def test_an_array_becomes_a_texture_of_its_kind(
    context: fb.GlContext, shape: tuple[int, ...], dtype: Any, format: str
) -> None:
    array = (np.random.default_rng(0).random(shape) * 100).astype(dtype)
    texture = fb.GlTexture.from_array(array)
    assert texture.format == format
    back, channels = texture.read(), 1 if array.ndim == 2 else shape[2]
    assert np.array_equal(back[..., :channels], array.reshape(5, 7, channels))
    if channels == 3:
        assert np.all(back[..., 3] == (255 if dtype == np.uint8 else 1))


def test_array_strides_and_pixel_storage_of_others_do_not_matter(context: fb.GlContext) -> None:
    big = texels("rgba8", 12, 18)
    for name, value in ((0x0CF2, 50), (0x0CF3, 3), (0x0CF4, 2), (0x0CF5, 8), (0x0D02, 50), (0x0D03, 1), (0x0D05, 8)):
        context.gl.glPixelStorei(name, value)
    texture = fb.GlTexture.from_array(big[::2, ::-2])
    assert np.array_equal(texture.read(), big[::2, ::-2])


def test_transfers_are_counted_and_can_be_forbidden(context: fb.GlContext) -> None:
    texture, buffer = fb.GlTexture(9, 6, "rgba8"), fb.GlBuffer(100)
    assert fb.transfers.calls == 0, "making objects moves nothing, not even the zeros of a buffer"
    texture.write(texels("rgba8"), reason="a frame")
    buffer.write(np.zeros(25, np.float32), reason="numbers")
    assert fb.transfers.by_reason["upload", "a frame"].bytes == 216
    assert fb.transfers.by_reason["upload", "numbers"].bytes == 100
    buffer.read(reason="numbers back")
    assert fb.transfers.by_reason["download", "numbers back"].bytes == 100
    before = texture.read()
    with fb.transfer_guard("disallow"):
        for call in (lambda: texture.write(texels("rgba8") + 1), texture.read, buffer.read):
            with pytest.raises(fb.TransferError):
                call()
    assert np.array_equal(texture.read(), before)


def test_a_texture_is_copied_on_the_gpu(context: fb.GlContext) -> None:
    pixels = np.arange(5 * 7 * 4, dtype=np.uint8).reshape(5, 7, 4)
    first, second = fb.GlTexture(7, 5, data=pixels), fb.GlTexture(7, 5)
    context.gl.glEnable(0x0C11)  # GL_SCISSOR_TEST, of a host
    context.gl.glScissor(0, 0, 1, 1)
    with fb.transfer_guard("disallow"):
        second.copy_from(first)
    np.testing.assert_array_equal(second.read(), pixels)
    for other in (second, fb.GlTexture.from_id(second.id), fb.GlTexture(5, 7), fb.GlTexture(7, 5, "r8")):
        with pytest.raises(fb.BindingError, match="takes the content of another 7x5 rgba8"):
            second.copy_from(other)


def test_impossible_textures_are_refused(context: fb.GlContext) -> None:
    with pytest.raises(fb.BindingError, match=r"no texture format 'rgb8'.*rgba8"):
        fb.GlTexture(4, 4, "rgb8")
    with pytest.raises(fb.BindingError, match="0 x 4 texels is impossible"):
        fb.GlTexture(0, 4, "rgba8")
    half: Any = 640 / 2
    with pytest.raises(fb.BindingError, match=r"320\.0 x 4 texels is impossible: both are whole numbers"):
        fb.GlTexture(half, 4)
    assert fb.GlTexture(*np.array([4, 2])).size == (4, 2)
    with pytest.raises(fb.BindingError, match="each side is 1 to"):
        fb.GlTexture(1 << 20, 1, "rgba8")
    with pytest.raises(fb.BindingError, match=r"takes an array.*\(4, 4, 4\) and uint8, not \(5, 4, 4\) of uint8"):
        fb.GlTexture(4, 4, "rgba8", np.zeros((5, 4, 4), np.uint8))
    with pytest.raises(fb.BindingError, match="type float64 makes no texture"):
        fb.GlTexture.from_array(np.zeros((4, 4, 4)))
    with pytest.raises(fb.BindingError, match="HxWx4"):
        fb.GlTexture.from_array(np.zeros((4, 4, 2), np.uint8))


def test_a_foreign_texture_is_asked_for_its_size_and_never_deleted(context: fb.GlContext) -> None:
    ours = fb.GlTexture(9, 6, "r32f", texels("r32f"))
    view = fb.GlTexture.from_id(ours.id)
    assert (view.size, view.format) == ((9, 6), "r32f")
    assert np.array_equal(view.read(), ours.read())
    with pytest.raises(fb.BindingError, match="is 9x6 r32f, not 9x7 r32f"):
        fb.GlTexture.from_id(ours.id, 9, 7)
    with pytest.raises(fb.BindingError, match="not 9x6 r8"):
        fb.GlTexture.from_id(ours.id, format="r8")
    view.release()
    context.objects.drain()
    assert view.released and not ours.released and context.gl.glIsTexture(ours.id)
    with pytest.raises(fb.BindingError, match="is released"):
        view.read()


def test_foreign_textures_that_cannot_be_bound_are_refused(context: fb.GlContext) -> None:
    with pytest.raises(fb.BindingError, match="texture 4242 does not exist"):
        fb.GlTexture.from_id(4242)
    cube = foreign_texture(context, target=0x8513, width=0)
    with pytest.raises(fb.BindingError, match="not a GL_TEXTURE_2D"):
        fb.GlTexture.from_id(cube)
    empty = foreign_texture(context, width=0)
    with pytest.raises(fb.BindingError, match="has no storage yet"):
        fb.GlTexture.from_id(empty)
    integers = foreign_texture(context, internal=RGBA8UI)
    with pytest.raises(
        fb.BindingError, match=r"has the format GL_RGBA8UI, which .* texture of one of GL_RGBA8, .*, GL_RGB16F"
    ):
        fb.GlTexture.from_id(integers)
    for name in (cube, empty, integers):
        delete(context, "Textures", name)


def test_a_texture_that_begins_at_another_level_is_refused(context: fb.GlContext) -> None:
    """A sampler would read level 1, of another size than the one that is asked for, level 0."""
    name = foreign_texture(context)
    tex_parameter = ctypes.CFUNCTYPE(None, ctypes.c_uint, ctypes.c_uint, ctypes.c_int)
    tex_parameter(context.gl._find("glTexParameteri"))(TEXTURE_2D, GL.TEXTURE_BASE_LEVEL, 1)
    with pytest.raises(fb.BindingError, match="has the base level 1, and tensors are bound to level 0"):
        fb.GlTexture.from_id(name)
    delete(context, "Textures", name)


def test_a_name_is_a_number_of_any_kind_and_no_object(context: fb.GlContext) -> None:
    texture, buffer = fb.GlTexture(4, 4), fb.GlBuffer(64)
    assert fb.GlTexture.from_id(np.uint32(texture.id)).id == texture.id  # as PyOpenGL's glGenTextures gives it
    for wrap, native in ((fb.GlTexture.from_id, texture), (fb.GlBuffer.from_id, buffer)):
        with pytest.raises(fb.BindingError, match=f"an int, and got a {type(native).__name__}: pass its name"):
            wrap(native)


def test_a_foreign_mutable_texture_is_readable_but_not_always_writable(context: fb.GlContext) -> None:
    name = foreign_texture(context)
    texture = fb.GlTexture.from_id(name)
    assert (texture.size, texture.format) == ((4, 3), "rgba8")
    texture.check()
    with pytest.raises(fb.BindingError, match="mutable" if context.is_es else "mipmap filter and no mipmaps"):
        texture.check(write=True)
    delete(context, "Textures", name)
    with pytest.raises(fb.BindingError, match=f"texture {name} does not exist"):
        texture.check()


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_foreign_texture_of_an_unsized_format_is_no_output_where_gl_ignores_writes(context: fb.GlContext) -> None:
    """Mesa ignores kernels' writes to it: the picture would stay black. It is read, drawn to, and copied to."""
    sized, unsized = foreign_texture(context, internal=RGBA8), foreign_texture(context)
    for name in (sized, unsized):
        context.gl.glBindTexture(TEXTURE_2D, name)
        context.gl.glTexParameteri(TEXTURE_2D, 0x2801, 0x2601)
    fb.GlTexture.from_id(sized).check(write=True)
    texture, value = fb.GlTexture.from_id(unsized), ctypes.c_int()
    context.gl.glGetInternalformativ(TEXTURE_2D, RGBA, GL.SHADER_IMAGE_STORE, 1, ctypes.byref(value))
    if value.value == GL.NONE:
        with pytest.raises(fb.BindingError, match=r"with the format GL_RGBA, .* ignores writes .* with GL_RGBA8"):
            texture.check(write=True)
    else:
        texture.check(write=True)
    texture.copy_from(fb.GlTexture(4, 3, "rgba8", np.full((3, 4, 4), 9, np.uint8)))
    assert (texture.read() == 9).all()
    for name in (sized, unsized):
        delete(context, "Textures", name)


# Buffers --------------------------------------------------------------------------------------------------------------


def test_a_buffer_starts_as_zeros_and_gives_back_what_was_written(context: fb.GlContext) -> None:
    buffer = fb.GlBuffer(40)
    assert buffer.read().shape == (10,) and not buffer.read().any()
    buffer.write(np.array([1, 2, 3], np.float32), offset=8)
    assert buffer.read().tolist() == [0, 0, 1, 2, 3, 0, 0, 0, 0, 0]
    part = np.empty((1, 3), np.float32)
    buffer.read(part, offset=8)
    assert part.tolist() == [[1, 2, 3]]
    assert fb.GlBuffer.from_array(np.array([4, 5, 6], np.int32)).read().tolist() == [4, 5, 6]


def test_buffers_refuse_what_does_not_fit(context: fb.GlContext) -> None:
    with pytest.raises(fb.BindingError, match="0 bytes is impossible"):
        fb.GlBuffer(0)
    half: Any = 20 / 2
    with pytest.raises(fb.BindingError, match=r"10\.0 bytes is impossible: it is a whole number"):
        fb.GlBuffer(half)
    buffer = fb.GlBuffer(40)
    with pytest.raises(fb.BindingError, match="bytes 36 to 44 lie outside"):
        buffer.write(np.zeros(2, np.float32), offset=36)
    with pytest.raises(fb.BindingError, match="C-contiguous"):
        buffer.read(np.zeros((4, 4), np.float32)[:, :2])
    buffer.release()
    with pytest.raises(fb.BindingError, match="is released"):
        buffer.read()
    buffer.release()


def test_a_foreign_buffer_is_asked_for_its_size_and_never_deleted(context: fb.GlContext) -> None:
    ours = fb.GlBuffer(64)
    view = fb.GlBuffer.from_id(ours.id)
    assert view.nbytes == 64
    view.write(np.arange(16, dtype=np.float32))
    assert ours.read().tolist() == list(range(16))
    view.release()
    context.objects.drain()
    assert context.gl.glIsBuffer(ours.id)
    with pytest.raises(fb.BindingError, match="buffer 4242 does not exist"):
        fb.GlBuffer.from_id(4242)
    again = fb.GlBuffer.from_id(ours.id)
    ours.release()
    context.objects.drain()
    with pytest.raises(fb.BindingError, match="does not exist"):
        again.check()


def test_a_mapped_buffer_says_that_it_cannot_be_read_or_written(context: fb.GlContext) -> None:
    buffer = fb.GlBuffer(64)
    context.gl.glBindBuffer(0x8F36, buffer.id)
    assert context.gl.glMapBufferRange(0x8F36, 0, 64, 1)
    with pytest.raises(fb.BindingError, match=r"cannot be read .* is it mapped already"):
        buffer.read()
    with pytest.raises(fb.BindingError, match=r"cannot be written .* is it mapped already"):
        buffer.write(np.ones(4, np.float32))
    context.gl.glBindBuffer(0x8F36, buffer.id)
    context.gl.glUnmapBuffer(0x8F36)
    assert not buffer.read().any()


@pytest.fixture
def host() -> Iterator[moderngl.Context]:
    """A context of moderngl's own."""
    if not is_wanted("gl"):
        pytest.skip("FRAMEBIND_DEVICES leaves out gl")
    made = moderngl.create_context(standalone=True, require=430, backend="egl")
    yield made
    made.release()


def test_moderngls_textures_and_buffers_are_known_by_their_types(host: moderngl.Context) -> None:
    texture, buffer = host.texture((9, 6), 4), host.buffer(reserve=64)
    wrapped, wrapped_buffer = as_gl_object(texture), as_gl_object(buffer)
    assert isinstance(wrapped, fb.GlTexture) and (wrapped.id, wrapped.size) == (texture.glo, (9, 6))
    assert isinstance(wrapped_buffer, fb.GlBuffer) and (wrapped_buffer.id, wrapped_buffer.nbytes) == (buffer.glo, 64)
    for owner, view in ((texture, wrapped), (buffer, wrapped_buffer)):
        assert not view.released
        owner.release()
        assert view.released
        with pytest.raises(fb.BindingError, match="is released"):
            as_gl_object(owner)


def test_other_objects_with_a_gl_name_are_no_textures(host: moderngl.Context) -> None:
    """A framebuffer or renderbuffer has the same name as some texture, and it is not that texture."""
    texture = host.texture((8, 8), 4)
    framebuffer, renderbuffer = host.framebuffer([texture]), host.renderbuffer((8, 8))
    with pytest.raises(fb.BindingError, match="bind one of its color_attachments"):
        as_gl_object(framebuffer)
    with pytest.raises(fb.BindingError, match="a Renderbuffer is no GL object that framebind knows"):
        as_gl_object(renderbuffer)
    with pytest.raises(fb.BindingError, match="a SimpleNamespace is no GL object"):
        as_gl_object(SimpleNamespace(glo=texture.glo, size=(8, 8)))


def test_names_and_arrays_are_no_gl_objects(context: fb.GlContext) -> None:
    texture = fb.GlTexture(9, 6, "rgba8")
    assert as_gl_object(texture) is texture
    with pytest.raises(fb.BindingError, match=r"GlTexture.from_id\(...\) or GlBuffer.from_id"):
        as_gl_object(texture.id)
    with pytest.raises(fb.BindingError, match="a ndarray is no GL object"):
        as_gl_object(np.zeros(4))


def test_objects_are_used_on_their_own_context_only(context: fb.GlContext) -> None:
    texture = fb.GlTexture(4, 4, "rgba8")
    with fb.GlContext.headless(), pytest.raises(fb.DeviceError, match="not current"):
        texture.read()
    assert texture.read().shape == (4, 4, 4)


# Drawing --------------------------------------------------------------------------------------------------------------

ARGMAX = """
uniform sampler2D frame;
uniform vec3 colors[1];
uniform float strength;
uniform int classes;
layout(std430, binding = 0) readonly buffer scores { float score[]; };
void main() {
  ivec2 pixel = ivec2(uv * vec2(8.0, 6.0));
  int best = 0;
  for (int c = 1; c < classes; c++) {
    int base = (pixel.y * 8 + pixel.x) * classes;
    if (score[base + c] > score[base + best]) { best = c; }
  }
  color = vec4(texture(frame, uv).rg, float(best) / 255.0 * strength, 1.0);
}
"""


def test_a_fragment_shader_reads_textures_and_tensors(context: fb.GlContext) -> None:
    frame = texels("rgba8", 6, 8)
    scores = np.random.default_rng(2).normal(size=(6, 8, 5)).astype(np.float32)
    source, target = fb.GlTexture.from_array(frame), fb.GlTexture(8, 6, "rgba8")
    buffer = fb.GlBuffer(scores.nbytes, scores)
    program = FragmentProgram(ARGMAX.replace("uniform vec3 colors[1];\n", ""))
    for strength in (1, 10.0):
        program.draw(target, {"frame": source}, {"scores": buffer}, {"strength": strength, "classes": 5})
        picture = target.read()
        assert np.array_equal(picture[..., :2], frame[..., :2]), "row 0 is the top in both"
        assert np.array_equal(picture[..., 2], scores.argmax(-1) * strength)


def test_drawing_again_makes_nothing_new(context: fb.GlContext) -> None:
    source, target = fb.GlTexture.from_array(texels("rgba8", 6, 8)), fb.GlTexture(8, 6, "rgba16f")
    program = FragmentProgram("uniform sampler2D frame;\nvoid main() { color = texture(frame, uv); }")
    program.draw(target, {"frame": source})
    live = dict(context.objects.live)
    for _ in range(50):
        program.draw(target, {"frame": source})
    assert dict(context.objects.live) == live
    assert np.abs(target.read() * 255 - source.read()).max() < 0.25


def test_a_viewport_limits_the_drawing(context: fb.GlContext) -> None:
    target = fb.GlTexture(8, 6, "rgba8", np.zeros((6, 8, 4), np.uint8))
    FragmentProgram("void main() { color = vec4(uv, 0.0, 1.0); }").draw(target, viewport=(2, 1, 4, 2))
    picture = target.read()
    assert np.all(picture[1:3, 2:6, 3] == 255) and picture[..., 3].sum() == 8 * 255
    assert picture[1, 2, 1] < picture[2, 2, 1] and picture[1, 2, 0] < picture[1, 5, 0]


def test_the_state_that_others_left_does_not_matter(context: fb.GlContext) -> None:
    gl, target = context.gl, fb.GlTexture(8, 6, "rgba8")
    for capability in (0x0B71, 0x0BE2, 0x0C11, 0x0B44, 0x0B90):
        gl.glEnable(capability)
    gl.glColorMask(0, 1, 0, 1)
    FragmentProgram("void main() { color = vec4(1.0, 0.0, 1.0, 1.0); }").draw(target)
    assert np.all(target.read() == (255, 0, 255, 255))


def test_drawing_refuses_what_cannot_be_drawn(context: fb.GlContext) -> None:
    texture, target = fb.GlTexture(8, 6, "rgba8"), fb.GlTexture(8, 6, "rgba8")
    with pytest.raises(fb.KernelError, match="nonsense"):
        FragmentProgram("void main() { color = nonsense; }")
    program = FragmentProgram(
        "uniform sampler2D frame;\nuniform float k;\nvoid main() { color = texture(frame, uv) * k; }"
    )
    with pytest.raises(fb.BindingError, match="uses no uniform 'other'"):
        program.draw(target, {"other": texture})
    for same in (target, fb.GlTexture.from_id(target.id)):
        with pytest.raises(fb.BindingError, match="cannot be read as 'frame' while it is drawn to"):
            program.draw(target, {"frame": same})
    with pytest.raises(fb.BindingError, match="uses no buffer block 'scores'"):
        program.draw(target, {"frame": texture}, {"scores": fb.GlBuffer(4)})
    with pytest.raises(fb.BindingError, match=r"uniform 'k'.*does not take \(1.0, 2.0\)"):
        program.draw(target, {"frame": texture}, uniforms={"k": (1.0, 2.0)})
    texture.release()
    with pytest.raises(fb.BindingError, match="is released"):
        program.draw(target, {"frame": texture})


def test_what_is_freed_stays_as_long_as_it_will_be_bound_again(context: fb.GlContext) -> None:
    """A read binds the framebuffer again that was bound before, and makes one of its own meanwhile. What is freed is
    often deleted then, whenever it is collected.
    """
    texture, freed = fb.GlTexture(4, 4), fb.GlTexture(4, 4)
    context.gl.glBindFramebuffer(GL.FRAMEBUFFER, freed.framebuffer())
    live = context.objects.live["framebuffer"]
    freed.release()
    texture.read()
    assert context.gl.clear_errors() == [] and context.objects.live["framebuffer"] == live + 1
    context.objects.drain()
    assert context.objects.live["framebuffer"] == live and context.gl.integer(GL.DRAW_FRAMEBUFFER_BINDING) == 0


def test_letterboxing_keeps_the_shape_and_centres() -> None:
    assert letterbox((640, 480), (640, 480)) == (0, 0, 640, 480)
    assert letterbox((640, 480), (800, 480)) == (80, 0, 640, 480)
    assert letterbox((100, 50), (200, 200)) == (0, 50, 200, 100)


def test_a_large_upload_right_after_making_the_buffer_arrives(context: fb.GlContext) -> None:
    """NVIDIA 580 lets a plain glBufferSubData overtake the clearing of the new buffer: see GlBuffer.write."""
    values = np.random.default_rng(0).random(300_000).astype(np.float32)
    for _ in range(5):
        buffer = fb.GlBuffer(values.nbytes)
        buffer.write(values, reason="test")
        assert np.array_equal(buffer.read(), values)
        buffer.release()


def test_whole_numbers_are_uniforms_of_each_type(context: fb.GlContext) -> None:
    program = FragmentProgram(
        "uniform int a;\nuniform uint b;\nuniform bool c;\nvoid main() { color = vec4(a, b, c, 255) / 255.0; }"
    )
    target = fb.GlTexture(2, 2)
    program.draw(target, uniforms={"a": 7, "b": 200, "c": 1})
    assert (target.read() == (7, 200, 1, 255)).all()
