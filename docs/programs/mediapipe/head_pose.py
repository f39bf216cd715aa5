"""The direction of a head, by six landmarks and solvePnP: head_pose.py VIDEO."""

import sys

import cv2
import framebind.mp as mp  # import mediapipe as mp
import numpy as np

MODEL = np.array([(0, 0, 0), (0, -63, -12), (-43, 32, -26), (43, 32, -26), (-28, -28, -24), (28, -28, -24)], np.float64)
face_mesh = mp.solutions.face_mesh.FaceMesh(min_detection_confidence=0.5, min_tracking_confidence=0.5)
video = cv2.VideoCapture(sys.argv[1])
answer = "no face"
while (read := video.read())[0]:
    frame = read[1]
    height, width, _ = frame.shape
    results = face_mesh.process(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    for face in results.multi_face_landmarks or []:
        seen = np.array([(face.landmark[i].x * width, face.landmark[i].y * height) for i in (1, 152, 33, 263, 61, 291)])
        camera = np.array([[width, 0, width / 2], [0, width, height / 2], [0, 0, 1]], np.float64)
        _, turn, _ = cv2.solvePnP(MODEL, seen, camera, None, flags=cv2.SOLVEPNP_SQPNP)
        answer = f"turned by {np.degrees(np.linalg.norm(turn)):.0f} degrees"
print(answer)
