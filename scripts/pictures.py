"""Makes the pictures of README and documentation anew: ``python scripts/pictures.py [NAME ...]``.

The names are those of ``PICTURES``.

The demos make them from photographs of the package and of scikit-image. ``demos`` and ``watching`` need the models that
are not in the package, ``window`` and ``programs`` Xvfb, ``window`` xdotool too, ``watching`` and ``browser`` Chromium.
"""

from __future__ import annotations

import io
import json
import re
import runpy
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np

import framebind as fb
from framebind.tools.commands.camera import GREEN
from framebind.tools.player.hud import with_bar
from framebind.video.assets import PHOTOGRAPH
from framebind.video.tasks.style import STYLES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
QUALITY = [cv2.IMWRITE_JPEG_QUALITY, 88]


def demo(folder: Path, name: str, *options: str) -> cv2.typing.MatLike:
    """A demo's picture of the photograph."""
    output = folder / "picture.png"
    source = ("--source", str(PHOTOGRAPH), "--frames", "1", "--output", str(output))
    subprocess.run([sys.executable, "-m", "framebind", "demo", name, *source, *options], check=True)
    return read(output)


def read(path: Path) -> cv2.typing.MatLike:
    picture = cv2.imread(str(path))
    if picture is None:
        sys.exit(f"{path} is no picture")
    return picture


def tutorial(folder: Path) -> None:
    """The picture of the tutorial: the photograph, painted by the bundled model, in the size of a webcam's."""
    painted = demo(folder, "style_transfer")
    height, width = painted.shape[:2]
    cut = painted[: width * 3 // 4] if height > width * 3 // 4 else painted
    cv2.imwrite(str(DOCS / "tutorial.jpg"), cv2.resize(cut, (480, 360), interpolation=cv2.INTER_AREA), QUALITY)


def demos(folder: Path) -> None:
    """Eight pictures: the photograph, two styles, DeepLab's classes, the person cut out, a blurred background, a face,
    a face's mesh.
    """
    coffee, rocket = (("--style", str(picture)) for picture in STYLES[:2])
    selfie = ("--model", "selfie_segmentation", "--effect")
    made = [
        read(PHOTOGRAPH), demo(folder, "style_transfer", *coffee), demo(folder, "style_transfer", *rocket),
        demo(folder, "segmentation"), demo(folder, "segmentation", *selfie, "cutout"),
        demo(folder, "segmentation", *selfie, "blur"), demo(folder, "detection"), demo(folder, "face"),
    ]  # fmt: skip
    small = [cv2.resize(picture, (288, 288), interpolation=cv2.INTER_AREA) for picture in made]
    cv2.imwrite(str(DOCS / "demos.jpg"), np.vstack([np.hstack(small[:4]), np.hstack(small[4:])]), QUALITY)


def camera(folder: Path) -> None:
    """Pictures that programs get of the command ``camera``: a style, a blurred background, another one, and green."""

    selfie = ("--model", "selfie_segmentation", "--effect")
    made = [
        demo(folder, "style_transfer"), demo(folder, "segmentation", *selfie, "blur"),
        demo(folder, "segmentation", *selfie, "cutout", "--background", str(STYLES[0])),
        demo(folder, "segmentation", *selfie, "cutout", "--background", GREEN),
    ]  # fmt: skip
    small = [cv2.resize(picture, (288, 288), interpolation=cv2.INTER_AREA) for picture in made]
    cv2.imwrite(str(DOCS / "camera.jpg"), np.hstack(small), QUALITY)


def window(folder: Path) -> None:
    """A demo's window with its figures and keys, half a minute after the first frame, on a virtual screen.

    The demo is one that a software GPU draws many times per second. Other work on the machine shows in the figures.
    """
    screen = runpy.run_path(str(ROOT / "tests" / "support" / "screen.py"))["Screen"]
    command = (sys.executable, "-m", "framebind", "demo", "segmentation", "--model", "selfie_segmentation")
    width, height = with_bar((640, 480))
    with screen(folder) as shown, shown.run(*command, "--size", "640x480", cwd=folder) as program:
        program.until(lambda: shown.picture()[:400, :600].std() > 20, "picture")
        program.press("h", "2")
        time.sleep(30)
        picture = shown.picture()[:height, :width]
    cv2.imwrite(str(DOCS / "window.jpg"), np.ascontiguousarray(picture[:, :, ::-1]), QUALITY)


def programs(folder: Path) -> None:
    """The window of each program of demos/hosts, each with another photograph, on a virtual screen."""
    screen = runpy.run_path(str(ROOT / "tests" / "support" / "screen.py"))["Screen"]
    photographs = [PHOTOGRAPH, *(STYLES[number] for number in (6, 0, 1))]  # a person, a cat, a cup, a rocket
    picture, shown = folder / "frame0.png", folder / "shown.png"
    for number, path in enumerate(sorted((ROOT / "demos" / "hosts").glob("[!_]*.py"))):
        photograph = PHOTOGRAPH if path.stem == "drawing" else photographs[number % len(photographs)]
        cv2.imwrite(str(picture), cv2.resize(read(photograph), (480, 320), interpolation=cv2.INTER_AREA))
        source = ("--source", folder / "frame%d.png") if path.stem == "with_opencv" else ("--picture", picture)
        command = [sys.executable, path, *source, "--frames", "1", "--output", shown]
        with screen(folder) as server:
            subprocess.run(list(map(str, command)), cwd=folder, env=server.environment, check=True)
        scale = 480 if path.stem == "drawing" else 240
        small = read(shown)
        size = scale, scale * small.shape[0] // small.shape[1]
        cv2.imwrite(
            str(DOCS / "programs" / f"{path.stem}.jpg"), cv2.resize(small, size, interpolation=cv2.INTER_AREA), QUALITY
        )


def watching(folder: Path) -> None:
    """The page of ``watch`` on a desktop and on a phone: two photographs that move, and one that no longer comes."""
    support = ROOT / "tests" / "support"
    browser = runpy.run_path(str(support / "browser.py"))["Browser"]
    server = runpy.run_path(str(support / "video" / "live_server.py"))["LiveServer"]()
    server.data, server.stalls = _transport_stream(read(PHOTOGRAPH)), True
    streams = (f"synthetic:{PHOTOGRAPH}", server.address, f"synthetic:{STYLES[1]}")
    command = ("watch", *streams, "--task", "detect", "--stall", "2", "--web", "0", "--record", str(folder / "found"))
    watch = subprocess.Popen([sys.executable, "-m", "framebind", *command], stderr=subprocess.PIPE, text=True)
    assert watch.stderr is not None
    address = next(line.split()[-1] for line in watch.stderr if line.startswith("the page is at"))
    while not json.load(urllib.request.urlopen(f"{address}figures.json"))[1]["results"]:
        time.sleep(0.1)
    server.stalls = server.is_there = False
    made = list[cv2.typing.MatLike]()
    with browser("chromium", folder) as shown:
        for size in ((900, 800), (390, 800)):
            shown.open(address, size)
            shown.until(lambda: shown.value("document.querySelectorAll('.lost').length") == 1, "a lost stream")
            time.sleep(5)
            (folder / "page.png").write_bytes(shown.picture())
            made.append(read(folder / "page.png"))
    watch.terminate()
    watch.wait()
    server.close()
    gap = np.full((800, 24, 3), 255, np.uint8)
    cv2.imwrite(str(DOCS / "watching.jpg"), np.hstack([made[0], gap, made[1]]), QUALITY)


def browser(folder: Path) -> None:
    """The page of ``camera --to http://`` in Chromium: the photograph in a style, by WebRTC."""
    chromium = runpy.run_path(str(ROOT / "tests" / "support" / "browser.py"))["Browser"]
    command = ("camera", "--effect", "style", str(PHOTOGRAPH), "--to", "http://:8765")
    shows = subprocess.Popen([sys.executable, "-m", "framebind", *command])
    try:
        with chromium("chromium", folder) as page:
            time.sleep(5)
            page.open("http://127.0.0.1:8765/", (480, 480))
            page.until(lambda: page.value("document.getElementById('state')?.textContent") == "WebRTC", "the camera")
            time.sleep(10)
            (folder / "page.png").write_bytes(page.picture())
    finally:
        shows.terminate()
        shows.wait()
    cv2.imwrite(str(DOCS / "browser.jpg"), read(folder / "page.png"), QUALITY)


PAINTER = """
import sys
import framebind as fb
from framebind.video.assets import STYLE_MODEL

with fb.GlContext.headless(), fb.import_texture(sys.argv[1], timeout=60) as imported:
    interpreter = fb.Interpreter(model_path=STYLE_MODEL)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    painted = fb.GlTexture(384, 384)
    delegate.bind_buffer_to_tensor(painted, interpreter.outputs()[0])
    for texture in imported:
        delegate.bind_buffer_to_tensor(texture, interpreter.inputs()[0])
        interpreter.invoke()
    with fb.video.VideoWriter("painted.png") as file:
        file.put(painted)
"""


def processes(folder: Path) -> None:
    """A texture of this process, and what another process made of it, by a model that reads the texture."""
    photograph = cv2.resize(read(PHOTOGRAPH), (384, 384), interpolation=cv2.INTER_AREA)
    with fb.GlContext.headless():
        texture = fb.GlTexture.from_array(np.ascontiguousarray(photograph[:, :, ::-1]))
        with fb.export_texture(texture) as exported:
            command = [sys.executable, "-c", PAINTER, exported.address]
            painter = subprocess.Popen(command, cwd=folder)
            while not exported.publish():
                time.sleep(0.01)
        painter.wait()
    made = [photograph, read(folder / "painted.png")]
    small = [cv2.resize(picture, (288, 288), interpolation=cv2.INTER_AREA) for picture in made]
    gap = np.full((288, 12, 3), 255, np.uint8)
    cv2.imwrite(str(DOCS / "processes.jpg"), np.hstack([small[0], gap, small[1]]), QUALITY)


def _transport_stream(picture: cv2.typing.MatLike) -> bytes:
    """Two seconds of a picture as an MPEG transport stream."""
    file = io.BytesIO()
    with av.open(file, "w", "mpegts") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
        cut = np.asarray(cv2.resize(picture, (640, 640))[40:400], np.uint8)
        for _ in range(50):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(cut, format="bgr24").reformat(format="yuv420p")))
        container.mux(stream.encode())
    return file.getvalue()


def drawing(folder: Path) -> None:
    """The pictures that the code of docs/drawing.md makes of the photograph."""
    cv2.imwrite(str(folder / "photograph.png"), read(PHOTOGRAPH))
    code = re.findall(r"^```python\n(.*?)^```", (DOCS / "drawing.md").read_text(), re.MULTILINE | re.DOTALL)
    subprocess.run([sys.executable, "-c", "\n".join(code)], cwd=folder, check=True)
    for name in ("shader", "overlay"):
        small = cv2.resize(read(folder / f"{name}.png"), (384, 384), interpolation=cv2.INTER_AREA)
        cv2.imwrite(str(DOCS / f"drawing-{name}.jpg"), small, QUALITY)


def glance(_: Path) -> None:
    """Six of the other pictures, one for each kind of user: a webcam, a GL program, MediaPipe, streams, meetings,
    processes.
    """
    mesh = read(DOCS / "demos.jpg")[288:468, 864:1104]
    page = read(DOCS / "watching.jpg")[:, :902]
    meeting = read(DOCS / "camera.jpg")[:, 576:864]
    names = ("window.jpg", "programs/with_moderngl.jpg", mesh, page, meeting, "processes.jpg")
    cells = [_cell(read(DOCS / each) if isinstance(each, str) else each) for each in names]
    cv2.imwrite(str(DOCS / "glance.jpg"), np.vstack([np.hstack(cells[:3]), np.hstack(cells[3:])]), QUALITY)


def _cell(picture: cv2.typing.MatLike) -> cv2.typing.MatLike:
    """The whole picture in the middle of 384 x 288 pixels, white around it."""
    height, width = picture.shape[:2]
    scale = min(376 / width, 280 / height)
    small = cv2.resize(
        picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    )
    cell = np.full((288, 384, 3), 255, np.uint8)
    top, left = (288 - small.shape[0]) // 2, (384 - small.shape[1]) // 2
    cell[top : top + small.shape[0], left : left + small.shape[1]] = small
    return cell


def graph(_: Path) -> None:
    """The operators of the bundled model; no GPU is needed."""
    command = ("inspect", "style_transfer", "--graph", str(DOCS / "graph.svg"))
    subprocess.run([sys.executable, "-m", "framebind", *command], check=True)


PICTURES: dict[str, Callable[[Path], None]] = {
    "tutorial": tutorial, "demos": demos, "window": window, "programs": programs, "drawing": drawing,
    "watching": watching, "graph": graph, "camera": camera, "browser": browser, "processes": processes,
    "glance": glance,
}  # fmt: skip

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        for picture in sys.argv[1:] or PICTURES:
            PICTURES[picture](Path(temporary))
