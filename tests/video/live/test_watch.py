"""``watch``: several sources on one context with shared networks, rows, figures, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import app
from framebind.interop.frames.read.worker import Waits
from framebind.tools.common.console import make_console
from framebind.tools.displays.streams import as_display, as_line
from framebind.video.apis import GL
from framebind.video.live.figures import Latencies
from framebind.video.live.pictures import WEB_PICTURE, WIDEST
from framebind.video.live.planes import PlanesView, PlanesViewer, tint
from framebind.video.live.stream import name_of, names_of
from framebind.video.live.textures import TexturesViewer
from framebind.video.live.watcher import Watcher
from framebind.video.model_options import ModelOptions
from framebind.video.vision.palette import palette
from framebind.video.work import Work
from support.demo_models import brightness
from support.environment import ROOT
from support.recording_driver import RecordingDriver
from support.tiny_models import chain
from support.video.clips import turn_track, write_clip
from support.video.live_server import LiveServer
from support.webcam import Webcam

COLOURS = {"red": (0, 0, 255), "green": (0, 255, 0), "blue": (255, 0, 0)}


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A classifier of one pixel: class 0 is red, 1 green, 2 blue."""
    path = tmp_path / "colours.tflite"
    path.write_bytes(chain("SOFTMAX", shape=(1, 1, 1, 3)))
    return str(path)


def pictures(folder: Path, colour: str, count: int = 3, size: tuple[int, int] = (8, 6)) -> str:
    """A folder of pictures of one colour."""
    place = folder / colour
    place.mkdir()
    for number in range(count):
        plain = np.full((size[1], size[0], 3), COLOURS[colour], np.uint8)
        (place / f"{number}.png").write_bytes(cv2.imencode(".png", plain)[1].tobytes())
    return str(place)


def watcher_of(context: fb.GlContext, model: str, *addresses: str) -> Watcher:
    work = Work("classify", model, save=(), options=ModelOptions())
    return Watcher(TexturesViewer(context, work), addresses, fb.video.StreamOptions(seconds=0.0, stall=0.3))


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_streams_share_a_network_and_keep_their_results_apart(
    context: fb.GlContext, tmp_path: Path, model: str
) -> None:
    addresses = [pictures(tmp_path, "red"), pictures(tmp_path, "green"), pictures(tmp_path, "blue", size=(20, 10))]
    watcher, file = watcher_of(context, model, *addresses), tmp_path / "found.jsonl"
    file.write_text('{"source": "before"}\n')
    watcher.run(file, lambda: None)
    before, *rows = rows_of(file)
    assert before == {"source": "before"}, "rows are added"
    best = [(row["source"], row["frame"], row["class"]) for row in rows if row["score"] > 0.5]
    assert sorted(best) == [
        (name, frame, f"class {number}") for number, name in ((2, "blue"), (1, "green"), (0, "red"))
        for frame in range(3)
    ]  # fmt: skip
    assert all(row["latency"] > 0 and row["at"].endswith("+00:00") for row in rows)
    viewer = watcher.viewer
    assert isinstance(viewer, TexturesViewer) and len(viewer.networks) == 1
    assert [stream.state for stream in watcher.streams] == ["ended"] * 3
    assert ("download", WEB_PICTURE) not in fb.transfers.by_reason, "nobody looked"


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_streams_whose_frames_are_bound_share_a_model(context: fb.GlContext, tmp_path: Path, model: str) -> None:
    """OpenGL takes CUDA's place: no picture is drawn, and one is read only for who looks."""
    clip = write_clip(tmp_path / "clip.mp4", frames=2)
    turn_track(clip, 90)
    addresses = [pictures(tmp_path, "red"), pictures(tmp_path, "blue", size=(20, 10)), str(clip)]
    viewer = PlanesViewer(context, Work("classify", model, save=(), options=ModelOptions()), api=GL)
    watcher, file = Watcher(viewer, addresses, fb.video.StreamOptions()), tmp_path / "found.jsonl"
    fb.transfers.reset()
    with contextlib.closing(viewer.model), watcher.pictures[2].looking():
        watcher.run(file, lambda: None)
    best = {(row["source"], row["frame"], row["class"]) for row in rows_of(file) if row["score"] > 0.5}
    assert best >= {
        (name, frame, f"class {number}") for number, name in ((2, "blue"), (0, "red")) for frame in range(3)
    }
    assert [(stream.state, stream.latencies.count) for stream in watcher.streams] == [("ended", 3)] * 2 + [("ended", 2)]
    assert [each["decoder"] for each in watcher.figures()] == ["", "", "cpu"]
    found = watcher.pictures[2].next_jpeg(0, 0.0)
    assert found is not None and ("download", WEB_PICTURE) not in fb.transfers.by_reason, "they are the CPU's"
    assert cv2.imdecode(np.frombuffer(found[1], np.uint8), cv2.IMREAD_COLOR).shape == (64, 48, 3), "upright"
    with av.open(str(clip)) as container:
        *_, last = container.decode(video=0)
    view = watcher.streams[2].view
    assert isinstance(view, PlanesView)
    changed = (view.pixels() != read_rgba(fb.YuvPicture.from_frame(last), 270)).any(-1)
    assert changed[5:40, 6:40].mean() > 0.9 and not changed[56:].any(), "the ground of the classes and their shares"


def read_rgba(picture: fb.YuvPicture, rotation: int) -> npt.NDArray[np.uint8]:
    return fb.Frame(picture, rotation=rotation).read_rgba(WIDEST, reason=WEB_PICTURE)


def test_a_picture_for_the_page_is_upright_and_in_its_colours() -> None:
    stored = np.zeros((48, 64, 3), np.uint8)
    stored[:24, :32] = 255, 0, 0
    frame = av.VideoFrame.from_ndarray(stored, format="rgb24").reformat(format="yuv420p", dst_colorspace=5)
    frame.colorspace = 5
    seen = read_rgba(fb.YuvPicture.from_frame(frame), 90)
    assert seen.shape == (64, 48, 4)
    upright = np.rot90(stored)
    assert np.abs(seen[4::8, 4::8, :3].astype(int) - upright[4::8, 4::8]).max() <= 6


def test_planes_of_a_gpu_are_read_for_the_page_and_counted(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        memory = fb.cuda.CudaArray.from_array(np.full(16 * 12, 128, np.uint8))
        pitched = [
            fb.cuda.CudaArray(memory.pointer + at, shape, np.uint8, device=0, strides=(16, shape[2], 1), keep=memory)
            for at, shape in ((0, (8, 12, 1)), (16 * 8, (4, 6, 2)))
        ]
        fb.transfers.reset()
        picture = fb.YuvPicture(pitched, matrix="bt601", range="full", width=12, height=8)
        assert (read_rgba(picture, 0) == (128, 128, 128, 255)).all()
    (copies,) = fb.transfers.by_reason.values()
    assert (copies.calls, copies.bytes) == (2, 16 * 7 + 12 + 16 * 3 + 12)
    assert fb.transfers.by_reason.keys() == {("download", WEB_PICTURE)}


def test_a_mask_tints_the_picture_where_it_is() -> None:
    pixels, mask = np.full((4, 6, 4), 100, np.uint8), np.zeros((4, 6, 4), np.uint8)
    mask[:, 3:] = 0, 200, 0, 255
    tint(pixels, mask)
    assert (pixels[:, :3] == 100).all() and (pixels[:, 3:] == (50, 150, 50, 100)).all()


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_mask_is_made_at_the_size_of_the_page_s_picture(context: fb.GlContext, tmp_path: Path) -> None:
    (model := tmp_path / "bright.tflite").write_bytes(brightness(21, 0.5))
    half = np.zeros((108, 2 * WIDEST, 3), np.uint8)
    half[:, WIDEST:] = 255
    cv2.imwrite(str(tmp_path / "half.png"), half)
    viewer = PlanesViewer(context, Work("segment", str(model), save=(), options=ModelOptions()), api=GL)
    with contextlib.closing(viewer.model), viewer.open(str(tmp_path / "half.png"), fb.video.StreamOptions()) as source:
        view = viewer.view(source, "half")
        frame = next(frame for frame in viewer.frames(source) if frame is not None)
        view.find(frame)
        view.pixels()  # loads the font
        tracemalloc.start()
        pixels = view.pixels()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert pixels.shape == (54, WIDEST, 4)
    assert most < half[..., :1].size * 4, "no mask of the frame's size is among it"
    color = 255 * np.array(palette(21)[15])
    assert np.abs(pixels[30:, WIDEST // 2 + 20 :, :3] - (255 + color) / 2).max() <= 2
    assert pixels[30:, : WIDEST // 2 - 20, :3].max() <= 2


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_networks_of_any_size_are_shared_by_size(context: fb.GlContext, tmp_path: Path) -> None:
    sizes = {"red": (8, 6), "green": (8, 6), "blue": (6, 8)}
    addresses = [pictures(tmp_path, colour, size=size) for colour, size in sizes.items()]
    work = Work("style", save=(), options=ModelOptions())
    viewer = TexturesViewer(context, work)
    watcher = Watcher(viewer, addresses, fb.video.StreamOptions())
    watcher.run(None, lambda: None)
    assert [stream.state for stream in watcher.streams] == ["ended"] * 3
    assert len(viewer.networks) == 2, "one for wide pictures, one for high ones"
    network = viewer.networks.for_stream(work.model_name, "")
    assert list(network.inputs.values()) == [(1, 384, 384, 3)], "the file's, whatever other streams made of it"


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_one_stream_fails_and_the_others_go_on(
    context: fb.GlContext, tmp_path: Path, model: str, live_server: LiveServer
) -> None:
    live_server.is_there = False
    watcher = watcher_of(context, model, live_server.address, str(tmp_path / "missing"), pictures(tmp_path, "red"))
    watcher.run(None, lambda: None)
    figures = watcher.figures()
    assert [each["state"] for each in figures] == ["failed", "failed", "ended"]
    assert "404 Not Found" in figures[0]["status"] and "there is no file or folder" in figures[1]["status"]
    assert figures[2]["results"] == 3 and figures[2]["latency_median"] > 0


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_pictures_are_read_back_while_somebody_looks(context: fb.GlContext, tmp_path: Path, model: str) -> None:
    watcher = watcher_of(context, model, pictures(tmp_path, "green"))
    fb.transfers.reset()
    with watcher.pictures[0].looking():
        watcher.run(None, lambda: None)
    found = watcher.pictures[0].next_jpeg(0, 0.0)
    assert found is not None and watcher.pictures[0].next_jpeg(found[0], 0.0) is None
    decoded = cv2.imdecode(np.frombuffer(found[1], np.uint8), cv2.IMREAD_COLOR)
    assert decoded.shape == (6, 8, 3)
    copies = fb.transfers.by_reason["download", WEB_PICTURE]
    assert copies.bytes == copies.calls * 8 * 6 * 4 and copies.calls <= 3


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_who_looks_when_a_stream_is_over_sees_its_last_picture(
    context: fb.GlContext, tmp_path: Path, model: str
) -> None:
    watcher, found = watcher_of(context, model, pictures(tmp_path, "green"), "synthetic"), list[bytes]()

    def look() -> None:
        over, live = watcher.snapshots()
        assert (over.since is None) == (over.state == "live" or not over.results) and live.since is None
        if over.state == "ended" and (made := watcher.pictures[0].next_jpeg(0, 0.0)) is not None:
            found.append(made[1])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watcher.run(None, look, every=0.02)
    last = cv2.imdecode(np.frombuffer(found[0], np.uint8), cv2.IMREAD_COLOR)
    assert last is not None and last[0, -1].argmax() == 1, "green"


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_camera_that_was_given_up_is_opened_again(context: fb.GlContext, model: str, webcam: Webcam) -> None:
    webcam.delay = 0.01
    work = Work("classify", model, save=(), options=ModelOptions())
    watcher = Watcher(TexturesViewer(context, work), ["0"], fb.video.StreamOptions(seconds=None))
    (stream,) = watcher.streams
    counts = list[int]()

    def look() -> None:
        if stream.source is not None and stream.latencies.count and not counts:
            webcam.delay = 0.5
            stream.source.waits = Waits(silence=0.0, lost=0.05)
            counts.append(stream.latencies.count)
        elif stream.state == "opening":
            webcam.delay = 0.01
        elif counts and webcam.opened > 1 and stream.latencies.count > counts[0] + 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watcher.run(None, look, every=0.01)
    assert stream.state == "live" and webcam.opened == 2


def test_figures_look_back_a_few_seconds_and_stay_small() -> None:
    latencies = Latencies()
    assert latencies.quantile(0.5) is None and latencies.rate() == 0
    for number in range(5000):
        latencies.add(1e9, number % 100 / 1000)
    assert latencies.count == 5000
    assert (latencies.quantile(0.5), latencies.quantile(0.95)) == (50.0, 95.0)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_no_output_has_a_secret(
    context: fb.GlContext,
    tmp_path: Path,
    model: str,
    live_server: LiveServer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    live_server.data = write_clip(tmp_path / "a.ts", size=(64, 48), frames=6, options={"bf": "0"}).read_bytes()
    there = live_server.address.replace("://", "://me:S3CRET@") + "?token=S3CRET"
    addresses = [there, there.replace("live.ts", "x"), "rtmp://127.0.0.1:1/live/S3CRET", "http://[S3CRET@127.0.0.1/"]
    watcher = watcher_of(context, model, *addresses)
    said = list[Any]()

    def look() -> None:
        snapshots = [stream.snapshot() for stream in watcher.streams]
        said.extend([watcher.figures(), *map(as_line, snapshots), [thread.name for thread in threading.enumerate()]])
        make_console(stderr=True).print(as_display(snapshots, 200, 50))
        if watcher.streams[0].latencies.count:
            live_server.is_there = False

    with caplog.at_level("DEBUG"):
        watcher.run(tmp_path / "found.jsonl", look, every=0.05)
    assert rows_of(tmp_path / "found.jsonl") and all(each["status"] for each in watcher.figures()[1:])
    written = (tmp_path / "found.jsonl").read_text()
    assert "S3CRET" not in "".join([json.dumps(said), written, *caplog.messages, *capfd.readouterr()])


def test_names_have_no_secrets() -> None:
    assert name_of("rtsp://me:secret@10.0.0.2:554/door?token=1") == "rtsp://10.0.0.2:554/door"
    assert (name_of("0"), name_of("/home/me/clip.mp4"), name_of("srt://[::1")) == ("camera 0", "clip.mp4", "srt://***")
    recorder = [f"rtsp://10.0.0.2/live?channel={number}" for number in range(2)]
    assert names_of([*recorder, "a/b.mp4"]) == ["rtsp://10.0.0.2/live", "rtsp://10.0.0.2/live (2)", "b.mp4"]


def words(output: str) -> str:
    return " ".join(output.translate(dict.fromkeys(map(ord, "│╭╮╰╯─"), " ")).split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gopher://here"], "addresses begin with one of http"),
        (["udp://127.0.0.1:9"], "not 'udp' (--allow)"),
        (["0", "--allow", "file"], "'file' is no scheme of streams"),
        (["0", "--web", "8080x"], "is no [HOST:]PORT"),
        (["0", "--task", "raw", "--model", "x"], "raw outputs are for"),
        (["0", "--task", "paint"], "task 'paint' is none of"),
        (["0", "--all"], "the file of --jsonl"),
        (["0", "--embed", "http://localhost:3000"], "no page without --web"),
        (["0", "--web", "0", "--embed", "localhost; script-src *"], "is no site"),
        (["0", "--task", "style", "--record", "found"], "finds nothing that could be recorded"),
        (["0", "--record", "found", "--record-space", "0"], "--record-space"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["watch", *arguments])
    assert result.exit_code == 2 and said in words(result.output)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_signal_ends_it_in_good_order(tmp_path: Path, model: str) -> None:
    file = tmp_path / "found.jsonl"
    command = [
        sys.executable, "-m", "framebind", "watch", "synthetic", "--task", "classify", "--model", model,
        "--jsonl", str(file), "--web", "0",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=os.environ) as program:
        assert program.stderr is not None
        said = program.stderr.readline()
        ended = threading.Timer(60, program.kill)
        ended.start()
        while not (file.is_file() and file.stat().st_size):
            assert program.poll() is None
            threading.Event().wait(0.05)
        program.send_signal(signal.SIGTERM)
        rest = program.stderr.read()
        ended.cancel()
    assert said.startswith("the page is at http://127.0.0.1:")
    assert program.returncode == 0 and "synthetic: live," in rest and "Traceback" not in rest
    assert all(row["source"] == "synthetic" for row in rows_of(file)), "the last line is complete"


def test_the_package_has_the_page() -> None:
    assert {path.name for path in (ROOT / "video" / "live").glob("page.*")} == {"page.html", "page.js", "page.css"}
