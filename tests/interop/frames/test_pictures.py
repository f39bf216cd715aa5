"""Videos as pictures of luma and chroma for models: the choice of the decoder, NVDEC's surfaces, and the CPU's planes.

NVDEC's frames and CUDA's driver are stand-ins: they show lifetimes and calls. What a GPU decodes, and what models make
of it, demos/hosts/with_nvdec.py --check and benchmarks/video.py compare.
"""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest

import framebind as fb
from framebind.interop.frames.decode.nvdec import AHEAD, NvdecPictures
from framebind.interop.frames.decode.nvdec_codecs import accelerated_options
from framebind.interop.frames.read.dropping_queue import FrameQueue
from framebind.interop.frames.read.planes import PlanesFeed, PlanesSlot
from support.recording_driver import RecordingDriver
from support.tiny_models import chain
from support.video.clips import turn_track, write_clip
from support.video.live_server import LiveServer
from support.webcam import SIZE, Webcam

WIDTH, HEIGHT, PITCH = 6, 5, 16
TESTS = Path(__file__).parents[2]
MOST_FUNCTIONS = 70
"""Python functions of a picture from the decoder to the model's submission. Eight sessions in one process take turns
at them: there were 80.
"""


class Frame:
    """A frame of NVDEC in a surface of the stand-in's memory, as PyAV gives it. Its sizes are odd."""

    format, sw_format = SimpleNamespace(name="cuda"), SimpleNamespace(name="nv12")
    width, height, colorspace, color_range = WIDTH, HEIGHT, 1, 1

    def __init__(self, surface: int) -> None:
        self.planes = tuple(
            SimpleNamespace(buffer_ptr=at, line_size=PITCH) for at in (surface, surface + HEIGHT * PITCH)
        )


class Decoder:
    """A decoder of so many frames in three surfaces that come again and again. ``given`` were decoded."""

    name, codec, is_on_gpu, rotation = "video 'clip.mp4'", "h264", True, 0

    def __init__(self, count: int) -> None:
        self.count, self.given = count, list[weakref.ref[Frame]]()
        self.memory = [fb.cuda.CudaArray.from_array(np.zeros((2 * HEIGHT, PITCH), np.uint8)) for _ in range(3)]

    def frames(self) -> Iterator[Frame]:
        for number in range(self.count):
            frame = Frame(self.memory[number % 3].pointer)
            self.given.append(weakref.ref(frame))
            try:  # as in VideoDecoder: close() of Python 3.12.3 leaves the variables of a generator otherwise
                yield frame
            finally:
                del frame

    def time_of(self, frame: Frame) -> float:
        return 0.5

    @property
    def alive(self) -> int:
        return sum(frame() is not None for frame in self.given)


def test_surfaces_are_bound_in_place_and_given_back_behind_the_model(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext() as context, fb.GpuDelegate("cuda") as delegate:
        interpreter = fb.Interpreter(model_content=chain("EXP"), experimental_delegates=[delegate])
        interpreter.set_allow_buffer_handle_output(True)
        decoder: Any = Decoder(8)
        seen, most = list[int](), 0
        fb.transfers.reset()
        pictures = NvdecPictures(decoder, context)
        for frame in pictures:
            picture = frame.planes
            assert frame.time == 0.5
            luma, chroma = picture.planes
            assert (luma.shape, chroma.shape) == ((HEIGHT, WIDTH, 1), (3, 3, 2)), "chroma's half is rounded up"
            assert chroma.pointer == luma.pointer + HEIGHT * PITCH
            delegate.bind_buffer_to_tensor(picture, interpreter.inputs()[0])
            interpreter.invoke()
            seen.append(id(picture))
            most = max(most, decoder.alive)
        assert seen == (seen[:3] * 3)[:8], "a surface is described once"
        assert most == AHEAD + 2
        assert fb.transfers.bytes == 0 or fb.transfers.by_reason.keys() <= {("upload", "weights")}
        interpreter.invoke()  # the last ones stay valid
        pictures.close()
        with pytest.raises(fb.BindingError, match="released"):
            interpreter.invoke()  # the decoder may have freed its memory
    assert decoder.alive == 0


def test_a_frame_is_let_go_when_its_models_have_run(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext() as context:
        decoder: Any = Decoder(AHEAD + 3)
        pictures = NvdecPictures(decoder, context)
        given = iter(pictures)
        for _ in range(AHEAD + 2):
            next(given)
        recorder.calls.clear()
        recorder.done = False
        assert decoder.alive == AHEAD + 2
        next(given)
        assert [name for name in recorder.names() if name.startswith("cuEvent")] == [
            "cuEventRecord", "cuEventQuery", "cuEventSynchronize",
        ]  # fmt: skip
        assert decoder.alive == AHEAD + 2
        pictures.close()


def test_a_context_of_its_own_stream_waits_for_each_picture_alone(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext(independent=True) as context:
        assert ("cuStreamCreate", 1) in [(name, given[-1]) for name, given in recorder.calls]
        recorder.flags = 1
        decoder: Any = Decoder(2)
        pictures = NvdecPictures(decoder, context)
        given = iter(pictures)
        next(given)
        recorder.calls.clear()
        next(given)
        waits = [
            (name, arguments) for name, arguments in recorder.calls if name in ("cuEventRecord", "cuStreamWaitEvent")
        ]
        legacy = 1
        (_, (_, stream)), (_, (event, decoders)), (wait, (waiting, waited, _)) = waits
        assert (wait, stream, decoders, waiting, waited) == (
            "cuStreamWaitEvent", context.stream, legacy, context.stream, event,
        )  # fmt: skip


def test_a_picture_that_comes_again_takes_few_calls_and_functions(recorder: RecordingDriver) -> None:
    recorder.flags = 1  # those of an independent stream
    with fb.cuda.CudaContext(independent=True) as context, fb.GpuDelegate("cuda") as delegate:
        interpreter = fb.Interpreter(model_content=chain("EXP", "SOFTMAX"), experimental_delegates=[delegate])
        interpreter.set_allow_buffer_handle_output(True)
        decoder: Any = Decoder(12)
        pictures, names = iter(NvdecPictures(decoder, context)), list[str]()

        def one_frame() -> None:
            delegate.bind_buffer_to_tensor(next(pictures), interpreter.inputs()[0], mean=0.5, std=0.5)
            interpreter.invoke()

        def note(called: FrameType, event: str, _argument: Any) -> None:
            if event == "call" and not called.f_code.co_filename.startswith(str(TESTS)):
                names.append(called.f_code.co_name)

        for _ in range(10):
            one_frame()
        recorder.calls.clear()
        sys.setprofile(note)
        try:
            one_frame()
        finally:
            sys.setprofile(None)
        assert recorder.names() == [
            "cuEventRecord", "cuEventQuery",  # a fence behind the model, and whether an older one is passed
            "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuEventRecord", "cuStreamWaitEvent", "cuCtxPopCurrent_v2",
            "cuGraphLaunch",
        ]  # fmt: skip
        assert len(names) <= MOST_FUNCTIONS, names


def test_a_picture_whose_planes_were_changed_is_bound_anew(recorder: RecordingDriver) -> None:
    """The binding of a picture that comes again is the one from the last time, unless its planes are others."""
    with fb.cuda.CudaContext() as context, fb.GpuDelegate("cuda") as delegate:
        interpreter = fb.Interpreter(model_content=chain("EXP", "SOFTMAX"), experimental_delegates=[delegate])
        interpreter.set_allow_buffer_handle_output(True)
        decoder: Any = Decoder(8)
        pictures, tensor = iter(NvdecPictures(decoder, context)), interpreter.inputs()[0]
        kept = [next(pictures).planes for _ in range(3)]

        def launched(picture: fb.YuvPicture) -> Any:
            """The graph that runs for a picture: each has one of its own."""
            delegate.bind_buffer_to_tensor(picture, tensor)
            recorder.calls.clear()
            interpreter.invoke()
            return next(arguments[0] for name, arguments in recorder.calls if name == "cuGraphLaunch")

        graphs = [launched(picture) for picture in (*kept, *kept)]
        assert graphs[:3] == graphs[3:] and len({*graphs}) == 3
        kept[0].planes = kept[1].planes
        assert launched(kept[0]) == graphs[1]


def test_frames_of_another_thread_s_decoder_are_taken_in_order_and_given_back(recorder: RecordingDriver) -> None:
    recorder.flags = 1
    with fb.cuda.CudaContext(independent=True) as context:
        queue, decoder, other = FrameQueue[PlanesSlot](drop=True), Decoder(9), Decoder(2)
        feed = PlanesFeed(queue, context, 0)

        def decode(source: Any) -> None:
            """The decoding thread's part for one frame."""
            place = queue.fill()
            assert place is not None
            place[1].put(next(source), owners[source])
            queue.filled(place[0], 0.0, None)

        first, second = decoder.frames(), other.frames()
        owners: dict[Any, Any] = {first: decoder, second: other}
        recorder.calls.clear()
        decode(first)
        picture = take(feed, queue)
        assert picture.planes[0].pointer == decoder.memory[0].pointer
        events = [given for name, given in recorder.calls if name in ("cuEventRecord", "cuStreamWaitEvent")]
        (event, legacy), (stream, waited, _) = events
        assert (legacy, stream, waited) == (1, context.stream, event), "for its own frame, on its own stream"
        for _ in range(7):
            decode(first)
        assert decoder.alive <= 1 + 3, "those that nobody took are dropped"
        take(feed, queue)
        decode(second)
        after = take(feed, queue)
        assert after.planes[0].pointer == other.memory[0].pointer, "a new connection has surfaces of its own"
        with pytest.raises(fb.BindingError, match="released"):
            picture.planes[0].pointer  # noqa: B018
        first.close()
        second.close()
        feed.release()
        assert decoder.alive == other.alive == 0


def take(feed: PlanesFeed, queue: FrameQueue[PlanesSlot]) -> fb.YuvPicture:
    number = queue.take(0.0)
    assert number is not None and number >= 0
    return feed.take(number, mirror=False).planes


def test_pictures_are_polled_from_all_kinds_of_sources(tmp_path: Path, live_server: LiveServer) -> None:
    clip = write_clip(tmp_path / "clip.mp4", frames=3)
    write_clip(tmp_path / "live.ts", frames=40, options={"bf": "0", "g": "10"})
    live_server.data, live_server.stalls = (tmp_path / "live.ts").read_bytes(), True
    for source, count in ((str(clip), 3), (live_server.address, 1)):
        with fb.open_source(source) as opened:
            seen = [(each.format, opened.decoder) for each in polled(opened, count)]
            assert seen == [("yuv420p", "cpu")] * count
            live_server.stalls = False
    with fb.open_source("synthetic", size=(64, 48)) as opened:
        (picture,) = polled(opened, 1)
        assert (picture.format, picture.matrix, picture.width, picture.height) == ("yuv444p", "bt709", 64, 48)


def polled(source: fb.video.Source, count: int) -> Iterator[fb.YuvPicture]:
    """The next pictures of a source, as many as are asked for or until its end."""
    source.ready, frames = threading.Event(), source.frames(wait=False)
    while count and not source.ended:
        source.ready.clear()
        frame = next(frames, None)
        if frame is not None:
            yield frame.planes
            count -= 1
        elif not source.ended:
            assert source.ready.wait(10)


def test_a_camera_s_luma_and_chroma_stay_as_they_are(webcam: Webcam) -> None:
    given = np.random.default_rng(0).integers(16, 236, (SIZE[1], SIZE[0], 2), np.uint8)
    webcam.formats, webcam.frame = ("YUYV",), lambda number: given
    with fb.open_source(0, fourcc="YUYV", matrix="bt709") as source:
        (picture,) = polled(source, 1)
        assert (picture.format, picture.matrix, picture.range) == ("yuv422p", "bt709", "limited")
        for plane, expected in zip(picture.planes, (given[..., 0], given[:, ::2, 1], given[:, 1::2, 1]), strict=True):
            rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
            np.testing.assert_array_equal(rows[:, : plane.width], expected)


def test_the_cpu_decodes_what_nvdec_does_not_and_says_so(
    recorder: RecordingDriver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_clip(tmp_path / "clip.mp4", pixel_format="yuv444p", frames=2)
    with fb.cuda.CudaContext():
        with caplog.at_level(logging.WARNING, "framebind"), fb.open_source(path) as source:
            assert source.decoder == "cpu"
        (said,) = caplog.messages
        assert f"the CPU decodes: video '{path}', h264 of yuv444p, 64x48, is not decoded by NVDEC: " in said
        with pytest.raises(fb.SourceError, match="h264 of yuv444p, 64x48, is not decoded by NVDEC"):
            fb.open_source(path, decoder="nvdec")
        caplog.clear()
        with fb.open_source(path, decoder="cpu") as source:
            assert source.decoder == "cpu" and not caplog.messages


@pytest.mark.parametrize("damaged", [(), (3, 9)])
def test_h264_that_comes_two_frames_late_is_the_same(tmp_path: Path, damaged: tuple[int, ...]) -> None:
    """The option that lets NVDEC decode ahead, in FFmpeg's own decoder: both share what orders the frames."""
    path = write_clip(tmp_path / "clip.mp4", frames=12, options={"preset": "ultrafast"})

    def decoded(options: dict[str, str]) -> list[tuple[int, int, bytes]]:
        """Each frame's time and planes, and the number of the packet after which it came."""
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count, stream.codec_context.options = 1, options
            packets = [packet for number, packet in enumerate(container.demux(stream)) if number not in damaged]
            return [
                (number, frame.pts or 0, frame.to_ndarray().tobytes())
                for number, packet in enumerate(packets) for frame in packet.decode()
            ]  # fmt: skip

    at_once, late = decoded({}), decoded(accelerated_options("h264", live=False))
    assert [frame[1:] for frame in late] == [frame[1:] for frame in at_once]
    assert (at_once[0][0], late[0][0]) == (0, 2)
    assert accelerated_options("h264", live=True) == accelerated_options("hevc", live=False)


def test_errors_of_decoders(tmp_path: Path, webcam: Webcam) -> None:
    path = write_clip(tmp_path / "clip.mp4", frames=2)
    with pytest.raises(fb.SourceError, match="no CudaContext is current on this thread"):
        fb.open_source(path, decoder="nvdec")
    with pytest.raises(fb.SourceError, match="'synthetic' has no choice of decoders"):
        fb.open_source("synthetic", decoder="cpu")
    wrong: Any = "quick"
    with pytest.raises(fb.SourceError, match="it is one of nvdec, cpu"):
        fb.open_source(path, decoder=wrong)
    with fb.open_source(0) as source:
        assert next(source.frames()).planes.format == "yuv444p", "live sources are waited for"


def test_the_cpus_pictures_are_what_textures_are(context: fb.GlContext, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", pixel_format="yuv444p", size=(66, 38), frames=4)
    turn_track(path, 90)
    check_pictures(context, path, rotation=270, shades=1)


def test_pictures_of_rgb_are_made_by_swscale_and_rounded_twice(context: fb.GlContext, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mov", "qtrle", "rgb24", size=(38, 66), frames=4)
    check_pictures(context, path, rotation=0, shades=2)


def check_pictures(context: fb.GlContext, path: Path, *, rotation: int, shades: int) -> None:
    """Compare what a model makes of planes and of textures, to so many of 256 shades: of all, and of a part."""
    part = (7.0, 11.0, 20.0, 31.0)
    for place in ({}, {"crop": part}, {"crop": part, "rotation": 90.0}):
        check_place(context, path, place, rotation=rotation, shades=shades)


def check_place(context: fb.GlContext, path: Path, place: dict[str, Any], *, rotation: int, shades: int) -> None:
    with fb.GpuDelegate("opengl") as delegate:
        interpreter = fb.Interpreter(model_content=chain("EXP"), experimental_delegates=[delegate])
        tensor, output = interpreter.inputs()[0], interpreter.outputs()[0]

        def logarithms(frame: fb.Frame) -> np.ndarray:
            delegate.bind_buffer_to_tensor(frame, tensor, **place)
            interpreter.invoke()
            return np.log(interpreter.get_tensor(output))

        with fb.open_source(path, start=0.04) as source:
            expected = [logarithms(frame) for frame in source.frames(context)]
        times, uploaded, padded = list[float | None](), set[int](), 0
        with fb.open_source(path, start=0.04) as source:
            assert (source.decoder, source.rotation, source.size) == ("cpu", rotation, (38, 66))
            for frame, right in zip(source.frames("cpu"), expected, strict=True):
                assert (frame.size, frame.rotation) == ((38, 66), rotation)
                fb.transfers.reset()
                # Chroma is sampled bilinearly, a texture's was not: parts of pixels differ a little.
                np.testing.assert_allclose(logarithms(frame), right, atol=(shades + 0.01) / 255)
                times.append(frame.time)
                uploaded.add(sum(hop.bytes for (way, _), hop in fb.transfers.by_reason.items() if way == "upload"))
                padded = sum(plane.height * plane.line_size for plane in frame.planes.planes)
    assert times == pytest.approx([0.04, 0.08, 0.12])
    assert len(uploaded) == 1 and 0 < uploaded.pop() <= padded


@pytest.mark.parametrize("on", ["gl", "cpu", None])
def test_frames_come_without_waiting(on: Any, context: fb.GlContext, tmp_path: Path) -> None:
    """Each frame once and in order, None between them, and then the end."""
    path, place = write_clip(tmp_path / "clip.mp4", frames=6), context if on == "gl" else on
    with fb.open_source(path) as source:
        source.ready, times = threading.Event(), list[float | None]()
        for frame in source.frames(place, wait=False):
            if frame is None:
                assert source.ready.wait(10) and not source.ended
                source.ready.clear()
            else:
                times.append(frame.time)
                assert (frame.time, frame.captured) == (source.time, source.captured)
        assert source.ended and times == pytest.approx([number / 25 for number in range(6)])
        with pytest.raises(fb.SourceError, match="was read already"):
            next(source.frames(place))


def test_a_frame_says_what_it_has(context: fb.GlContext) -> None:
    texture = fb.Frame(fb.GlTexture(4, 2))
    luma, chroma = np.zeros((48, 64), np.uint8), np.zeros((24, 32, 2), np.uint8)
    planes = fb.Frame(fb.YuvPicture([luma, chroma]), rotation=90)
    assert (planes.size, planes.colours) == ((48, 64), planes.planes.colours) and texture.colours is None
    assert repr(planes) == "<Frame: 48x64, nv12, bt709, limited range, turned by 90>"
    assert repr(texture) == "<Frame: 4x2, rgba8>"
    with pytest.raises(fb.BindingError, match=r"rgba8> has no planes: source.frames\(\)"):
        texture.planes  # noqa: B018
    with pytest.raises(fb.BindingError, match=r"turned by 90> has no texture: source.frames\(context\)"):
        planes.texture  # noqa: B018


def test_a_list_of_frames_is_bound_upright(context: fb.GlContext) -> None:
    """Two frames of a batch, of which one is stored on its side."""
    rows = np.arange(20 * 3, dtype=np.uint8).reshape(4, 5, 3) * 4
    upright = np.dstack([rows, np.full((4, 5), 255, np.uint8)])
    stood = fb.Frame(fb.GlTexture.from_array(upright))
    laid = fb.Frame(fb.GlTexture.from_array(np.ascontiguousarray(np.rot90(upright, -1))), rotation=90)
    assert laid.size == stood.size == (5, 4)
    places: list[dict[str, Any]] = [{}, {"crop": [(1.0, 0.5, 3.0, 2.0), None]}, {"rotation": [90.0, 0.0]}]
    for place in places:
        results = list[np.ndarray]()
        for frames in ([stood, stood], [laid, stood], [stood, laid]):
            with fb.GpuDelegate("opengl") as delegate:
                interpreter = fb.Interpreter(model_content=chain("EXP"), experimental_delegates=[delegate])
                interpreter.resize_tensor_input(interpreter.inputs()[0], [2, 4, 5, 3])
                interpreter.allocate_tensors()
                delegate.bind_buffer_to_tensor(frames, interpreter.inputs()[0], **place)
                interpreter.invoke()
                results.append(interpreter.get_tensor(interpreter.outputs()[0]).copy())
        for result in results[1:]:
            np.testing.assert_allclose(result, results[0], rtol=1e-5)


def test_old_names_of_frames_work_with_a_warning(context: fb.GlContext, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", frames=3)
    with fb.open_source(path) as source, pytest.warns(DeprecationWarning, match="textures.* use frames") as warned:
        assert [texture.size for texture in source.textures(context)] == [(64, 48)] * 3
    assert warned[0].filename == __file__
    with fb.open_source(path) as source, pytest.warns(DeprecationWarning, match="pictures.* use frames"):
        assert [picture.format for picture in source.pictures()] == ["yuv420p"] * 3
    for poll in (lambda source: source.poll(context), lambda source: source.poll_picture()):
        with fb.open_source(path) as source, pytest.warns(DeprecationWarning, match="poll.* use frames"):
            count = 0
            while not source.ended:
                count += poll(source) is not None
            assert count == 3
    source = fb.open_source(path)
    with pytest.warns(DeprecationWarning, match=r"stop.* use close"):
        source.stop()
