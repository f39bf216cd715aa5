"""Times a frame of FaceLandmarker, HandLandmarker or PoseLandmarker on the GPU, and compares it with the CPU.

    python benchmarks/mediapipe_chain.py --bundles FOLDER [--task hands|pose|face+hands] [--backend cuda|gl] [--profile]

``--bundles`` has face_landmarker.task, hand_landmarker.task and pose_landmarker_full.task. A clip of 1920x1080 is made:
framebind's photograph of one face and person, or twice that of a hand, or all three, moves and turns. On CUDA, NVDEC
decodes it, else frames are textures. *rows* is the time from a decoded frame to its rows in the CPU's memory (of a face
478 landmarks and 52 blendshapes; of a person 33 landmarks, while the mask is written to memory of the GPU), *submitted*
its part until the GPU has all work, *detect_for_video* that of the whole call, which makes MediaPipe's objects of rows.
On CUDA two tasks have a stream each (``--streams 1``: one for both), and both have their work before the rows of either
are waited for. *stream* is the time from frame to frame if the last picture comes again as soon as it is taken, and the
objects of a frame are made while the GPU works on the next one. No copy but that of the rows is allowed. The first
``--compared`` frames are compared with the same task on the CPU, which gets the same frames as RGB. ``--profile`` then
times a followed frame without rows, and each of its steps.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt
from samples import Series, measured, write

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
BOTH = "face+hands"
"""The tasks of faces and of hands on the same pictures."""
SETTLED = 10
"""Frames before the first that is timed."""
STREAMED = 300
"""Frames that follow one another without a pause."""
PROFILES = 30
"""Runs of each step."""
SHOWN = 14
"""Steps in the table of a profile: those that take longest."""
Times = dict[str, list[float]]


def photograph_of(task: str) -> Array:
    """The picture that moves, (288, 512, 3): a face, two hands, both, or a person."""
    if task == BOTH:
        face, hand = (np.asarray(cv2.imread(str(path))) for path in (PHOTOGRAPH, HAND_PICTURE))
        hand = np.asarray(cv2.resize(hand[:, 200:740], (128, 171)))
        hand = np.asarray(cv2.copyMakeBorder(hand, 50, 67, 0, 0, cv2.BORDER_REPLICATE))
        return np.concatenate([face[:288, 96:352], hand, hand[:, ::-1]], axis=1)
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


def make_task(task: str, bundles: Path, *, masks: bool = True, video: bool = True) -> Any:
    """The task, which finds one face with blendshapes, two hands, or one person, with a mask or without.

    It follows them through a ``video``, or finds them in single pictures.
    """
    base = mp.tasks.BaseOptions(str(bundles / BUNDLES[task]), delegate=mp.tasks.BaseOptions.Delegate.CPU)
    mode = vision.RunningMode.VIDEO if video else vision.RunningMode.IMAGE
    if task == "face":
        options: Any = vision.FaceLandmarkerOptions(base, mode, output_face_blendshapes=True)
        return vision.FaceLandmarker.create_from_options(options)
    if task == "hands":
        return vision.HandLandmarker.create_from_options(vision.HandLandmarkerOptions(base, mode, num_hands=2))
    options = vision.PoseLandmarkerOptions(base, mode, output_segmentation_masks=masks)
    return vision.PoseLandmarker.create_from_options(options)


def is_compared_as_video(task: str) -> bool:
    """Whether the GPU's results for a video are compared with the CPU's.

    Persons are compared in single pictures: their regions are placed by the last results, so that roundings grow from
    frame to frame, as those of MediaPipe do beside itself (mediapipe_steps.py).
    """
    return task != "pose"


def found_in(task: Any, picture: Any, number: int, *, video: bool) -> Any:
    """The result for a frame of that number."""
    return task.detect_for_video(picture, number * MILLISECONDS) if video else task.detect(picture)


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


def compare(path: Path, name: str, make: Callable[..., Any], context: Any, api: fb.Backend, frames: int) -> None:
    """Print how far the GPU's landmarks, blendshapes and masks are from those of the CPU on the same frames."""
    video = is_compared_as_video(name)
    distances, shapes, shared, alike = list[float](), [0.0], list[float](), 0
    diagonal = np.hypot(*SIZE)
    with make(video=video) as gpu, make(video=video) as cpu:
        masks_of(gpu, api)
        for number, frame in enumerate(pictures(path, context, api.short), 1):
            if number > frames:
                break
            rgb = np.ascontiguousarray(frame.read_rgba()[..., :3])
            image = mp.Image(image_format=mp.ImageFormat.SRGB, data=rgb)
            ours, theirs = found_in(gpu, frame, number, video=video), found_in(cpu, image, number, video=video)
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
    kind = "frames" if video else "single pictures"
    print(
        f"{frames} {kind} beside the CPU: {alike} with as many things; landmarks in % of the diagonal: p50 "
        f"{np.median(distances):.4f}, p99 {np.percentile(distances, 99):.4f}; blendshapes at most {max(shapes):.4f}"
    )
    if shared:
        print(f"masks, intersection over union: p50 {np.median(shared):.4f}, least {min(shared):.4f}")


def begin(frame: Any, contexts: Sequence[Any], whole: Sequence[Any], trackers: Sequence[Any]) -> None:
    """Make the chains of tasks and trackers, each in its context, and look at the first frame."""
    for context, task, tracker in zip(contexts, whole, trackers, strict=True):
        with context.made_current() if len({*contexts}) > 1 else nullcontext():
            task.detect_for_video(frame, MILLISECONDS)
            tracker.take(tracker.submit(gpu_picture(frame), MILLISECONDS))


def streamed(frame: Any, trackers: Sequence[Any], number: int) -> list[float]:
    """Milliseconds from frame to frame, in which results are made one frame late, as those of a live stream."""
    spent, before = list[float](), list[Callable[[], Any]]()
    for place in range(number + 1, number + STREAMED + 1):
        start = time.perf_counter()
        begun = [tracker.begin(gpu_picture(frame), place * MILLISECONDS) for tracker in trackers]
        for finish in before:
            finish()
        before = begun
        spent.append(1000 * (time.perf_counter() - start))
    for finish in before:
        finish()
    return spent


def measure(
    path: Path, whole: Sequence[Any], trackers: Sequence[Any], contexts: Sequence[Any], api: fb.Backend, *,
    profiled: int,
) -> Times:  # fmt: skip
    """Times of tasks and of the trackers of others in milliseconds. Print the steps of frame ``profiled``."""
    times: Times = {"submitted": [], "rows": [], "detect_for_video": []}
    things = number = 0
    for number, frame in enumerate(pictures(path, contexts[0], api.short), 1):
        if number == 1:
            begin(frame, contexts, whole, trackers)
            continue
        milliseconds = number * MILLISECONDS
        fb.transfers.reset()
        start = time.perf_counter()
        submitted = [tracker.submit(gpu_picture(frame), milliseconds) for tracker in trackers]
        began = time.perf_counter()
        things += sum(len(tracker.take(each)) for tracker, each in zip(trackers, submitted, strict=True))
        middle = time.perf_counter()
        copied = fb.transfers.bytes_except("detections")
        for task in whole:
            task.detect_for_video(frame, milliseconds)
        if number > SETTLED:
            assert not copied, "only the rows are copied"
            spent = began - start, middle - start, time.perf_counter() - middle
            for values, each in zip(times.values(), spent, strict=False):
                values.append(1000 * each)
        if number == profiled:
            times["stream"] = streamed(frame, trackers, number)
            for tracker in trackers:
                times |= profile(tracker._chain._look)
    print(f"{things / max(number - 1, 1):.2f} things in a frame")
    for name, values in times.items():
        p50, p95, p99 = np.percentile(values, (50, 95, 99))
        print(f"{name}: {len(values)} frames, ms p50 {p50:.3f}, p95 {p95:.3f}, p99 {p99:.3f}")
    return times


def profile(look: Any) -> Times:
    """Print the steps of a followed frame. Returns times in milliseconds: of its submission, and until it is done."""
    delegate = look._delegate
    submitted, done = list[float](), list[float]()
    for _ in range(10 * PROFILES):
        start = time.perf_counter()
        look.run()
        submitted.append(1000 * (time.perf_counter() - start))
        delegate.fence().wait()
        done.append(1000 * (time.perf_counter() - start))
    delegate.profile()  # which compiles each step by itself
    runs = [delegate.profile() for _ in range(PROFILES)]
    steps = [(each.label, each.kernel) for each in runs[0]]
    medians = np.median([[step.nanoseconds / 1000 for step in run] for run in runs], axis=0)
    print(f"{len(steps)} steps, each alone: together {medians.sum():.0f} us")
    for number in np.argsort(-medians)[:SHOWN]:
        print(f"  {medians[number]:6.1f} us  {steps[number][1]:<28} {steps[number][0]}")
    kernels = {kernel: [n for n, step in enumerate(steps) if step[1] == kernel] for _, kernel in steps}
    for kernel, of in sorted(kernels.items(), key=lambda item: -medians[item[1]].sum())[:SHOWN]:
        print(f"  {medians[of].sum():6.1f} us  {len(of):4d} x {kernel}")
    return {f"{len(steps)} steps submitted": submitted, f"{len(steps)} steps": done}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=Path, required=True)
    parser.add_argument("--task", choices=(*BUNDLES, BOTH), default="face")
    parser.add_argument("--backend", choices=("cuda", "gl"), default="cuda")
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--compared", type=int, default=60)
    parser.add_argument("--streams", type=int, choices=(1, 2), default=2, help="those of two tasks on CUDA")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    api, makes = BY_NAME[given.backend], [partial(make_task, each, given.bundles) for each in given.task.split("+")]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        context = stack.enter_context(api.open_context())
        own = api.short == "cuda" and given.streams > 1
        contexts = [context, *(stack.enter_context(api.new_context()) if own else context for _ in makes[1:])]
        context.make_current()
        path = Path(folder) / "clip.mp4"
        write_clip(path, photograph_of(given.task), given.frames)
        print(api.title, given.task, *SIZE)
        for make in makes if given.compared else ():
            compare(path, make.args[0], make, context, api, given.compared)
        tasks, whole = ([stack.enter_context(make()) for make in makes] for _ in range(2))
        for task in (*tasks, *whole):
            masks_of(task, api)
        trackers = [task._pipeline.on_gpu for task in tasks]
        times = measure(path, whole, trackers, contexts, api, profiled=given.frames if given.profile else 0)
        if given.json:
            figures = trackers[0]._chain._look._delegate.statistics()
            series = [
                Series({"task": given.task, "on": api.short, "streams": len({*contexts}), "figure": each}, times[each])
                for each in times
            ]
            write(given.json, measured("chains", [(figures.device, figures.driver)], "ms", series))


if __name__ == "__main__":
    main()
