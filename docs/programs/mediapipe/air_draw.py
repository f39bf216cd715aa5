"""A line drawn by an index finger, in a live stream: air_draw.py VIDEO, beside hand_landmarker.task."""

import sys
import time

import cv2
from framebind import mp  # import mediapipe as mp

BaseOptions = mp.tasks.BaseOptions
HandLandmarker = mp.tasks.vision.HandLandmarker
HandLandmarkerOptions = mp.tasks.vision.HandLandmarkerOptions
HandLandmarkerResult = mp.tasks.vision.HandLandmarkerResult
VisionRunningMode = mp.tasks.vision.RunningMode
line = []


def print_result(result: HandLandmarkerResult, output_image: mp.Image, timestamp_ms: int):
    for hand in result.hand_landmarks:
        line.append((hand[8].x * output_image.width, hand[8].y * output_image.height))


options = HandLandmarkerOptions(
    base_options=BaseOptions(model_asset_path="hand_landmarker.task"),
    running_mode=VisionRunningMode.LIVE_STREAM,
    result_callback=print_result,
)
video = cv2.VideoCapture(sys.argv[1])
with HandLandmarker.create_from_options(options) as landmarker:
    number = 0
    while (read := video.read())[0]:
        mp_image = mp.Image(image_format=mp.ImageFormat.SRGB, data=cv2.cvtColor(read[1], cv2.COLOR_BGR2RGB))
        landmarker.detect_async(mp_image, number * 33)
        number += 1
        time.sleep(0.03)
print(f"{len(line)} points")
