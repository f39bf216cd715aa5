"""Times models over the size of their pictures, and over frames at once: does the cost grow as the work grows?

    python benchmarks/growth.py FOLDER --backend cuda [--json FILE]        files are NAME_SIZE.tflite, of SIZE x SIZE
    python benchmarks/growth.py MODEL ... --batch 1,2,4,8,16,32 [--json FILE]
    python benchmarks/growth.py --table FILE

A figure is the median time of a run, everything bound, in 16 bits, with a wait after each. A line, time = start + cost
* work, is fitted so that the sum of squared relative errors is least; *off* is the largest of those errors. A GPU that
a small model does not fill needs as much time for less work: *from* is the least work from which on a line fits within
a tenth. benchmarks/resized.py makes models of other sizes.

``--keep FOLDER --dry-run`` compiles all programs and keeps them there; a later run with ``--keep`` starts at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from batch import Way, ready
from roofline import paths_of
from samples import Label, Measured, Series, measured, read, write

import framebind as fb
from framebind.tools.measure.measure import Schedule, time_frames
from framebind.video.apis import BY_NAME

GOOD = 0.1
"""The largest relative error of a line that counts as one."""
Points = list[tuple[float, float]]
"""Work and milliseconds, by work."""


def line(points: Points) -> tuple[float, float, float]:
    """A line's time at no work, its time per unit of work, and its largest relative error at a point."""
    work, times = np.array(points).T
    rows = np.stack([1 / times, work / times], 1)
    start, cost = np.linalg.lstsq(rows, np.ones(len(points)), rcond=None)[0]
    return float(start), float(cost), float(np.abs((start + cost * work) / times - 1).max())


def straight_from(points: Points) -> Points:
    """The most of the last points that a line fits well; two at least."""
    return next(points[first:] for first in range(len(points) - 1) if line(points[first:])[2] <= GOOD)


def tables(measurement: Measured) -> Iterator[str]:
    """The lines of two tables in Markdown, of pictures and of frames at once: times, and the line that fits them."""
    for figure, unit in (("pixels", "megapixel"), ("frames", "frame")):
        series = [each for each in measurement.series if each.labels["figure"] == figure]
        if not series:
            continue
        works = sorted({int(each.labels["work"]) for each in series})
        names = [f"{round(work**0.5)} squared" if figure == "pixels" else f"{work}" for work in works]
        yield f"| model | on | {' | '.join(names)} | start ms | ms per {unit} | off % | from | off % then |"
        yield f"| --- | --- |{' ---: |' * (len(works) + 5)}"
        for of in dict.fromkeys((each.labels["model"], each.labels["on"]) for each in series):
            found = {int(s.labels["work"]): s.median for s in series if (s.labels["model"], s.labels["on"]) == of}
            yield row(of, works, names, found, 1e-6 if figure == "pixels" else 1.0)
        yield ""


def row(
    of: tuple[Label, Label], works: Sequence[int], names: Sequence[str], found: dict[int, float], unit: float
) -> str:
    """One model's row: milliseconds by work, then the line through all, and from where on one fits well."""
    cells = [f"{found[work]:.3f}" if work in found else "" for work in works]
    points = [(work * unit, found[work]) for work in works if work in found]
    if len(points) > 2:
        straight = straight_from(points)
        start, cost, off = line(points)
        first = names[[work * unit for work in works].index(straight[0][0])]
        cells += [f"{start:.3f}", f"{cost:.4f}", f"{100 * off:.0f}", first, f"{100 * line(straight)[2]:.0f}"]
    else:
        cells += [""] * 5
    return f"| {of[0]} | {of[1]} | {' | '.join(cells)} |"


def timed(
    path: Path, api: fb.Backend, batch: int, schedule: Schedule, labels: dict[str, Label], keep: Path | None,
    devices: list[tuple[str, str]],
) -> Series | None:  # fmt: skip
    """The samples of a model's runs. None if the schedule says that nothing runs, or if it cannot: then the reason is
    printed.
    """
    try:
        with api.new_context(), ready(path, api, batch, Way("f16", "auto", "one", keep)) as (subject, delegate):
            if schedule.dry:
                return None
            latency, samples = time_frames(subject, schedule)
            told = delegate.statistics()
    except fb.FramebindError as error:
        print(f"{path.stem} {api.short} {batch}: {type(error).__name__}: {error}", flush=True)
        return None
    devices.append((told.device, told.driver))
    print(f"{path.stem} {api.short} {batch}: {latency.median:.3f} ms", flush=True)
    return Series({**labels, "on": f"{api.short} f16"}, samples["frame"])


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names, .tflite files, or folders of them.")] = None,
    backend: Annotated[str, typer.Option(help=f"Any of {','.join(BY_NAME)}.")] = "cuda",
    batch: Annotated[str, typer.Option(help="Numbers of frames; without them, sizes are compared.")] = "",
    runs: Annotated[int, typer.Option(min=1, help="Runs of which medians are taken.")] = 100,
    longest: Annotated[float, typer.Option(help="The most seconds of frames, and fewer frames then.")] = 1.0,
    keep: Annotated[Path | None, typer.Option(help="Folder of compiled programs.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only compile.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the samples to this file.")] = None,
    table_file: Annotated[Path | None, typer.Option("--table", help="Print the tables of such a file.")] = None,
) -> None:
    if table_file is not None:
        print("\n".join(tables(read(table_file))))
        return
    series, devices = list[Series](), list[tuple[str, str]]()
    schedule = Schedule(20, runs, longest, dry=dry_run, warm_up_seconds=0.2)
    for path in paths_of(models or ()):
        sized = re.fullmatch(r"(.*)_(\d+)", path.stem)
        for api in map(BY_NAME.__getitem__, backend.split(",")):
            for count in [int(word) for word in batch.split(",")] if batch else [1]:
                labels: dict[str, Label] = {"model": path.stem, "figure": "frames", "work": count}
                if not batch and sized is not None:
                    labels = {"model": sized[1], "figure": "pixels", "work": int(sized[2]) ** 2}
                found = timed(path, api, count, schedule, labels, keep, devices)
                series += [found] if found is not None else []
            if json_file is not None:  # a lent machine's time may end
                write(json_file, measured("growth", devices, "ms", series))
    print("\n".join(tables(measured("growth", devices, "ms", series))))


if __name__ == "__main__":
    typer.run(main)
