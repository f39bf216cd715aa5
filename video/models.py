"""Finds the demos' models: in the package, in a folder of models, or downloaded once and checked."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import sys
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import urlsplit

import platformdirs

import framebind as fb

from .assets import STYLE_MODEL
from .bundles import SUFFIX, bundle_of


class Known(NamedTuple):
    """A model that is offered for download.

    If ``sha256`` is None, that of the first download is recorded, and later downloads must have it.
    """

    sha256: str | None
    address: str
    what: str


_TFLITE = "https://storage.googleapis.com/download.tensorflow.org/models/tflite"
_MEDIAPIPE = "https://storage.googleapis.com/mediapipe-assets"
_BUNDLES = "https://storage.googleapis.com/mediapipe-models"
_MEDIAPIPE_HISTORY = "https://github.com/google-ai-edge/mediapipe/raw"
MODELS = {
    "deeplabv3_257_mv_gpu": Known(
        "68a539782c2c6a72f8aac3724600124a85ed977162b44e84cbae5db717c933c6",
        f"{_TFLITE}/gpu/deeplabv3_257_mv_gpu.tflite",
        "segmentation: 21 classes",
    ),
    "face_detection_front": Known(
        "a31cce739e9f5b9b08a15ef5ff90c500a46e96bd2c87f329d58a008dfd6c42ff",
        f"{_MEDIAPIPE_HISTORY}/294687295d502f1bec3fe140c25538adefa11a14/mediapipe/models/face_detection_front.tflite",
        "boxes around faces, with six points each",
    ),
    "face_landmarker": Known(
        "64184e229b263107bc2b804c6625db1341ff2bb731874b0bcc2fe6544e0bc9ff",
        f"{_BUNDLES}/face_landmarker/face_landmarker/float16/1/face_landmarker.task",
        "478 points and 52 blendshapes of faces",
    ),
    "gesture_recognizer": Known(
        "d48562f535fd4ecd3cfea739d9663dd818eeaf6a8afb1b5e6f8f4747661f73d9",
        f"{_MEDIAPIPE}/gesture_recognizer.task?generation=1677051715043311",
        "21 points of each hand, and its gesture",
    ),
    "hand_landmark_lite": Known(
        "d7fde8ac11f8ce03f8663775bfc323f4fc9f2a38062b4f4efa142874ef5b2a48",
        f"{_MEDIAPIPE}/modules/hand_landmark/hand_landmark_lite.tflite?generation=1782183538030829",
        "21 points of a hand",
    ),
    "hand_landmarker": Known(
        "32d1eab97e80a9a20edb29231e15301ce65abfd0fa9d41cf1757e0ecc8078a4e",
        f"{_MEDIAPIPE}/hand_landmarker.task?generation=1677051718270846",
        "21 points of each hand",
    ),
    "holistic_landmarker": Known(
        "e2dab61191e2dcd0a15f943d8e3ed1dce13c82dfa597b9dd39f562975a50c3f8",
        f"{_MEDIAPIPE}/holistic_landmarker.task?generation=1699635090585884",
        "a person's face, pose and hands",
    ),
    "mobile_ssd_v2_float_coco": Known(
        None, f"{_TFLITE}/gpu/mobile_ssd_v2_float_coco.tflite", "boxes around objects: 90 classes"
    ),
    "mobilenet_v1_1.0_224": Known(None, f"{_TFLITE}/gpu/mobilenet_v1_1.0_224.tflite", "classification: 1001 classes"),
    "pose_landmark_lite": Known(
        "f17bfbecadb61c3be1baa8b8d851cc6619c870a87167b32848ad20db306b9d61",
        f"{_MEDIAPIPE}/pose_landmark_lite.tflite?generation=1661875901231143",
        "33 points of a person, and a mask",
    ),
    "pose_landmarker": Known(
        "fb9cc326c88fc2a4d9a6d355c28520d5deacfbaa375b56243b0141b546080596",
        f"{_MEDIAPIPE}/pose_landmarker.task?generation=1681244249587900",
        "33 points of each person, and masks",
    ),
    "selfie_segmentation": Known(
        "8d13b7fae74af625c641226813616a2117bd6bca19eb3b75574621fc08557f27",
        f"{_MEDIAPIPE}/selfie_segmentation.tflite?generation=1661875931201364",
        "segmentation: a person",
    ),
    "style_predict_quantized_256": Known(
        "203dbd6a09da1091ab7e48e8b101aef8c2d81438ad047a5cb150747a977134c1",
        f"{_TFLITE}/arbitrary_style_transfer/style_predict_quantized_256.tflite",
        "a picture's style, for style_transfer_*_384",
    ),
    "style_transfer_f16_384": Known(
        "c60cff7395544eda1f0915d6dddaedd8ed868cefe8ec6c5ed220ba801f120303",
        f"{_TFLITE}/arbitrary_style_transfer/style_transfer_f16_384.tflite",
        "paints in any style",
    ),
    "style_transfer_quantized_384": Known(
        "1972f7d438b6e9ff326c466db1a8005a8a0efa0274886bbd52f91dc8be2f4f04",
        f"{_TFLITE}/arbitrary_style_transfer/style_transfer_quantized_384.tflite",
        "the same in 8-bit integers",
    ),
}
"""Models by name. The three in ``gpu/`` are examples of TensorFlow Lite's guide to its GPU delegate."""
BUNDLED = {path.stem: path for path in (STYLE_MODEL,)}
"""The models that come with the package, by name; ``scripts/training`` made them."""
DEFAULT_STYLE = STYLE_MODEL.stem
"""One of BUNDLED: one style, pictures of any size."""
SHARED = Path(__file__).resolve().parents[2] / "shared" / "models"
_IDENTIFIER = b"TFL3"
"""Bytes 4 to 7 of a TensorFlow Lite model. A network's log-in page, downloaded instead, has others."""
_ARCHIVE = b"PK\x03\x04"
"""The first bytes of a bundle, a zip archive."""


def find_model(name: str) -> Path:
    """The file of a model.

    ``name`` may be a path, a key of BUNDLED, the name of a file in one of ``model_folders()``, or a key of MODELS. A
    model of MODELS that is in no folder is downloaded to the user's cache and checked. Raises ModelError, which says
    what to do.
    """
    path = Path(name)
    if path.suffix in (".tflite", SUFFIX):
        if not (path.is_file() or bundle_of(path)):
            raise fb.ModelError(f"there is no model file '{fb.video.masked_address(name)}'")
        return path
    found = find_local(name)
    if found is not None:
        return found
    if name not in MODELS:
        raise fb.ModelError(
            f"'{fb.video.masked_address(name)}' is no .tflite or .task file, none in the folder FRAMEBIND_MODELS, and "
            f"none of the known models {', '.join([*BUNDLED, *MODELS])}"
        )
    return _download(name)


def names_bundle(name: str) -> bool:
    """Whether ``find_model`` finds a bundle of that name, or a model in one. Nothing is downloaded."""
    path = Path(name)
    if path.suffix in (".tflite", SUFFIX):
        return bundle_of(path) is not None
    found = find_local(name)
    file = found.name if found is not None else _file_name(name) if name in MODELS else ""
    return file.endswith(SUFFIX)


def find_local(name: str) -> Path | None:
    """The file of that name in the package, in a folder of models, or in the cache with the right SHA-256."""
    if name in BUNDLED:
        return BUNDLED[name]
    for folder in model_folders():
        for suffix in (".tflite", SUFFIX):
            if (path := folder / f"{name}{suffix}").is_file():
                return path
    if name not in MODELS:
        return None
    cached, sha256 = cache_folder() / _file_name(name), _expected(name)
    return cached if sha256 and cached.is_file() and _sha256_of(cached) == sha256 else None


def model_folders() -> list[Path]:
    """The folders that are searched for models, in this order: FRAMEBIND_MODELS, ``../shared/models``."""
    given = os.environ.get("FRAMEBIND_MODELS")
    return [*([Path(given)] if given else []), SHARED]


def cache_folder() -> Path:
    """The folder for downloaded models."""
    return platformdirs.user_cache_path("framebind")


def _expected(name: str) -> str | None:
    """The SHA-256 that a model must have: pinned, or recorded with its first download; None before that."""
    pinned = MODELS[name].sha256
    if pinned is not None:
        return pinned
    try:
        words = _record(name).read_text(encoding="ascii").split()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise fb.ModelError(
            f"'{_record(name)}' cannot be read: {error}. Delete it to trust the next download"
        ) from error
    if len(words) != 2 or len(words[0]) != 64:
        raise fb.ModelError(f"'{_record(name)}' is damaged. Delete it to trust the next download of '{name}'")
    return words[0]


def _record(name: str) -> Path:
    """The file with the recorded SHA-256: one line, as sha256sum writes and checks it."""
    return cache_folder() / f"{_file_name(name)}.sha256"


def _file_name(name: str) -> str:
    """The file of a key of MODELS: a model or a bundle, as its address says."""
    return name + PurePosixPath(urlsplit(MODELS[name].address).path).suffix


def _download(name: str) -> Path:
    import pooch  # only here: commands start without it

    address, expected, folder = MODELS[name].address, _expected(name), cache_folder()
    print(f"downloading {name} from {address}", file=sys.stderr)
    pooch.get_logger().setLevel(logging.WARNING)  # it advises to pin checksums, which is not the user's to do
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if expected is None:  # a file that nothing vouches for is no first download
            (folder / _file_name(name)).unlink(missing_ok=True)
        known = None if expected is None else f"sha256:{expected}"
        file = Path(pooch.retrieve(address, known, _file_name(name), folder, progressbar=False))
        if expected is None:
            _trust(name, file)
    # The network and the operating system have their own errors, and pooch raises ValueError for another checksum.
    except (OSError, ValueError) as error:
        wanted = f" (SHA-256 {expected})" if expected else ""
        forget = f", or delete '{_record(name)}' if the model was changed on purpose" if _record(name).exists() else ""
        raise fb.ModelError(
            f"model '{name}' is in no folder of models and cannot be downloaded from {address}: {_cause(error)}. Get "
            f"{_file_name(name)}{wanted} elsewhere, put it in a folder and set FRAMEBIND_MODELS to that folder{forget}"
        ) from error
    return file


def _cause(error: BaseException) -> BaseException:
    """The innermost error, "Name or service not known" for instance.

    Errors of the network are wrapped three times, and each wrapper repeats the address.
    """
    inner = error.__cause__ or error.__context__
    return error if inner is None else _cause(inner)


def _sha256_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _trust(name: str, file: Path) -> None:
    """Record the SHA-256 of a first download, readable only by the user. Raises ValueError if it is no model."""
    with file.open("rb") as opened:
        beginning = opened.read(8)
    if beginning[4:] != _IDENTIFIER and beginning[:4] != _ARCHIVE:
        file.unlink()
        raise ValueError("what came is no TensorFlow Lite model and no bundle of them")
    record = _record(name)
    unfinished = record.with_name(f"{name}.{secrets.token_hex(4)}.unfinished")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as opened:
            opened.write(f"{_sha256_of(file)}  {file.name}\n")
        unfinished.replace(record)  # half a record would end every later use of the model
    except OSError:
        unfinished.unlink()
        raise
