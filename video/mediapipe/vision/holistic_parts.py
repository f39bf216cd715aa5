"""One person: the body, and its face and hands, looked at where the body's landmarks say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...basic_types import Array, Size
from ..calculators.image_to_tensor import region_matrix, region_of
from ..calculators.landmarks import project_landmarks
from ..calculators.masks import smooth_mask
from ..calculators.recrops import (
    FACE,
    HAND,
    face_rectangle_of_detection,
    face_rectangle_of_pose,
    hand_rectangle_of_pose,
    still_holds,
)
from ..calculators.rectangles import alignment_rectangles, landmark_rectangle, transform_rectangles
from ..calculators.smoothing import LandmarkFilter
from ..core.anchor_detector import AnchorDetector
from ..core.network import TaskNetwork
from .face_landmarker import EYES, MARGIN, FaceLandmarks
from .hand_landmarker import Hand, HandLandmarks, next_hand
from .landmark_names import PoseLandmark
from .pose_landmarker import Pose, PoseFilter, PoseLandmarks, next_pose, pose_rectangles

LEAST_VISIBILITY = 0.1
"""Visibility of a wrist below which its hand is not looked for."""


class HolisticPose:
    """The body of one person: detected, and followed by smoothed auxiliary landmarks."""

    def __init__(
        self,
        detector: AnchorDetector,
        landmarks: PoseLandmarks,
        confidence: float,
        *,
        is_smooth: bool = True,
        is_mask_smooth: bool = True,
    ) -> None:
        self._detector, self._landmarks, self._confidence = detector, landmarks, confidence
        self._filter = PoseFilter() if is_smooth else None
        self._alignment, self._is_mask_smooth = LandmarkFilter(0.01, 10.0), is_mask_smooth
        self.reset()

    def reset(self) -> None:
        """Forget the person."""
        if self._filter is not None:
            self._filter.reset()
        self._alignment.reset()
        self._region: Array | None = None
        self._mask: Array | None = None

    def find(self, picture: Any, rectangle: Array, milliseconds: float | None, *, mask: bool) -> Pose | None:
        """The person in a picture; in one without a time nobody is followed and nothing is smoothed."""
        size = picture.shape[1], picture.shape[0]
        region = None if milliseconds is None else self._region
        if region is None:
            found = pose_rectangles(self._detector.find(picture, rectangle), size)[:1]
            region = found[0] if len(found) else None
        pose = None if region is None else self._landmarks.find(picture, region, mask=mask)
        if pose is None or not pose.presence > self._confidence:
            self.reset()
            return None
        return pose if milliseconds is None else self._smoothed(pose, size, milliseconds)

    def _smoothed(self, pose: Pose, size: Size, milliseconds: float) -> Pose:
        circle = alignment_rectangles(pose.alignment[:1], pose.alignment[1:], size)[0]
        pixels = np.array(size, np.float32)
        scale = float(circle[2] * size[0] + circle[3] * size[1]) / 2
        alignment = self._alignment(pose.alignment * pixels, milliseconds, scale) / pixels
        self._region = next_pose(pose._replace(alignment=alignment), size)
        if self._filter is not None:
            pose = self._filter(pose, circle, size, milliseconds)
        if pose.mask is not None and self._is_mask_smooth:
            self._mask = pose.mask if self._mask is None else smooth_mask(pose.mask, self._mask)
            pose = pose._replace(mask=self._mask)
        return pose


class HolisticFace:
    """The face of one person: detected where the person's landmarks are, and followed while it stays there."""

    def __init__(self, detector: AnchorDetector, landmarks: FaceLandmarks, confidence: float) -> None:
        self._detector, self._landmarks, self._confidence = detector, landmarks, confidence
        self.reset()

    def reset(self) -> None:
        """Forget the face."""
        self._previous: Array | None = None

    def find(self, picture: Any, pose: Array, size: Size, *, follows: bool = True) -> Array | None:
        """The landmarks (478, 3) of the face of a person with the landmarks ``pose`` (33, 2 or more)."""
        previous, self._previous = self._previous, None
        found = self._detector.find(picture, face_rectangle_of_pose(pose, size))
        if not len(found.places):
            return None
        region = face_rectangle_of_detection(found.places[0], size)
        if previous is not None and follows:
            eyes = landmark_rectangle(previous, *EYES, size, 0.0)
            followed = transform_rectangles(eyes[None], size, MARGIN, square=False)[0]
            region = followed if still_holds(previous, followed, region, size, FACE) else region
        face = self._landmarks.find(picture, region)
        if face.presence > self._confidence:
            self._previous = face.landmarks
        return self._previous


class HolisticHand:
    """One hand of one person; ``side`` is "LEFT" or "RIGHT"."""

    def __init__(self, side: str, recrop: HandRecrop, landmarks: HandLandmarks, confidence: float) -> None:
        self._points = [int(PoseLandmark[f"{side}_{part}"]) for part in ("WRIST", "PINKY", "INDEX")]
        self._recrop, self._landmarks, self._confidence = recrop, landmarks, confidence
        self.reset()

    def reset(self) -> None:
        """Forget the hand."""
        self._previous: Array | None = None

    def find(self, picture: Any, pose: Array, size: Size, *, follows: bool = True) -> Hand | None:
        """The hand of a person with the landmarks ``pose`` (33, 4 or more: the fourth is visibility)."""
        previous, self._previous = self._previous, None
        if not pose[self._points[0], 3] > LEAST_VISIBILITY:
            return None
        wrist, little, index = pose[self._points, :2]
        region = self._recrop.find(picture, hand_rectangle_of_pose(wrist, little, index, size))
        if previous is not None and follows:
            followed = next_hand(previous, size)
            region = followed if still_holds(previous, followed, region, size, HAND) else region
        hand = self._landmarks.find(picture, region)
        if not hand.presence > self._confidence:
            return None
        self._previous = hand.landmarks
        return hand

    def aligned(self, hand: Hand, world: Array) -> Array:
        """The hand's world landmarks (21, 3), moved so that its wrist is the person's of ``world`` (33, 3 or more)."""
        return hand.world + (world[self._points[0], :3] - hand.world[0])


class HandRecrop:
    """The network that finds the region of a hand in a larger one: its two points are the middle and the direction."""

    def __init__(self, network: TaskNetwork) -> None:
        self._side = network.side[1]
        self._network = network.expect((1, self._side, self._side, 3), (1, 1, 1, 4))

    def find(self, picture: Any, rectangle: Array) -> Array:
        """The rectangle (5) of the hand in a rectangle (5) of a picture."""
        size = picture.shape[1], picture.shape[0]
        region = region_of(rectangle, size, aspect=1.0)
        points = self._network.run_on(picture, region)[0].reshape(2, 2) / np.float32(self._side)
        middle, end = project_landmarks(np.column_stack([points, np.zeros(2)]), region_matrix(region, size))[:, :2]
        square = alignment_rectangles(middle[None], end[None], size, -math.pi / 2)
        return transform_rectangles(square, size, 1.0, shift_y=-0.1)[0]
