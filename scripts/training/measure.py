"""Compares a trained model with its teacher on held-out pictures: figures.json, comparison.jpg.

PYTHONPATH=scripts python -m training.measure style_transfer video/assets/style_transfer.tflite
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import numpy.typing as npt
import typer

from . import scenes, teachers

SIZE = 384
SEGMENTATION_SIZE = 256
VARIATIONS = 16
"""Scenes made of the held-back photographs, besides these themselves."""
SEED = 99
FIGURES = Path(__file__).with_name("figures.json")
Figures = dict[str, float]
Values = npt.NDArray[np.float32]


def held_back(photographs: list[scenes.Picture], size: int) -> list[scenes.Picture]:
    """The photographs, then variations of them."""
    varied = [scenes.scene((SEED, number), photographs, [], size) for number in range(VARIATIONS)]
    return [*(scenes.square(photograph, size) for photograph in photographs), *varied]


def style_transfer(model: Path) -> dict[str, Figures]:
    """Distance of the model's pictures from the teacher's, and steadiness of both, in units of the values, 0 to 1.

    ``mean_error`` is that of all values, ``unchanged_mean_error`` that of the input itself, for comparison;
    ``color_shift`` is between the mean colours of whole pictures; ``psnr_db`` is the mean over the pictures.
    """
    student, teacher = teachers.model(model), teachers.style_transfer()
    pictures = held_back(scenes.load(scenes.HELD_BACK), SIZE)
    results, expected = (np.stack([answer(picture) for picture in pictures]) for answer in (student, teacher))
    similarity = {
        "mean_error": _mean(np.abs(results - expected)),
        "unchanged_mean_error": _mean(np.abs(np.stack(pictures) / 255 - expected)),
        "color_shift": _mean(np.abs(results.mean(axis=(1, 2)) - expected.mean(axis=(1, 2)))),
        "psnr_db": _mean(-10 * np.log10(((results - expected) ** 2).mean(axis=(1, 2, 3)))),
    }
    return {
        "similarity": similarity,
        "student": {**steadiness(student), "grid": grid(results)},
        "teacher": {**steadiness(teacher), "grid": grid(expected)},
    }


def segmentation(model: Path) -> dict[str, Figures]:
    """Intersection over union of the two masks (values above 0.5), over the pictures of a person."""
    student, teacher = teachers.model(model), teachers.segmentation()
    pictures = held_back(scenes.load(scenes.HELD_BACK_PEOPLE), SEGMENTATION_SIZE)
    found, expected = (np.stack([answer(picture) for picture in pictures]) > 0.5 for answer in (student, teacher))
    return {"similarity": {"iou": float((found & expected).sum() / (found | expected).sum())}}


def steadiness(answer: teachers.Answer) -> Figures:
    """Change of the painted picture, followed as it moves, when the input moves by 1, 2 or 4 pixels each way."""
    photograph = scenes.square(scenes.load(scenes.HELD_BACK)[0], SIZE + 4)
    moved = {by: answer(np.ascontiguousarray(photograph[by : by + SIZE, by : by + SIZE])) for by in (0, 1, 2, 4)}
    return {f"moved_by_{by}": _followed(moved[0], moved[by], by) for by in (1, 2, 4)}


def grid(results: Values) -> float:
    """The spread of mean brightness over the 16 places in blocks of 4x4 pixels, without the pictures' borders."""
    inner = results[:, 32:-32, 32:-32].mean(axis=(0, 3))
    height, width = inner.shape
    places = inner.reshape(height // 4, 4, width // 4, 4).mean(axis=(0, 2))
    return float(places.max() - places.min())


def _followed(still: Values, moved: Values, by: int) -> float:
    kept = slice(32, -32)  # what lies nearer to the border sees the border
    return _mean(np.abs(still[by:, by:][kept, kept] - moved[:-by, :-by][kept, kept]))


def _mean(values: npt.NDArray[np.floating]) -> float:
    return float(values.mean(dtype=np.float64))


def comparison(model: Path) -> scenes.Picture:
    """Rows of a picture that was not trained on: as it is, the teacher's version, the student's."""
    rows = []
    for photograph in scenes.load(scenes.HELD_BACK):
        picture = scenes.square(photograph, SIZE)
        answers = [answer(picture) for answer in (teachers.style_transfer(), teachers.model(model))]
        rows.append(np.hstack([picture, *((answer * 255).round().astype(np.uint8) for answer in answers)]))
    return cv2.resize(np.vstack(rows), None, fx=0.75, fy=0.75, interpolation=cv2.INTER_AREA).astype(np.uint8)


def main(
    name: Annotated[str, typer.Argument(help="style_transfer or segmentation.")],
    model: Annotated[Path, typer.Argument(help="The taught .tflite file.")],
) -> None:
    """Print the figures and put them into figures.json; for style_transfer, write comparison.jpg beside it."""
    measured = {"style_transfer": style_transfer, "segmentation": segmentation}[name](model)
    rounded = {group: {key: round(value, 4) for key, value in part.items()} for group, part in measured.items()}
    print(json.dumps(rounded, indent=2))
    known = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
    FIGURES.write_text(json.dumps({**known, name: rounded}, indent=2) + "\n", encoding="utf-8")
    if name == "style_transfer":
        picture = comparison(model)[..., ::-1]
        cv2.imwrite(str(FIGURES.with_name("comparison.jpg")), picture, [cv2.IMWRITE_JPEG_QUALITY, 80])


if __name__ == "__main__":
    typer.run(main)
