"""MediaPipe's tasks over framebind. Use: ``from framebind import mp``, in place of ``import mediapipe as mp``.

``core`` has what all tasks share, ``calculators`` the arithmetic between the networks, and ``vision`` one file
per task.
"""
