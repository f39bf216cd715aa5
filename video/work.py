"""The description of the work on each video: plain values, which can be sent to other processes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import framebind as fb

from .further_inputs import NO_OPTIONS, FurtherInputs, check_set
from .model_file import read_model_file
from .model_options import MOST_THINGS, ModelOptions
from .models import find_model
from .network import Network
from .task import Drawing, Finder, Model, Scene, VideoTask
from .tasks import find_task, tasks_for, tasks_that_save, tasks_that_take
from .vision.effects import ALPHA_NAME, is_color

Save = Literal["video", "masks", "jsonl", "parquet", "npz"]
SAVED: tuple[Save, ...] = get_args(Save)
Masks = Literal["video", "png", "rle"]
SUFFIXES = {"jsonl": ".jsonl", "parquet": ".parquet", "npz": ".npz"}
_PICTURES_WITH_ALPHA = frozenset(".png .tif .tiff .webp".split())
PICTURES = frozenset(".bmp .jpeg .jpg .png .tif .tiff .webp".split())
"""Suffixes of photographs: `open_source` reads them, and OpenCV writes them."""
STYLE, DETECT, RAW = "style", "detect", "raw"
"""The task of videos and the one of streams if nothing is named, and that of a model which no other task knows."""
CHECKED_SIZE = (640, 480)
"""Size of the frames for which a finder is made to check the model; no finder refuses a size."""


@dataclass(frozen=True)
class Work:
    """The task, its model, the files that are saved, and the part of each video.

    Raises ValueError for values that contradict each other.
    """

    task: str
    """Name of a file of tasks/."""
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
    """The names of the model's classes, one per line; None takes those in the model's file."""
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    """Normalization of the picture's values from 0 to 1: one value for all channels, or one for each.

    None is what the model's file says, or else what the task's models usually take.
    """
    background: str = ""
    """A colour (#rrggbb), a picture file, "blur" or "alpha" (transparent), behind the people of the task "matte".

    The task's own colour if empty.
    """
    depth: str = ""
    """The unit of a model's depth, "inverse" or "metres"; "" takes what names say, and else "inverse"."""
    most: int | None = None
    """The number of faces, hands or persons of a bundle that are looked for; None is the task's own number."""
    options: ModelOptions = field(default_factory=ModelOptions)
    is_photograph: bool = False
    """Whether the source is one photograph: what is saved as video and as masks is one picture each then."""

    def __post_init__(self) -> None:
        task = self.video_task
        for kind in self.save:
            _check_name("save", kind, SAVED)
        _check_name("masks", self.masks, get_args(Masks))
        if not task.model and not self.model:
            raise ValueError(f"the task '{self.task}' has no model of its own: name one")
        self._check_saved(task)
        self._check_options(task)
        if self.masks != "video" and "masks" not in self.save:
            raise ValueError(f"masks is '{self.masks}', the form of saved masks, and save has no masks: add them")
        if "masks" in self.save and self.masks == "video" and self.suffix == ".png":
            raise ValueError("with the suffix .png, masks are png or rle, not video")
        _check_name("suffix", self.suffix, (*fb.video.VideoWriter.suffixes, ".png"))
        if self.codec is not None:
            _check_name("codec", self.codec, fb.video.VideoWriter.codecs)
        if self.is_transparent and "video" in self.save and not self.is_photograph:
            self._check_alpha()
        _check_name("depth", self.depth, ("", "inverse", "metres"))
        if self.most is not None and not 1 <= self.most <= MOST_THINGS:
            raise ValueError(f"most is {self.most}: look for 1 to {MOST_THINGS}")
        if self.start < 0 or (self.end is not None and self.end <= self.start):
            raise ValueError(f"from second {self.start:g} to {self.end} is no part of a video")
        if self.every < 1:
            raise ValueError(f"every is {self.every}: take each frame (1), each second one (2) or fewer")
        if {len(each) for each in (self.mean, self.std) if each is not None} - {1, 3} or 0 in (self.std or ()):
            raise ValueError(f"mean {self.mean} and std {self.std} have one value or three, and no std is 0")

    def _check_saved(self, task: VideoTask) -> None:
        if wrong := sorted(set(self.save) - set(task.saves)):
            others = _listed(tasks_that_save(wrong[0]))
            raise ValueError(
                f"the task '{self.task}' saves {', '.join(task.saves)}, not {' and '.join(wrong)}: {wrong[0]} is for "
                f"{others}" + (". It is the task of models that no other one knows" if self.task == RAW else "")
            )

        if "masks" in self.save and self.masks not in task.masks:
            raise ValueError(f"masks of the task '{self.task}' are {' or '.join(task.masks)}, not {self.masks}")

    def _check_options(self, task: VideoTask) -> None:
        for each in fields(self):
            if each.name in _TASK_OPTIONS and each.name not in task.options:
                if getattr(self, each.name) != each.default:
                    raise ValueError(f"{each.name} is for {_listed(tasks_that_take(each.name))}, not for '{self.task}'")

    def _check_alpha(self) -> None:
        codecs = fb.video.VideoWriter.with_alpha
        is_kept = self.suffix in codecs and self.codec in (None, codecs[self.suffix])
        if not is_kept and self.suffix != ".png":
            known = ", ".join(f"{suffix} ({codec})" for suffix, codec in codecs.items())
            given = f"{self.codec} in {self.suffix}" if self.codec else self.suffix
            raise ValueError(f"{given} keeps no alpha: with the background alpha, the suffix is {known} or .png")

    @property
    def is_transparent(self) -> bool:
        """True if pictures have an alpha that is saved."""
        return self.background == ALPHA_NAME

    @property
    def video_task(self) -> VideoTask:
        """The task of that name. Raises ValueError if there is none.

        The CPU paints no background but a colour: OpenGL draws others.
        """
        task = find_task(self.task)
        return task if not self.background or is_color(self.background) else replace(task, is_painted=False)

    @property
    def has_memory(self) -> bool:
        """True if a frame's results depend on earlier frames, by the task's memory or by the model's states."""
        if self.video_task.has_memory:
            return True
        return bool(read_model_file(find_model(self.model_name), self.options.further).feedback)

    @property
    def model_name(self) -> str:
        """The model of the work: a file, or the name of a known one."""
        return self.model or self.video_task.model

    def finder(self, model: Model, size: tuple[int, int]) -> Finder:
        """Make the task's arithmetic for a video with frames of ``size``. Raises ModelError for a wrong model."""
        make = self.video_task.finder
        assert make is not None, "the task's picture is its only result"
        return make(model, size, **self._given())

    def drawing(self, scene: Scene) -> Drawing:
        """Make the task's picture of a video on the GL context that is current. Raises ModelError as ``finder``."""
        return self.video_task.prepare(scene, **self._given())

    def enlarged(self, network: Network) -> int:
        """The number of times that the task's saved picture is larger than the frames."""
        return 1 if self.video_task.enlarges is None else self.video_task.enlarges(network)

    def _given(self) -> dict[str, Any]:
        """The fields that the task takes, unless they are None."""
        values = {name: getattr(self, name) for name in self.video_task.options}
        return {name: value for name, value in values.items() if value is not None}

    def of(self, source: Path | str) -> Work:
        """The work on a source, a path or a URL. A photograph is taken whole: parts are for videos."""
        if not is_photograph(source):
            return self
        return replace(self, is_photograph=True, start=0.0, end=None, every=1)

    def outputs(self, place: Path) -> list[Path]:
        """The files and folders that it writes for a place without a suffix, in the order of ``save``."""
        return list(self.files(place).values())

    def files(self, place: Path) -> dict[Save, Path]:
        """The paths of ``outputs`` by their contents. Masks in rows have no file.

        A photograph keeps its suffix; if that format has no alpha and the picture has, .png is added.
        """
        ends: dict[str, str] = {**SUFFIXES, "video": ".frames" if self.suffix == ".png" else self.suffix}
        ends["masks"] = ".masks" + (self.suffix if self.masks == "video" else "")
        if self.is_photograph:
            is_kept = not self.is_transparent or place.suffix.lower() in _PICTURES_WITH_ALPHA
            ends.update(video="" if is_kept else ".png", masks=".masks.png")
        kinds: list[Save] = [kind for kind in self.save if kind != "masks" or self.masks != "rle"]
        return {kind: place.with_name(place.name + ends[kind]) for kind in kinds}


_TASK_OPTIONS = ("labels", "mean", "std", "background", "depth", "most")
"""Fields that only some tasks take."""


def is_photograph(source: Path | str) -> bool:
    """Whether a path or a URL ends as photographs do."""
    name = source if isinstance(source, PurePath) else PurePosixPath(urlsplit(source).path)
    return name.suffix.lower() in PICTURES


def default_suffix(background: str) -> str:
    """The format of saved videos if none is named: one that takes the sound of most videos, and the alpha."""
    return ".mov" if background == ALPHA_NAME else ".mp4"


def task_for(task: str, model: str, otherwise: str = STYLE, further: FurtherInputs = NO_OPTIONS) -> str:
    """The task that is named, or that knows the model best, or, if none is named, ``otherwise``.

    ``further`` says which of the model's inputs and outputs are states, and values of inputs.
    The model's file is read, and downloaded if it has to be. Raises ModelError.
    """
    if task or not model:
        return task or otherwise
    return tasks_for(read_model_file(find_model(model), further))[0].name


def check_model(work: Work) -> None:
    """Raise ModelError if the model of a work is none for its task. It is downloaded if it has to be."""
    model = read_model_file(find_model(work.model_name), work.options.further)
    if model.values:
        check_set(model.path.name, model.values, model.names)
    if work.video_task.finder is not None and model.is_certain:
        work.finder(model, CHECKED_SIZE)


def default_save(task: str) -> str:
    """The kind of files that a task saves by default. Raises ValueError for an unknown task."""
    return find_task(task).saves[0]


def _listed(names: list[str]) -> str:
    """Names of tasks in a sentence."""
    *others, last = names
    return f"the tasks {', '.join(others)} and {last}" if others else f"the task {last}"


def _check_name(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"{what} '{name}' is none of {', '.join(known)}")
