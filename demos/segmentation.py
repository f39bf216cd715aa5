"""Demo of segmentation: people cut out, their background blurred, or 21 classes in colours."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ..tools.common.flags import Labels, Mean, Std, normalization
from ..tools.player.options import Options, demo
from ..tools.player.run import main
from ..video.tasks.segment import BACKGROUND, TASK, Effect


@demo(TASK.model)
def command(
    options: Options,
    effect: Annotated[
        Effect | None,
        typer.Option(help="Colour the classes, cut people out, or blur their background. Keys 1 to 3 switch."),
    ] = None,
    background: Annotated[
        str, typer.Option(help="The background of people who are cut out: a colour as #rrggbb, or a picture.")
    ] = BACKGROUND,
    labels: Labels = None,
    mean: Mean = "",
    std: Std = "",
) -> None:
    """Colour the classes in a camera, a video or a picture, cut people out, or blur their background.

    Example: python -m framebind demo segmentation --camera 0 --model selfie_segmentation --effect blur
    """
    given = normalization(mean, std)
    main(partial(TASK.prepare, effect=effect, background=background, labels=labels, **given), options)


if __name__ == "__main__":
    typer.run(command)
