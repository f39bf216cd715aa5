"""Writes docs/video-times.md from the measurements in benchmarks/results (video, gpus, watch), and adds new ones there.
Those in benchmarks/results/medians are older: they have medians only, and the page says so.

python benchmarks/video/page.py                              write the page
python benchmarks/video/page.py ROWS.json --commit HASH      keep what measure.py, gpus.py or watch.py wrote first
"""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "video-times.md"
HEADER = """# Times of videos

How many frames per second does a GPU decode and run? `python benchmarks/video/page.py` writes this page from
`benchmarks/results`.

- *Steady* is the rate in frames/s while all sessions work; *whole* that of the whole run, with opening and closing of
  files.
- *Cores* are CPU seconds per 1,000 frames of the whole run: the cores that 1,000 frames/s keep busy.
- Each row names the run from which it comes: [runs](#runs) has its date, commit and command.
- Figures are medians. Where samples were kept, they are *median / p99 of N* runs.

## One GPU

`benchmarks/video/measure.py` makes a clip of 1080p H.264 (x264, ultrafast, 30 frames/s), which eight sessions decode
and run at once, a thread each. `benchmarks/video/compare.py` runs the same clip in other ways.

- *decoder alone*: NVDEC by PyAV, in a CUDA context of framebind. It opens a new decoder for each file.
- *framebind*: the model reads NVDEC's frames in place, in 16 bits; the outputs stay on the GPU. Since commit 11ae8c9
  the decoder is used again for the next file.
- *nvdec-torch*: NVDEC by PyAV; colours, scaling and the same model in PyTorch, in float16, as one CUDA graph.
- *cv2-litert-cpu*, *cv2-litert-gpu*: OpenCV decodes and scales on the CPU; LiteRT runs the model on the CPU (two
  threads per session) or with its own GPU accelerator.

Opening and closing takes much of a run of 150 to 300 frames. Compare only rows of one run.

"""
GPUS_HEADER = """
## Several GPUs

`benchmarks/video/gpus.py` processes such a clip many times with `process --gpus`, which writes rows as JSONL. *Times*
is the rate of all GPUs divided by the rate of one.

"""
WATCH_HEADER = """
## Live streams

`benchmarks/video/watch.py` serves such a clip over HTTP on loopback, at its own rate, to several streams, which `watch`
runs through a task on one context. One thread runs the model; if it is too slow for all frames, the newest one counts.

- *Results/s* are those of all streams, *slowest* those of the slowest one.
- *Latency* is the time from the arrival of a frame's packet to its result: the largest median, and the largest 95th
  percentile, of a stream.
- *Dropped* is the share of frames that were skipped; *cores* are CPU seconds per second, without the servers.

"""
RUNS_HEADER = """
## Runs

| run | machine | frames per file | commit and date | command |
| --- | --- | ---: | --- | --- |
"""
Result = dict[str, Any]


def _figure(row: Result, name: str, form: str, *, most: bool = False) -> str:
    """A cell: a figure, with the p99 and number of its samples if they were kept; ``most``: the larger the better."""
    if row.get(name) is None:
        return ""
    samples = row.get("samples", {}).get(name, [])
    kept = f" / {np.percentile(samples, 1 if most else 99):{form}} of {len(samples)}" if samples else ""
    return f"{row[name]:{form}}{kept}"


def _table(columns: str, rows: list[list[str]]) -> str:
    """A table; columns that begin with "#" have numbers."""
    names = columns.split(", ")
    lines = [[name.lstrip("#") for name in names], ["---:" if name[0] == "#" else "---" for name in names], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def video_table(results: dict[str, Result]) -> str:
    """The rows of measure.py and compare.py, by model. Without a steady part, the rate is that of the whole run."""
    rows: list[list[str]] = []
    for run, result in results.items():
        for row in result["rows"]:
            if row["why_not"]:
                continue
            steady = row.get("whole_rate") is not None
            rate, cores = ("whole_rate", "whole_cores") if steady else ("rate", "cores")
            rows.append([
                row["model"], row["on"], str(row["sessions"]), str(row.get("processes", 1)),
                _figure(row, "rate", ",.0f", most=True) if steady else "",
                _figure(row, rate, ",.0f", most=True), _figure(row, cores, ".2f"), run,
            ])  # fmt: skip
    rows.sort(key=lambda row: row[0])
    return _table("model, way, #sessions, #processes, #steady, #whole, #cores, run", rows)


def gpus_table(results: dict[str, Result]) -> str:
    """The rows of gpus.py, by task."""
    rows: list[list[str]] = []
    for run, result in results.items():
        one: Result = {}
        for row in result["rows"]:
            one = row if row["gpus"] == 1 else one
            rows.append([
                row["task"], str(row["gpus"]), str(result["sessions"]), str(row["processes"]),
                _figure(row, "steady", ",.0f", most=True), _times(row, one, "steady"),
                _figure(row, "whole", ",.0f", most=True), _times(row, one, "whole"), _figure(row, "cores", ".2f"), run,
            ])  # fmt: skip
    rows.sort(key=lambda row: row[0])
    return _table("task, #GPUs, #videos per GPU, #processes, #steady, #times, #whole, #times, #cores, run", rows)


def _times(row: Result, one: Result, name: str) -> str:
    """A rate of several GPUs as a multiple of one's."""
    return f"{row[name] / one[name]:.2f}" if row is not one and row.get(name) and one.get(name) else ""


def watch_table(results: dict[str, Result]) -> str:
    """The rows of watch.py."""
    rows = [
        [
            row["task"], str(row["streams"]), row["decoder"], f"{row['rate']:,.0f}", f"{row['least_rate']:.1f}",
            f"{row['latency_median']:.1f}", f"{row['latency_p95']:.1f}", f"{row['dropped']:.1%}", f"{row['cores']:.2f}",
            run,
        ]
        for run, result in results.items()
        for row in result["rows"]
    ]  # fmt: skip
    columns = "task, #streams, decoder, #results/s, #slowest, #latency in ms, #95%, #dropped, #cores, run"
    return _table(columns, rows)


def _run(name: str, result: Result) -> str:
    """The line of a run."""
    pyav = f"PyAV {result['pyav']}" if "pyav" in result else ""
    machine = ", ".join(filter(None, (result["machine"], result.get("driver"), pyav)))
    frames = str(result.get("frames") or result.get("clip_frames") or "")
    when = f"{result['commit']}, {result['date']}" + (", medians only" if "samples" in result else "")
    return f"| {name} | {machine} | {frames} | {when} | `{result['command']}` |\n"


def page() -> str:
    """The whole page, the newest results first."""
    runs: dict[str, Result] = {}
    named: dict[str, dict[str, Result]] = {}
    for kind in ("video", "gpus", "watch"):
        for result in _results(kind):
            name = f"{kind}-{len(named.get(kind, {})) + 1}"
            runs[name] = named.setdefault(kind, {})[name] = result
    text = HEADER + video_table(named["video"]) + GPUS_HEADER + gpus_table(named["gpus"])
    return text + WATCH_HEADER + watch_table(named["watch"]) + RUNS_HEADER + "".join(map(_run, runs, runs.values()))


def _results(kind: str) -> list[Result]:
    paths = [path for folder in (RESULTS, RESULTS / "medians") for path in sorted((folder / kind).glob("*.json"))]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return sorted(found, key=lambda each: each["date"], reverse=True)


def main(
    rows: Annotated[Path | None, typer.Argument(help="A file that measure.py, gpus.py or watch.py wrote.")] = None,
    commit: Annotated[str, typer.Option(help="The commit that was measured.")] = "",
) -> None:
    """Write the page."""
    if rows is not None:
        date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        result = {**json.loads(rows.read_text(encoding="utf-8")), "date": date, "commit": commit}
        folder = RESULTS / ("gpus" if "gpus" in result else "watch" if "seconds" in result else "video")
        machine = re.sub(r"[^a-z0-9]+", "-", result["machine"].lower())
        path = folder / f"{machine}-{commit}-{rows.stem}-{date}.json"
        folder.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
