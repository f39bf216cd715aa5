"""Compares single steps of following a person with MediaPipe's own graph, from the same region in each frame.

    python benchmarks/mediapipe_steps.py pose_landmarker_full.task bus.jpg [--frames 60] [--people 1]

It runs in an environment that has mediapipe 0.10.21, whose graphs give their inner streams, besides framebind, on the
CPU. ``bus.jpg`` is of the wheel ultralytics: a man of it, who is wholly in the picture, moves over grey.

A person is followed by regions that its own last result placed, so that roundings grow from frame to frame, also in
MediaPipe (``mediapipe_agreement.py`` prints both). Here each frame begins with the region that MediaPipe's graph had:
what differs then is a difference of the arithmetic.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mediapipe_clips import CLIPS, DIAGONAL, MILLISECONDS, SIZE, frames, man_of

from framebind import mp
from framebind.video.bundles import read_bundle
from framebind.video.mediapipe.calculators.image_to_tensor import WHOLE
from framebind.video.mediapipe.core.network import TaskNetwork
from framebind.video.mediapipe.core.tracker import Tracker
from framebind.video.mediapipe.vision import pose_landmarker as poses
from framebind.video.vision.pictures import read_picture

Array = npt.NDArray[Any]
STREAMS = {"NORM_LANDMARKS": "landmarks", "AUXILIARY_LANDMARKS": "alignment", "POSE_RECTS_NEXT_FRAME": "next",
           "DETECTIONS": "detections"}  # fmt: skip
PIXELS = np.array(SIZE)


class Graph:
    """MediaPipe's graph of persons with its inner streams."""

    def __init__(self, bundle: Path, people: int) -> None:
        self._mp: Any = import_module("mediapipe")
        self._packets: Any = import_module("mediapipe.python")
        core = "mediapipe.tasks.python.vision.core."
        base, modes = import_module(core + "base_vision_task_api"), import_module(core + "vision_task_running_mode")
        video = modes.VisionTaskRunningMode.VIDEO
        vision, options = self._mp.tasks.vision, self._mp.tasks.BaseOptions(model_asset_path=str(bundle))
        task = import_module("mediapipe.tasks.python.core.task_info").TaskInfo(
            "mediapipe.tasks.vision.pose_landmarker.PoseLandmarkerGraph",
            ["IMAGE:image", "NORM_RECT:region"],
            [*(f"{tag}:{name}" for tag, name in STREAMS.items()), "IMAGE:image_out"],
            vision.PoseLandmarkerOptions(options, running_mode=video, num_poses=people),
        )
        self._task = base.BaseVisionTaskApi(task.generate_graph_config(enable_flow_limiting=False), video, None)

    def __call__(self, frame: Array, milliseconds: int) -> dict[str, list[Any]]:
        """The messages of each stream for a frame."""
        creator, getter = self._packets.packet_creator, self._packets.packet_getter
        image = self._mp.Image(image_format=self._mp.ImageFormat.SRGB, data=np.ascontiguousarray(frame))
        region = self._task.convert_to_normalized_rect(None, image).to_pb2()
        given = {"image": creator.create_image(image), "region": creator.create_proto(region)}
        found = self._task._process_video_data({name: each.at(1000 * milliseconds) for name, each in given.items()})
        return {name: [] if found[name].is_empty() else getter.get_proto_list(found[name]) for name in STREAMS.values()}


def rectangle(message: Any) -> Array:
    """A rectangle (5) of a message."""
    return np.array([message.x_center, message.y_center, message.width, message.height, message.rotation], np.float32)


def rows(message: Any) -> Array:
    """Landmarks (n, 5) of a message."""
    return np.array([[point.x, point.y, point.z, point.visibility, point.presence] for point in message.landmark])


class Steps:
    """framebind's steps from MediaPipe's regions, and how they differ from its results."""

    def __init__(self, bundle: Path, people: int) -> None:
        cpu = mp.tasks.BaseOptions.Delegate.CPU
        files = read_bundle(bundle.read_bytes(), (poses.DETECTOR, poses.LANDMARKS))
        self._detector = poses.pose_detector(TaskNetwork(files[poses.DETECTOR], poses.DETECTOR, cpu), 0.5, 0.5)
        self._landmarks = poses.PoseLandmarks(TaskNetwork(files[poses.LANDMARKS], poses.LANDMARKS, cpu))
        self._tracker, self._filter = Tracker(people, 0.5), poses.PoseFilter() if people == 1 else None
        self._graph = Graph(bundle, people)
        self.differences: dict[str, list[Array]] = {}

    def compare(self, frame: Array, milliseconds: int) -> None:
        """Add the differences of a frame."""
        theirs = self._graph(frame, milliseconds)
        found = self._detector.find(frame, WHOLE)
        for score, place, message in zip(found.scores, found.places, theirs["detections"], strict=False):
            points = np.array([[point.x, point.y] for point in message.location_data.relative_keypoints])
            self._add("detector's score", abs(score - message.score[0]))
            self._add("detector's points, pixels", (place[4:].reshape(-1, 2) - points) * PIXELS)
        regions = self._tracker.regions(lambda: poses.pose_rectangles(found, SIZE), stream=True)
        everyone = [self._landmarks.find(frame, region, mask=False) for region in regions]
        everyone = [pose for pose in everyone if pose.presence > 0.5]
        self._add("persons", len(everyone) - len(theirs["landmarks"]))
        for pose, landmarks, alignment, following in zip(
            everyone, theirs["landmarks"], theirs["alignment"], theirs["next"], strict=False
        ):
            region = poses.next_pose(pose, SIZE)
            moved = pose if self._filter is None else self._filter(pose, region, SIZE, milliseconds)
            wanted = rows(landmarks)
            distances = np.hypot(*((moved.landmarks - wanted)[:, :2] * PIXELS).T)
            self._add("landmarks, % of the diagonal", 100 * distances / DIAGONAL)
            self._add("visibility and presence", (moved.landmarks - wanted)[:, 3:])
            self._add("auxiliary landmarks, pixels", (pose.alignment - rows(alignment)[:, :2]) * PIXELS)
            self._add("next region, pixels", (region - rectangle(following))[:4] * np.tile(PIXELS, 2))
        self._tracker.follow([rectangle(each) for each in theirs["next"]])

    def _add(self, name: str, values: Any) -> None:
        self.differences.setdefault(name, []).append(np.abs(np.ravel(values)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("photograph", type=Path)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--people", type=int, default=1, choices=(1, 2))
    given = parser.parse_args()
    steps, clip = Steps(given.bundle, given.people), CLIPS["whole body" if given.people == 1 else "two whole bodies"]
    if (photograph := read_picture(given.photograph)) is None:
        parser.error(f"'{given.photograph}' is no picture")
    for number, frame in enumerate(frames(clip, man_of(photograph), given.frames)):
        steps.compare(frame, number * MILLISECONDS)
    print("| step | p50 | p99 | largest |\n| --- | ---: | ---: | ---: |")
    for name, values in steps.differences.items():
        flat = np.concatenate(values)
        print(f"| {name} | " + " | ".join(f"{each:.2g}" for each in np.percentile(flat, (50, 99, 100))) + " |")


if __name__ == "__main__":
    main()
