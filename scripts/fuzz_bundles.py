"""Damages MediaPipe's files and looks for crashes: ``python scripts/fuzz_bundles.py --count 20000``.

Bundles of six tasks, whose networks put out constants, are damaged: bytes of the archive; bytes of a network, of its
metadata or of the canonical face, which are zipped again; and files that are missing, exchanged or empty. So are the
networks with metadata and labels of five tasks that take one network. Each is opened by its task, which looks at a
picture, in a separate process with bounded time and memory.

A mutant is found again by its number: ``--first 4711 --count 1``. Those that cause a signal, a hang or any exception
except framebind's own and LiteRT's RuntimeError are printed, and the exit status is 1. POSIX only.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import resource
import signal
import struct
import sys
import traceback
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import framebind as fb
from framebind import mp

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.model_metadata import with_flatbuffer
from support.tiny_models import constants
from support.video.task_bundles import (
    bundle,
    found_at_anchors,
    one_face,
    one_gesture,
    one_hand,
    one_person,
    one_whole,
    selecting_detector,
    strokes_files,
    weighted,
)

MEMORY = 4 << 30
SECONDS = 30
"""Limit for a batch without news."""
BATCH = 200
"""Mutants of a process."""
WORDS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
NETWORK = ""
"""The name of a network that is in no bundle."""
vision = mp.tasks.vision


class Subject(NamedTuple):
    """A task, and a bundle or a network for it."""

    task: Any
    options: Any
    arguments: dict[str, Any]
    files: dict[str, bytes]
    """The files of the bundle; or NETWORK alone."""


def files_of(content: bytes) -> dict[str, bytes]:
    """The files of a bundle."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def geometry() -> bytes:
    """A canonical face of four points."""

    def message(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    vertices = np.random.default_rng(0).random(20).astype("<f4").tobytes()
    basis = b"".join(message(2, bytes([8, number, 21]) + struct.pack("<f", 0.5)) for number in range(4))
    return message(1, message(3, vertices)) + basis


def subjects() -> list[Subject]:
    """The tasks and their bundles."""
    face = {**files_of(one_face()), "geometry_pipeline_metadata_landmarks.binarypb": geometry()}
    shapes = {"output_face_blendshapes": True, "output_facial_transformation_matrixes": True}
    masks = {"output_segmentation_masks": True}
    whole = {"output_face_blendshapes": True, "output_segmentation_mask": True}
    return [
        Subject(vision.FaceLandmarker, vision.FaceLandmarkerOptions, shapes, face),
        Subject(vision.HandLandmarker, vision.HandLandmarkerOptions, {}, files_of(one_hand())),
        Subject(vision.PoseLandmarker, vision.PoseLandmarkerOptions, masks, files_of(one_person())),
        Subject(vision.GestureRecognizer, vision.GestureRecognizerOptions, {}, files_of(one_gesture())),
        Subject(vision.HolisticLandmarker, vision.HolisticLandmarkerOptions, whole, files_of(one_whole())),
        Subject(vision.InteractiveSegmenter, vision.InteractiveSegmenterOptions, {}, strokes_files(0, [1, 1, 1])),
        *networks(),
    ]


def networks() -> list[Subject]:
    """The tasks that take one network, and networks with metadata for them."""
    face = found_at_anchors(896, 16, {272: (3.0, [0, 0, 32, 32, -5, -5, 5, -5, *[0] * 8])})
    scores = constants(np.linspace(0, 1, 8, dtype=np.float32)[None], side=16, gain=2)
    made = {
        "FaceDetector": constants(*face, side=128, gain=0.5),
        "ObjectDetector": selecting_detector(),
        "ImageClassifier": scores,
        "ImageEmbedder": scores,
        "ImageSegmenter": weighted([(1, 24, 32, 3)], 0, np.eye(3)),
    }
    labels = {("labels.txt", ""): "\n".join("abcdefgh"), ("labels-de.txt", "de"): "\n".join("hgfedcba")}
    return [
        Subject(
            getattr(vision, name), getattr(vision, f"{name}Options"),
            {"output_category_mask": True} if name == "ImageSegmenter" else {},
            {NETWORK: with_flatbuffer(content, mean=[127.5], std=[127.5], labels=labels)},
        )
        for name, content in made.items()
    ]  # fmt: skip


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The bytes with some of them changed, inserted, removed, or with an end that is missing."""
    found = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = min(int(chance.random() ** chance.choice((1, 4)) * len(found)), max(len(found) - 4, 0))
        kind = chance.randrange(5)
        if kind == 0:
            found[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            found[at : at + 4] = struct.pack("<I", chance.choice(WORDS))
        elif kind == 2:
            del found[at : at + chance.choice((1, 4, 64))]
        elif kind == 3:
            found[at:at] = bytes(chance.choice((1, 4, 64)))
        else:
            del found[at if chance.random() < 0.1 else len(found) :]
    return bytes(found)


def mutant(number: int, all_subjects: list[Subject]) -> tuple[Subject, bytes]:
    """The task of a number, and its damaged file."""
    chance = random.Random(number)
    subject = chance.choice(all_subjects)
    if NETWORK in subject.files:
        return subject, damaged(subject.files[NETWORK], chance)
    files, kind = dict(subject.files), chance.randrange(8)
    name = chance.choice([*files])
    if kind < 2:
        return subject, damaged(bundle(files), chance)
    if kind < 6:
        files[name] = damaged(files[name], chance)
    elif kind == 6:
        files[name] = chance.choice((b"", bundle(files), *files.values()))
    else:
        files[chance.choice((f"../{name}", "/etc/passwd", name.upper(), "a" * 300))] = files.pop(name)
    return subject, bundle(files)


def use(task: Any, image: Any) -> None:
    """Run a task on a picture."""
    if isinstance(task, vision.InteractiveSegmenter):
        task.set_image(image)
        points = [vision.InteractiveSegmenterStrokePoint(0.2, 0.3), vision.InteractiveSegmenterStrokePoint(0.6, 0.8)]
        task.segment([vision.InteractiveSegmenterStroke(vision.InteractiveSegmenterBrushMode.POSITIVE, points, True)])
    else:
        verbs = "recognize", "detect", "segment", "classify", "embed"
        next(getattr(task, verb) for verb in verbs if hasattr(task, verb))(image)


def attempt(number: int, all_subjects: list[Subject]) -> str:
    """The end that a mutant takes: "found", or the error's type and the start of its message."""
    subject, content = mutant(number, all_subjects)
    base = mp.tasks.BaseOptions(model_asset_buffer=content, delegate=mp.tasks.BaseOptions.Delegate.CPU)
    image = mp.Image(mp.ImageFormat.SRGB, np.zeros((48, 64, 3), np.uint8))
    try:
        with subject.task.create_from_options(subject.options(base, **subject.arguments)) as task:
            use(task, image)
    except fb.FramebindError as error:
        return type(error).__name__
    except RuntimeError:
        return "LiteRT's RuntimeError"
    return "found"


def run_batch(numbers: range, all_subjects: list[Subject]) -> tuple[Counter[str], int | None, str]:
    """The ends of mutants, the number of one that crashed, and how."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        run_child(numbers, all_subjects, write)
    os.close(write)
    ends, last = Counter[str](), numbers[0]
    with os.fdopen(read, encoding="utf-8") as lines:
        for line in lines:
            word, _, rest = line.strip().partition(" ")
            if word == "begin":
                last = int(rest)
            elif word == "end":
                ends[rest] += 1
            else:
                ends["exception"] += 1
                print(f"mutant {last}: {rest}", flush=True)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return ends, last, signal.Signals(os.WTERMSIG(status)).name
    return ends, None, ""


def run_child(numbers: range, all_subjects: list[Subject], write: int) -> None:
    """Try the mutants and tell their ends; never returns."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # LiteRT prints what it dislikes
    for number in numbers:
        signal.alarm(SECONDS)
        os.write(write, f"begin {number}\n".encode())
        try:
            os.write(write, f"end {attempt(number, all_subjects)}\n".encode())
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename}:{place.lineno}"
            os.write(write, f"wrong {type(error).__name__}: {error} at {where}".replace("\n", " ").encode() + b"\n")
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    all_subjects, ends, wrong = subjects(), Counter[str](), 0
    number, end = given.first, given.first + given.count
    while number < end:
        batch = range(number, min(number + BATCH, end))
        found, crashed, how = run_batch(batch, all_subjects)
        ends.update(found)
        number = batch.stop
        if crashed is not None:
            print(f"mutant {crashed}: {how}", flush=True)
            wrong, number = wrong + 1, crashed + 1
    wrong += ends["exception"]
    print(f"{given.count} mutants: {wrong} wrong; " + ", ".join(f"{many} {end}" for end, many in ends.most_common()))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
