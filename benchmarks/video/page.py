"""Writes docs/video-times.md from the measurements in benchmarks/results (video, gpus, watch), and adds new ones there.
Those in benchmarks/results/medians are older: their samples were not kept, and the page says so.

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
HEADER = """# Videos decoded and run on the GPU

This page says how many frames per second framebind decodes and runs on one GPU, beside other ways to do it.
`benchmarks/video/measure.py` makes a clip of 1080p H.264 (x264, ultrafast, 30 frames/s). Several sessions process it
side by side, one thread each, in one process or divided among several:

- *decoder alone*: NVDEC by PyAV, in a CUDA context of framebind. It is measured before and after the rows of framebind.
- *framebind*: NVDEC's frames are bound to the model, in 16 bits; the outputs stay on the GPU.
- *framebind, read*: the CPU reads all outputs of each frame, while the next frame is decoded.

`benchmarks/video/compare.py` runs the same clip in other ways, each once, after all are set up:

- *nvdec-torch*: NVDEC by PyAV; colours, scaling and the same model in PyTorch, in float16, as one CUDA graph.
- *cv2-litert-cpu* and *cv2-litert-gpu*: OpenCV decodes and scales on the CPU, and LiteRT runs the model on the CPU (two
  threads per session) or with its own GPU accelerator.

Figures are medians of the runs. Where samples were kept, the page has *median / p99 of N* runs: 99% of them are at
least as good.

- Rates, shares and the first *cores* are those of the steady part of a run, in which all sessions work.
- A *whole* run also has the opening and closing of the files, and the time in which some sessions have ended. In rows
  without *whole*, and in all older measurements, the first columns are of whole runs.
- A *share* is the rate divided by the mean rate of the decoder alone in as many processes.
- *Cores* are CPU seconds of the processes per 1,000 frames, which is the same as cores per 1,000 frames/s.
- *Bytes* are the pixels, inputs and outputs that framebind copied between CPU and GPU, per frame.
- *Error* is the mean difference between the last frame's outputs and LiteRT's on the CPU, for a frame that FFmpeg
  converted and OpenCV scaled, as a share of the largest value. It is that of the output that differs most; for the pose
  model this is one number, the probability of a person. OpenCV 5 converts exactly as FFmpeg does.

`python benchmarks/video/page.py` writes this page from `benchmarks/results`; edit the measurements there instead.
"""


GPUS_HEADER = """
## Rows of videos on several GPUs

`benchmarks/video/gpus.py` processes such a clip many times with `process --gpus`, which writes rows as JSONL.
*Whole* counts from the start of the processes to their end, *steady* only while all sessions have work. Rates are
frames/s, *cores* CPU seconds per 1,000 frames. *Times* is the rate of all GPUs divided by the rate of one.
"""


WATCH_HEADER = """
## Streams watched at once

`benchmarks/video/watch.py` serves such a clip over HTTP on loopback, at its own rate, to several streams, which `watch`
runs through a task on one context. Rates are results per second, of all streams and of the slowest one. *Latency* is
the time from the arrival of a frame's packet to its result: the largest median, and the largest 95th percentile, of a
stream. *Dropped* is the share of frames that were skipped for lack of time; *cores* are CPU seconds of the process per
second, without the servers.
"""


def _section(lines: list[str], result: dict[str, Any]) -> str:
    """The lines of a result, and what there is to say about it."""
    remarks = [result.get("note", ""), "" if "samples" not in result else "Medians only, no samples kept."]
    return "\n".join(lines) + "\n" + "".join(f"\n{remark}\n" for remark in remarks if remark)


def _figure(row: dict[str, Any], name: str, form: str, *, most: bool = False) -> str:
    """A cell: a figure, with the p99 and number of its samples if they were kept; ``most``: the larger the better."""
    if row.get(name) is None:
        return ""
    samples = row.get("samples", {}).get(name, [])
    kept = f" / {np.percentile(samples, 1 if most else 99):{form}} of {len(samples)}" if samples else ""
    return f"{row[name]:{form}}{kept}"


def watch_table(result: dict[str, Any]) -> str:
    """A result of watch.py as a section."""
    lines = [
        f"\n### {result['machine']}, {result['date']}\n",
        f"PyAV {result['pyav']}, {result['cpus']} CPU cores, commit {result['commit']}: `{result['command']}`\n",
        "| task | streams | decoder | results/s | least | latency, ms | 95% | dropped | cores |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['task']} | {row['streams']} | {row['decoder']} | {row['rate']:,.0f} | {row['least_rate']:.1f} | "
        f"{row['latency_median']:.1f} | {row['latency_p95']:.1f} | {row['dropped']:.1%} | {row['cores']:.2f} |"
        for row in result["rows"]
    ]
    return _section(lines, result)


def gpus_table(result: dict[str, Any]) -> str:
    """A result of gpus.py as a section."""
    lines = [
        f"\n### {result['machine']}, {result['date']}\n",
        f"Commit {result['commit']}, {result['sessions']} videos of {result['clip_frames']} frames at once per GPU: "
        f"`{result['command']}`\n",
        "| task | GPUs | processes | frames | whole | times | cores | steady | times | cores |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    one: dict[str, Any] = {}
    for row in result["rows"]:
        one = row if row["gpus"] == 1 else one
        whole, steady = (_times(row, one, name) for name in ("whole", "steady"))
        rates = ["" if row.get(name) is None else f"{row[name]:,.0f}" for name in ("whole", "steady")]
        cores = ["" if row.get(name) is None else f"{row[name]:.2f}" for name in ("cores", "steady_cores")]
        frames = f"{row['frames']:,}" if row["frames"] else ""
        lines.append(
            f"| {row['task']} | {row['gpus']} | {row['processes']} | {frames} | {rates[0]} | {whole} | "
            f"{cores[0]} | {rates[1]} | {steady} | {cores[1]} |"
        )
    return _section(lines, result)


def _times(row: dict[str, Any], one: dict[str, Any], name: str) -> str:
    """A rate of several GPUs as a multiple of one's."""
    return f"{row[name] / one[name]:.2f}" if row is not one and row.get(name) and one.get(name) else ""


def table(result: dict[str, Any]) -> str:
    """A result as a section."""
    lines = [
        f"\n## {result['machine']}, {result['date']}\n",
        f"{result['driver']}, PyAV {result['pyav']}, {result['cpus']} CPU cores, commit {result['commit']}, "
        f"{result['frames']} frames: `{result['command']}`\n",
        "| model | | sessions | processes | frames/s | share | cores | whole | cores | bytes | error |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in result["rows"]:
        if row["why_not"]:
            lines.append(f"| {row['model']} | {row['on']} | | | {_short(row['why_not'])} | | | | | | |")
            continue
        share = "" if row["share"] is None else f"{row['share']:.1%}"
        error = "" if row["error"] is None else f"{row['error']:.1e}"
        nbytes = "" if not row["on"].startswith("framebind") else f"{row['bytes_per_frame']:,.0f}"
        lines.append(
            f"| {row['model']} | {row['on']} | {row['sessions']} | {row.get('processes', 1)} | "
            f"{_figure(row, 'rate', ',.0f', most=True)} | {share} | {_figure(row, 'cores', '.2f')} | "
            f"{_figure(row, 'whole_rate', ',.0f', most=True)} | {_figure(row, 'whole_cores', '.2f')} | "
            f"{nbytes} | {error} |"
        )
    return _section(lines, result)


def _short(text: str) -> str:
    return text.strip().splitlines()[0].replace("|", "/")[:80]


def page() -> str:
    """The whole page, the newest results first."""
    watched = _results("watch")
    return "".join(
        [
            HEADER, *map(table, _results("video")), GPUS_HEADER, *map(gpus_table, _results("gpus")),
            WATCH_HEADER if watched else "", *map(watch_table, watched),
        ]
    )  # fmt: skip


def _results(kind: str) -> list[dict[str, Any]]:
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
