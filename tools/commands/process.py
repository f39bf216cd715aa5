"""``python -m framebind process``: whole videos, folders of them and lists through a model."""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import framebind as fb

from ...video.results.outputs import UNFINISHED
from ...video.signals import ended_by_signals, raise_if_signalled
from ...video.work import Work, check_model, is_photograph
from ...video.workers.inputs import Input, find_inputs, name_of, numbered, result_place
from ...video.workers.job_queue import add_times
from ...video.workers.jobs import Event, Finished, Job, Lost, Progress
from ...video.workers.local_files import outputs_of
from ...video.workers.manifest import Manifest
from ...video.workers.remote import exists, is_url, plain_url
from ...video.workers.runners import Runner, choose_runner
from ..common.console import counted
from ..common.flags import VideoFlags, chart_option, with_flags
from ..common.output import needing_no_reader, print_line
from ..common.work_options import WorkOptions
from ..displays.progress import progress_bars
from ..plots.files import save


def _named(output: str) -> str:
    """The value of --output. An empty one, as of a variable that is not set, is not the current folder."""
    if not output:
        raise typer.BadParameter("'' is no folder: . is the current one")
    return plain_url(output)


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...", help='Videos, photographs, folders, patterns ("clips/*.mp4"), or @FILE, a list.'
    ),
]
Output = Annotated[
    str,
    typer.Option(
        callback=_named, help="The folder of the results, or its URL; one inside it for each folder of the inputs."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing results.")]
Resume = Annotated[bool, typer.Option("--resume", help="Skip videos that an earlier run finished.")]

Jobs = Annotated[
    int | None,
    typer.Option(min=1, max=64, help="Videos at once, each in a process; with --gpus, those of each GPU (8)."),
]
Profile = Annotated[Path | None, chart_option("Draw the work and the waits of decoder, model and encoder")]
Gpus = Annotated[str, typer.Option(help='"all" or numbers, such as 0,1: processes on each of these GPUs.')]

Ray = Annotated[str, typer.Option(metavar="local|auto|ADDRESS", help="Run on this Ray cluster, on all its GPUs.")]

Results = list[tuple[Path | str, dict[str, Any]]]
"""Videos, by path or URL, and what was reported of them."""


@with_flags
def process(
    inputs: Inputs,
    output: Output,
    overwrite: Overwrite = False,
    resume: Resume = False,
    jobs: Jobs = None,
    gpus: Gpus = "",
    ray: Ray = "",
    profile: Profile = None,
    *,
    options: WorkOptions,
    flags: VideoFlags,
) -> None:
    """Run videos and photographs through a model; write them painted, with their sound, and the results of each frame.

    Example: python -m framebind process holidays --output painted --task style

    Example: python -m framebind process "*.mp4" --output faces --task detect --save jsonl --resume

    Example: python -m framebind process photos --output faceless --task blur

    Example: python -m framebind process archive --output faces --task detect --save jsonl --gpus all --backend cuda
    """
    if ray and gpus:
        raise typer.BadParameter("Ray gives each actor a GPU: leave --gpus away", param_hint="--ray")
    if flags.device and (ray or gpus):
        raise typer.BadParameter("--gpus and --ray choose the GPUs: leave --device away", param_hint="--device")
    work = options.work(flags)
    check_model(work)  # one error in place of one for each video, and one download
    found, runner = find_inputs(inputs, output), choose_runner(jobs, gpus, ray, flags.backend)
    began = time.perf_counter()
    manifest = Manifest(output if is_url(output) else Path(output), asdict(work), resume=resume)
    try:
        planned = _planned(found, output, manifest)
        if resume and not is_url(output):
            _remove_unfinished(Path(output))
        waiting = [job for job in planned if not (resume and manifest.is_done(job.source, outputs_of(job, work)))]
        _check_outputs(work, waiting, manifest, overwrite=overwrite)
        folder = Path() if is_url(output) else Path(output)
        manifest.begin([(job.source, job.place.relative_to(folder), outputs_of(job, work)) for job in waiting])
        with ended_by_signals():
            results = _run(work, waiting, runner, manifest)
    except KeyboardInterrupt:
        print_line("interrupted: the same command with --resume goes on")
        raise
    finally:
        manifest.close()
    with needing_no_reader():
        _print_summary(results, [job.source for job in set(planned).difference(waiting)], time.perf_counter() - began)
    if profile is not None:
        _draw_profile(work.task, results, profile)
    if any("error" in result for _, result in results):
        raise typer.Exit(1)


def _planned(found: list[Input], output: str, manifest: Manifest) -> list[Job]:
    """The videos with the paths of their results, without a suffix.

    A path is the one that the record has for the video, or else follows from the video's own path: new videos in a
    folder change no other one's. Only videos of the same name in different folders, named one by one, are numbered.
    """
    jobs: list[Job] = []
    folder, upload = (Path(), output) if is_url(output) else (Path(output), "")
    known = {name_of(each.source): manifest.place_of(each.source) for each in found}
    taken = {place for place in known.values() if place is not None}
    for each in found:
        place = known[name_of(each.source)]
        if place is None:
            stem, number = result_place(each.place), 1
            place = stem
            while place in taken:
                number += 1
                place = numbered(stem, number)
            taken.add(place)
        jobs.append(Job(each.source, folder / place, upload))
    return jobs


def _check_outputs(work: Work, waiting: list[Job], manifest: Manifest, *, overwrite: bool) -> None:
    """Refuse to replace a source, or, without --overwrite, anything but the results of the same work on this video."""
    sources, planned = {name_of(job.source) for job in waiting}, set[str]()
    for job in waiting:
        for path in outputs_of(job, work):
            if name_of(path) in sources:
                raise typer.BadParameter(
                    f"'{fb.video.masked_address(path)}' is read and would be replaced: take another --output"
                )
            if name_of(path) in planned:
                raise typer.BadParameter(
                    f"'{fb.video.masked_address(path)}' would be a result of two inputs: process each with its "
                    "own --output"
                )
            planned.add(name_of(path))
            is_there = exists(path) if isinstance(path, str) else path.exists()
            if is_there and not overwrite and not manifest.may_replace(job.source, path):
                raise typer.BadParameter(
                    f"'{fb.video.masked_address(path)}' is there: --overwrite replaces it, --resume leaves out "
                    "what the same work has done"
                )


def _remove_unfinished(output: Path) -> None:
    for folder in output.rglob(UNFINISHED + "*"):
        shutil.rmtree(folder, ignore_errors=True)


def _run(work: Work, jobs: list[Job], runner: Runner, manifest: Manifest) -> Results:
    """Process the videos. Returns their results in the order in which they were finished."""
    results: Results = []
    with progress_bars(_names([job.source for job in jobs]), len(jobs)) as bars:

        def report(event: Event) -> None:
            if isinstance(event, Progress):
                raise_if_signalled()
            elif isinstance(event, Lost):
                bars.note(f"{fb.video.masked_address(event.job.source)}: its worker died, and it is done again")
            elif isinstance(event, Finished):
                if "error" in event.result:
                    bars.note(f"{fb.video.masked_address(event.job.source)}: {event.result['error']}")
                manifest.add(event.job.source, event.result)
                results.append((event.job.source, event.result))
            bars.show(event)

        if jobs:
            runner(work, jobs, report)
    return results


def _draw_profile(task: str, results: Results, path: Path) -> None:
    from ..plots.pipeline import pipeline_chart  # packages of the extra `plot`

    done = [result for _, result in results if result.get("frames")]
    if not done:
        print_line(f"no frame was processed: '{path}' is not written")
        return
    save(pipeline_chart(task, done, add_times(result["times"] for result in done)), path)
    print_line(f"wrote {path}")


def _print_summary(results: Results, left_out: list[Path | str], seconds: float) -> None:
    done = [result for _, result in results if "error" not in result]
    frames, cpu, copied = (sum(result[key] for result in done) for key in ("frames", "cpu_seconds", "bytes"))
    names = _kinds([source for source, result in results if "error" not in result])
    print_line(f"{names}, {counted(frames, 'frame')} in {seconds:.1f} s")
    if frames:
        print_line(
            f"{frames / seconds:.1f} frames/s, {1000 * cpu / frames:.1f} CPU seconds per 1,000 frames, "
            f"{copied / 1e6:.1f} MB between host and GPU"
        )
    if (share := _decoding(done)) is not None:
        print_line(f"decoders worked for {share:.0%} of the time: at 100% they set the pace")
    if damaged := sum(result["damaged"] for result in done):
        print_line(f"{counted(damaged, 'damaged packet')} skipped: the record says in which videos")
    if left_out:
        print_line(f"{_kinds(left_out)} left out: done by an earlier run")
    if failed := [(source, result["error"]) for source, result in results if "error" in result]:
        print_line(f"{_kinds([source for source, _ in failed])} failed:")
        for source, reason in failed:
            print_line(f"  {fb.video.masked_address(source)}: {reason}")


def _kinds(sources: list[Path | str]) -> str:
    """Count videos and photographs in words. Photographs are named if there are some."""
    photographs = sum(map(is_photograph, sources))
    videos = len(sources) - photographs
    parts = [counted(videos, "video")] if videos or not photographs else []
    return " and ".join([*parts, *([counted(photographs, "photograph")] if photographs else [])])


def _names(sources: list[Path | str]) -> str:
    """Name the kinds of inputs: videos, photographs, or both."""
    photographs = sum(map(is_photograph, sources))
    names = ["videos"] * (photographs < len(sources)) + ["photographs"] * (photographs > 0)
    return " and ".join(names)


def _decoding(results: list[dict[str, Any]]) -> float | None:
    """The share of the time in which decoders worked; None if it is not known."""
    tracks = add_times(result.get("times", {}) for result in results)
    track = next(
        (track for track in (tracks.get("decoder"), tracks.get("thread")) if track and track.get("decode")), None
    )
    return track["decode"] / sum(seconds for name, seconds in track.items() if name != "cpu") if track else None
