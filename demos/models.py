"""Finds the demos' models: in the package, in a folder of models, or downloaded once and checked."""

from __future__ import annotations

import os
from pathlib import Path

import framebind as fb

_TFLITE = "https://storage.googleapis.com/download.tensorflow.org/models/tflite"
_MEDIAPIPE = "https://storage.googleapis.com/mediapipe-assets"
MODELS = {
    "deeplabv3_257_mv_gpu": (
        "68a539782c2c6a72f8aac3724600124a85ed977162b44e84cbae5db717c933c6",
        f"{_MEDIAPIPE}/deeplabv3_without_metadata.tflite?generation=1678818053623010",
    ),
    "selfie_segmentation": (
        "8d13b7fae74af625c641226813616a2117bd6bca19eb3b75574621fc08557f27",
        f"{_MEDIAPIPE}/selfie_segmentation.tflite?generation=1661875931201364",
    ),
    "style_predict_quantized_256": (
        "203dbd6a09da1091ab7e48e8b101aef8c2d81438ad047a5cb150747a977134c1",
        f"{_TFLITE}/arbitrary_style_transfer/style_predict_quantized_256.tflite",
    ),
    "style_transfer_f16_384": (
        "c60cff7395544eda1f0915d6dddaedd8ed868cefe8ec6c5ed220ba801f120303",
        f"{_TFLITE}/arbitrary_style_transfer/style_transfer_f16_384.tflite",
    ),
}
"""Name: (SHA-256 of the file that the demos were made with, an address that it is offered at)."""
BUNDLED = {path.stem: path for path in sorted(Path(__file__).with_name("assets").glob("*.tflite"))}
"""The models that come with the package, by name; ``demos/training`` made them."""
DEFAULT_STYLE = "style_transfer"
"""One of BUNDLED: one style, pictures of any size."""
SHARED = Path(__file__).parents[2] / "shared" / "models"


def find_model(name: str) -> Path:
    """The file of a model: ``name`` may be a path, a key of BUNDLED, the name of a file in a folder of models, or a key
    of MODELS.

    The last two are looked for in the folder FRAMEBIND_MODELS, then in ``../shared/models``; one of MODELS is then
    downloaded to the user's cache, where the file must have the pinned SHA-256. Raises ModelError that says what to do.
    """
    path = Path(name)
    if path.suffix == ".tflite":
        if not path.is_file():
            raise fb.ModelError(f"there is no model file '{path}'")
        return path
    if name in BUNDLED:
        return BUNDLED[name]
    for folder in (os.environ.get("FRAMEBIND_MODELS"), SHARED):
        if folder and (path := Path(folder) / f"{name}.tflite").is_file():
            return path
    if name not in MODELS:
        raise fb.ModelError(
            f"'{name}' is no .tflite file, none in the folder FRAMEBIND_MODELS, and none of the known models "
            f"{', '.join([*BUNDLED, *MODELS])}"
        )
    return _download(name)


def _download(name: str) -> Path:
    import platformdirs
    import pooch

    sha256, address = MODELS[name]
    try:
        file = pooch.retrieve(
            address, f"sha256:{sha256}", f"{name}.tflite", platformdirs.user_cache_path("framebind"), progressbar=False
        )
    # The network and the operating system have their own errors, and pooch raises ValueError for another checksum.
    except (OSError, ValueError) as error:
        raise fb.ModelError(
            f"model '{name}' is in no folder of models and cannot be downloaded from {address}: {error}. Get "
            f"{name}.tflite (SHA-256 {sha256}) elsewhere, put it in a folder and set FRAMEBIND_MODELS to that folder"
        ) from error
    return Path(file)
