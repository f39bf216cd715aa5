"""Runs the programs of docs/programs/mediapipe on a short video, each as a script of its own, in this process.

``make pythons`` does so on each Python, and tests/house/test_mediapipe_programs.py on one. The models are networks
that put out constants (tests/support), so that no program needs a file that is not here: each finds one face, hand or
person.
"""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "docs" / "programs" / "mediapipe"
FRAMES = 4
sys.path.insert(0, str(ROOT / "tests"))

from support.video import task_bundles  # noqa: E402 - it is found by the path above


def main() -> None:
    """Print the last line that each program prints."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_models(folder)
        video = cv2.VideoWriter(str(folder / "a.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 30, (160, 120))
        for number in range(FRAMES):
            video.write(np.full((120, 160, 3), 60 * number, np.uint8))
        video.release()
        os.environ["FRAMEBIND_MODELS"] = name
        os.chdir(folder)
        for program in sorted(PROGRAMS.glob("*.py")):
            print(f"{program.stem}: {run(program)}", flush=True)
        os.chdir(ROOT)


def write_models(folder: Path) -> None:
    """Write stand-ins for the files that the programs look for."""
    files = {
        "face_landmarker.task": task_bundles.one_face(np.random.default_rng(0).uniform(8, 24, (478, 3))),
        "hand_landmarker.task": task_bundles.one_hand(),
        "pose_landmarker_full.task": task_bundles.one_person(), "holistic_landmarker.task": task_bundles.one_whole(),
        "selfie_segmentation.tflite": task_bundles.constant_network(
            (1, 8, 8, 3), [np.full((1, 8, 8, 1), 0.25, np.float32)]
        ),
    }  # fmt: skip
    for name, content in files.items():
        (folder / name).write_bytes(content)


def run(program: Path) -> str:
    """The last line that a program prints for the video."""
    printed = io.StringIO()
    given, sys.argv = sys.argv, [str(program), "a.avi"]
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(program), run_name="__main__")
    finally:
        sys.argv = given
    return printed.getvalue().strip().splitlines()[-1]


if __name__ == "__main__":
    main()
