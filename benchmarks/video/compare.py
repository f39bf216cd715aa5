"""Measures other ways to put videos through a model, beside framebind: what measure.py does for framebind alone.

    python benchmarks/video/compare.py --compare nvdec-torch,cv2-litert-cpu,cv2-litert-gpu --json ROWS.json

All ways set up side by side, which takes PyTorch and LiteRT long, and then run the clip once, one way after the other;
what is not ready after ``--seconds`` is left out, and said to be. Ways with NVDEC share their sessions among
``--processes``; of those that decode on the CPU, each session has a process. With all nine peers, and four processes of
each way with NVDEC, none of these was ready after 26 s on an H200, probably for 52 contexts at once on one GPU: name
one peer in each call. The columns are measure.py's.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from beside import NotRunError, Way
from measure import ALONE, SIZE, Report, Row, described, row_of, write_clip
from peers import ON_THE_CPU, PEERS
from sessions import MODELS, NO_MODEL, DecodeOnly, Framebind, MakeSession, Model, last_inputs, litert_outputs

import framebind as fb


def main(
    models: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(MODELS)}.")] = None,
    compare: Annotated[str, typer.Option(help=f"Peers: {','.join(PEERS)}.")] = ",".join(PEERS),
    sessions: Annotated[int, typer.Option(help="Sessions side by side.")] = 8,
    processes: Annotated[int, typer.Option(help="Processes that share the sessions of ways with NVDEC.")] = 1,
    frames: Annotated[int, typer.Option(help="Frames of the clip.")] = 300,
    seconds: Annotated[float, typer.Option(help="Seconds for the setup of all ways, and for one way's run.")] = 30.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
) -> None:
    report = Report(frames, json_file)
    with tempfile.TemporaryDirectory() as folder, fb.cuda.CudaContext(independent=True) as context:
        clip = Path(folder) / "clip.mp4"
        write_clip(clip, frames)
        chosen = [MODELS[name] for name in models or MODELS]
        makes: dict[str, MakeSession] = {"framebind": partial(Framebind, reads=False, keep=Path(folder) / "kept")}
        makes |= {name: PEERS[name] for name in compare.split(",") if name}

        def start(name: str, model: Model, make: MakeSession) -> Way:
            return Way(name, model, make, clip, sessions, sessions if name in ON_THE_CPU else processes)

        ways = [start(ALONE, NO_MODEL, DecodeOnly)]
        ways += [start(name, model, make) for name, make in makes.items() for model in chosen]
        expected = {model: litert_outputs(model, last_inputs(clip, model)) for model in chosen}
        report.machine = described(context)
        for way in ways:
            way.wait_until_ready(report.began + seconds)
        passed = time.monotonic() - report.began
        print(f"{context.name}, {frames} frames of {SIZE[0]}x{SIZE[1]}; set up after {passed:.0f} s")
        for way in ways:
            try:
                runs = [way.run(seconds)]
                report.add(row_of(way.model, way.name, sessions, runs, expected.get(way.model), way.processes))
            except NotRunError as why:
                report.add(Row(way.model.name, way.name, sessions, 0, 0, 0, why_not=str(why), processes=way.processes))


if __name__ == "__main__":
    typer.run(main)
