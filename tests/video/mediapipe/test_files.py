"""Pictures and files of tasks: ``mp.Image``, bundles and the canonical face, sound and damaged."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest

import framebind as fb
from framebind import mp
from framebind.video.bundles import read_bundle
from framebind.video.mediapipe.core.geometry_file import read_geometry
from support.video.task_bundles import bundle, constant_network

vision, BaseOptions = mp.tasks.vision, mp.tasks.BaseOptions


def test_an_image_is_a_copy_that_does_not_change() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    image = mp.Image(image_format=mp.ImageFormat.SRGB, data=pixels)
    pixels[:] = 0
    assert (image.width, image.height, image.channels, image.step) == (4, 2, 3, 12)
    assert image[1, 2, 0] == 18 and image.image_format == mp.ImageFormat.SRGB
    with pytest.raises(ValueError, match="read-only"):
        image.numpy_view()[0, 0, 0] = 1
    with pytest.raises(IndexError):
        image[2, 0, 0]
    assert not image.uses_gpu() and image.is_contiguous() and not image.is_empty() and image.is_aligned(1)


@pytest.mark.parametrize(
    ("image_format", "data", "message"),
    [
        (mp.ImageFormat.SRGB, np.zeros((2, 2, 4), np.uint8), "3 channels of uint8"),
        (mp.ImageFormat.GRAY16, np.zeros((2, 2), np.uint8), "1 channels of uint16"),
        (mp.ImageFormat.SRGB, np.zeros((2, 2, 3), np.float64), "Unsupported numpy data type: float64"),
        (mp.ImageFormat.SRGB, np.zeros((4,), np.uint8), "Unsupported number of dimensions:1"),
        (mp.ImageFormat.UNKNOWN, np.zeros((2, 2, 3), np.uint8), "no image can have the format"),
        (mp.ImageFormat.SRGB, np.zeros((0, 2, 3), np.uint8), "at least one pixel"),
    ],
)
def test_an_array_must_fit_its_format(image_format: mp.ImageFormat, data: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mp.Image(image_format, data)


def test_images_come_from_files(tmp_path: Path) -> None:
    bgra = np.random.default_rng(0).integers(0, 256, (3, 5, 4), dtype=np.uint8)
    for name, picture, channels in (("a", bgra, 4), ("b", bgra[..., :3], 3), ("c", bgra[..., 0], 1)):
        cv2.imwrite(str(tmp_path / f"{name}.png"), picture)
        image = mp.Image.create_from_file(str(tmp_path / f"{name}.png"))
        assert image.channels == channels
        assert image.numpy_view()[0, 0, 0] == (bgra[0, 0, 2] if channels > 1 else bgra[0, 0, 0])
    (tmp_path / "d.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="Image decoding failed"):
        mp.Image.create_from_file(str(tmp_path / "d.png"))
    with pytest.raises(FileNotFoundError, match="Unable to open file at"):
        mp.Image.create_from_file(str(tmp_path / "e.png"))


def test_a_model_must_be_there() -> None:
    with pytest.raises(FileNotFoundError, match=r"Unable to open file at /path/to/invalid/model\.tflite"):
        vision.FaceLandmarker.create_from_model_path("/path/to/invalid/model.tflite")
    with pytest.raises(ValueError, match="ExternalFile must specify at least one of"):
        vision.FaceDetector.create_from_options(vision.FaceDetectorOptions(BaseOptions()))


def _face_task(content: bytes) -> None:
    vision.FaceLandmarker.create_from_options(vision.FaceLandmarkerOptions(BaseOptions(model_asset_buffer=content)))


def test_a_damaged_bundle_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the model is no \.task bundle"):
        _face_task(b"PK\x03\x04 and nothing more")
    with pytest.raises(ValueError, match=r"lacks face_detector\.tflite"):
        _face_task(bundle({"face_landmarks_detector.tflite": b""}))
    small = constant_network((1, 8, 8, 3), [np.zeros((1, 4), np.float32)])
    with pytest.raises(ValueError, match="this task needs"):
        _face_task(bundle({"face_detector.tflite": small, "face_landmarks_detector.tflite": small}))
    flat = constant_network((8,), [np.zeros((1, 4), np.float32)])
    with pytest.raises(ValueError, match=r"face_detector\.tflite has an input \(8,\); a picture is"):
        _face_task(bundle({"face_detector.tflite": flat, "face_landmarks_detector.tflite": small}))
    whole = bytearray(bundle({"face_detector.tflite": small * 3, "face_landmarks_detector.tflite": small}))
    whole[200] ^= 255  # the check sum no longer fits
    with pytest.raises(ValueError, match=r"the \.task bundle is damaged"):
        _face_task(bytes(whole))


def test_a_file_of_another_task_is_named(tmp_path: Path) -> None:
    path = tmp_path / "hand_landmarker.task"
    path.write_bytes(b"\0" * 4 + bundle({"hand_detector.tflite": b"", "hand_landmarks_detector.tflite": b""}))
    with pytest.raises(fb.ModelError, match=r"hand_landmarker\.task: the bundle lacks face_.*; it has hand_detector"):
        vision.FaceLandmarker.create_from_model_path(str(path))
    with pytest.raises(fb.ModelError, match=r"hand_landmarker\.task is a bundle: this task takes one network"):
        vision.FaceDetector.create_from_model_path(str(path))


def test_a_bundle_is_bounded() -> None:
    with pytest.raises(ValueError, match="65 files, more than 64"):
        _face_task(bundle({str(number): b"" for number in range(65)}))
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(100_000))
    with pytest.raises(ValueError, match="the files of the bundle have more than 99999 bytes"):
        read_bundle(bomb.getvalue(), ["a"], most_bytes=99_999)
    assert len(read_bundle(bomb.getvalue(), ["a"], most_bytes=100_000)["a"]) == 100_000


def _message(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _integer(len(content)) + content


def _integer(value: int) -> bytes:
    return bytes([value & 127 | 128]) + _integer(value >> 7) if value > 127 else bytes([value])


def test_the_canonical_face_is_read() -> None:
    vertices = np.arange(20, dtype="<f4").tobytes()
    basis = b"".join(_message(2, bytes([8, number, 21]) + struct.pack("<f", 0.5)) for number in (0, 2, 3))
    face = read_geometry(_message(1, bytes([8, 0]) + _message(3, vertices)) + basis)
    assert face.points.tolist() == [[0, 1, 2], [5, 6, 7], [10, 11, 12], [15, 16, 17]]
    assert face.weights.tolist() == [0.5, 0, 0.5, 0.5]


@pytest.mark.parametrize(
    "content",
    [b"", b"\x0a\xff", b"\x0a" + b"\xff" * 12, _message(1, b""), _message(1, _message(3, bytes(20))), b"\x0b\x00"],
)
def test_a_damaged_face_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="geometry_pipeline_metadata"):
        read_geometry(content)
