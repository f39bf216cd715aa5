"""The options of a command line that describe the work on videos."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from ...video.results.tables import load_pyarrow
from ...video.tasks import task_names
from ...video.vision.effects import ALPHA_NAME, BLUR_NAME, check_background, is_color
from ...video.work import Save, Work, default_save, default_suffix, task_for
from .flags import Depth, Labels, Mean, Most, Std, VideoFlags, normalization

Option = typer.Option


@dataclass(frozen=True, kw_only=True)
class WorkOptions:
    """The fields of ``work.Work`` as a person gives them."""

    task: Annotated[
        str,
        Option(
            help=f"One of {', '.join(task_names())}; by default the one that knows the --model best, or style without "
            "a --model."
        ),
    ] = ""
    model: Annotated[str, Option(help="A .tflite file or a known model; by default the task's own.")] = ""
    save: Annotated[
        str,
        Option(
            help="Separated by commas: video, the painted video with its sound; masks, of tasks that have them; jsonl "
            "and parquet, a row for each result; npz, the outputs of the task raw, whose default it is."
        ),
    ] = ""
    masks: Annotated[
        Literal["video", "png", "rle"],
        Option(
            help="Masks as a video to look at, as PNG files of coverage or class numbers, or as COCO's run lengths "
            "in the rows."
        ),
    ] = "video"
    labels: Labels = None
    mean: Mean = ""
    std: Std = ""
    background: Annotated[
        str,
        Option(
            help="For matte: a colour as #rrggbb, a picture, or blur, behind people; by default a blue. alpha is none: "
            "the .mov (ProRes 4444), .webm or .mkv (VP9) or .png is transparent there."
        ),
    ] = ""
    depth: Depth = ""
    most: Most = None
    suffix: Annotated[
        str,
        Option(
            help="The videos' format: .mp4, .mov, .mkv, .webm or .gif; .png for a folder of frames. By default .mp4, "
            "with alpha .mov."
        ),
    ] = ""
    codec: Annotated[
        str | None,
        Option(
            help="h264, hevc, av1, vp9, prores or gif; by default that of the suffix. h264_nvenc, hevc_nvenc and "
            "av1_nvenc encode on a GPU of NVIDIA that has an encoder."
        ),
    ] = None
    quality: Annotated[int | None, Option(min=0, max=63, help="The encoder's rate factor: smaller is better.")] = None
    every: Annotated[int, Option(min=1, help="Take every Nth frame.")] = 1
    start: Annotated[float, Option(min=0, help="The second of each video at which to begin.")] = 0.0
    end: Annotated[
        float | None, Option(min=0, help="The second at which to end; by default that of the last frame.")
    ] = None

    def work(self, flags: VideoFlags) -> Work:
        """The described work. Raises BadParameter for unknown values, and for values that contradict each other.

        Raises SourceError if pyarrow is wanted and not installed.
        """
        if self.end is not None and self.end <= self.start:
            raise typer.BadParameter("--end is not after --start")
        task = task_for(self.task, self.model, further=flags.model_options().further)
        if "parquet" in self.save:
            load_pyarrow()  # or each video would say that it is missing
        if self.background:
            check_background(self.background)  # likewise
        try:
            kinds = tuple(dict.fromkeys((self.save or default_save(task)).split(",")))
            return Work(
                task, self.model, save=cast("tuple[Save, ...]", kinds), masks=self.masks,
                suffix=self.suffix or default_suffix(self.background), codec=self.codec, quality=self.quality,
                every=self.every, start=self.start, end=self.end, labels=self.labels,
                background=_resolved(self.background), depth=self.depth, most=self.most,
                options=flags.model_options(),
                **normalization(self.mean, self.std),
            )  # fmt: skip
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error


def _resolved(background: str) -> str:
    """The background, as the whole path if it is a file: other processes may work in other folders."""
    if not background or background in (BLUR_NAME, ALPHA_NAME) or is_color(background):
        return background
    return str(Path(background).resolve())
