"""Times a frame of ``FaceLandmarker`` on pictures in the GPU's memory, and compares it with the CPU.

    python benchmarks/mediapipe_chain.py --bundles FOLDER [--backend cuda] [--frames 300] [--compared 60]

``--bundles`` has face_landmarker.task. A clip of 1920x1080 is made: framebind's photograph moves and turns. On CUDA,
NVDEC decodes it, else frames are textures. A time is that from a decoded frame to its rows in the CPU's memory (478
landmarks, 52 blendshapes): ``GpuTracker.find``, and the whole ``detect_for_video``, which makes MediaPipe's objects of
them. No copy but that of the rows is allowed. The first frames are compared with the same task on the CPU, which gets
the same frames as RGB.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt

import framebind as fb
from framebind import mp
from framebind.video.apis import BY_NAME
from framebind.video.assets import PHOTOGRAPH
from framebind.video.mediapipe.core.gpu_picture import gpu_picture
from framebind.video.mediapipe.vision.face_landmarker import FacePipeline

Array = npt.NDArray[Any]
SIZE = 1920, 1080
MILLISECONDS = 33
vision = mp.tasks.vision


def write_clip(path: Path, frames: int) -> None:
    """A video of the photograph's upper half, which moves and turns."""
    photograph: Any = np.asarray(cv2.imread(str(PHOTOGRAPH)))[:288]
    with av.open(str(path), "w") as file:
        stream: Any = file.add_stream("libx264", rate=Fraction(30))
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        for number in range(frames):
            phase = 2 * np.pi * number / 90
            turn = cv2.getRotationMatrix2D((220, 130), 12 * np.sin(phase), 1 + 0.15 * np.sin(phase / 2))
            turn[:, 2] += 30 * np.cos(phase), 12 * np.sin(phase)
            scale = np.diag([SIZE[0] / 512, SIZE[1] / 288])
            picture: Any = cv2.warpAffine(photograph, scale @ turn, SIZE, borderMode=cv2.BORDER_REPLICATE)
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, "bgr24")):
                file.mux(packet)
        for packet in stream.encode():
            file.mux(packet)


def task_of(bundles: Path) -> Any:
    base = mp.tasks.BaseOptions(str(bundles / "face_landmarker.task"), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    return vision.FaceLandmarkerOptions(base, vision.RunningMode.VIDEO, output_face_blendshapes=True)


def pictures(path: Path, context: Any, backend: str) -> Iterator[Any]:
    """The frames of a clip where the GPU has them."""
    with fb.open_source(str(path)) as source:
        yield from source.frames() if backend == "cuda" else source.frames(context)


def rows_of(result: Any) -> tuple[Array, Array]:
    """The landmarks (478, 3) and blendshapes of the first face."""
    face, shapes = result.face_landmarks[0], result.face_blendshapes[0]
    return np.array([(one.x, one.y, one.z) for one in face]), np.array([one.score for one in shapes])


def compare(path: Path, bundles: Path, context: Any, backend: str, frames: int) -> None:
    """Print how far the GPU's landmarks and blendshapes are from those of the CPU on the same frames."""
    options, distances, shapes = task_of(bundles), list[float](), list[float]()
    diagonal = np.hypot(*SIZE)
    with (
        vision.FaceLandmarker.create_from_options(options) as gpu,
        vision.FaceLandmarker.create_from_options(options) as cpu,
    ):
        for number, frame in enumerate(pictures(path, context, backend), 1):
            if number > frames:
                break
            rgb = np.ascontiguousarray(frame.read_rgba()[..., :3])
            image = mp.Image(image_format=mp.ImageFormat.SRGB, data=rgb)
            ours = gpu.detect_for_video(frame, number * MILLISECONDS)
            theirs = cpu.detect_for_video(image, number * MILLISECONDS)
            assert len(ours.face_landmarks) == len(theirs.face_landmarks) == 1, f"frame {number}"
            (points, scores), (expected, wanted) = rows_of(ours), rows_of(theirs)
            distances += (np.hypot(*((points - expected)[:, :2] * SIZE).T) / diagonal * 100).tolist()
            shapes.append(float(np.abs(scores - wanted).max()))
    print(
        f"{len(shapes)} frames beside the CPU, % of the diagonal: p50 {np.median(distances):.4f}, "
        f"p99 {np.percentile(distances, 99):.4f}; blendshapes p50 {np.median(shapes):.4f}, most {max(shapes):.4f}"
    )


def measure(path: Path, bundles: Path, context: Any, backend: str) -> None:
    """Print the times of frames."""
    pipeline = FacePipeline(task_of(bundles))
    with vision.FaceLandmarker.create_from_options(task_of(bundles)) as task:
        tracker = pipeline._tracker_on_gpu(follows=True)
        times: dict[str, list[float]] = {"rows": [], "detect_for_video": []}
        for number, frame in enumerate(pictures(path, context, backend), 1):
            start = time.perf_counter()
            if number <= 10:
                tracker.find(gpu_picture(frame), number * MILLISECONDS)
                task.detect_for_video(frame, number * MILLISECONDS)
                continue
            fb.transfers.reset()
            rows = tracker.find(gpu_picture(frame), number * MILLISECONDS)
            middle = time.perf_counter()
            assert len(rows) == 1 and fb.transfers.bytes_except() == rows.nbytes, "only the rows are copied"
            again = time.perf_counter()
            task.detect_for_video(frame, number * MILLISECONDS)
            times["rows"].append((middle - start) * 1000)
            times["detect_for_video"].append((time.perf_counter() - again) * 1000)
        tracker.close()
    for name, values in times.items():
        print(f"{name}: {len(values)} frames, ms p50 {np.median(values):.3f}, p95 {np.percentile(values, 95):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=Path, required=True)
    parser.add_argument("--backend", choices=("cuda", "gl"), default="cuda")
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--compared", type=int, default=60)
    given = parser.parse_args()
    api = BY_NAME[given.backend]
    with tempfile.TemporaryDirectory() as folder, api.open_context() as context:
        path = Path(folder) / "clip.mp4"
        write_clip(path, given.frames)
        print(api.title, *SIZE)
        compare(path, given.bundles, context, given.backend, given.compared)
        measure(path, given.bundles, context, given.backend)


if __name__ == "__main__":
    main()
