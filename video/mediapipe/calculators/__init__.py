"""The arithmetic between networks, as NumPy on arrays of rows: the reference for programs on the GPU.

Names and formulas are those of MediaPipe's calculators (github.com/google-ai-edge/mediapipe, mediapipe/calculators),
so that results can be compared one by one. All is float32. Nothing here knows tasks, results or networks.

Coordinates are normalized: from 0 to 1 over the width and height of a picture, x to the right and y down. Angles are
radians, clockwise.
"""
