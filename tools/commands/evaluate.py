"""``python -m framebind evaluate``: accuracy of a model on a set of pictures, on the GPU and on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import framebind as fb

from ...video.model_file import read_model_file
from ...video.models import find_model
from ..common.console import progress_bar
from ..common.flags import GpuFlags, with_flags
from ..common.output import AsJson, print_figures, print_json, print_line, write_file
from ..evaluation import coco as coco_task
from ..evaluation import imagenet as imagenet_task
from ..evaluation.preprocessing import list_pictures
from ..evaluation.runner import Collect, Prepare, Side, as_tflite, open_side, run

evaluate = typer.Typer(no_args_is_help=True, help="Accuracy of a model on a set of pictures, on the GPU and the CPU.")

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A .tflite file, or a name that `models` lists.")]
Images = Annotated[Path, typer.Option("--images", "--ground-truth-images-path", help="The folder of pictures.")]
Truth = Annotated[
    Path,
    typer.Option("--truth", "--ground-truth-labels", help="The class of each picture, a line each, by sorted names."),
]
Labels = Annotated[Path, typer.Option("--labels", "--model-output-labels", help="The model's classes, a line each.")]
Denylist = Annotated[
    Path | None, typer.Option("--denylist", "--denylist-file-path", help="Numbers of pictures to leave out, from 1.")
]
Annotations = Annotated[Path, typer.Option(help="The COCO annotation file (instances_*.json).")]
ClassOffset = Annotated[
    int | None,
    typer.Option(help="COCO's category of the model's class 0; by default as the model's names or its kind say."),
]
Limit = Annotated[int, typer.Option("--limit", "--num-images", min=0, help="At most this many pictures; 0 is all.")]
Threads = Annotated[
    int, typer.Option("--threads", "--num-interpreter-threads", min=1, help="Threads of the CPU's interpreter.")
]
Most = Annotated[int, typer.Option("--top", min=1, help="K of the last of top-1 to top-K.")]
Output = Annotated[
    Path | None, typer.Option("--output", "--output-file-path", help="Also write the JSON to this file.")
]


@evaluate.command()
@with_flags
def imagenet(
    model: Model,
    images: Images,
    truth: Truth,
    labels: Labels,
    denylist: Denylist = None,
    limit: Limit = 0,
    top: Most = 10,
    threads: Threads = 1,
    output: Output = None,
    as_json: AsJson = False,
    *,
    flags: GpuFlags,
) -> None:
    """Top-1 to top-K accuracy of a classifier: the part of the pictures whose class is among its K likeliest.

    Pictures are cropped to the middle, resized and normalized as TensorFlow Lite's imagenet_image_classification does.

    Example: python -m framebind evaluate imagenet mobilenet_v1_1.0_224 --images val --truth val.txt --labels labels.txt
    """
    names = imagenet_task.read_lines(labels)
    listed = list_pictures(images)
    classes = imagenet_task.read_truth(listed, truth, names)
    pictures = _first(imagenet_task.without_denied(listed, denylist), limit)
    path = find_model(model)
    counts = {name: imagenet_task.Accuracy(classes, len(names), top) for name in ("GPU", "CPU")}
    device, sides = _run(path, flags, threads, counts, pictures, as_tflite(imagenet_task.prepare))
    tops = {name: count.top() for name, count in counts.items()}
    content = {**_content(path, device, pictures, sides), "top_k_accuracies": tops}
    rows = [[f"top-{k}", *(f"{tops[side.name][k - 1]:.4f}" for side in sides)] for k in range(1, len(tops["GPU"]) + 1)]
    _report(content, "Accuracy", rows, sides, output=output, as_json=as_json)


@evaluate.command()
@with_flags
def coco(
    model: Model,
    images: Images,
    annotations: Annotations,
    class_offset: ClassOffset = None,
    limit: Limit = 0,
    threads: Threads = 1,
    output: Output = None,
    as_json: AsJson = False,
    *,
    flags: GpuFlags,
) -> None:
    """Mean average precision of a detector: any whose boxes `process` finds.

    Pictures of a model that ends with TFLite_Detection_PostProcess are prepared as TensorFlow Lite's
    coco_object_detection does, others as in `process`; pycocotools judges the boxes.

    Example: python -m framebind evaluate coco ssd.tflite --images val2014 --annotations instances_val2014.json
    """
    known = coco_task.read_truth(annotations)
    pictures = _first(coco_task.choose_pictures(images, known), limit)
    path = find_model(model)
    detector = coco_task.detector_of(read_model_file(path))
    categories = detector.categories(known, class_offset)
    boxes = {name: coco_task.Detections(known, detector, categories) for name in ("GPU", "CPU")}
    device, sides = _run(path, flags, threads, boxes, pictures, detector.prepare)
    found = {name: coco_task.precision(known, detections.rows, pictures) for name, detections in boxes.items()}
    averages = {
        name: {"mAP": each.mean, "average_precision": dict(zip(map(str, each.thresholds), each.average, strict=True))}
        for name, each in found.items()
    }
    rows = [
        [f"average precision at IoU {threshold}", *(f"{found[side.name].average[number]:.4f}" for side in sides)]
        for number, threshold in enumerate(found["GPU"].thresholds)
    ]
    rows.append(["mAP", *(f"{found[side.name].mean:.4f}" for side in sides)])
    content = {**_content(path, device, pictures, sides), "average_precision": averages}
    _report(content, "Average precision", rows, sides, output=output, as_json=as_json)


def _first(pictures: list[Path], limit: int) -> list[Path]:
    if not pictures:
        raise fb.SourceError("no picture is left to evaluate")
    return pictures[:limit] if limit else pictures


def _run(
    model: Path,
    flags: GpuFlags,
    threads: int,
    collect: dict[str, Any],
    pictures: list[Path],
    prepare: Prepare,
) -> tuple[str, list[Side]]:
    """Run the pictures on both sides; returns the GPU's name, and the sides."""
    collectors: dict[str, Collect] = collect
    with flags.api.open_context(flags.device):
        delegate = fb.GpuDelegate(flags.options(model))
        try:
            sides = [
                open_side("GPU", model, collectors["GPU"], delegate, None),
                open_side("CPU", model, collectors["CPU"], None, threads),
            ]
            with progress_bar("pictures", len(pictures)) as advance:
                run(sides, pictures, prepare, advance)
            return delegate.statistics().device, sides
        finally:
            delegate.close()


def _content(model: Path, device: str, pictures: list[Path], sides: list[Side]) -> dict[str, Any]:
    """The part of the JSON that both tasks share."""
    times = {side.name: dict(zip(("avg", "std_dev"), side.microseconds(), strict=True)) for side in sides}
    return {"model": model.stem, "device": device, "pictures": len(pictures), "inference_us": times}


def _report(
    content: dict[str, Any], title: str, rows: list[list[str]], sides: list[Side], *, output: Path | None, as_json: bool
) -> None:
    if output is not None:
        write_file(output, json.dumps(content, indent=2) + "\n")
    if as_json:
        print_json(content)
        return
    print_line(f"{content['model']}: {content['device']} beside LiteRT's CPU interpreter")
    print_line(f"Num evaluation runs: {content['pictures']}")
    for side in sides:
        average, deviation = side.microseconds()
        print_line(f"Inference latency on the {side.name}: avg={average:.1f}(us), std_dev={deviation:.1f}(us)")
    print_figures(title, ("",), tuple(side.name for side in sides), rows)
