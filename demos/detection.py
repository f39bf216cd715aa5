"""Demo of detection: boxes around faces, with six points each, or around objects."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ..tools.common.flags import Labels, Mean, Std, normalization
from ..tools.player.options import Options, demo
from ..tools.player.run import main
from ..video.tasks.detect import TASK


@demo(TASK.model)
def command(
    options: Options,
    score: Annotated[
        float | None, typer.Option(min=0, max=1, help="The least score of what is shown; 0.75 for faces, else 0.5.")
    ] = None,
    labels: Labels = None,
    mean: Mean = "",
    std: Std = "",
) -> None:
    """Draw boxes around faces, or around objects.

    The default model finds faces; mobile_ssd_v2_float_coco finds objects of 90 classes, whose names --labels has.

    Example: python -m framebind demo detection --camera 0

    Example: python -m framebind demo detection --camera 0 --model mobile_ssd_v2_float_coco --labels coco.txt
    """
    main(partial(TASK.prepare, score=score, labels=labels, **normalization(mean, std)), options)


if __name__ == "__main__":
    typer.run(command)
