"""``mp.framework``: the messages of ``mp.solutions`` under MediaPipe's path, ``mp.framework.formats.landmark_pb2``."""

import sys

from .solutions import messages as landmark_pb2

formats = sys.modules[__name__]
"""The module itself: programs name it ``mediapipe.framework.formats``."""

__all__ = ["formats", "landmark_pb2"]
