"""``mp.tasks.vision``: the tasks, one file each, with their options, results and pipelines."""

from ..core.options import ImageProcessingOptions
from ..core.options import VisionTaskRunningMode as RunningMode
from . import drawing_styles, drawing_utils
from .connections import FaceLandmarksConnections, HandLandmarksConnections, PoseLandmarksConnections
from .face_detector import FaceDetector, FaceDetectorOptions, FaceDetectorResult
from .face_landmarker import Blendshapes, FaceLandmarker, FaceLandmarkerOptions, FaceLandmarkerResult
from .gesture_recognizer import GestureRecognizer, GestureRecognizerOptions, GestureRecognizerResult
from .hand_landmarker import HandLandmarker, HandLandmarkerOptions, HandLandmarkerResult
from .holistic_landmarker import HolisticLandmarker, HolisticLandmarkerOptions, HolisticLandmarkerResult
from .image_classifier import ImageClassifier, ImageClassifierOptions, ImageClassifierResult
from .image_embedder import ImageEmbedder, ImageEmbedderOptions, ImageEmbedderResult
from .image_segmenter import ImageSegmenter, ImageSegmenterOptions, ImageSegmenterResult
from .interactive_segmenter import BrushMode as InteractiveSegmenterBrushMode
from .interactive_segmenter import InteractiveSegmenter, InteractiveSegmenterOptions
from .interactive_segmenter import Stroke as InteractiveSegmenterStroke
from .interactive_segmenter import StrokePoint as InteractiveSegmenterStrokePoint
from .interactive_segmenter_legacy import (
    InteractiveSegmenterLegacy,
    InteractiveSegmenterLegacyOptions,
    InteractiveSegmenterLegacyRegionOfInterest,
)
from .landmark_names import HandLandmark, PoseLandmark
from .object_detector import ObjectDetector, ObjectDetectorOptions, ObjectDetectorResult
from .pose_landmarker import PoseLandmarker, PoseLandmarkerOptions, PoseLandmarkerResult

__all__ = [
    "Blendshapes",
    "FaceDetector",
    "FaceDetectorOptions",
    "FaceDetectorResult",
    "FaceLandmarker",
    "FaceLandmarkerOptions",
    "FaceLandmarkerResult",
    "FaceLandmarksConnections",
    "GestureRecognizer",
    "GestureRecognizerOptions",
    "GestureRecognizerResult",
    "HandLandmark",
    "HandLandmarker",
    "HandLandmarkerOptions",
    "HandLandmarkerResult",
    "HandLandmarksConnections",
    "HolisticLandmarker",
    "HolisticLandmarkerOptions",
    "HolisticLandmarkerResult",
    "ImageClassifier",
    "ImageClassifierOptions",
    "ImageClassifierResult",
    "ImageEmbedder",
    "ImageEmbedderOptions",
    "ImageEmbedderResult",
    "ImageProcessingOptions",
    "ImageSegmenter",
    "ImageSegmenterOptions",
    "ImageSegmenterResult",
    "InteractiveSegmenter",
    "InteractiveSegmenterBrushMode",
    "InteractiveSegmenterLegacy",
    "InteractiveSegmenterLegacyOptions",
    "InteractiveSegmenterLegacyRegionOfInterest",
    "InteractiveSegmenterOptions",
    "InteractiveSegmenterStroke",
    "InteractiveSegmenterStrokePoint",
    "ObjectDetector",
    "ObjectDetectorOptions",
    "ObjectDetectorResult",
    "PoseLandmark",
    "PoseLandmarker",
    "PoseLandmarkerOptions",
    "PoseLandmarkerResult",
    "PoseLandmarksConnections",
    "RunningMode",
    "drawing_styles",
    "drawing_utils",
]
