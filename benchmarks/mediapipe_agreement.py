"""Compares the tasks of ``framebind.mp`` with MediaPipe's own, frame by frame, and prints a table.

    python benchmarks/mediapipe_agreement.py --bundles FOLDER [--photographs FOLDER] [--frames 200] [--clip NAME ...]

It runs in an environment that has mediapipe (1.2.2) besides framebind, on the CPU. ``--bundles`` has
face_landmarker.task, hand_landmarker.task, pose_landmarker_full.task and the models of selfie_segmentation,
``--photographs`` further pictures: bus.jpg and zidane.jpg of the wheel ultralytics.

``--write-reference FILE`` writes what MediaPipe finds in framebind's own photograph instead: the file that
tests/video/mediapipe compares with.

``--solutions`` compares ``mp.solutions`` instead, in an environment with mediapipe 0.10.21, which has them; models lie
in the folder FRAMEBIND_MODELS.

``--texture gl`` (or cl, cuda) gives framebind the frames as textures, which its networks sample on the GPU; with
``--beside framebind`` it is compared with itself on the CPU, and mediapipe need not be there.

Clips are those of mediapipe_clips.py. Distances of landmarks are in shares of the picture's diagonal. *tracks* are
things that appear: framebind's and MediaPipe's number. *floor* is MediaPipe beside itself on frames of which one value
in a hundred differs by 1: a tracker that follows its own results makes small differences large, and nothing can be
nearer than this. ``--mode image`` takes each frame by itself.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from mediapipe_clips import CLIPS, DIAGONAL, MILLISECONDS, SIZE, Clip, frames, photographs_in
from samples import Label, Series, measured, write

import framebind as fb
from framebind import mp as ours
from framebind.video.apis import BY_NAME
from framebind.video.assets import PHOTOGRAPH
from framebind.video.vision.pictures import read_picture

Array = npt.NDArray[Any]
Figures = dict[str, Any]


class Found(NamedTuple):
    """The result for a frame, of either library."""

    landmarks: list[Array]
    """(n, 3) each."""
    blendshapes: list[Array]
    masks: list[Array]


def _rows(things: Any) -> list[Array]:
    return [np.array([[point.x, point.y, point.z] for point in thing]) for thing in things]


def _task(
    library: Any, clip: Clip, bundles: Path, mode: str, api: fb.Backend | None = None
) -> Callable[[Array, int], Found]:
    """The function from a frame and its time to what a library finds. framebind sees textures of ``api``."""
    vision, base = library.tasks.vision, library.tasks.BaseOptions
    common = {"running_mode": vision.RunningMode[mode.upper()]}
    cpu = base.Delegate.CPU
    if clip.task == "face":
        options = vision.FaceLandmarkerOptions(
            base(model_asset_path=str(bundles / "face_landmarker.task"), delegate=cpu), num_faces=clip.most,
            output_face_blendshapes=True, **common,
        )  # fmt: skip
        task = vision.FaceLandmarker.create_from_options(options)
    elif clip.task == "hand":
        options = vision.HandLandmarkerOptions(
            base(model_asset_path=str(bundles / "hand_landmarker.task"), delegate=cpu), num_hands=clip.most, **common
        )
        task = vision.HandLandmarker.create_from_options(options)
    elif clip.task == "pose":
        options = vision.PoseLandmarkerOptions(
            base(model_asset_path=str(bundles / "pose_landmarker_full.task"), delegate=cpu), num_poses=clip.most,
            output_segmentation_masks=True, **common,
        )  # fmt: skip
        task = vision.PoseLandmarker.create_from_options(options)
        if api is not None:
            task.bind_masks([api.new_buffer(np.zeros(SIZE[0] * SIZE[1], np.float32)) for _ in range(clip.most)])
    elif clip.task == "holistic":
        options = vision.HolisticLandmarkerOptions(
            base(model_asset_path=str(bundles / "holistic_landmarker.task"), delegate=cpu),
            output_face_blendshapes=True, output_segmentation_mask=True, **common,
        )  # fmt: skip
        task = vision.HolisticLandmarker.create_from_options(options)
        if api is not None:
            task.bind_masks([api.new_buffer(np.zeros(SIZE[0] * SIZE[1], np.float32))])
    else:
        model = base(model_asset_path=str(bundles / f"{clip.task}.tflite"), delegate=cpu)
        return _segmenter(library, model, mode, api)

    def find(frame: Array, milliseconds: int) -> Found:
        image = _image(library, frame, api)
        result = task.detect(image) if mode == "image" else task.detect_for_video(image, milliseconds)
        things, faces, seen = _things(result, clip.task)
        shapes = [np.array([each.score for each in face]) for face in faces]
        masks = [(mask.numpy_view() if api is None else mask.read()).reshape(SIZE[::-1]) > 0.5 for mask in seen]
        return Found(_rows(things), shapes, masks)

    return find


def _image(library: Any, frame: Array, api: fb.Backend | None) -> Any:
    """A frame as the library's image, or as a texture of an API."""
    if api is None:
        return library.Image(image_format=library.ImageFormat.SRGB, data=frame)
    return api.new_texture(cv2.cvtColor(frame, cv2.COLOR_RGB2RGBA))


def _things(result: Any, task: str) -> tuple[list[Any], list[Any], list[Any]]:
    """The landmarks of each thing, or of each part of a whole person, the blendshapes of faces, and the masks."""
    if task != "holistic":
        faces = getattr(result, "face_blendshapes", [])
        return getattr(result, f"{task}_landmarks"), faces, getattr(result, "segmentation_masks", None) or []
    parts = [getattr(result, f"{part}_landmarks") for part in ("pose", "face", "left_hand", "right_hand")]
    face, mask = result.face_blendshapes, result.segmentation_mask
    return [part for part in parts if part], [face] if face else [], [] if mask is None else [mask]


def _segmenter(library: Any, base: Any, mode: str, api: fb.Backend | None) -> Callable[[Array, int], Found]:
    """The function from a frame and its time to the categories of pixels as an ImageSegmenter gives them."""
    vision = library.tasks.vision
    options = vision.ImageSegmenterOptions(base, running_mode=vision.RunningMode[mode.upper()])
    options.output_category_mask, options.output_confidence_masks = True, False
    task = vision.ImageSegmenter.create_from_options(options)

    def find(frame: Array, milliseconds: int) -> Found:
        image = _image(library, frame, api)
        result = task.segment(image) if mode == "image" else task.segment_for_video(image, milliseconds)
        return Found([], [], [np.array(result.category_mask.numpy_view()) > 0])

    return find


SOLUTIONS = {
    "hands": ("two hands", "hands", "Hands", {}),
    "hands, pictures": ("hand turns", "hands", "Hands", {"static_image_mode": True}),
    "pose": ("street", "pose", "Pose", {"enable_segmentation": True}),
    "pose, pictures": ("street", "pose", "Pose", {"enable_segmentation": True, "static_image_mode": True}),
    "face_mesh": ("face turns", "face_mesh", "FaceMesh", {"refine_landmarks": True}),
    "holistic": ("person moves", "holistic", "Holistic", {"enable_segmentation": True}),
    "holistic, pictures": (
        "person moves",
        "holistic",
        "Holistic",
        {"enable_segmentation": True, "static_image_mode": True},
    ),
    "holistic, whole person": ("whole person", "holistic", "Holistic", {"enable_segmentation": True}),
    "holistic, face": ("person moves", "holistic", "Holistic", {}),
    "holistic, face, whole person": ("whole person", "holistic", "Holistic", {}),
    "face_detection": ("portraits", "face_detection", "FaceDetection", {}),
    "face_detection, full range": ("portraits", "face_detection", "FaceDetection", {"model_selection": 1}),
    "selfie_segmentation": ("body moves", "selfie_segmentation", "SelfieSegmentation", {}),
    "selfie_segmentation, wide": ("body moves", "selfie_segmentation", "SelfieSegmentation", {"model_selection": 1}),
}
"""The clip, the module, the class and its arguments by name of a row. The face of a whole person, which is of another
network, is compared by itself.
"""


BODY, FACE = ("pose", "left_hand", "right_hand"), ("face",)


def _solution(name: str, library: Any, api: fb.Backend | None = None) -> Callable[[Array, int], Found]:
    """The function from a frame and its time, which is not used, to what a solution finds."""
    _, module, kind, arguments = SOLUTIONS[name]
    parts = FACE if "face" in name else BODY
    solution = getattr(getattr(library.solutions, module), kind)(**arguments)
    if api is not None and arguments.get("enable_segmentation"):
        solution.bind_masks([api.new_buffer(np.zeros(SIZE[0] * SIZE[1], np.float32))])

    def find(frame: Array, _: int) -> Found:
        result = solution.process(frame if api is None else _image(library, frame, api))
        lists = getattr(result, "multi_hand_landmarks", None) or getattr(result, "multi_face_landmarks", None) or []
        lists = [*lists, *filter(None, (getattr(result, f"{part}_landmarks", None) for part in parts))]
        rows = _rows([each.landmark for each in lists])
        for detection in getattr(result, "detections", None) or []:
            points = detection.location_data.relative_keypoints
            rows.append(np.array([[point.x, point.y, 0] for point in points]))
        mask = getattr(result, "segmentation_mask", None)
        mask = mask.read().reshape(SIZE[::-1]) if mask is not None and hasattr(mask, "read") else mask
        return Found(rows, [], [] if mask is None else [np.asarray(mask) > 0.5])

    return find


class Beside:
    """The distance between the results of two libraries, frame by frame."""

    def __init__(self) -> None:
        self.counts: list[tuple[int, int]] = []
        """The numbers of things that both found, per frame."""
        self.distances: list[list[Array]] = []
        """Per frame and thing, of the frames in which both found the same number: (landmarks)."""
        self.shapes: list[float] = []
        self.masks: list[float] = []

    def add(self, mine: Found, other: Found) -> None:
        """The results of the next frame."""
        counts = len(mine.landmarks), len(other.landmarks)
        self.counts.append(counts)
        if counts[0] == counts[1]:
            mine = _in_order_of(other, mine)
            self.distances.append(_distances(mine, other))
            self.shapes += _shapes(mine, other)
            self.masks += [_overlap(x, y) for x, y in zip(mine.masks, other.masks, strict=True)]

    def tracks(self) -> tuple[int, int]:
        """The numbers of things that appear."""
        numbers = np.array([(0, 0), *self.counts])
        mine, other = np.maximum(np.diff(numbers, axis=0), 0).sum(axis=0)
        return int(mine), int(other)

    def figures(self) -> Figures:
        """The columns of the table. Blendshapes and masks have their worst one, and the share within 0.02 and 0.99."""
        flat = np.concatenate([thing for frame in self.distances for thing in frame] or [np.zeros(1)])
        mine, other = self.tracks()
        return {
            "alike %": 100 * float(np.mean([one == two for one, two in self.counts])),
            "p50 %": 100 * np.percentile(flat, 50), "p99 %": 100 * np.percentile(flat, 99), "max %": 100 * flat.max(),
            "blendshapes": max(self.shapes, default=0.0), "within %": _share([each <= 0.02 for each in self.shapes]),
            "mask IoU": min(self.masks, default=1.0), "masks within %": _share([each >= 0.99 for each in self.masks]),
            "tracks": f"{mine} {other}",
        }  # fmt: skip

    def series(self, labels: dict[str, Label]) -> list[Series]:
        """One sample per frame of numbers, one per frame and thing of landmarks, in % of the diagonal, and the rest."""
        things = [100 * thing for frame in self.distances for thing in frame]
        samples = {
            "found": [mine for mine, _ in self.counts],
            "found by the other": [other for _, other in self.counts],
            "median landmark": [float(np.median(thing)) for thing in things],
            "landmark of the 99th percentile": [float(np.percentile(thing, 99)) for thing in things],
            "blendshapes": self.shapes,
            "mask": self.masks,
        }
        return [Series(labels | {"figure": name}, [*map(float, each)]) for name, each in samples.items() if each]


def compare(
    clip: Clip,
    photograph: Array,
    count: int,
    make: Callable[..., Callable[[Array, int], Found]],
    theirs: Any,
    textured: dict[str, Any],
) -> tuple[Beside, Beside]:
    """framebind beside the other library in a clip, and that library beside itself.

    ``make`` makes the function of a library; ``textured`` are its arguments for framebind.
    """
    mine, oracle, again = make(ours, **textured), make(theirs), make(theirs)
    beside, floor = Beside(), Beside()
    for number, frame in enumerate(frames(clip, photograph, count)):
        a, b = (find(frame, number * MILLISECONDS) for find in (mine, oracle))
        noisy = frame.copy()
        noisy.ravel()[::101] ^= 1
        beside.add(a, b)
        floor.add(again(noisy, number * MILLISECONDS), b)
    return beside, floor


def _share(hold: list[bool]) -> float:
    """The share in %; all if there are none."""
    return 100 * float(np.mean(hold)) if hold else 100.0


def _in_order_of(other: Found, mine: Found) -> Found:
    """Two things in the order in which they are nearer to the other's: a thing that is lost and found comes last."""
    if len(mine.landmarks) != 2 or mine.landmarks[0].shape != mine.landmarks[1].shape:
        return mine
    turned = Found(mine.landmarks[::-1], mine.blendshapes[::-1], mine.masks[::-1])
    return min((mine, turned), key=lambda found: sum(each.sum() for each in _distances(found, other)))


def _overlap(a: Array, b: Array) -> float:
    """The intersection over union of two masks; 1 if both are empty."""
    union = (a | b).sum()
    return float((a & b).sum() / union) if union else 1.0


def _distances(a: Found, b: Found) -> list[Array]:
    """The distances (n) of the landmarks of each thing, in shares of the diagonal; none if the numbers differ."""
    pairs = zip(a.landmarks, b.landmarks, strict=True) if len(a.landmarks) == len(b.landmarks) else ()
    alike = [(one, other) for one, other in pairs if one.shape == other.shape]  # not the face of one, a hand of another
    return [np.hypot(*((one - other)[:, :2] * SIZE).T) / DIAGONAL for one, other in alike]


def _shapes(a: Found, b: Found) -> list[float]:
    """The largest difference of the blendshapes of each face; none if the numbers of faces differ."""
    pairs = zip(a.blendshapes, b.blendshapes, strict=True) if len(a.blendshapes) == len(b.blendshapes) else ()
    return [float(np.abs(one - other).max()) for one, other in pairs]


def write_reference(path: Path, bundles: Path) -> None:
    """Write the face of framebind's photograph, as MediaPipe sees it, as JSON."""
    theirs: Any = import_module("mediapipe")

    vision, base = theirs.tasks.vision, theirs.tasks.BaseOptions
    options = vision.FaceLandmarkerOptions(
        base(model_asset_path=str(bundles / "face_landmarker.task")), output_face_blendshapes=True,
        output_facial_transformation_matrixes=True,
    )  # fmt: skip
    with vision.FaceLandmarker.create_from_options(options) as task:
        picture = read_picture(PHOTOGRAPH)
        result = task.detect(theirs.Image(image_format=theirs.ImageFormat.SRGB, data=picture))
    landmarks = [[round(value, 6) for value in (point.x, point.y, point.z)] for point in result.face_landmarks[0]]
    reference = {
        "mediapipe": theirs.__version__,
        "every fifth landmark": landmarks[::5],
        "blendshapes": [round(each.score, 5) for each in result.face_blendshapes[0]],
        "matrix": result.facial_transformation_matrixes[0].round(5).tolist(),
    }
    path.write_text(json.dumps(reference) + "\n", encoding="utf-8")


def _work(arguments: argparse.Namespace) -> dict[str, tuple[Clip, Any]]:
    """The clips that are compared, each with the function that makes its task of a library."""
    if arguments.solutions:
        names = [name for name in SOLUTIONS if not arguments.clip or name in arguments.clip]
        return {name: (CLIPS[SOLUTIONS[name][0]], partial(_solution, name)) for name in names}
    tasks = {name: CLIPS[name] for name in arguments.clip or CLIPS}
    folder, mode = arguments.bundles, arguments.mode
    return {name: (clip, partial(_task, clip=clip, bundles=folder, mode=mode)) for name, clip in tasks.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=Path, default=Path())
    parser.add_argument("--photographs", type=Path)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--clip", action="append", choices=[*CLIPS, *SOLUTIONS])
    parser.add_argument("--mode", choices=("video", "image"), default="video")
    parser.add_argument("--write-reference", type=Path)
    parser.add_argument("--solutions", action="store_true")
    parser.add_argument("--texture", choices=("gl", "cl", "cuda"))
    parser.add_argument("--json", type=Path, help="a file for the samples of each frame")
    parser.add_argument("--beside", choices=("mediapipe", "framebind"), default="mediapipe")
    arguments = parser.parse_args()
    if arguments.write_reference:
        write_reference(arguments.write_reference, arguments.bundles)
        return
    photographs, work = photographs_in(arguments.photographs), _work(arguments)
    theirs: Any = ours if arguments.beside == "framebind" else import_module("mediapipe")
    api = BY_NAME.get(arguments.texture or "")
    heading = False
    series: list[Series] = []
    devices = [("CPU", f"{theirs.__name__} {getattr(theirs, '__version__', '')}".strip())]
    with api.open_context() if api else nullcontext():
        for name, (clip, make) in work.items():
            photograph = photographs.get(clip.photograph)
            if photograph is None:
                print(f"{name}: no photograph {clip.photograph}", file=sys.stderr)
                continue
            textured = {"api": api} if api else {}
            beside, floor = compare(clip, photograph, arguments.frames, make, theirs, textured)
            labels: dict[str, Label] = {"clip": name, "mode": arguments.mode, "on": arguments.texture or "cpu"}
            series += beside.series(labels) + floor.series(labels | {"on": "the other beside itself"})
            if arguments.json:  # whole after each clip: a long run may be stopped
                write(arguments.json, measured("agreement", devices, "", series))
            figures = beside.figures() | {f"floor {name}": value for name, value in floor.figures().items()}
            if not heading:
                print("| clip | " + " | ".join(figures) + " |\n|" + " --- |" * (len(figures) + 1))
                heading = True
            values = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in figures.values()]
            print(f"| {name} | " + " | ".join(values) + " |", flush=True)


if __name__ == "__main__":
    main()
