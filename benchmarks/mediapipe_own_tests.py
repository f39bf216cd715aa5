"""Runs MediaPipe's own tests of six tasks with MediaPipe and with framebind, and prints how many pass of each file.

    python benchmarks/mediapipe_own_tests.py FOLDER --bundles FOLDER --photograph bus.jpg

It runs in an environment that has mediapipe 1.2.2 and absl-py besides framebind, on the CPU. ``FOLDER`` is
mediapipe/tasks/python/test/vision of MediaPipe's wheel. ``--bundles`` has face_landmarker.task, hand_landmarker.task,
pose_landmarker_full.task, holistic_landmarker.task and both models of selfie_segmentation; ``bus.jpg`` is of the wheel
ultralytics.

The wheel has neither the tests' pictures nor their expected results, nor the modules that read the latter. Pictures of
framebind take the place of the former, empty files and mocks those of the others. What MediaPipe finds takes the place
of the expected results, in the tests' own comparisons with their own tolerances. A segmenter's model that cannot be had
is the one of selfies. With framebind, MediaPipe's modules of the six tasks, of their options and of their results are
exchanged for framebind's. Each file runs in a process of its own.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import TestCase, mock

import cv2
import numpy as np
from mediapipe_clips import man_of

from framebind.video.assets import HAND_PICTURE, PHOTOGRAPH
from framebind.video.vision.pictures import read_picture

TASKS = ("face_detector", "face_landmarker", "hand_landmarker", "pose_landmarker", "holistic_landmarker",
         "image_segmenter")  # fmt: skip
LIBRARIES = "mediapipe", "framebind"
SECONDS = 300
OURS = "framebind.video.mediapipe."
THEIRS = "mediapipe.tasks.python."
EXCHANGED = {
    **{f"vision.{task}": f"vision.{task}" for task in TASKS},
    "core.base_options": "core.options",
    "vision.core.vision_task_running_mode": "core.options",
    "vision.core.image_processing_options": "core.options",
    "vision.core.image": "core.image",
    **{f"components.containers.{name}": "core.containers"
       for name in ("landmark", "rect", "category", "detections", "landmark_detection_result")},
}  # fmt: skip
"""MediaPipe's modules and framebind's that take their places."""
HOLISTIC_SIZE = 638, 1000
"""The width and height that a test of masks expects."""
WITHOUT_THINGS = "cats_and_dogs.jpg", "burger.jpg", "no_face.jpg", "cat.jpg"


class AbsentModules(MetaPathFinder, Loader):
    """Mocks of the modules of messages that the wheel lacks."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        absent = fullname.startswith(("mediapipe.framework", "mediapipe.tasks.cc"))
        return ModuleSpec(fullname, self, is_package=True) if absent else None

    def create_module(self, spec: ModuleSpec) -> Any:
        module = mock.MagicMock(__name__=spec.name, __path__=[], __spec__=spec)
        whole = module.holistic_result_pb2.HolisticResult.return_value
        whole.face_blendshapes.classification = [mock.MagicMock()]  # they are asked for if the expected result has some
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


class Files:
    """Files that take the places of those that a task's tests ask for, in a folder for the pictures."""

    def __init__(self, task: str, bundles: Path, photograph: Path, folder: Path) -> None:
        self._task, self._bundles, self._folder = task, bundles, folder
        persons = task == "pose_landmarker"
        source = photograph if persons else HAND_PICTURE if task == "hand_landmarker" else PHOTOGRAPH
        picture = read_picture(source)
        if picture is None:
            raise SystemExit(f"'{source}' is no picture")
        self._picture = man_of(picture) if persons else picture
        if task == "holistic_landmarker":
            width, height = HOLISTIC_SIZE
            self._picture = np.full((height, width, 3), 128, np.uint8)
            self._picture[-width:] = cv2.resize(picture, (width, width))

    def path(self, wanted: str) -> str:
        """The path of a file, which is there unless it is a model that is not to be had."""
        name = os.path.basename(wanted)
        path = self._folder / name
        if name.endswith(".task"):
            return str(self._bundles / ("pose_landmarker_full.task" if "pose" in name else f"{self._task}.task"))
        if self._task == "image_segmenter" and name.endswith(".tflite"):
            kind = "_landscape" if "landscape" in name else ""
            return str(self._bundles / f"selfie_segmentation{kind}.tflite")
        if name.startswith("face_detection") and name.endswith(".tflite"):
            with zipfile.ZipFile(self._bundles / "face_landmarker.task") as bundle:
                path.write_bytes(bundle.read("face_detector.tflite"))
        elif name.endswith((".jpg", ".png")):
            cv2.imwrite(str(path), self._pixels(name))
        elif name.endswith(".pbtxt"):
            path.touch()
        return str(path)

    def _pixels(self, name: str) -> Any:
        if name in WITHOUT_THINGS:
            return np.full((200, 300, 3), 90, np.uint8)
        picture = np.rot90(self._picture) if "rotated" in name else self._picture
        if name == "right_hands.jpg":
            picture = np.hstack([picture, picture[:, ::-1]])
        return np.ascontiguousarray(picture[..., ::-1])


class Expected:
    """Results of MediaPipe in the place of those that a file of tests expects, and that the wheel lacks."""

    def __init__(self) -> None:
        self.is_known = False
        """MediaPipe's tests have run."""
        self._test, self._results = "", dict[tuple[str, str], list[Any]]()
        """The test that runs, and by test and comparison the results in their order."""
        self.failed = set[str]()
        """The tests that found a difference."""
        self._counts = dict[tuple[str, str], int]()
        self._inside = threading.local()

    def take_place(self, module: ModuleType) -> None:
        """Exchange what the comparisons of a module of tests are given as the expected result."""
        cases = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, TestCase)]
        for case in cases:
            for name in dir(case):
                if name.startswith("_expect_"):
                    setattr(case, name, self._compared(name, getattr(case, name), 1))
        factor = getattr(module, "_MASK_MAGNIFICATION_FACTOR", 1)
        for name, scale in (
            ("_similar_to_float_mask", 255.0), ("_similar_to_uint8_mask", factor)
        ):  # fmt: skip
            if hasattr(module, name):
                setattr(module, name, self._compared(name, getattr(module, name), 0, scale))

    def know(self) -> None:
        """Keep the results so far: MediaPipe's tests have run."""
        self.is_known = True
        self._counts.clear()
        self.failed.clear()

    def begin(self, test: str) -> None:
        """Note which test runs."""
        self._test = test

    def _compared(self, name: str, compare: Callable[..., Any], place: int, scale: float = 0) -> Callable[..., Any]:
        """A comparison of a result, its argument at ``place``, with MediaPipe's, which is a mask with a ``scale``."""

        def compared(*given: Any, **named: Any) -> Any:
            bound = inspect.signature(compare).bind(*given, **named)
            if getattr(self._inside, "one", False):
                return compare(*bound.args, **bound.kwargs)
            actual, expected = [*bound.arguments][place : place + 2]
            test = self._test
            kept = self._results.setdefault((test, name), [])
            number = self._counts.get((test, name), 0)
            self._counts[test, name] = number + 1
            if not self.is_known:
                mine = bound.arguments[actual]
                kept.append(_scaled(mine, scale) if scale else mine)
            bound.arguments[expected] = kept[min(number, len(kept) - 1)]
            self._inside.one = True
            try:
                return compare(*bound.args, **bound.kwargs)
            except Exception:  # in the callback of a stream, which logs it
                self.failed.add(test)
                raise
            finally:
                self._inside.one = False

        return compared


def _scaled(mask: Any, scale: float) -> Any:
    """A mask as the tests' files have it."""
    values = np.array(mask.numpy_view())  # a copy: MediaPipe frees its memory
    return SimpleNamespace(numpy_view=lambda: values * values.dtype.type(scale))


def passing(path: Path, files: Files) -> dict[str, dict[str, bool]]:
    """Whether each test of a file passes, by library and name."""
    sys.meta_path.append(AbsentModules())
    tests = import_module(THEIRS + "test")
    utils = ModuleType(THEIRS + "test.test_utils")
    utils.__dict__["get_test_data_path"] = files.path
    tests.__dict__["test_utils"] = sys.modules[utils.__name__] = utils
    expected, passes = Expected(), dict[str, dict[str, bool]]()
    for library in LIBRARIES:
        if library == "framebind":
            _exchange_modules()
            expected.know()
        passes[library] = _run(path, expected)
    return passes


def _run(path: Path, expected: Expected) -> dict[str, bool]:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    expected.take_place(module)
    passes = {}
    for test in _tests(unittest.defaultTestLoader.loadTestsFromModule(module)):
        expected.begin(test._testMethodName)
        result = test.run()
        is_well = result.wasSuccessful() and not result.skipped
        passes[test._testMethodName] = is_well and test._testMethodName not in expected.failed
        if os.environ.get("EXPLAIN") and result.failures + result.errors:
            print(test._testMethodName, *[each[1][-400:] for each in result.failures + result.errors], file=sys.stderr)
    return passes


def _exchange_modules() -> None:
    import_module(THEIRS + "vision")
    for theirs, ours in EXCHANGED.items():
        package, _, name = (THEIRS + theirs).rpartition(".")
        module = import_module(OURS + ours)
        sys.modules[THEIRS + theirs] = module
        setattr(import_module(package), name, module)


def _tests(suite: Any) -> Iterator[Any]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _tests(each)
        else:
            yield each


def _in_process(path: Path, rest: list[str]) -> dict[str, dict[str, bool]]:
    """The findings of a process of its own."""
    command = [sys.executable, __file__, str(path.parent), *rest, "--task", path.stem.removesuffix("_test"), "--print"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if not run.stdout.strip():
        raise SystemExit(f"{path.name} ended with {run.returncode}:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bundles", type=Path, required=True)
    parser.add_argument("--photograph", type=Path, required=True)
    parser.add_argument("--task", choices=TASKS)
    parser.add_argument(
        "--print", action="store_true", help="run one task in this process, and print its tests as JSON"
    )
    given = parser.parse_args()
    if given.print:
        with tempfile.TemporaryDirectory() as folder:
            files = Files(given.task, given.bundles, given.photograph, Path(folder))
            found = passing(given.folder / f"{given.task}_test.py", files)
            print(json.dumps(found), flush=True)
        os._exit(0)  # threads of tasks whose test failed are still there
    rest = ["--bundles", str(given.bundles), "--photograph", str(given.photograph)]
    print("| test file | tests | pass with MediaPipe | pass with framebind |\n| --- | ---: | ---: | ---: |")
    differing = []
    for task in [given.task] if given.task else TASKS:
        path = given.folder / f"{task}_test.py"
        found = _in_process(path, rest)
        theirs, ours = (found[library] for library in LIBRARIES)
        print(f"| {path.stem} | {len(theirs)} | {sum(theirs.values())} | {sum(ours.values())} |", flush=True)
        neither = [name for name in theirs if not theirs[name] and not ours[name]]
        differing += [f"{path.stem}: with neither {name}" for name in neither]
        differing += [f"{path.stem}: {name} passes with {LIBRARIES[ours[name]]} only"
                      for name in theirs if theirs[name] != ours[name]]  # fmt: skip
    print("\n".join(differing))


if __name__ == "__main__":
    main()
