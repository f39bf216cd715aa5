"""``framebind evaluate imagenet``: accuracies that can be computed by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import app
from framebind.tools.evaluation import imagenet
from support.demo_models import color_classifier
from support.tiny_models import channels_first

LABELS = ["red", "green", "blue", "loud", "sweet", "late"]
COLORS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
# Ten pictures: what each shows, and what it is called. A picture of red has the scores red, then loud, sweet and late,
# which tie, then green and blue, which tie: rank 1 is "red", 2 "loud", 3 "sweet", 4 "late", 5 "green", 6 "blue".
PICTURES = [
    ("red", "red"), ("red", "red"), ("red", "loud"), ("red", "green"), ("green", "green"), ("green", "late"),
    ("green", "blue"), ("blue", "blue"), ("blue", "sweet"), ("blue", "red"),
]  # fmt: skip
# Rank 1: two red, one green, one blue. Rank 2: loud. Rank 3: sweet. Rank 4: late. Rank 5: green of red, red of blue.
# Rank 6: blue of green.
TOPS = [0.4, 0.5, 0.6, 0.7, 0.9, 1.0]


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """The command line for the ten pictures."""
    (tmp_path / "colors.tflite").write_bytes(color_classifier())
    (tmp_path / "labels.txt").write_text("\n".join(LABELS))
    (tmp_path / "truth.txt").write_text("\n".join(name for _, name in PICTURES))
    (tmp_path / "pictures").mkdir()
    for number, (shown, _) in enumerate(PICTURES):
        picture = np.full((40, 60, 3), COLORS[shown][::-1], np.uint8)
        picture[:, :12] = picture[:, 48:] = 255  # the Inception crop leaves 35 x 35 in the middle
        cv2.imwrite(str(tmp_path / "pictures" / f"{number}.{'png' if number else 'jpg'}"), picture)
    return [
        "evaluate", "imagenet", str(tmp_path / "colors.tflite"), "--ground_truth_images_path",
        str(tmp_path / "pictures"), "--ground_truth_labels", str(tmp_path / "truth.txt"), "--model_output_labels",
        str(tmp_path / "labels.txt"),
    ]  # fmt: skip


Run = Callable[..., dict[str, object]]


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
class TestCommand:
    @pytest.mark.parametrize("layout", ["nhwc", "nchw"])
    def test_accuracies_are_those_computed_by_hand(self, arguments: list[str], tmp_path: Path, layout: str) -> None:
        kept = tmp_path / "kept.json"
        if layout == "nchw":
            (tmp_path / "colors.tflite").write_bytes(channels_first(color_classifier()))
        done = CliRunner().invoke(app, [*arguments, "--json", "--output", str(kept)])
        assert done.exit_code == 0, done.output
        content = json.loads(kept.read_text())
        assert content["pictures"] == 10
        assert content["top_k_accuracies"] == {"GPU": TOPS, "CPU": TOPS}
        assert set(content["inference_us"]) == {"GPU", "CPU"}

    def test_the_table_has_both_sides(self, arguments: list[str]) -> None:
        done = CliRunner().invoke(app, [*arguments, "--top", "2", "--num_images", "3"])
        assert done.exit_code == 0, done.output
        assert "Num evaluation runs: 3" in done.output
        rows = [line.split() for line in done.output.splitlines() if line.strip().startswith("top-")]
        assert rows == [["top-1", "0.6667", "0.6667"], ["top-2", "1.0000", "1.0000"]]

    def test_pictures_of_the_denylist_are_left_out(self, arguments: list[str], tmp_path: Path) -> None:
        (tmp_path / "denied.txt").write_text("3\n4\n6\n7\n9\n10\n")
        done = CliRunner().invoke(app, [*arguments, "--denylist", str(tmp_path / "denied.txt"), "--top", "1"])
        assert "Num evaluation runs: 4" in done.output
        assert ["top-1", "1.0000", "1.0000"] in [line.split() for line in done.output.splitlines()]

    def test_a_model_of_other_classes_is_an_error(self, arguments: list[str], tmp_path: Path) -> None:
        (tmp_path / "labels.txt").write_text("\n".join([*LABELS, "seventh"]))
        done = CliRunner().invoke(app, arguments)
        assert isinstance(done.exception, fb.ModelError)
        assert "a classifier of 7 labels" in str(done.exception)


def test_labels_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    pictures, labels = [Path("a.jpg"), Path("b.jpg")], tmp_path / "truth.txt"
    labels.write_text("red\ngreen\n")
    assert imagenet.read_truth(pictures, labels, ["green", "red", "green"]) == {"a.jpg": 1, "b.jpg": 0}
    with pytest.raises(fb.SourceError, match="has 2 lines for 1 pictures"):
        imagenet.read_truth(pictures[:1], labels, ["red", "green"])
    with pytest.raises(fb.SourceError, match="none of the model's labels: 'green'"):
        imagenet.read_truth(pictures, labels, ["red"])
    with pytest.raises(fb.SourceError, match="cannot be read"):
        imagenet.read_lines(tmp_path / "nowhere")
    (tmp_path / "denied.txt").write_text("one")
    with pytest.raises(fb.SourceError, match="no number"):
        imagenet.without_denied(pictures, tmp_path / "denied.txt")
