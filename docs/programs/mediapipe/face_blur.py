"""Faces blurred: face_blur.py VIDEO."""

import sys

import cv2
from framebind import mp  # import mediapipe as mp

video, blurred = cv2.VideoCapture(sys.argv[1]), 0
with mp.solutions.face_detection.FaceDetection(model_selection=0, min_detection_confidence=0.5) as detector:
    while True:
        ok, frame = video.read()
        if not ok:
            break
        height, width, _ = frame.shape
        out = detector.process(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
        if out.detections is not None:
            for detection in out.detections:
                box = detection.location_data.relative_bounding_box
                x1, y1, w, h = (
                    int(box.xmin * width),
                    int(box.ymin * height),
                    int(box.width * width),
                    int(box.height * height),
                )
                x1, y1 = max(x1, 0), max(y1, 0)
                frame[y1 : y1 + h, x1 : x1 + w] = cv2.blur(frame[y1 : y1 + h, x1 : x1 + w], (30, 30))
                blurred += 1
print(f"{blurred} faces blurred")
