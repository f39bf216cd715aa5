"""Volume by the distance of thumb and index finger: volume_by_hand.py VIDEO."""

import math
import sys

import cv2
from framebind import mp  # import mediapipe as mp

hands = mp.solutions.hands.Hands(max_num_hands=1, min_detection_confidence=0.7)
draw = mp.solutions.drawing_utils
video = cv2.VideoCapture(sys.argv[1])
volume = 0.0
while True:
    ok, frame = video.read()
    if not ok:
        break
    results = hands.process(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    if results.multi_hand_landmarks:
        for hand in results.multi_hand_landmarks:
            draw.draw_landmarks(frame, hand, mp.solutions.hands.HAND_CONNECTIONS)
            thumb, index = hand.landmark[4], hand.landmark[8]
            volume = min(math.hypot(thumb.x - index.x, thumb.y - index.y) * 3, 1.0)
print(f"volume {volume:.0%}")
