"""Times a frame of FaceLandmarker or HandLandmarker on pictures in the GPU's memory, and compares it with the CPU.

    python benchmarks/mediapipe_chain.py --bundles FOLDER [--task hands] [--backend cuda] [--frames 300] [--compared 60]

``--bundles`` has face_landmarker.task and hand_landmarker.task. A clip of 1920x1080 is made: framebind's photograph of
one face, or twice that of a hand, moves and turns. On CUDA, NVDEC decodes it, else frames are textures. A time is that
from a decoded frame to its rows in the CPU's memory (of a face 478 landmarks and 52 blendshapes): ``GpuTracker.find``,
and the whole ``detect_for_video``, which makes MediaPipe's objects of them. No copy but that of the rows is allowed.
The first frames are compared with the same task on the CPU, which gets the same frames as RGB.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt

import framebind as fb
from framebind import mp
from framebind.video.apis import BY_NAME
from framebind.video.assets import HAND_PICTURE, PHOTOGRAPH
from framebind.video.mediapipe.core.gpu_picture import gpu_picture

Array = npt.NDArray[Any]
SIZE = 1920, 1080
MILLISECONDS = 33
vision = mp.tasks.vision


def photograph_of(task: str) -> Array:
    """The picture that moves, (height, width, 3): a face, or two hands."""
    if task == "face":
        return np.asarray(cv2.imread(str(PHOTOGRAPH)))[:288]
    hand = np.asarray(cv2.imread(str(HAND_PICTURE)))
    both = np.concatenate([hand, hand[:, ::-1]], axis=1)
    return np.asarray(cv2.resize(both, (512, 288)))


def write_clip(path: Path, photograph: Array, frames: int) -> None:
    """A video of a photograph, which moves and turns."""
    with av.open(str(path), "w") as file:
        stream: Any = file.add_stream("libx264", rate=Fraction(30))
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        for number in range(frames):
            phase = 2 * np.pi * number / 90
            turn = cv2.getRotationMatrix2D((256, 144), 12 * np.sin(phase), 1 + 0.15 * np.sin(phase / 2))
            turn[:, 2] += 30 * np.cos(phase), 12 * np.sin(phase)
            scale = np.diag([SIZE[0] / 512, SIZE[1] / 288])
            picture: Any = cv2.warpAffine(photograph, scale @ turn, SIZE, borderMode=cv2.BORDER_REPLICATE)
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, "bgr24")):
                file.mux(packet)
        for packet in stream.encode():
            file.mux(packet)


def make_task(task: str, bundles: Path) -> Any:
    """The task, which follows one face with blendshapes, or two hands."""
    name = "face_landmarker.task" if task == "face" else "hand_landmarker.task"
    base = mp.tasks.BaseOptions(str(bundles / name), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    if task == "face":
        options: Any = vision.FaceLandmarkerOptions(base, vision.RunningMode.VIDEO, output_face_blendshapes=True)
        return vision.FaceLandmarker.create_from_options(options)
    options = vision.HandLandmarkerOptions(base, vision.RunningMode.VIDEO, num_hands=2)
    return vision.HandLandmarker.create_from_options(options)


def pictures(path: Path, context: Any, backend: str) -> Iterator[Any]:
    """The frames of a clip where the GPU has them."""
    with fb.open_source(str(path)) as source:
        yield from source.frames() if backend == "cuda" else source.frames(context)


def landmarks_of(result: Any) -> list[Array]:
    """The landmarks (n, 2) of each thing, in the order of their x."""
    things = result.face_landmarks if hasattr(result, "face_landmarks") else result.hand_landmarks
    found = [np.array([(one.x, one.y) for one in thing]) for thing in things]
    return sorted(found, key=lambda each: each[:, 0].mean())


def compare(path: Path, make: Callable[[], Any], context: Any, backend: str, frames: int) -> None:
    """Print how far the GPU's landmarks and blendshapes are from those of the CPU on the same frames."""
    distances, shapes, alike = list[float](), [0.0], 0
    diagonal = np.hypot(*SIZE)
    with make() as gpu, make() as cpu:
        for number, frame in enumerate(pictures(path, context, backend), 1):
            if number > frames:
                break
            rgb = np.ascontiguousarray(frame.read_rgba()[..., :3])
            image = mp.Image(image_format=mp.ImageFormat.SRGB, data=rgb)
            ours = gpu.detect_for_video(frame, number * MILLISECONDS)
            theirs = cpu.detect_for_video(image, number * MILLISECONDS)
            found, expected = landmarks_of(ours), landmarks_of(theirs)
            alike += len(found) == len(expected)
            for one, other in zip(found, expected, strict=False):
                distances += (np.hypot(*((one - other) * SIZE).T) / diagonal * 100).tolist()
            if getattr(ours, "face_blendshapes", None) and theirs.face_blendshapes:
                scores = [np.array([one.score for one in each.face_blendshapes[0]]) for each in (ours, theirs)]
                shapes.append(float(np.abs(scores[0] - scores[1]).max()))
    print(
        f"{frames} frames beside the CPU: {alike} with as many things; landmarks in % of the diagonal: p50 "
        f"{np.median(distances):.4f}, p99 {np.percentile(distances, 99):.4f}; blendshapes at most {max(shapes):.4f}"
    )


def measure(path: Path, make: Callable[[], Any], context: Any, backend: str) -> None:
    """Print the times of frames."""
    with make() as whole, make() as task:
        tracker = task._pipeline._tracker_on_gpu(follows=True)
        times: dict[str, list[float]] = {"rows": [], "detect_for_video": []}
        things = number = 0
        for number, frame in enumerate(pictures(path, context, backend), 1):
            milliseconds = number * MILLISECONDS
            fb.transfers.reset()
            start = time.perf_counter()
            things += len(tracker.find(gpu_picture(frame), milliseconds))
            middle = time.perf_counter()
            copied = fb.transfers.bytes_except("detections")
            whole.detect_for_video(frame, milliseconds)
            if number > 10:
                assert not copied, "only the rows are copied"
                times["rows"].append((middle - start) * 1000)
                times["detect_for_video"].append((time.perf_counter() - middle) * 1000)
        tracker.close()
    print(f"{things / max(number, 1):.2f} things in a frame")
    for name, values in times.items():
        print(f"{name}: {len(values)} frames, ms p50 {np.median(values):.3f}, p95 {np.percentile(values, 95):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=Path, required=True)
    parser.add_argument("--task", choices=("face", "hands"), default="face")
    parser.add_argument("--backend", choices=("cuda", "gl"), default="cuda")
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--compared", type=int, default=60)
    given = parser.parse_args()
    api, make = BY_NAME[given.backend], partial(make_task, given.task, given.bundles)
    with tempfile.TemporaryDirectory() as folder, api.open_context() as context:
        path = Path(folder) / "clip.mp4"
        write_clip(path, photograph_of(given.task), given.frames)
        print(api.title, given.task, *SIZE)
        compare(path, make, context, given.backend, given.compared)
        measure(path, make, context, given.backend)


if __name__ == "__main__":
    main()
