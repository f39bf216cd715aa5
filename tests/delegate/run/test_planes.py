"""Arrays of bytes and planes of video bound to inputs as pictures, on every API, against LiteRT and swscale."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from av.video.reformatter import ColorRange

import framebind as fb
from framebind.delegate.plan.binding import TextureMapping
from framebind.delegate.run.bindings import make_binding
from framebind.delegate.run.planes import byte_planes
from framebind.interop.arrays import ArrayLayout
from framebind.interop.device import Device
from framebind.interop.host_arrays import HostArray
from framebind.interop.null.device import NullDevice, NullResource
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import PlanePicture
from support.device_steps import sample
from support.recording_driver import RecordingDriver
from support.tiny_models import chain

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
HEIGHT, WIDTH = 18, 32
SHAPE = (1, HEIGHT, WIDTH, 3)
IMAGE = TensorInfo("x", SHAPE, "float32")
BYTES = np.zeros((6, 10), np.uint8)
CHROMA = np.zeros((3, 5, 2), np.uint8)
SPACES = {"bt709": 1, "bt601": 5, "bt2020": 9}


def ready(shape: tuple[int, ...] = SHAPE, **given: Any) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """A model that computes -(-x)."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(**given))
    content = chain("NEG", "NEG", shape=shape)
    interpreter = fb.Interpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    return interpreter, delegate


def seen(interpreter: fb.Interpreter, delegate: fb.GpuDelegate, obj: Any, **mapping: Any) -> Array:
    """The picture that the model sees of an object, (height, width, channels)."""
    delegate.bind_buffer_to_tensor(obj, 0, **mapping)
    interpreter.invoke()
    return interpreter.get_tensor(2)[0]


# Arrays of bytes ------------------------------------------------------------------------------------------------------

PICTURE = RNG.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


def padded(picture: Array, pixels: int) -> Array:
    """The picture in rows that are ``pixels`` longer."""
    rows = np.zeros((picture.shape[0], picture.shape[1] + pixels, *picture.shape[2:]), picture.dtype)
    rows[:, : picture.shape[1]] = picture
    return rows[:, : picture.shape[1]]


LAYOUTS: dict[str, Array] = {
    "HWC": PICTURE,
    "batch of one": PICTURE[None],
    "CHW": np.ascontiguousarray(PICTURE.transpose(2, 0, 1)),
    "CHW of HWC's memory": PICTURE.transpose(2, 0, 1),
    "three of four": np.dstack([PICTURE, PICTURE[..., :1]])[..., :3],
    "a pitch": padded(PICTURE, 3),
    "a small part": padded(PICTURE, 3 * WIDTH),
    "CHW with pitches": padded(PICTURE, 2).transpose(2, 0, 1),
    "backwards": PICTURE[:, ::-1, ::-1][:, ::-1, ::-1],
}


def test_bytes_of_any_layout_are_the_picture(gpu: Device) -> None:
    interpreter, delegate = ready()
    for array in LAYOUTS.values():
        close = np.abs(seen(interpreter, delegate, array) - PICTURE / 255)
        assert close.max() <= 1e-6
    assert np.abs(seen(interpreter, delegate, PICTURE, order="bgr") - PICTURE[..., ::-1] / 255).max() <= 1e-6
    delegate.close()


def test_bytes_are_cropped_turned_and_normalized_as_a_texture_is(gpu: Device) -> None:
    place: dict[str, Any] = {"crop": (1.5, 1.0, 7.0, 4.0), "rotation": 30.0, "flip": "horizontal"}
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
    interpreter, delegate = ready((1, 4, 5, 3))
    binding = make_binding(
        NullDevice(), PICTURE, TensorInfo("x", (1, 4, 5, 3), "float32"), 0, write=False,
        mapping=TextureMapping(mean=mean, std=std, **place),
    )  # fmt: skip
    expected = sample(PICTURE, binding.parameters[:16], (1, 4, 5, 3), "rgb", True)[0]
    assert np.abs(seen(interpreter, delegate, PICTURE, mean=mean, std=std, **place) - expected).max() <= 2e-5
    delegate.close()


def test_a_grey_picture_has_one_channel(gpu: Device) -> None:
    interpreter, delegate = ready((1, HEIGHT, WIDTH, 1))
    for grey in (PICTURE[..., 0], PICTURE[..., :1], np.ascontiguousarray(PICTURE[None, ..., 0])):
        assert np.abs(seen(interpreter, delegate, grey) - PICTURE[..., :1] / 255).max() <= 1e-6
    delegate.close()


def test_each_run_copies_the_bytes_and_no_floats(gpu: Device) -> None:
    interpreter, delegate = ready()
    frame = PICTURE.copy()
    seen(interpreter, delegate, frame)
    for value in (7, 8):
        frame[...] = value
        fb.transfers.reset()
        interpreter.invoke()
        assert fb.transfers.by_reason["upload", "input tensor 0 'x' from its array"].bytes == frame.nbytes
        assert np.abs(interpreter.get_tensor(2) - value / 255).max() <= 1e-6
    delegate.close()


def test_arrays_of_pyopencl_are_read_in_place(cl_context: fb.cl.ClContext) -> None:
    interpreter, delegate = ready()
    interpreter.set_allow_buffer_handle_output(True)
    for array in (PICTURE, LAYOUTS["CHW"]):
        on_gpu = cl_array.to_device(cl_context.queue, np.ascontiguousarray(array))
        delegate.bind_buffer_to_tensor(on_gpu, 0)
        interpreter.invoke()
        fb.transfers.reset()
        interpreter.invoke()
        assert fb.transfers.bytes == 0
        delegate.ensure_tensor_data_is_readable(2)
        assert np.abs(interpreter.get_tensor(2)[0] - PICTURE / 255).max() <= 1e-6
    delegate.close()


# Video ----------------------------------------------------------------------------------------------------------------


def decoded(format: str, width: int = WIDTH, height: int = HEIGHT, seed: int = 0, siting: str = "left") -> Any:
    """A frame of PyAV with random luma and chroma, of which it says where chroma lies."""
    frame, rng = av.VideoFrame(width, height, format), np.random.default_rng(seed)
    dtype, codes, unit = (np.uint16, 1024, 64 if format == "p010le" else 1) if "10" in format else (np.uint8, 256, 1)
    for number, plane in enumerate(frame.planes):
        rows = rng.integers(0, codes, (plane.height, plane.line_size // np.dtype(dtype).itemsize)) * unit
        if width % 2 and number:
            rows[:] = rows[0, 0]  # swscale stretches chroma of odd sizes
        plane.update(rows.astype(dtype).tobytes())
    graph = av.filter.Graph()
    source = graph.add("buffer", f"video_size={width}x{height}:pix_fmt={format}:time_base=1/30")
    said, sink = graph.add("setparams", f"chroma_location={siting}"), graph.add("buffersink")
    source.link_to(said)
    said.link_to(sink)
    graph.configure()
    frame.pts = 0
    source.push(frame)
    return sink.pull()


def swscale(frame: Any, matrix: str, range: str, format: str = "gbrpf32le") -> Array:
    """FFmpeg's conversion to floats, its most exact one, (height, width, 3). It rounds down: to bytes it is up to 3
    of 255 off. On several threads it leaves rows of small frames undone.
    """
    converted = frame.reformat(
        format=format, threads=1, src_colorspace=SPACES[matrix], dst_color_range=ColorRange.JPEG,
        src_color_range=ColorRange.MPEG if range == "limited" else ColorRange.JPEG, interpolation="BILINEAR",
    )  # fmt: skip
    return converted.to_ndarray()


FORMATS = [
    "nv12", "yuv420p", "yuv420p odd", "yuv422p", "yuv444p", "p010le", "yuv420p10le", "yuv420p center",
    "yuv420p topleft", "yuv422p center",
]  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_planes_of_a_decoder_are_the_colours_of_swscale(gpu: Device, format: str) -> None:
    format, *words = format.split()
    odd, siting = int(words == ["odd"]), "left" if words in ([], ["odd"]) else words[0]
    width, height = WIDTH - odd, HEIGHT - odd
    frame = decoded(format, width, height, siting=siting)
    interpreter, delegate = ready((1, height, width, 3))
    picture = fb.YuvPicture(frame.planes, format=format, siting=siting)
    out = seen(interpreter, delegate, picture)
    assert np.abs(out - swscale(frame, "bt709", "limited")).max() <= 1 / 255
    assert fb.transfers.by_reason["upload", "input tensor 0 'x' from its array"].calls == len(frame.planes)
    delegate.close()


@pytest.mark.parametrize("range", ["limited", "full"])
@pytest.mark.parametrize("matrix", SPACES)
def test_matrix_and_range_are_those_of_the_frame(device: Device, matrix: Any, range: str) -> None:
    """The factors of luma and chroma that kernels are given (null device) make swscale's colours."""
    frame = decoded("yuv444p")
    frame.colorspace, frame.color_range = SPACES[matrix], 1 if range == "limited" else 2
    picture = fb.YuvPicture.from_frame(frame)
    assert (picture.matrix, picture.range, picture.format) == (matrix, range, "yuv444p")
    codes = frame.to_ndarray(channel_last=True) / 255
    factors = np.array(picture.colours.rows())
    colours = codes @ factors[:, :3].T + factors[:, 3]
    assert np.abs(np.clip(colours, 0, 1) - swscale(frame, matrix, range)).max() <= 1 / 255
    exist = np.all((colours >= 0) & (colours <= 1), -1)
    darker = (colours - swscale(frame, matrix, range, "rgb24") / 255)[exist]  # its fast conversion, which rounds down
    assert exist.sum() > 20 and -1 / 255 <= darker.min() and darker.max() <= 3 / 255


def test_a_frame_that_says_nothing_is_hd_or_sd_by_its_height() -> None:
    for height, matrix in ((720, "bt709"), (576, "bt601")):
        assert fb.YuvPicture.from_frame(av.VideoFrame(64, height, "nv12")).matrix == matrix
    assert fb.YuvPicture.from_frame(av.VideoFrame(64, 64, "yuvj420p")).range == "full"
    assert fb.YuvPicture.from_frame(av.VideoFrame(64, 64, "p010le")).format == "p010"
    with pytest.raises(fb.BindingError, match="no format 'rgb24': it has nv12, p010, "):
        fb.YuvPicture.from_frame(av.VideoFrame(64, 64, "rgb24"))
    frame = av.VideoFrame(64, 64, "nv12")
    frame.colorspace = 8
    with pytest.raises(fb.BindingError, match=r"a frame of the matrix 8 \(ITU-T H.273\)"):
        fb.YuvPicture.from_frame(frame)


def test_the_first_convolution_samples_a_picture_and_no_frame_of_rgb_exists(model_path: Callable[[str], Path]) -> None:
    delegate = fb.GpuDelegate("null")
    content = model_path("face_detection_front").read_bytes()
    interpreter = fb.Interpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    found = set[tuple[int | None, int | None]]()
    video = fb.YuvPicture([np.zeros((48, 64), np.uint8), np.zeros((24, 32, 2), np.uint8)])
    for obj in (np.zeros((1, 128, 128, 3), np.float32), np.zeros((48, 64, 3), np.uint8), video):
        delegate.bind_buffer_to_tensor(obj, 0)
        interpreter.invoke()
        (part,) = delegate.partitions()
        found.add((part.dispatches, part.arena_nbytes))
    assert len(found) == 1, found
    delegate.close()


@pytest.mark.parametrize("channels", [3, 4])
def test_video_is_padded_as_a_texture_is_and_opaque(gpu: Device, channels: int) -> None:
    """The tensor shows the picture in its middle, at its own size, and grey around it."""
    frame, shape = decoded("nv12"), (1, HEIGHT + 4, WIDTH + 6, channels)
    interpreter, delegate = ready(shape)
    place: dict[str, Any] = {
        "crop": (-3.0, -2.0, WIDTH + 6.0, HEIGHT + 4.0),
        "pad": 114 / 255,
        "mean": 0.5,
        "std": 0.25,
    }
    out = 0.25 * seen(interpreter, delegate, fb.YuvPicture.from_frame(frame), **place) + 0.5
    inside = out[2:-2, 3:-3]
    assert np.abs(inside[..., :3] - swscale(frame, "bt601", "limited")).max() <= 1 / 255
    assert channels == 3 or np.array_equal(inside[..., 3], np.ones((HEIGHT, WIDTH)))
    out[2:-2, 3:-3] = np.float32(114 / 255)
    np.testing.assert_allclose(out, np.full(shape[1:], 114 / 255), rtol=1e-6)
    again = decoded("nv12", seed=3)  # another picture takes its place without a decision
    out = 0.25 * seen(interpreter, delegate, fb.YuvPicture.from_frame(again), **place) + 0.5
    assert np.abs(out[2:-2, 3:-3, :3] - swscale(again, "bt601", "limited")).max() <= 1 / 255
    np.testing.assert_allclose(out[:2], np.full((2, WIDTH + 6, channels), 114 / 255), rtol=1e-6)
    delegate.close()


def test_the_next_frame_compiles_and_allocates_nothing(gpu: Device) -> None:
    interpreter, delegate = ready()
    before = None
    for seed in (0, 1, 2):
        frame = decoded("nv12", seed=seed)
        out = seen(interpreter, delegate, fb.YuvPicture.from_frame(frame))
        assert np.abs(out - swscale(frame, "bt601", "limited")).max() <= 1 / 255
        partition = delegate.engine.partitions[0]
        binding = delegate.engine.boundary.memory.binding((0, 0), TensorInfo("x", SHAPE, "float32"))
        now = (id(partition.program and partition.program.record()), *map(id, binding.resources))
        assert before in (None, now)
        before = now
    small = decoded("nv12", 6, 4)  # another size
    interpreter.invoke()
    out = seen(interpreter, delegate, fb.YuvPicture.from_frame(small), crop=(1.0, 1.0, 2.0, 2.0))
    assert out.shape == (HEIGHT, WIDTH, 3)
    delegate.close()


def test_planes_of_opengl_are_textures_or_buffers(context: fb.GlContext) -> None:
    frame = decoded("nv12")
    expected = swscale(frame, "bt709", "limited")
    luma, chroma = (np.ascontiguousarray(np.from_dlpack(plane)) for plane in frame.planes)
    interpreter, delegate = ready()
    buffers = [gl_buffer(context, luma), gl_buffer(context, chroma)]
    picture = fb.YuvPicture(buffers, width=WIDTH, height=HEIGHT)
    assert np.abs(seen(interpreter, delegate, picture) - expected).max() <= 1 / 255
    textures = [gl_texture(context, luma, 0x8229, 0x1903), gl_texture(context, chroma, 0x822B, 0x8227)]
    assert [texture.format for texture in textures] == ["r8", "rg8"]
    assert np.abs(seen(interpreter, delegate, fb.YuvPicture(textures)) - expected).max() <= 1 / 255
    fb.transfers.reset()
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.invoke()
    assert fb.transfers.bytes == 0
    if not context.is_es:  # OpenGL ES has no formats of 16 bits
        frame = decoded("p010le")
        planes = [np.ascontiguousarray(np.from_dlpack(plane)) for plane in frame.planes]
        formats = (0x822A, 0x1903, 0x1403), (0x822C, 0x8227, 0x1403)
        textures = [gl_texture(context, plane, *format) for plane, format in zip(planes, formats, strict=True)]
        interpreter.set_allow_buffer_handle_output(False)
        out = seen(interpreter, delegate, fb.YuvPicture(textures, format="p010"))
        assert np.abs(out - swscale(frame, "bt709", "limited")).max() <= 1 / 255
    delegate.close()


def test_a_buffer_of_opengl_holds_whole_words(context: fb.GlContext) -> None:
    interpreter, delegate = ready()
    buffers = [fb.GlBuffer(64), fb.GlBuffer(64)]
    delegate.bind_buffer_to_tensor(fb.YuvPicture(buffers, width=10, height=6), 0)
    interpreter.invoke()
    part = fb.GlBuffer.from_id(buffers[1].id, 0, 30)
    delegate.bind_buffer_to_tensor(PICTURE, 0)
    with pytest.raises(fb.BindingError, match=r"has 30 there, 3 rows of 10 .*round it up to a multiple of 4"):
        delegate.bind_buffer_to_tensor(fb.YuvPicture([buffers[0], part], width=10, height=6), 0)
    interpreter.invoke()
    assert np.abs(interpreter.get_tensor(2)[0] - PICTURE / 255).max() <= 1e-6
    delegate.close()


def test_a_batch_is_a_list_of_pictures(gpu: Device) -> None:
    interpreter, delegate = ready((2, HEIGHT, WIDTH, 3))
    frames = [decoded("nv12", seed=seed) for seed in (0, 1)]
    for objects in (frames, frames[::-1]):
        pictures = [fb.YuvPicture.from_frame(frame) for frame in objects]
        delegate.bind_buffer_to_tensor(pictures, 0)
        interpreter.invoke()
        for out, frame in zip(interpreter.get_tensor(2), objects, strict=True):
            assert np.abs(out - swscale(frame, "bt601", "limited")).max() <= 1 / 255
    delegate.bind_buffer_to_tensor([PICTURE, PICTURE[:, ::-1]], 0, order="bgr")
    interpreter.invoke()
    assert np.abs(interpreter.get_tensor(2)[1] - PICTURE[:, ::-1, ::-1] / 255).max() <= 1e-6
    delegate.close()


def gl_buffer(context: fb.GlContext, array: Array) -> fb.GlBuffer:
    buffer = fb.GlBuffer(-(-array.nbytes // 4) * 4)
    buffer.write(array)
    return buffer


def gl_texture(context: fb.GlContext, array: Array, internal: int, external: int, kind: int = 0x1401) -> fb.GlTexture:
    """A texture of somebody else's with the content of a plane."""
    gl, name = context.gl, ctypes.c_uint()
    gl.glGenTextures(1, ctypes.byref(name))
    gl.glBindTexture(0x0DE1, name.value)
    gl.glPixelStorei(0x0CF5, 1)
    gl.glTexImage2D(0x0DE1, 0, internal, array.shape[1], array.shape[0], 0, external, kind, array.ctypes.data)
    gl.glPixelStorei(0x0CF5, 4)
    return fb.GlTexture.from_id(name.value)


def test_planes_of_opencl_are_images_or_buffers(cl_context: fb.cl.ClContext) -> None:
    frame = decoded("yuv420p")
    expected = swscale(frame, "bt709", "limited")
    planes = [np.ascontiguousarray(np.from_dlpack(plane)) for plane in frame.planes]
    interpreter, delegate = ready()
    images = [fb.cl.ClImage.from_array(plane[..., None]) for plane in planes]
    arrays = [cl_array.to_device(cl_context.queue, plane) for plane in planes]
    buffers = [cl.Buffer(cl_context.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=plane) for plane in planes]
    for objects, size in ((images, {}), (arrays, {}), (buffers, {"width": WIDTH, "height": HEIGHT})):
        picture = fb.YuvPicture(objects, format="yuv420p", **size)
        assert np.abs(seen(interpreter, delegate, picture) - expected).max() <= 1 / 255
    delegate.close()


def test_arrays_and_planes_of_cuda_are_read_in_place(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        interpreter, delegate = ready(backend="cuda")
        interpreter.set_allow_buffer_handle_output(True)
        picture, luma = fb.cuda.CudaArray.from_array(PICTURE), fb.cuda.CudaArray.from_array(BYTES)
        chroma = fb.cuda.CudaArray.from_array(CHROMA)
        for obj, objects in ((picture, [picture]), (fb.YuvPicture([luma, chroma]), [luma, chroma])):
            delegate.bind_buffer_to_tensor(obj, 0)
            interpreter.invoke()
            fb.transfers.reset()
            interpreter.invoke()
            assert fb.transfers.bytes == 0
            binding = delegate.engine.boundary.memory.binding((0, 0), IMAGE)
            assert [each.pointer for each in binding.resources] == [each.pointer for each in objects]
        interpreter.invoke()
        delegate.close()


# What does not fit ----------------------------------------------------------------------------------------------------


def bind(obj: Any, tensor: TensorInfo = IMAGE, *, write: bool = False, **mapping: Any) -> Any:
    return make_binding(NullDevice(), obj, tensor, 0, write=write, mapping=TextureMapping(**mapping))


@pytest.mark.parametrize(
    "obj, mapping, says",
    [
        (np.zeros((6, 10, 5), np.uint8), {}, r"a picture, of shape \(height, width, channels\), .* \(6, 10, 5\)"),
        (np.zeros((2, 6, 10, 3), np.uint8), {}, r"this one has the shape \(2, 6, 10, 3\)"),
        (np.zeros(180, np.uint8), {}, r"this one has the shape \(180,\)"),
        (BYTES, {}, "a picture of 1 channels holds batch 1 and 1 to 1 channels"),
        (np.zeros((6, 10, 3), np.uint16), {}, "its numbers are uint16, and a tensor's values are float32 or float16"),
        (PICTURE, {"order": "rg"}, "order 'rg' must name 3 different channels of 'rgb'"),
        (PICTURE, {"std": 0.0}, "std is 0"),
        (PICTURE, {"pad": (0.5, 0.5)}, r"pad \(0.5, 0.5\) must be one finite number, or one for each of 3 channels"),
        (PICTURE, {"crop": (0, 0, 0, 1)}, r"crop \(0, 0, 0, 1\) must be"),
        (fb.YuvPicture([BYTES, CHROMA]), {"order": "rga"}, "order 'rga' must name 3 different channels of 'rgb'"),
        (fb.YuvPicture([BYTES, CHROMA[:2]]), {}, "plane 1: it has 2 rows of 5 pixels, .* 10x6 has 3 of 5"),
        (fb.YuvPicture([BYTES, CHROMA[:, :4]]), {}, "plane 1: it has 3 rows of 4 pixels, .* has 3 of 5"),
        (fb.YuvPicture([BYTES, CHROMA], width=12, height=6), {}, "plane 0: it has 6 rows of 10 pixels, .* has 6 of 12"),
        (fb.YuvPicture([BYTES, np.ma.asarray(CHROMA)]), {}, "plane 1: an array of .* uint8 of numpy.ma has a mask"),
        (fb.YuvPicture([BYTES, CHROMA.astype(np.uint16)]), {}, "plane 1: its numbers are uint16, and must be uint8"),
        (fb.YuvPicture([BYTES, CHROMA], format="p010"), {}, "plane 0: its numbers are uint8, and must be uint16"),
        (fb.YuvPicture([BYTES, np.zeros((3, 5, 3), np.uint8)]), {}, r"plane 1: its shape is \(3, 5, 3\)"),
        (fb.YuvPicture([BYTES, NullResource("mine", 999)]), {}, "some of its planes lie on the CPU and others do not"),
        (fb.YuvPicture([NullResource("mine", 60), NullResource("mine", 30)]), {}, "is a buffer, which has no size"),
        (
            fb.YuvPicture([NullResource("mine", 60), NullResource("my chroma", 29)], width=10, height=6),
            {},
            "plane 1: my chroma has 29 bytes, and a picture of 10x6 has 30 there, 3 rows of 10 numbers of type uint8",
        ),
        (
            fb.YuvPicture([NullResource("mine", 0, (10, 6), "r8"), NullResource("my chroma", 0, (5, 3), "r8")]),
            {},
            "plane 1: my chroma is r8 of 5x3, and a picture of 10x6 has rg8 of 5x3 there",
        ),
        (fb.YuvPicture([object(), object()]), {}, "plane 0: the null device has no use for a object"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_do(obj: Any, mapping: dict[str, Any], says: str) -> None:
    with pytest.raises(fb.BindingError, match=says):
        bind(obj, **mapping)


def test_chroma_lies_side_by_side_and_numbers_are_counted_exactly() -> None:
    _, delegate = ready(backend="null")
    apart = np.ascontiguousarray(CHROMA.transpose(2, 0, 1)).transpose(1, 2, 0)
    with pytest.raises(fb.BindingError, match=r"must be .*, with the two next to each other"):
        delegate.bind_buffer_to_tensor(fb.YuvPicture([BYTES, apart]), 0)
    strides = (1 << 25, 3, 1)
    layout = ArrayLayout((2, 4, 3), strides, np.dtype(np.uint8))
    with pytest.raises(fb.BindingError, match="kernels count to 2147483647 numbers, and 16777216 in a row; bind a pa"):
        byte_planes(layout, "here")
    delegate.close()


def test_a_small_part_of_long_rows_is_gathered() -> None:
    for pixels, copied in ((3, 3 * ((HEIGHT - 1) * (WIDTH + 3) + WIDTH)), (30 * WIDTH, PICTURE.size)):
        part = padded(PICTURE, pixels)
        host = HostArray(NullDevice(), part, "part", copies_padding=True)
        assert host.content.size == copied


def test_a_plane_that_is_released_is_refused(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        interpreter, delegate = ready(backend="cuda")
        luma, chroma = (fb.cuda.CudaArray.from_array(plane) for plane in (BYTES, CHROMA))
        chroma.release()
        with pytest.raises(fb.BindingError, match=r"plane 1: .* is released; bind one that is alive"):
            delegate.bind_buffer_to_tensor(fb.YuvPicture([luma, chroma]), 0)
        interpreter.invoke()
        delegate.close()


def test_the_same_planes_with_other_colours_are_another_picture(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        interpreter, delegate = ready(backend="cuda")
        planes = [fb.cuda.CudaArray.from_array(plane) for plane in (BYTES, CHROMA)]
        for matrix in ("bt709", "bt601", "bt709"):
            delegate.bind_buffer_to_tensor(fb.YuvPicture(planes, matrix=matrix), 0)
            interpreter.invoke()
            view = delegate.engine.boundary.memory.binding((0, 0), IMAGE).view
            assert isinstance(view, PlanePicture) and view.colours is not None and view.colours.matrix == matrix
        delegate.close()


def test_two_models_that_read_the_same_pictures_decide_once(recorder: RecordingDriver) -> None:
    """A decoder's surfaces come again and again, and each keeps the binding of each model."""
    with fb.cuda.CudaContext():
        pictures = [fb.YuvPicture([fb.cuda.CudaArray.from_array(p) for p in (BYTES, CHROMA)]) for _ in range(3)]
        models = [ready(backend="cuda") for _ in range(2)]
        rounds = list[list[Any]]()
        for _ in range(3):
            used = list[Any]()
            for picture in pictures:
                for interpreter, delegate in models:
                    delegate.bind_buffer_to_tensor(picture, 0)
                    interpreter.invoke()
                    used.append(delegate.engine.boundary.memory.source((0, 0)))
            rounds.append(used)
        assert [*map(id, rounds[2])] == [*map(id, rounds[1])] and len(set(map(id, rounds[1]))) == 6
        for _, delegate in models:
            delegate.close()


def test_the_next_picture_has_its_own_rows_and_is_alive(recorder: RecordingDriver) -> None:
    """CUDA's arrays have a pitch; in the CPU's memory a buffer may have room for both pictures."""

    def pitch(delegate: fb.GpuDelegate) -> float:
        """The numbers from a row of luma to the next."""
        return delegate.engine.boundary.memory.binding((0, 0), IMAGE).parameters[18]

    wide = padded(BYTES, 2)
    with fb.cuda.CudaContext():
        interpreter, delegate = ready(backend="cuda")
        chroma, memory = fb.cuda.CudaArray.from_array(CHROMA), fb.cuda.CudaArray.from_array(np.zeros(1024, np.uint8))
        for step in (10, 12, 10):
            luma = fb.cuda.CudaArray(memory.pointer, (6, 10), np.uint8, device=0, strides=(step, 1), keep=memory)
            picture = fb.YuvPicture([luma, chroma])
            for _ in range(2):
                delegate.bind_buffer_to_tensor(picture, 0)
                interpreter.invoke()
                assert pitch(delegate) == step
        chroma.release()
        with pytest.raises(fb.BindingError, match=r"plane 1: .* is released"):
            delegate.bind_buffer_to_tensor(picture, 0)
        delegate.close()
    interpreter, delegate = ready(backend="null")
    for luma in (BYTES, wide, BYTES):
        delegate.bind_buffer_to_tensor(fb.YuvPicture([luma, CHROMA]), 0)
        interpreter.invoke()
        assert pitch(delegate) == luma.strides[0]
    delegate.close()


def test_bytes_and_video_are_no_outputs() -> None:
    for obj in (PICTURE, fb.YuvPicture([BYTES, CHROMA])):
        with pytest.raises(fb.BindingError, match="bytes and video are inputs; the model writes an array of float32"):
            bind(obj, write=True)


@pytest.mark.parametrize(
    "given, says",
    [
        ({"format": "rgb24"}, "no format 'rgb24': it has nv12, "),
        ({"matrix": "bt470"}, "no matrix 'bt470': it has bt601, bt709, bt2020"),
        ({"range": "tv"}, "no range 'tv': it has limited, full"),
        ({"format": "yuv420p"}, "yuv420p has 3 planes, and 2 were given"),
        ({"width": 10}, "10xNone pixels is impossible: give both sizes, or none"),
        ({"width": 0, "height": 6}, "0x6 pixels is impossible"),
    ],
)
def test_descriptions_that_mean_nothing_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(fb.BindingError, match=says):
        fb.YuvPicture([BYTES, CHROMA], **given)


def test_a_refused_picture_leaves_the_program_usable(gpu: Device) -> None:
    interpreter, delegate = ready()
    delegate.bind_buffer_to_tensor(PICTURE, 0)
    for wrong in (fb.YuvPicture([BYTES, CHROMA[:2]]), np.zeros((6, 10, 5), np.uint8)):
        with pytest.raises(fb.BindingError):
            delegate.bind_buffer_to_tensor(wrong, 0)
        interpreter.invoke()
        assert np.abs(interpreter.get_tensor(2)[0] - PICTURE / 255).max() <= 1e-6
    delegate.close()


def test_channels_first_lie_a_whole_number_of_rows_apart() -> None:
    view = bind(np.zeros((3, HEIGHT, WIDTH), np.uint8)).view
    assert isinstance(view, PlanePicture) and (len(view.planes), view.memories) == (3, (0, 0, 0))
    odd = np.lib.stride_tricks.as_strided(np.zeros(600, np.uint8), (3, HEIGHT, WIDTH), (73, 12, 1))
    with pytest.raises(fb.BindingError, match="its channels are 73 bytes apart and its rows 12"):
        bind(odd)
