"""Errors of whole models against LiteRT's CPU kernels, for noise and for pictures; writes docs/precision.md from them.

python benchmarks/precision.py                                          write the page
python benchmarks/precision.py measure gl cl:pocl --json FILE           measure each model of the folders of models
python benchmarks/precision.py measure gl --json FILE m.tflite b.task   measure these
python benchmarks/precision.py add FILE --commit HASH                   keep what was measured

Inputs, errors and bounds are those of `python -m framebind certify`.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import platform
import re
import statistics
import sys
import tempfile
import textwrap
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

os.environ.setdefault("EGL_PLATFORM", "surfaceless")

from framebind.tools.certify.checks import Subject, check_of, is_quantized
from framebind.tools.certify.devices import backend_of, open_context, versions
from framebind.tools.certify.pictures import SIGNED
from framebind.tools.certify.worker import described, run_on_device
from framebind.video.models import BUNDLED, model_folders

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "precision"
PAGE = HERE.parent / "docs" / "precision.md"
Row = dict[str, Any]
PICTURES, PLAIN = ("astronaut", "astronaut's face", "hand"), ("black", "white", "gradient")
UNDETERMINED = "hair_segmentation"
"""The model whose results the sentence gives apart: rounding decides which places it keeps."""

HEADER = """# Precision

This page says how far results are from those of LiteRT's CPU interpreter. `python -m framebind diff MODEL` measures
your model. `python benchmarks/precision.py` writes this page from `benchmarks/results/precision/*.json`.

{sentence}

All figures are the largest error of any output value, as a part of that output's largest value. Pictures are a
photograph, a part of it and a drawing, each from 0 to 1 and from -1 to 1; plain ones are black, white and a gradient.
In 16 bits, weights and the tensors around normalizations are halves ([0007](decisions/0007-f32-except-norms.md)), and
on NVIDIA's matrix units those between dense convolutions ([0020](decisions/0020-halves-between-dense-convolutions.md)).
A model whose file has halves loses nothing by its weights.

## What makes an error large

- **Nearly equal values.** hair_segmentation keeps the place of each maximum of its poolings, and puts values back
  there. Of equal values the GPU takes the one that LiteRT takes. If two values differ by less than rounding, either may
  win, and one such place decides over a hundred values of the mask. LiteRT's own results differ as much if its weights
  are moved by half their last place.
- **Outputs near 0.** A sigmoid of -1000 is 0 to the last bit of a picture, but an error in the logit is a part of it:
  selfie_segmentation's mask of a black picture is 7e-16 at most.
- **Plain pictures.** Instance normalization divides by nearly nothing (style_transfer_f16_384). LiteRT adds the values
  of a MEAN one after the other: for equal values its own mean is less exact than the GPU's (style_transfer).
- **Integers.** A quantized model may round to the next step; a network of many layers makes several steps of it
  ([quantized models](quantized.md#what-is-exact)).

The largest error that `python -m framebind certify` allows a model is in [drivers](drivers.md#how-errors-are-bounded).
"""

app = typer.Typer(help=__doc__)


@app.callback(invoke_without_command=True)
def write(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        PAGE.write_text(page(read_results()), encoding="utf-8")


@app.command()
def measure(
    devices: Annotated[list[str], typer.Argument(help="gl, gles, cuda, cl:NAME, and models: .tflite and .task files.")],
    json_file: Annotated[Path, typer.Option("--json", help="The file to write.")],
) -> None:
    """Measure models on devices, in 32 bits and in 16."""
    logging.disable(logging.WARNING)
    given = [Path(text) for text in devices if text.endswith((".tflite", ".task"))]
    content: Row = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": versions(),
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "command": f"python benchmarks/precision.py {' '.join(map(_shown, sys.argv[1:]))}",
        "rows": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        models = list(_models(given or _known(), Path(folder)))
        for device in (text for text in devices if not text.endswith((".tflite", ".task"))):
            for name, path in models:
                with open_context(device):
                    for half in (False, True):
                        content["rows"].append(_row(name, path, device, half=half))
                        json_file.write_text(_as_text(content), encoding="utf-8")
                        print(_line(content["rows"][-1]), flush=True)


@app.command()
def add(file: Path, commit: Annotated[str, typer.Option(help="The commit that was measured.")]) -> None:
    """Keep what was measured, one file a machine and day, and write the page."""
    content = json.loads(file.read_text(encoding="utf-8"))
    name = re.sub(r"\W+", "-", f"{content['rows'][0]['device'][:32]} {content['date']}".lower()).strip("-")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(_as_text({"commit": commit, **content}), encoding="utf-8")
    PAGE.write_text(page(read_results()), encoding="utf-8")


def read_results() -> list[Row]:
    """The kept measurements, by file name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]


def sentence(results: list[Row]) -> str:
    """The sentence that all pages have: errors of models in floats for pictures, on all machines."""
    figures: dict[tuple[str, bool], list[float]] = {}
    for row in (row for result in results for row in result["rows"] if not row["quantized"]):
        error = worst(row, PICTURES)
        if error is not None:
            figures.setdefault((row["storage"], row["model"] == UNDETERMINED), []).append(error)
    floats, halves = figures["f32", False], figures["f16", False]
    return (
        f"For pictures, results in 32 bits differ from LiteRT's by up to {shown(max(floats))} of the largest value "
        f"({shown(statistics.median(floats))} in the median model), in 16 bits by up to {shown(max(halves))} "
        f"({shown(statistics.median(halves))}); those of {UNDETERMINED}, where rounding decides, by up to "
        f"{shown(max(figures['f32', True]))} and {shown(max(figures['f16', True]))}."
    )


def page(results: list[Row]) -> str:
    """The whole page."""
    text = HEADER.replace("{sentence}", textwrap.fill(sentence(results), 120))
    for result in results:
        for device in dict.fromkeys((row["device"], row["driver"]) for row in result["rows"]):
            rows = [row for row in result["rows"] if (row["device"], row["driver"]) == device]
            text += f"\n## {device[0]}, {device[1]}\n\n"
            version = result["versions"]["ai-edge-litert"]
            text += f"ai-edge-litert {version}; {result['date']}, commit {result['commit']}.\n\n{_table(rows)}"
    return text


def _table(rows: list[Row]) -> str:
    """A line for each model: in 32 bits and in 16, for noise, pictures and plain ones."""
    lines = [
        "| model | 32 bits: noise | pictures | plain | 16 bits: noise | pictures | plain |",
        f"| --- |{' ---: |' * 6}",
    ]
    for model in dict.fromkeys(row["model"] for row in rows):
        by_storage = {row["storage"]: row for row in rows if row["model"] == model}
        groups = [worst(by_storage[bits], names) for bits in ("f32", "f16") for names in (("noise",), PICTURES, PLAIN)]
        quantized = " (quantized)" if by_storage["f32"]["quantized"] and "quant" not in model else ""
        lines.append(f"| {model}{quantized} | {' | '.join('' if v is None else shown(v) for v in groups)} |")
    return "\n".join(lines) + "\n"


def worst(row: Row, names: tuple[str, ...]) -> float | None:
    """The largest error of a row for these inputs, also those from -1 to 1; None if the model takes no pictures."""
    return max((row["errors"][key] for key in row["errors"] if key.removesuffix(SIGNED) in names), default=None)


def shown(error: float) -> str:
    """An error, in two digits."""
    return f"{error:.1e}".replace("e-0", "e-") if error else "0"


def _shown(argument: str) -> str:
    """An argument without its folders, which may be private."""
    return Path(argument).name if "/" in argument else argument


def _known() -> list[Path]:
    found = {path.name: path for folder in reversed(model_folders()) for path in sorted(folder.glob("*.t*"))}
    files = [path for path in found.values() if path.suffix in (".tflite", ".task")]
    return [*BUNDLED.values(), *sorted(files, key=lambda path: path.name)]


def _models(paths: Iterable[Path], folder: Path) -> Iterator[tuple[str, Path]]:
    """Names and files of models; those of a bundle are unpacked."""
    for path in paths:
        if path.suffix == ".tflite":
            yield path.stem, path
            continue
        with zipfile.ZipFile(path) as bundle:
            for member in (name for name in bundle.namelist() if name.endswith(".tflite")):
                yield f"{path.stem}: {Path(member).stem}", Path(bundle.extract(member, folder))


def _row(name: str, path: Path, device: str, *, half: bool) -> Row:
    """The errors of a model and what they may be, by input."""
    check = check_of(Subject("model", str(path), half))
    results, reasons = run_on_device(check.model, list(check.inputs.values()), backend_of(device), half=half)
    measured = {
        key: check.measure(inputs, found) for (key, inputs), found in zip(check.inputs.items(), results, strict=True)
    }
    found = described(device)
    return {
        "model": name,
        "device": found.gpu,
        "driver": found.driver,
        "storage": "f16" if half else "f32",
        "quantized": is_quantized(check.model),
        "on_cpu": len(reasons),
        "errors": {key: _short(error) for key, (error, _) in measured.items()},
        "bounds": {key: _short(bound) for key, (_, bound) in measured.items()},
    }


def _short(value: float) -> float:
    return float(f"{value:.2g}")


def _line(row: Row) -> str:
    worst = max(row["errors"], key=lambda key: row["errors"][key] / max(row["bounds"][key], 1e-30))
    return (
        f"{row['model']:45} {row['device']:30.30} {row['storage']}: {row['errors'][worst]:.2g} for {worst}, "
        f"allowed {row['bounds'][worst]:.2g}"
    )


def _as_text(content: Row) -> str:
    """The JSON, one row a line."""
    rows = ",\n".join(f" {json.dumps(row)}" for row in content["rows"])
    head = json.dumps({**content, "rows": []}, indent=1).removesuffix("[]\n}")
    return f"{head}[\n{rows}\n]}}\n"


if __name__ == "__main__":
    app()
