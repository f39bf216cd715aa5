"""Times MediaPipe's own tasks on the clip of mediapipe_chain.py.

    python benchmarks/mediapipe_peer.py --bundles FOLDER [--task hands|pose|face+hands] [--delegate cpu|gpu]

It needs mediapipe 1.2 or newer beside framebind. The clip is decoded before, because these tasks take arrays: a time is
that from an ``mp.Image`` of RGB (for the GPU of RGBA) in the CPU's memory to the result.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import av
import numpy as np
from mediapipe_chain import BOTH, BUNDLES, MILLISECONDS, SETTLED, SIZE, photograph_of, write_clip
from samples import Series, measured, write

FORMATS = {"cpu": "rgb24", "gpu": "rgba"}


def make_task(mp: Any, name: str, bundles: Path, delegate: str) -> Any:
    """A task of MediaPipe with the options that mediapipe_chain.py gives."""
    vision, base = mp.tasks.vision, mp.tasks.BaseOptions
    options: dict[str, Any] = {
        "base_options": base(str(bundles / BUNDLES[name]), delegate=getattr(base.Delegate, delegate.upper())),
        "running_mode": vision.RunningMode.VIDEO,
    }
    if name == "face":
        return vision.FaceLandmarker.create_from_options(
            vision.FaceLandmarkerOptions(**options, output_face_blendshapes=True)
        )
    if name == "hands":
        return vision.HandLandmarker.create_from_options(vision.HandLandmarkerOptions(**options, num_hands=2))
    return vision.PoseLandmarker.create_from_options(
        vision.PoseLandmarkerOptions(**options, output_segmentation_masks=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=Path, required=True)
    parser.add_argument("--task", choices=(*BUNDLES, BOTH), default="face")
    parser.add_argument("--delegate", choices=tuple(FORMATS), default="gpu")
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if "sounddevice" not in sys.modules:  # which needs PortAudio; nothing here is of sound
        sys.modules["sounddevice"] = types.ModuleType("sounddevice")
    mp = import_module("mediapipe")
    tasks = [make_task(mp, name, given.bundles, given.delegate) for name in given.task.split("+")]
    kind = mp.ImageFormat.SRGB if given.delegate == "cpu" else mp.ImageFormat.SRGBA
    times, found = list[float](), list[Any]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        write_clip(path, photograph_of(given.task), given.frames)
        with av.open(str(path)) as file:
            for number, frame in enumerate(file.decode(video=0), 1):
                image = mp.Image(image_format=kind, data=frame.to_ndarray(format=FORMATS[given.delegate]))
                start = time.perf_counter()
                found = [task.detect_for_video(image, number * MILLISECONDS) for task in tasks]
                times.append(1000 * (time.perf_counter() - start))
    for each in found:
        print({name: len(values) for name, values in vars(each).items() if values is not None})
    for task in tasks:
        task.close()
    p50, p95, p99 = np.percentile(times[SETTLED:], (50, 95, 99))
    print(f"MediaPipe {mp.__version__}, {given.delegate}, {given.task} {SIZE}")
    print(f"detect_for_video: ms p50 {p50:.3f}, p95 {p95:.3f}, p99 {p99:.3f}")
    if given.json:
        labels = {"task": given.task, "on": f"MediaPipe's {given.delegate} delegate", "figure": "detect_for_video"}
        write(given.json, measured("chains", [], "ms", [Series(labels, times[SETTLED:])]))


if __name__ == "__main__":
    main()
