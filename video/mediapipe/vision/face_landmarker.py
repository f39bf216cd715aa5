"""FaceLandmarker: 478 landmarks of each face, 52 blendshapes, and the face's place in space."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import framebind as fb

from ...basic_types import Array
from ...vision.ssd import sigmoid
from ..calculators.blendshapes import NAMES, blendshape_points
from ..calculators.face_geometry import face_matrix
from ..calculators.image_to_tensor import region_matrix, region_of
from ..calculators.landmarks import decode_landmarks, project_landmarks
from ..calculators.rectangles import box_rectangles, landmark_rectangle, transform_rectangles
from ..calculators.smoothing import LandmarkFilter, object_scale
from ..core.asset import read_files
from ..core.chain_models import ChainModels
from ..core.containers import Category, NormalizedLandmark, normalized_landmarks
from ..core.geometry_file import read_geometry
from ..core.gpu_tracker import Found, GpuTracker
from ..core.network import TaskNetwork
from ..core.options import (
    BaseOptions,
    VisionTaskRunningMode,
    check_count,
    check_share,
)
from ..core.task import DetectingTask
from ..core.tracker import Tracker
from ..graphs.detecting import Settings
from .connections import FaceLandmarksConnections as FaceLandmarksConnections  # MediaPipe's module has it, too
from .face_chain import face_models
from .face_detector import face_detector

Blendshapes = enum.IntEnum(
    "Blendshapes",
    {"".join(f"_{c}" if c.isupper() else c for c in name.lstrip("_")).upper(): i for i, name in enumerate(NAMES)},
)
Blendshapes.__doc__ = "The 52 blendshapes by MediaPipe's names: ``Blendshapes.JAW_OPEN`` is 25."

DETECTOR, LANDMARKS, BLENDSHAPES = "face_detector.tflite", "face_landmarks_detector.tflite", "face_blendshapes.tflite"
GEOMETRY = "geometry_pipeline_metadata_landmarks.binarypb"
COUNT = 478
EYES_OF_BOX = 0, 1
EYES = 33, 263
"""The key points, and the landmarks, of the outer corners of the eyes: their line is level in a region."""
MARGIN = 1.5
"""A region's sides, in sides of the face's box."""


@dataclass
class FaceLandmarkerOptions:
    """Options of a FaceLandmarker.

    Attributes
    ----------
    base_options
        The bundle, face_landmarker.task, and where it runs.
    running_mode
        Single pictures, a video, or a live stream. In the latter two faces are followed, and the landmarks of one face
        (``num_faces=1``) are smoothed.
    num_faces
        The most faces.
    min_face_detection_confidence
        The least score of a detected face, from 0 to 1.
    min_face_presence_confidence
        The least probability that a region has a face, from 0 to 1; below it the face is lost.
    min_tracking_confidence
        The overlap, from 0 to 1, above which a detected and a followed face are the same.
    output_face_blendshapes, output_facial_transformation_matrixes
        Whether the result has them.
    result_callback
        For the live-stream mode: called with the result, the picture and its timestamp.
    """

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE
    num_faces: int = 1
    min_face_detection_confidence: float = 0.5
    min_face_presence_confidence: float = 0.5
    min_tracking_confidence: float = 0.5
    output_face_blendshapes: bool = False
    output_facial_transformation_matrixes: bool = False
    result_callback: Callable[[FaceLandmarkerResult, Any, int], None] | None = None


@dataclass
class FaceLandmarkerResult:
    """The faces in a picture.

    Attributes
    ----------
    face_landmarks
        478 landmarks of each face; the last ten are the irises.
    face_blendshapes
        52 categories of each face, if asked for.
    facial_transformation_matrixes
        The matrix (4, 4), float32, of each face, if asked for: from the canonical face to the camera, in centimetres.
    """

    face_landmarks: list[list[NormalizedLandmark]]
    face_blendshapes: list[list[Category]]
    facial_transformation_matrixes: list[npt.NDArray[np.float32]]


class Face(NamedTuple):
    """A face as rows."""

    landmarks: Array
    """(478, 3), in the picture."""
    presence: float
    """The probability that the region has a face."""
    blendshapes: Array | None = None
    """(52,), if asked for."""


class FacePipeline:
    """The networks of faces. ``find`` gives rows; the task makes the result of them."""

    def __init__(self, options: FaceLandmarkerOptions, *, is_smooth: bool = True) -> None:
        self._options = options
        for name in ("min_face_detection_confidence", "min_face_presence_confidence", "min_tracking_confidence"):
            check_share(name, getattr(options, name))
        check_count("num_faces", options.num_faces)
        files = read_files(options.base_options, (DETECTOR, LANDMARKS), (BLENDSHAPES, GEOMETRY))
        delegate = options.base_options.delegate
        detector = TaskNetwork(files[DETECTOR], DETECTOR, delegate)
        self._detector = face_detector(detector, options.min_face_detection_confidence, 0.5)
        self._landmarks = FaceLandmarks(TaskNetwork(files[LANDMARKS], LANDMARKS, delegate))
        self._files = files
        self._blendshapes = self._face = None
        if options.output_face_blendshapes:
            network = TaskNetwork(_needed(files, BLENDSHAPES), BLENDSHAPES, delegate)
            self._blendshapes = network.expect((1, 146, 2), (52,))
        if options.output_facial_transformation_matrixes:
            self._face = read_geometry(_needed(files, GEOMETRY))
        self.forget()
        self._is_smooth = options.num_faces == 1 and is_smooth
        self.on_gpu = GpuTracker(self.models, options.num_faces, self._result_of)
        self._filter = LandmarkFilter(min_cutoff=0.05, beta=80.0) if self._is_smooth else None

    def forget(self) -> None:
        """Forget the faces of earlier frames."""
        self._tracker = Tracker(self._options.num_faces, self._options.min_tracking_confidence)

    def find(self, pixels: Any, rectangle: Array, milliseconds: float | None) -> list[Face]:
        """The faces in a picture."""
        size = pixels.shape[1], pixels.shape[0]
        stream = milliseconds is not None

        def detect() -> Array:
            found = self._detector.find(pixels, rectangle)
            boxes = box_rectangles(found.places, *EYES_OF_BOX, size, target=0.0)
            return transform_rectangles(boxes, size, MARGIN, square=False)[: self._options.num_faces]

        faces = [self._landmarks.find(pixels, region) for region in self._tracker.regions(detect, stream=stream)]
        faces = [face for face in faces if face.presence > self._options.min_face_presence_confidence]
        if stream:
            self._tracker.follow([next_face(face.landmarks, size) for face in faces])
            faces = self._smoothed(faces, size, milliseconds or 0)
        if self._blendshapes is None:
            return faces
        return [face._replace(blendshapes=self.blendshapes(face.landmarks, size)) for face in faces]

    def _smoothed(self, faces: list[Face], size: tuple[int, int], milliseconds: float) -> list[Face]:
        if self._filter is None:
            return faces
        if not faces:
            self._filter.reset()
            return faces
        units = np.array([size[0], size[1], size[0]], np.float32)
        points = faces[0].landmarks * units
        return [faces[0]._replace(landmarks=self._filter(points, milliseconds, object_scale(points)) / units)]

    def blendshapes(self, landmarks: Array, size: tuple[int, int]) -> Array:
        """The 52 blendshapes of a face."""
        assert self._blendshapes is not None
        return self._blendshapes.run(blendshape_points(landmarks, size)[None])[0].ravel()

    def process(self, pixels: Any, rectangle: Array, milliseconds: int | None) -> FaceLandmarkerResult:
        return self._result(self.find(pixels, rectangle, milliseconds), (pixels.shape[1], pixels.shape[0]))

    def models(self, size: tuple[int, int]) -> ChainModels:
        """The chain's models for pictures of a size on the GPU."""
        options = self._options
        follows = options.running_mode is not VisionTaskRunningMode.IMAGE
        settings = Settings(
            options.num_faces, options.min_face_detection_confidence, options.min_face_presence_confidence,
            options.min_tracking_confidence, is_smooth=self._is_smooth and follows, follows=follows,
        )  # fmt: skip
        wanted = {DETECTOR, LANDMARKS, *([BLENDSHAPES] if self._blendshapes else [])}
        return face_models({name: self._files[name] for name in wanted}, settings, size)

    def seen(self, found: Found) -> list[Face]:
        """The faces in a picture on the GPU, as ``find`` gives those in an array."""
        return [face_of(row, found.size) for row in found.rows]

    def _result_of(self, found: Found) -> FaceLandmarkerResult:
        return self._result(self.seen(found), found.size)

    def _result(self, faces: list[Face], size: tuple[int, int]) -> FaceLandmarkerResult:
        named = [
            [Category(i, score, None, name) for i, (score, name) in enumerate(zip(each.tolist(), NAMES, strict=True))]
            for each in (face.blendshapes for face in faces)
            if each is not None
        ]
        geometry = self._face
        places = [] if geometry is None else [face_matrix(face.landmarks, geometry, size) for face in faces]
        found = [place for place in places if place is not None]
        return FaceLandmarkerResult([normalized_landmarks(face.landmarks) for face in faces], named, found)


def face_of(row: Array, size: tuple[int, int]) -> Face:
    """The face of a row of ``face_models`` in a picture of ``size`` (width, height)."""
    landmarks, shapes = row[: 3 * COUNT].reshape(COUNT, 3), row[3 * COUNT : -1]
    return Face(landmarks / np.array([*size, size[0]], np.float32), float(row[-1]), shapes if len(shapes) else None)


class FaceLandmarks:
    """The network of 478 landmarks."""

    def __init__(self, network: TaskNetwork) -> None:
        self._side = network.side[1]
        self._network = network.expect((1, self._side, self._side, 3), (1, 1, 1, 3 * COUNT), (1, 1, 1, 1))

    def find(self, pixels: Any, rectangle: Array) -> Face:
        """The face in a rectangle (5) of a picture."""
        size = pixels.shape[1], pixels.shape[0]
        region = region_of(rectangle, size)
        outputs = self._network.run_on(pixels, region)
        landmarks = decode_landmarks(outputs[0], COUNT, self._side)
        presence = float(sigmoid(outputs[1].ravel()[0]))
        return Face(project_landmarks(landmarks, region_matrix(region, size)), presence)


def next_face(landmarks: Array, size: tuple[int, int]) -> Array:
    """The rectangle (5) in which the face's next frame is looked at."""
    return transform_rectangles(landmark_rectangle(landmarks, *EYES, size, 0.0)[None], size, MARGIN)[0]


def _needed(files: dict[str, bytes], name: str) -> bytes:
    if name not in files:
        raise fb.ModelError(f"the bundle lacks {name}, which an output that is asked for needs")
    return files[name]


class FaceLandmarker(DetectingTask[FaceLandmarkerOptions, FaceLandmarkerResult]):
    """Finds the landmarks of faces, and follows them from frame to frame.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.tasks.vision.FaceLandmarker.create_from_model_path("missing.task")
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.task
    """

    options_type = FaceLandmarkerOptions
    pipeline_type = FacePipeline
    takes_gpu_pictures = True
