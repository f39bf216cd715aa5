"""The number of fingers that are up: finger_counter.py VIDEO."""

import sys

import cv2
from framebind import mp  # import mediapipe as mp

mp_hands = mp.solutions.hands
video, said = cv2.VideoCapture(sys.argv[1]), "no hand"
with mp_hands.Hands(static_image_mode=False, max_num_hands=2, model_complexity=1) as hands:
    while video.isOpened():
        success, image = video.read()
        if not success:
            break
        results = hands.process(cv2.cvtColor(cv2.flip(image, 1), cv2.COLOR_BGR2RGB))
        if not results.multi_hand_landmarks:
            continue
        for landmarks, handedness in zip(results.multi_hand_landmarks, results.multi_handedness):
            label, points = handedness.classification[0].label, landmarks.landmark
            tips = (mp_hands.HandLandmark.INDEX_FINGER_TIP, 12, 16, 20)
            up = sum(points[tip].y < points[tip - 2].y for tip in tips)
            thumb = points[4].x < points[3].x if label == "Right" else points[4].x > points[3].x
            said = f"{label} hand: {up + thumb} fingers"
print(said)
