"""Times a frame of FaceLandmarker, HandLandmarker or PoseLandmarker on the GPU, and compares it with the CPU.

    python benchmarks/mediapipe_chain.py --bundles FOLDER [--task hands|pose] [--backend cuda|gl] [--frames 300]

``--bundles`` has face_landmarker.task, hand_landmarker.task and pose_landmarker_full.task. A clip of 1920x1080 is made:
framebind's photograph of one face and person, or twice that of a hand, moves and turns. On CUDA, NVDEC decodes it, else
frames are textures. A time is that from a decoded frame to its rows in the CPU's memory (of a face 478 landmarks and 52
blendshapes; of a person 33 landmarks, while the mask is written to memory of the GPU): ``GpuTracker``, and the whole
``detect_for_video``, which makes MediaPipe's objects of them. No copy but that of the rows is allowed. The first
``--compared`` frames are compared with the same task on the CPU, which gets the same frames as RGB.
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
LANDMARKS = "face_landmarks", "hand_landmarks", "pose_landmarks"
vision = mp.tasks.vision


BUNDLES = {"face": "face_landmarker.task", "hands": "hand_landmarker.task", "pose": "pose_landmarker_full.task"}


def photograph_of(task: str) -> Array:
    """The picture that moves, (288, 512, 3): a face, two hands, or a person."""
    if task == "face":
        return np.asarray(cv2.imread(str(PHOTOGRAPH)))[:288]
    if task == "pose":
        person = cv2.resize(np.asarray(cv2.imread(str(PHOTOGRAPH))), (288, 288))
        return np.asarray(cv2.copyMakeBorder(person, 0, 0, 112, 112, cv2.BORDER_REPLICATE))
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


def make_task(task: str, bundles: Path, *, masks: bool = True) -> Any:
    """The task, which follows one face with blendshapes, two hands, or one person, with a mask or without."""
    base = mp.tasks.BaseOptions(str(bundles / BUNDLES[task]), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    if task == "face":
        options: Any = vision.FaceLandmarkerOptions(base, vision.RunningMode.VIDEO, output_face_blendshapes=True)
        return vision.FaceLandmarker.create_from_options(options)
    if task == "hands":
        options = vision.HandLandmarkerOptions(base, vision.RunningMode.VIDEO, num_hands=2)
        return vision.HandLandmarker.create_from_options(options)
    options = vision.PoseLandmarkerOptions(base, vision.RunningMode.VIDEO, output_segmentation_masks=masks)
    return vision.PoseLandmarker.create_from_options(options)


def masks_of(task: Any, api: fb.Backend) -> list[Any]:
    """The masks that a task on the GPU writes from now on: one of floats for a PoseLandmarker."""
    if not isinstance(task, vision.PoseLandmarker):
        return []
    masks = [api.new_buffer(np.zeros(SIZE[0] * SIZE[1], np.float32))]
    task.bind_masks(masks)
    return masks


def pictures(path: Path, context: Any, backend: str) -> Iterator[Any]:
    """The frames of a clip where the GPU has them."""
    with fb.open_source(str(path)) as source:
        yield from source.frames() if backend == "cuda" else source.frames(context)


def landmarks_of(result: Any) -> list[Array]:
    """The landmarks (n, 2) of each thing, in the order of their x."""
    things = next(getattr(result, name) for name in LANDMARKS if hasattr(result, name))
    found = [np.array([(one.x, one.y) for one in thing]) for thing in things]
    return sorted(found, key=lambda each: each[:, 0].mean())


def compare(path: Path, make: Callable[[], Any], context: Any, api: fb.Backend, frames: int) -> None:
    """Print how far the GPU's landmarks, blendshapes and masks are from those of the CPU on the same frames."""
    distances, shapes, shared, alike = list[float](), [0.0], list[float](), 0
    diagonal = np.hypot(*SIZE)
    with make() as gpu, make() as cpu:
        masks_of(gpu, api)
        for number, frame in enumerate(pictures(path, context, api.short), 1):
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
            if getattr(ours, "segmentation_masks", None) and theirs.segmentation_masks:
                values = ours.segmentation_masks[0].read(), theirs.segmentation_masks[0].numpy_view()
                one, other = (each.reshape(SIZE[::-1]) > 0.5 for each in values)
                shared.append(float((one & other).sum() / max((one | other).sum(), 1)))
    print(
        f"{frames} frames beside the CPU: {alike} with as many things; landmarks in % of the diagonal: p50 "
        f"{np.median(distances):.4f}, p99 {np.percentile(distances, 99):.4f}; blendshapes at most {max(shapes):.4f}"
    )
    if shared:
        print(f"masks, intersection over union: p50 {np.median(shared):.4f}, least {min(shared):.4f}")


def measure(path: Path, make: Callable[[], Any], context: Any, api: fb.Backend) -> None:
    """Print the times of frames."""
    with make() as whole, make() as task:
        tracker = task._pipeline.on_gpu
        masks_of(whole, api)
        masks_of(task, api)
        times: dict[str, list[float]] = {"rows": [], "detect_for_video": []}
        things = number = 0
        for number, frame in enumerate(pictures(path, context, api.short), 1):
            milliseconds = number * MILLISECONDS
            fb.transfers.reset()
            start = time.perf_counter()
            things += len(tracker.take(tracker.submit(gpu_picture(frame), milliseconds)))
            middle = time.perf_counter()
            copied = fb.transfers.bytes_except("detections")
            whole.detect_for_video(frame, milliseconds)
            if number > 10:
                assert not copied, "only the rows are copied"
                times["rows"].append((middle - start) * 1000)
                times["detect_for_video"].append((time.perf_counter() - middle) * 1000)
    print(f"{things / max(number, 1):.2f} things in a frame")
    for name, values in times.items():
        print(f"{name}: {len(values)} frames, ms p50 {np.median(values):.3f}, p95 {np.percentile(values, 95):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=Path, required=True)
    parser.add_argument("--task", choices=tuple(BUNDLES), default="face")
    parser.add_argument("--backend", choices=("cuda", "gl"), default="cuda")
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--compared", type=int, default=60)
    given = parser.parse_args()
    api, make = BY_NAME[given.backend], partial(make_task, given.task, given.bundles)
    with tempfile.TemporaryDirectory() as folder, api.open_context() as context:
        path = Path(folder) / "clip.mp4"
        write_clip(path, photograph_of(given.task), given.frames)
        print(api.title, given.task, *SIZE)
        compare(path, make, context, api, given.compared)
        measure(path, make, context, api)


if __name__ == "__main__":
    main()
