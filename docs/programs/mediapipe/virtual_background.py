"""A person before another background: virtual_background.py VIDEO."""

import sys

import cv2
import numpy as np
from framebind import mp  # import mediapipe as mp

video, share = cv2.VideoCapture(sys.argv[1]), 0.0
with mp.solutions.selfie_segmentation.SelfieSegmentation(model_selection=0) as selfie:
    while True:
        ok, frame = video.read()
        if not ok:
            break
        results = selfie.process(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
        condition = np.stack((results.segmentation_mask,) * 3, axis=-1) > 0.1
        background = np.full(frame.shape, (192, 192, 192), np.uint8)
        output = np.where(condition, frame, background)
        share = condition.mean()
print(f"{share:.0%} of the picture is a person, of {output.shape[1]}x{output.shape[0]} pixels")
