"""Blinks, by the height of the eyes over their width: blink_counter.py VIDEO."""

import sys

import cv2
import numpy as np
from framebind import mp  # import mediapipe as mp

LEFT, RIGHT = [362, 385, 387, 263, 373, 380], [33, 160, 158, 133, 153, 144]


def ratio(points, eye):
    p = points[eye]
    return (np.linalg.norm(p[1] - p[5]) + np.linalg.norm(p[2] - p[4])) / (2 * np.linalg.norm(p[0] - p[3]) + 1e-6)


video, blinks, closed, frames = cv2.VideoCapture(sys.argv[1]), 0, False, 0
with mp.solutions.face_mesh.FaceMesh(max_num_faces=1, refine_landmarks=True) as face_mesh:
    while video.isOpened():
        ok, frame = video.read()
        if not ok:
            break
        results = face_mesh.process(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
        if results.multi_face_landmarks:
            height, width = frame.shape[:2]
            face = results.multi_face_landmarks[0].landmark
            points = np.array([(point.x * width, point.y * height) for point in face])
            now = (ratio(points, LEFT) + ratio(points, RIGHT)) / 2 < 0.2
            blinks, closed, frames = blinks + (now and not closed), now, frames + 1
print(f"{blinks} blinks in {frames} frames with a face")
