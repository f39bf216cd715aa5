"""Curls, by the angle of the left elbow: curl_counter.py VIDEO."""

import sys

import cv2
import numpy as np
from framebind import mp  # import mediapipe as mp

mp_pose, mp_drawing = mp.solutions.pose, mp.solutions.drawing_utils
spec = mp.solutions.drawing_styles.get_default_pose_landmarks_style()
video, stage, counter, angle = cv2.VideoCapture(sys.argv[1]), "down", 0, 0.0
with mp_pose.Pose(min_detection_confidence=0.5, min_tracking_confidence=0.5) as pose:
    while video.isOpened():
        ok, frame = video.read()
        if not ok:
            break
        image = cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
        image.flags.writeable = False
        results = pose.process(image)
        try:
            landmarks = results.pose_landmarks.landmark
        except AttributeError:
            continue
        names = ("LEFT_SHOULDER", "LEFT_ELBOW", "LEFT_WRIST")
        a, b, c = (np.array([(p := landmarks[mp_pose.PoseLandmark[name].value]).x, p.y]) for name in names)
        angle = abs(np.degrees(np.arctan2(*(c - b)[::-1]) - np.arctan2(*(a - b)[::-1])))
        if angle > 160:
            stage = "down"
        if angle < 30 and stage == "down":
            stage, counter = "up", counter + 1
        mp_drawing.draw_landmarks(frame, results.pose_landmarks, mp_pose.POSE_CONNECTIONS, landmark_drawing_spec=spec)
print(f"{counter} curls, the last angle is {angle:.0f} degrees")
