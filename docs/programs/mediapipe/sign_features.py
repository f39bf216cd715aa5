"""Key points of a whole person as one vector per frame, to train signs with: sign_features.py VIDEO."""

import sys

import cv2
import numpy as np
from framebind import mp  # import mediapipe as mp

mp_holistic = mp.solutions.holistic


def extract_keypoints(results):
    def flat(landmarks, count, values):
        if not landmarks:
            return np.zeros(count * len(values))
        return np.array([[getattr(each, value) for value in values] for each in landmarks.landmark]).flatten()

    pose = flat(results.pose_landmarks, 33, ("x", "y", "z", "visibility"))
    face = flat(results.face_landmarks, 468, "xyz")
    left = flat(results.left_hand_landmarks, 21, "xyz")
    right = flat(results.right_hand_landmarks, 21, "xyz")
    return np.concatenate([pose, face, left, right])


video, sequence = cv2.VideoCapture(sys.argv[1]), []
with mp_holistic.Holistic(min_detection_confidence=0.5, min_tracking_confidence=0.5) as holistic:
    while (read := video.read())[0]:
        sequence.append(extract_keypoints(holistic.process(cv2.cvtColor(read[1], cv2.COLOR_BGR2RGB))))
print(
    f"{len(sequence)} frames of {len(sequence[0])} values, {np.count_nonzero(sequence[-1])} of the last one are known"
)
