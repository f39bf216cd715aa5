"""PoseLandmarker: 33 landmarks of each person, in the picture and in metres, and the person's mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...basic_types import Array
from ...vision.ssd import sigmoid
from ..calculators.detections import Detections
from ..calculators.heat_maps import refine_landmarks
from ..calculators.image_to_tensor import region_matrix, region_of
from ..calculators.landmarks import decode_landmarks, project_in_square, turn_world_landmarks
from ..calculators.masks import warp_mask
from ..calculators.rectangles import alignment_rectangles, transform_rectangles
from ..calculators.smoothing import LandmarkFilter, VisibilityFilter
from ..core.anchor_detector import AnchorDetector
from ..core.asset import read_files
from ..core.chain_models import ChainModels
from ..core.containers import Landmark, NormalizedLandmark, normalized_landmarks, world_landmarks
from ..core.gpu_tracker import Found, GpuTracker
from ..core.image import Image, ImageFormat
from ..core.network import TaskNetwork
from ..core.options import BaseOptions, VisionTaskRunningMode, check_count, check_share
from ..core.task import DetectingTask
from ..core.tracker import Tracker
from ..graphs.detecting import Settings
from ..graphs.pose import VALUES
from .connections import PoseLandmarksConnections as PoseLandmarksConnections  # MediaPipe's module has it, too
from .landmark_names import PoseLandmark as PoseLandmark
from .pose_chain import pose_models

DETECTOR, LANDMARKS = "pose_detector.tflite", "pose_landmarks_detector.tflite"
STRIDES = (8, 16, 32, 32, 32)
POINTS = 4
"""Key points of a person: hips' middle, a point on the circle around the body, and the same of the upper body."""
COUNT = 33
ALL = 39
"""Landmarks that the network gives: behind a person's 33 are two that place the next region, and four for nothing."""
MARGIN = 1.25
"""A region's sides, in diameters of the circle around the body."""


@dataclass
class PoseLandmarkerOptions:
    """Options of a PoseLandmarker.

    Attributes
    ----------
    base_options
        The bundle, pose_landmarker_lite, _full or _heavy.task, and where it runs.
    running_mode
        Single pictures, a video, or a live stream. In the latter two persons are followed, and the landmarks of one
        person (``num_poses=1``) are smoothed.
    num_poses
        The most persons.
    min_pose_detection_confidence
        The least score of a detected person, from 0 to 1.
    min_pose_presence_confidence
        The least probability that a region has a person, from 0 to 1; below it the person is lost.
    min_tracking_confidence
        The overlap, from 0 to 1, above which a detected and a followed person are the same.
    output_segmentation_masks
        Whether the result has masks.
    result_callback
        For the live-stream mode: called with the result, the picture and its timestamp.
    """

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE
    num_poses: int = 1
    min_pose_detection_confidence: float = 0.5
    min_pose_presence_confidence: float = 0.5
    min_tracking_confidence: float = 0.5
    output_segmentation_masks: bool = False
    result_callback: Callable[[PoseLandmarkerResult, Any, int], None] | None = None


@dataclass
class PoseLandmarkerResult:
    """The persons in a picture.

    Attributes
    ----------
    pose_landmarks
        33 landmarks of each person in the picture, with visibility and presence.
    pose_world_landmarks
        33 landmarks of each person in metres, from the middle of the hips.
    segmentation_masks
        The mask of each person, VEC32F1 of the picture's size, if asked for: the probability of the person. For a
        picture in the GPU's memory, the objects of ``PoseLandmarker.bind_masks`` that have them.
    """

    pose_landmarks: list[list[NormalizedLandmark]]
    pose_world_landmarks: list[list[Landmark]]
    segmentation_masks: list[Any] | None = None


class Pose(NamedTuple):
    """A person as rows."""

    landmarks: Array
    """(33, 5), in the picture, with visibility and presence."""
    world: Array
    """(33, 5), in metres."""
    alignment: Array
    """(2, 2): the hips' middle and the point on the circle around the body, in the picture; (0, 2) of a picture on the
    GPU, which keeps them."""
    presence: float
    """The probability that the region has a person."""
    mask: Any
    """The probability of the person in each pixel: (height, width), float32, or the object on the GPU that has it; None
    if it was not asked for."""


class PoseLandmarks:
    """The network of a person's landmarks and mask."""

    def __init__(self, network: TaskNetwork) -> None:
        self._side = network.side[1]
        outputs = ((1, 5 * ALL), (1, 1), (1, -1, -1, 1), (1, -1, -1, ALL), (1, 3 * ALL))
        self._network = network.expect((1, self._side, self._side, 3), *outputs)

    def find(self, pixels: Any, rectangle: Array, *, mask: bool) -> Pose:
        """The person in a rectangle (5) of a picture."""
        size = pixels.shape[1], pixels.shape[0]
        region = region_of(rectangle, size)
        outputs = self._network.run_on(pixels, region)
        values, presence, heat_maps, world = (outputs[number] for number in (0, 1, 3, 4))
        landmarks = refine_landmarks(decode_landmarks(values, ALL, self._side), heat_maps[0])
        landmarks = project_in_square(landmarks, rectangle)
        body = landmarks[:COUNT]
        space = turn_world_landmarks(world.reshape(ALL, 3)[:COUNT], region.rotation)
        return Pose(
            body,
            np.concatenate([space, body[:, 3:]], axis=1),
            landmarks[COUNT : COUNT + 2, :2],
            float(presence.ravel()[0]),
            warp_mask(sigmoid(outputs[2][0, ..., 0]), region_matrix(region, size), size) if mask else None,
        )


class PoseFilter:
    """The filters of one person's landmarks: places by the One-Euro filter, visibilities by a low-pass filter."""

    def __init__(self) -> None:
        self._places, self._world = LandmarkFilter(0.05, 80.0), LandmarkFilter(0.1, 40.0)
        self._visibility = VisibilityFilter()

    def reset(self) -> None:
        """Forget the person."""
        for each in (self._places, self._world, self._visibility):
            each.reset()

    def __call__(self, pose: Pose, region: Array, size: tuple[int, int], milliseconds: float) -> Pose:
        """The filtered person. The size of ``region`` (5) is the person's."""
        units = np.array([size[0], size[1], size[0]], np.float32)
        scale = float(region[2] * size[0] + region[3] * size[1]) / 2
        visibility = self._visibility(pose.landmarks[:, 3])
        landmarks, world = pose.landmarks.copy(), pose.world.copy()
        landmarks[:, :3] = self._places(landmarks[:, :3] * units, milliseconds, scale) / units
        world[:, :3] = self._world(world[:, :3], milliseconds)
        landmarks[:, 3] = world[:, 3] = visibility
        return pose._replace(landmarks=landmarks, world=world)


class PosePipeline:
    """The networks of persons. ``find`` gives rows; the task makes the result of them."""

    def __init__(self, options: PoseLandmarkerOptions) -> None:
        for name in ("min_pose_detection_confidence", "min_pose_presence_confidence", "min_tracking_confidence"):
            check_share(name, getattr(options, name))
        check_count("num_poses", options.num_poses)
        files = read_files(options.base_options, (DETECTOR, LANDMARKS))
        delegate = options.base_options.delegate
        detector = TaskNetwork(files[DETECTOR], DETECTOR, delegate)
        self._detector = pose_detector(detector, options.min_pose_detection_confidence, 0.5)
        self._landmarks = PoseLandmarks(TaskNetwork(files[LANDMARKS], LANDMARKS, delegate))
        masks = options.num_poses if options.output_segmentation_masks else 0
        self.on_gpu = GpuTracker(self._models, options.num_poses, self._result_of, masks)
        self._options, self._files = options, files
        self._presence, self._masks = options.min_pose_presence_confidence, options.output_segmentation_masks
        self._tracker = Tracker(options.num_poses, options.min_tracking_confidence)
        self._filter = PoseFilter() if options.num_poses == 1 else None

    def find(self, pixels: Any, rectangle: Array, milliseconds: float | None) -> list[Pose]:
        """The persons in a picture."""
        size = pixels.shape[1], pixels.shape[0]
        stream = milliseconds is not None

        def detect() -> Array:
            return pose_rectangles(self._detector.find(pixels, rectangle), size)

        regions = self._tracker.regions(detect, stream=stream)
        poses = [self._landmarks.find(pixels, region, mask=self._masks) for region in regions]
        poses = [pose for pose in poses if pose.presence > self._presence]
        if stream:
            following = [next_pose(pose, size) for pose in poses]
            self._tracker.follow(following)
            if self._filter is not None and poses:
                poses = [self._filter(poses[0], following[0], size, milliseconds or 0)]
            elif self._filter is not None:
                self._filter.reset()
        return poses

    def process(self, pixels: Any, rectangle: Array, milliseconds: int | None) -> PoseLandmarkerResult:
        poses = self.find(pixels, rectangle, milliseconds)
        return self._result(poses, [Image(ImageFormat.VEC32F1, pose.mask) for pose in poses if pose.mask is not None])

    def _models(self, size: tuple[int, int]) -> ChainModels:
        options, follows = self._options, self._options.running_mode is not VisionTaskRunningMode.IMAGE
        settings = Settings(
            options.num_poses, options.min_pose_detection_confidence, options.min_pose_presence_confidence,
            options.min_tracking_confidence, is_smooth=self._filter is not None and follows, follows=follows,
        )  # fmt: skip
        return pose_models(self._files, settings, size, masks=self._masks)

    def seen(self, found: Found) -> list[Pose]:
        """The persons in a picture on the GPU, as ``find`` gives those in an array."""
        return [pose_of(row, found.size, found.masks) for row in found.rows]

    def _result_of(self, found: Found) -> PoseLandmarkerResult:
        poses = self.seen(found)
        return self._result(poses, [pose.mask for pose in poses])

    def _result(self, poses: list[Pose], masks: list[Any]) -> PoseLandmarkerResult:
        return PoseLandmarkerResult(
            [normalized_landmarks(pose.landmarks) for pose in poses],
            [world_landmarks(pose.world) for pose in poses],
            masks if self._masks else None,
        )


def pose_of(row: Array, size: tuple[int, int], masks: Sequence[Any] = ()) -> Pose:
    """The person of a row of ``pose_models`` in a picture of ``size`` (width, height); ``masks`` are the picture's."""
    points = row[: VALUES * COUNT].reshape(COUNT, VALUES)
    places = points[:, :5] / np.array([*size, size[0], 1, 1], np.float32)
    mask = masks[int(row[-1]) - 1] if masks else None
    return Pose(places, points[:, [5, 6, 7, 3, 4]], np.empty((0, 2), np.float32), float(row[VALUES * COUNT]), mask)


def pose_detector(network: TaskNetwork, confidence: float, overlap: float) -> AnchorDetector:
    """The detector of persons of a network."""
    return AnchorDetector(network, STRIDES, POINTS, confidence, overlap, removes_bars=True)


def pose_rectangles(found: Detections, size: tuple[int, int]) -> Array:
    """The rectangles (n, 5) in which detected persons are looked at."""
    circles = alignment_rectangles(found.places[:, 4:6], found.places[:, 6:8], size)
    return transform_rectangles(circles, size, MARGIN)


def next_pose(pose: Pose, size: tuple[int, int]) -> Array:
    """The rectangle (5) in which the person's next frame is looked at."""
    circle = alignment_rectangles(pose.alignment[:1], pose.alignment[1:], size)
    return transform_rectangles(circle, size, MARGIN)[0]


class PoseLandmarker(DetectingTask[PoseLandmarkerOptions, PoseLandmarkerResult]):
    """Finds the landmarks of persons, and follows them from frame to frame.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.tasks.vision.PoseLandmarker.create_from_model_path("missing.task")
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.task
    """

    options_type = PoseLandmarkerOptions
    pipeline_type = PosePipeline
    takes_gpu_pictures = True

    def bind_masks(self, masks: Sequence[Any]) -> None:
        """Write the masks of persons in pictures on the GPU to these objects, from the next picture on.

        Other objects may be bound for each picture; if their kinds and formats stay the same, this costs nothing. A
        live stream needs others for each: its results come when the next picture is submitted.

        Parameters
        ----------
        masks
            As many as ``num_poses``, in the memory that the networks use, as an output takes them: textures of the
            picture's size (r32f, or r8, which OpenGL ES cannot write), or buffers of height x width float32. Each is
            written in each picture: with probabilities from 0 to 1, and with zeros if it has no person.

        Raises
        ------
        ValueError
            If these are not ``num_poses`` masks, or if the options ask for none.
        """
        self._pipeline.on_gpu.bind_masks(masks)
