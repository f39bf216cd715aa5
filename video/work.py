"""The description of the work on each video: plain values, which can be sent to other processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import framebind as fb

from .model_options import ModelOptions

TaskName = Literal["style", "segment", "matte", "detect", "landmarks", "poses", "classify", "raw"]
Save = Literal["video", "masks", "jsonl", "parquet", "npz"]
SAVED: tuple[Save, ...] = get_args(Save)
Masks = Literal["video", "png", "rle"]
SUFFIXES = {"jsonl": ".jsonl", "parquet": ".parquet", "npz": ".npz"}
MASKED = ("segment", "matte")
"""Tasks that have masks."""
LABELLED = ("detect", "classify")
"""Tasks whose classes may be named by a file."""


@dataclass(frozen=True)
class Work:
    """The task, its model, the files that are saved, and the part of each video.

    Raises ValueError for values that contradict each other.
    """

    task: TaskName
    model: str = ""
    """A .tflite file or a known model; the task's own if empty."""
    save: tuple[Save, ...] = ("video",)
    masks: Masks = "video"
    """The form of saved masks: a video, a folder of PNG files, or run lengths in the rows."""
    suffix: str = ".mp4"
    """Format of saved videos; ".png" is a folder of PNG files."""
    codec: str | None = None
    quality: int | None = None
    every: int = 1
    """Take every Nth frame."""
    start: float = 0.0
    end: float | None = None
    """Seconds of the first frame, and of the first one that is left out."""
    origin: float | None = None
    """Second that is 0 in saved videos, which have no sound then: they are parts of longer ones. None: ``start``."""
    named: str = ""
    """Name of the video in rows, if it is read from a copy; by default its path."""
    labels: Path | None = None
    """The names of the classes of a detector or a classifier, one per line."""
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    """Normalization of the picture, from 0 to 1, of the task "raw": one value for all channels, or one for each."""
    options: ModelOptions = field(default_factory=ModelOptions)

    def __post_init__(self) -> None:
        _check_name("task", self.task, get_args(TaskName))
        for kind in self.save:
            _check_name("save", kind, SAVED)
        _check_name("masks", self.masks, get_args(Masks))
        if "masks" in self.save and self.task not in MASKED:
            raise ValueError(f"the tasks {' and '.join(MASKED)} have masks, '{self.task}' has none")
        if "masks" in self.save and self.masks == "video" and self.suffix == ".png":
            raise ValueError("with the suffix .png, masks are png or rle, not video")
        _check_name("suffix", self.suffix, (*fb.MarkedVideo.suffixes, ".png"))
        if self.codec is not None:
            _check_name("codec", self.codec, fb.MarkedVideo.codecs)
        if self.start < 0 or (self.end is not None and self.end <= self.start):
            raise ValueError(f"from second {self.start:g} to {self.end} is no part of a video")
        if self.every < 1:
            raise ValueError(f"every is {self.every}: take each frame (1), each second one (2) or fewer")
        if self.task == "raw" and not self.model:
            raise ValueError("the task 'raw' has no model of its own: name one")
        if self.task == "raw" and (wrong := set(self.save) - {"npz"}):
            raise ValueError(f"raw outputs are saved as npz, not as {' and '.join(sorted(wrong))}")
        if self.task != "raw" and ("npz" in self.save or (self.mean, self.std) != ((0.0,), (1.0,))):
            raise ValueError(f"npz, mean and std are for the task 'raw', not for '{self.task}'")
        if self.labels is not None and self.task not in LABELLED:
            raise ValueError(f"labels name the classes of the tasks {' and '.join(LABELLED)}, not of '{self.task}'")
        if len(self.mean) not in (1, 3) or len(self.std) not in (1, 3) or 0 in self.std:
            raise ValueError(f"mean {self.mean} and std {self.std} have one value or three, and no std is 0")

    def outputs(self, place: Path) -> list[Path]:
        """The files and folders that it writes for a place without a suffix, in the order of ``save``."""
        return list(self.files(place).values())

    def files(self, place: Path) -> dict[Save, Path]:
        """The same paths by their contents. Masks in rows have no file."""
        ends: dict[str, str] = {**SUFFIXES, "video": ".frames" if self.suffix == ".png" else self.suffix}
        ends["masks"] = ".masks" + (self.suffix if self.masks == "video" else "")
        kinds: list[Save] = [kind for kind in self.save if kind != "masks" or self.masks != "rle"]
        return {kind: place.with_name(place.name + ends[kind]) for kind in kinds}


def task_for(task: str, model: str) -> str:
    """The default task: raw outputs if only a model is named, style if nothing is."""
    return task or ("raw" if model else "style")


def _check_name(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"{what} '{name}' is none of {', '.join(known)}")
