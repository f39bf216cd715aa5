"""Blendshapes of a face for a puppet, as lines of JSON: puppet.py VIDEO, beside face_landmarker.task."""

import json
import sys

import cv2
from framebind import mp  # import mediapipe as mp
from framebind.mp.tasks import python  # from mediapipe.tasks import python
from framebind.mp.tasks.python import vision  # from mediapipe.tasks.python import vision

options = vision.FaceLandmarkerOptions(
    base_options=python.BaseOptions(model_asset_path="face_landmarker.task"),
    running_mode=vision.RunningMode.VIDEO,
    output_face_blendshapes=True,
    output_facial_transformation_matrixes=False,
    num_faces=1,
)
video = cv2.VideoCapture(sys.argv[1])
with vision.FaceLandmarker.create_from_options(options) as landmarker:
    number = 0
    while (read := video.read())[0]:
        image = mp.Image(image_format=mp.ImageFormat.SRGB, data=cv2.cvtColor(read[1], cv2.COLOR_BGR2RGB))
        result = landmarker.detect_for_video(image, number * 33)
        number += 1
        if result.face_blendshapes:
            shapes = {each.category_name: round(each.score, 3) for each in result.face_blendshapes[0]}
            print(json.dumps({name: shapes[name] for name in ("jawOpen", "mouthSmileLeft", "eyeBlinkRight")}))
