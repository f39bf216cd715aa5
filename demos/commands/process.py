"""``python -m framebind process``: whole videos, folders of them and lists through a model."""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from ..cluster.crew import find_seats, run_units
from ..cluster.progress import progress_bars
from ..cluster.units import Event, Finished, Lost, Unit
from ..cluster.worker import Seat
from ..console import counted
from ..flags import GpuFlags, with_flags
from ..processing.inputs import Input, find_inputs
from ..processing.manifest import Manifest
from ..processing.session import UNFINISHED
from ..processing.tasks import TASKS
from ..processing.work import Save, TaskName, Work, task_for
from .output import print_line

Inputs = Annotated[
    list[str],
    typer.Argument(metavar="INPUT...", help='Videos, folders, patterns ("clips/*.mp4"), or @FILE, a list.'),
]
Output = Annotated[Path, typer.Option(help="The folder of the results; one inside it for each folder of the inputs.")]
Task = Annotated[
    str, typer.Option(help=f"One of {', '.join(TASKS)}; by default style, or raw for a --model of your own.")
]
Model = Annotated[str, typer.Option(help="A .tflite file or a known model; by default the task's own.")]
Saved = Annotated[
    str,
    typer.Option(
        help="With commas between: video, the painted video with its sound; jsonl and parquet, a row for each thing "
        "found; npz, the outputs of the task raw, whose default it is."
    ),
]
Labels = Annotated[Path | None, typer.Option(help="The names of the classes of detect or classify, one per line.")]
Mean = Annotated[str, typer.Option(help="For raw: mean of the picture's values, 0 to 1; one, or three with commas.")]
Std = Annotated[str, typer.Option(help="For raw: their standard deviation, likewise.")]
Suffix = Annotated[str, typer.Option(help="The videos' format: .mp4, .mov, .mkv, .webm or .gif.")]
Codec = Annotated[str | None, typer.Option(help="h264, hevc, av1, vp9, prores or gif; by default that of the suffix.")]
Quality = Annotated[int | None, typer.Option(min=0, max=63, help="The encoder's rate factor: smaller is better.")]
Every = Annotated[int, typer.Option(min=1, help="Every how many frames one is taken.")]
Start = Annotated[float, typer.Option(min=0, help="The second of each video at which to begin.")]
End = Annotated[
    float | None, typer.Option(min=0, help="The second at which to end; by default that of the last frame.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace results that are there.")]
Resume = Annotated[bool, typer.Option("--resume", help="Leave out videos that an earlier run finished.")]

Jobs = Annotated[
    int | None,
    typer.Option(min=1, max=64, help="Videos at once: processes; with --gpus, sessions of each GPU's process (8)."),
]
Gpus = Annotated[str, typer.Option(help='"all" or numbers, such as 0,1: a process on each of these GPUs.')]


@with_flags
def process(
    inputs: Inputs,
    output: Output,
    task: Task = "",
    model: Model = "",
    save: Saved = "",
    labels: Labels = None,
    mean: Mean = "0",
    std: Std = "1",
    suffix: Suffix = ".mp4",
    codec: Codec = None,
    quality: Quality = None,
    every: Every = 1,
    start: Start = 0.0,
    end: End = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    jobs: Jobs = None,
    gpus: Gpus = "",
    *,
    flags: GpuFlags,
) -> None:
    """Put videos through a model, and write them painted, with their sound, and what was found in each frame.

    Example: python -m framebind process holidays --output painted --task style

    Example: python -m framebind process "*.mp4" --output faces --task detect --save jsonl --resume

    Example: python -m framebind process archive --output faces --task detect --save jsonl --gpus all --backend cuda
    """
    if end is not None and end <= start:
        raise typer.BadParameter("--end is not after --start")
    work = _work(
        task_for(task, model),
        save,
        model=model,
        labels=labels,
        mean=_numbers(mean, "--mean"),
        std=_numbers(std, "--std"),
        suffix=suffix,
        codec=codec,
        quality=quality,
        every=every,
        start=start,
        end=end,
        flags=flags,
    )
    found, seats = find_inputs(inputs), find_seats(jobs, gpus, flags.backend)
    places = _places(found, output)
    manifest = Manifest(output, asdict(work), resume=resume)
    if resume:
        _remove_unfinished(output)
    waiting = [each for each in found if not (resume and manifest.is_done(each.path, work.outputs(places[each])))]
    _check_outputs(work, waiting, places, overwrite=overwrite or resume)
    began = time.perf_counter()
    try:
        results = _run(work, [Unit(each.path, places[each]) for each in waiting], seats, manifest)
    finally:
        manifest.close()
    _print_summary(results, len(found) - len(waiting), time.perf_counter() - began)
    if any("error" in result for result in results):
        raise typer.Exit(1)


def _work(task: str, save: str, **others: Any) -> Work:
    """The work that the options describe. Raises BadParameter for values that are not known or do not go together."""
    kinds = tuple(dict.fromkeys((save or ("npz" if task == "raw" else "video")).split(",")))
    try:
        return Work(cast("TaskName", task), save=cast("tuple[Save, ...]", kinds), **others)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"'{text}' is no number, and no three with commas", param_hint=option) from error


def _places(found: list[Input], output: Path) -> dict[Input, Path]:
    """The place of each video's results, without a suffix. Two videos of one name get different ones."""
    places: dict[Input, Path] = {}
    taken: set[Path] = set()
    for each in found:
        place = stem = output / each.place.with_suffix("")
        number = 1
        while place in taken:
            number += 1
            place = stem.with_name(f"{stem.name}-{number}")
        taken.add(place)
        places[each] = place
    return places


def _check_outputs(work: Work, waiting: list[Input], places: dict[Input, Path], *, overwrite: bool) -> None:
    """Refuse to replace a source, or anything without --overwrite, before any work is done."""
    sources = {each.path.resolve() for each in waiting}
    for each in waiting:
        for path in work.outputs(places[each]):
            if path.resolve() in sources:
                raise typer.BadParameter(f"'{path}' is read and would be replaced: take another --output")
            if path.exists() and not overwrite:
                raise typer.BadParameter(
                    f"'{path}' is there: --overwrite replaces it, --resume leaves out what is done"
                )


def _remove_unfinished(output: Path) -> None:
    for folder in output.rglob(UNFINISHED + "*"):
        shutil.rmtree(folder, ignore_errors=True)


def _run(work: Work, units: list[Unit], seats: list[Seat], manifest: Manifest) -> list[dict[str, Any]]:
    """Process the videos. Returns their results in the order in which they were finished."""
    results: list[dict[str, Any]] = []
    with progress_bars(len(units)) as show:

        def report(event: Event) -> None:
            if isinstance(event, Lost):
                print_line(f"{event.unit.source}: its worker died, and it is done again")
            elif isinstance(event, Finished):
                if "error" in event.result:
                    print_line(f"{event.unit.source}: {event.result['error']}")
                manifest.add(event.unit.source, event.result)
                results.append(event.result)
            show(event)

        run_units(work, units, seats, report)
    return results


def _print_summary(results: list[dict[str, Any]], left_out: int, seconds: float) -> None:
    done = [result for result in results if "error" not in result]
    frames, cpu, copied = (sum(result[key] for result in done) for key in ("frames", "cpu_seconds", "bytes"))
    print_line(f"{counted(len(done), 'video')}, {counted(frames, 'frame')} in {seconds:.1f} s")
    if frames:
        print_line(
            f"{frames / seconds:.1f} frames/s, {1000 * cpu / frames:.1f} CPU seconds per 1,000 frames, "
            f"{copied / 1e6:.1f} MB between host and GPU"
        )
    if left_out:
        print_line(f"{counted(left_out, 'video')} left out: done by an earlier run")
    if failed := len(results) - len(done):
        print_line(f"{counted(failed, 'video')} failed: the lines above say why")
