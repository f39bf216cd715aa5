"""``mp.tasks.vision``: the tasks, one file each, with their options, results and pipelines."""

from ..core.options import ImageProcessingOptions
from ..core.options import VisionTaskRunningMode as RunningMode
from . import drawing_styles, drawing_utils
from .connections import FaceLandmarksConnections, HandLandmarksConnections, PoseLandmarksConnections
from .face_detector import FaceDetector, FaceDetectorOptions, FaceDetectorResult
from .face_landmarker import Blendshapes, FaceLandmarker, FaceLandmarkerOptions, FaceLandmarkerResult
from .hand_landmarker import HandLandmarker, HandLandmarkerOptions, HandLandmarkerResult
from .landmark_names import HandLandmark, PoseLandmark
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
    "HandLandmark",
    "HandLandmarker",
    "HandLandmarkerOptions",
    "HandLandmarkerResult",
    "HandLandmarksConnections",
    "ImageProcessingOptions",
    "PoseLandmark",
    "PoseLandmarker",
    "PoseLandmarkerOptions",
    "PoseLandmarkerResult",
    "PoseLandmarksConnections",
    "RunningMode",
    "drawing_styles",
    "drawing_utils",
]
