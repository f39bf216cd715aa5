"""HolisticLandmarker: the landmarks of one person's body, face and hands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import framebind as fb

from ...basic_types import Array
from ..calculators.blendshapes import NAMES, blendshape_points
from ..core.asset import read_files
from ..core.chain_models import ChainModels
from ..core.containers import Category, Landmark, NormalizedLandmark, normalized_landmarks, world_landmarks
from ..core.gpu_tracker import Found, GpuTracker
from ..core.image import Image, ImageFormat
from ..core.network import TaskNetwork
from ..core.options import BaseOptions, VisionTaskRunningMode, check_share
from ..core.task import DetectingTask
from ..graphs.detecting import Settings
from ..graphs.holistic import BODY, FACE_NUMBERS, HAND_NUMBERS, PartSettings
from ..graphs.pose import Steady
from .face_detector import face_detector
from .face_landmarker import BLENDSHAPES, FaceLandmarks, face_of
from .face_landmarker import DETECTOR as FACE_DETECTOR
from .face_landmarker import LANDMARKS as FACE_LANDMARKS
from .hand_landmarker import LANDMARKS as HAND_LANDMARKS
from .hand_landmarker import Hand, HandLandmarks, hand_of
from .holistic_chain import holistic_models
from .holistic_parts import HandRecrop, HolisticFace, HolisticHand, HolisticPose
from .pose_landmarker import DETECTOR as POSE_DETECTOR
from .pose_landmarker import LANDMARKS as POSE_LANDMARKS
from .pose_landmarker import Pose, PoseLandmarks, pose_detector, pose_of

RECROP = "hand_roi_refinement.tflite"
FRAME = 1000 / 30
"""Milliseconds from one single picture to the next."""
SIDES = ("LEFT", "RIGHT")
CONFIDENCES = (
    "min_face_detection_confidence", "min_face_suppression_threshold", "min_face_landmarks_confidence",
    "min_pose_detection_confidence", "min_pose_suppression_threshold", "min_pose_landmarks_confidence",
    "min_hand_landmarks_confidence",
)  # fmt: skip


@dataclass
class HolisticLandmarkerOptions:
    """Options of a HolisticLandmarker.

    Attributes
    ----------
    base_options
        The bundle, holistic_landmarker.task, and where it runs.
    running_mode
        Single pictures, a video, or a live stream.
    min_face_detection_confidence, min_pose_detection_confidence
        The least score of a detected face or person, from 0 to 1.
    min_face_suppression_threshold, min_pose_suppression_threshold
        The overlap, from 0 to 1, above which two detections are one thing.
    min_face_landmarks_confidence, min_pose_landmarks_confidence, min_hand_landmarks_confidence
        The least probability that a region has a face, a person or a hand, from 0 to 1.
    output_face_blendshapes, output_segmentation_mask
        Whether the result has them.
    result_callback
        For the live-stream mode: called with the result, the picture and its timestamp.
    """

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE
    min_face_detection_confidence: float = 0.5
    min_face_suppression_threshold: float = 0.5
    min_face_landmarks_confidence: float = 0.5
    min_pose_detection_confidence: float = 0.5
    min_pose_suppression_threshold: float = 0.5
    min_pose_landmarks_confidence: float = 0.5
    min_hand_landmarks_confidence: float = 0.5
    output_face_blendshapes: bool = False
    output_segmentation_mask: bool = False
    result_callback: Callable[[HolisticLandmarkerResult, Any, int], None] | None = None


@dataclass
class HolisticLandmarkerResult:
    """The person in a picture; lists are empty for what was not found.

    Attributes
    ----------
    face_landmarks
        478 landmarks of the face.
    pose_landmarks, pose_world_landmarks
        33 landmarks of the person, in the picture and in metres from the middle of the hips.
    left_hand_landmarks, right_hand_landmarks
        21 landmarks of each hand in the picture; left and right are the person's own.
    left_hand_world_landmarks, right_hand_world_landmarks
        21 landmarks of each hand in metres, from the middle of the hips.
    face_blendshapes
        52 categories of the face, if asked for.
    segmentation_mask
        The mask of the person, VEC32F1 of the picture's size, if asked for. For a picture in the GPU's memory, the
        object of ``HolisticLandmarker.bind_masks`` that has it.
    """

    face_landmarks: list[NormalizedLandmark]
    pose_landmarks: list[NormalizedLandmark]
    pose_world_landmarks: list[Landmark]
    left_hand_landmarks: list[NormalizedLandmark]
    left_hand_world_landmarks: list[Landmark]
    right_hand_landmarks: list[NormalizedLandmark]
    right_hand_world_landmarks: list[Landmark]
    face_blendshapes: list[Category] | None = None
    segmentation_mask: Any | None = None


class Whole(NamedTuple):
    """A person as rows; what was not found is None."""

    pose: Pose | None
    face: Array | None
    """(478, 3)."""
    hands: tuple[Hand | None, Hand | None]
    """The left and the right hand, whose world landmarks are from the middle of the hips."""
    blendshapes: Array | None = None
    """(52) of the face, if asked for."""


NOBODY = Whole(None, None, (None, None))


class HolisticPipeline:
    """The networks of a whole person. ``find`` gives rows; the task makes the result of them."""

    def __init__(self, options: HolisticLandmarkerOptions) -> None:
        for name in CONFIDENCES:
            check_share(name, getattr(options, name))
        needed = (FACE_DETECTOR, FACE_LANDMARKS, HAND_LANDMARKS, RECROP, POSE_DETECTOR, POSE_LANDMARKS)
        files = read_files(options.base_options, needed, (BLENDSHAPES,))
        delegate = options.base_options.delegate
        opened = {name: TaskNetwork(files[name], name, delegate) for name in needed}
        persons = pose_detector(
            opened[POSE_DETECTOR], options.min_pose_detection_confidence, options.min_pose_suppression_threshold
        )
        faces = face_detector(
            opened[FACE_DETECTOR], options.min_face_detection_confidence, options.min_face_suppression_threshold
        )
        self._pose = HolisticPose(persons, PoseLandmarks(opened[POSE_LANDMARKS]), options.min_pose_landmarks_confidence)
        landmarks = FaceLandmarks(opened[FACE_LANDMARKS])
        self._face = HolisticFace(faces, landmarks, options.min_face_landmarks_confidence)
        recrop, hands = HandRecrop(opened[RECROP]), HandLandmarks(opened[HAND_LANDMARKS])
        self._hands = [HolisticHand(side, recrop, hands, options.min_hand_landmarks_confidence) for side in SIDES]
        self._blendshapes = None
        if options.output_face_blendshapes:
            if BLENDSHAPES not in files:
                raise fb.ModelError(f"the bundle lacks {BLENDSHAPES}, which output_face_blendshapes needs")
            self._blendshapes = TaskNetwork(files[BLENDSHAPES], BLENDSHAPES, delegate).expect((1, 146, 2), (52,))
        self._has_mask = options.output_segmentation_mask
        self._milliseconds = 0.0
        self._options, self._files = options, files
        self.on_gpu = GpuTracker(self._models, 1, self._result_of, int(self._has_mask))

    def find(self, pixels: Any, rectangle: Array, milliseconds: float | None) -> Whole:
        """The person in a picture. Pictures without a time follow each other too, as in MediaPipe."""
        self._milliseconds = self._milliseconds + FRAME if milliseconds is None else milliseconds
        pose = self._pose.find(pixels, rectangle, self._milliseconds, mask=self._has_mask)
        if pose is None:
            for part in (self._face, *self._hands):
                part.reset()
            return NOBODY
        size = pixels.shape[1], pixels.shape[0]
        left, right = (self._hand(hand, pixels, pose, size) for hand in self._hands)
        face = self._face.find(pixels, pose.landmarks, size)
        if face is None or self._blendshapes is None:
            return Whole(pose, face, (left, right))
        shapes = self._blendshapes.run(blendshape_points(face, size)[None])[0].ravel()
        return Whole(pose, face, (left, right), shapes)

    def _hand(self, which: HolisticHand, pixels: Any, pose: Pose, size: tuple[int, int]) -> Hand | None:
        hand = which.find(pixels, pose.landmarks, size)
        return None if hand is None else hand._replace(world=which.aligned(hand, pose.world))

    def process(self, pixels: Array, rectangle: Array, milliseconds: int | None) -> HolisticLandmarkerResult:
        whole = self.find(pixels, rectangle, milliseconds)
        mask = None if whole.pose is None or whole.pose.mask is None else Image(ImageFormat.VEC32F1, whole.pose.mask)
        return _result(whole, mask)

    def _models(self, size: tuple[int, int]) -> ChainModels:
        options = self._options
        settings = Settings(
            1, options.min_pose_detection_confidence, options.min_pose_landmarks_confidence, is_smooth=True
        )
        parts = PartSettings(
            options.min_face_detection_confidence, options.min_face_suppression_threshold,
            options.min_face_landmarks_confidence, options.min_hand_landmarks_confidence,
            has_blendshapes=options.output_face_blendshapes,
        )  # fmt: skip
        return holistic_models(
            self._files, settings, parts, size, masks=self._has_mask, steady=Steady(masks=True),
            suppression=options.min_pose_suppression_threshold,
        )  # fmt: skip

    def seen(self, found: Found) -> Whole:
        """The person in a picture on the GPU, as ``find`` gives the one in an array."""
        return whole_of(found, has_blendshapes=self._blendshapes is not None)

    def _result_of(self, found: Found) -> HolisticLandmarkerResult:
        whole = self.seen(found)
        return _result(whole, found.masks[0] if found.masks and whole.pose is not None else None)


def whole_of(found: Found, *, has_blendshapes: bool = False) -> Whole:
    """The person of the row of ``holistic_models``; NOBODY if there is none."""
    if not len(found.rows):
        return NOBODY
    row, first = found.rows[0], BODY + FACE_NUMBERS
    face, *hands = row[BODY:first], row[first : first + HAND_NUMBERS], row[first + HAND_NUMBERS :][:HAND_NUMBERS]
    left, right = (hand_of(each, found.size) if each[-1] > 0 else None for each in hands)
    is_face = face[-1] > 0
    shapes = row[-1 - len(NAMES) : -1] if has_blendshapes and is_face else None
    landmarks = face_of(face, found.size).landmarks if is_face else None
    return Whole(pose_of(row, found.size), landmarks, (left, right), shapes)


def _result(whole: Whole, mask: Any) -> HolisticLandmarkerResult:
    pose, face, hands, shapes = whole
    (left, left_world), (right, right_world) = (
        ([], []) if hand is None else (normalized_landmarks(hand.landmarks), world_landmarks(hand.world))
        for hand in hands
    )
    named = None if shapes is None else zip(shapes.tolist(), NAMES, strict=True)
    return HolisticLandmarkerResult(
        [] if face is None else normalized_landmarks(face),
        [] if pose is None else normalized_landmarks(pose.landmarks),
        [] if pose is None else world_landmarks(pose.world),
        left,
        left_world,
        right,
        right_world,
        None if named is None else [Category(i, score, None, name) for i, (score, name) in enumerate(named)],
        mask,
    )


class HolisticLandmarker(DetectingTask[HolisticLandmarkerOptions, HolisticLandmarkerResult]):
    """Finds the landmarks of one person's body, face and hands, and follows them.

    As in MediaPipe, the single pictures of one task follow each other like frames.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.tasks.vision.HolisticLandmarker.create_from_model_path("missing.task")
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.task
    """

    options_type = HolisticLandmarkerOptions
    pipeline_type = HolisticPipeline
    takes_gpu_pictures = True

    def bind_masks(self, masks: Sequence[Any]) -> None:
        """Write the mask of the person in a picture on the GPU to this one object: see ``PoseLandmarker.bind_masks``.

        Raises
        ------
        ValueError
            If it is not one mask, or if the options ask for none.
        """
        self._pipeline.on_gpu.bind_masks(masks)
