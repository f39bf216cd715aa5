"""Demo of style transfer: a camera, a video or a picture painted in the style of another picture."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..tools.common.flags import Mean, Std, normalization
from ..tools.player.options import Options, demo
from ..tools.player.run import main
from ..video.tasks.style import ANY_STYLE, TASK


@demo("")
def command(
    options: Options,
    style: Annotated[
        list[Path] | None,
        typer.Option(help="A picture of the style, for a model that takes any style; up to 9, for keys 1 to 9."),
    ] = None,
    mean: Mean = "",
    std: Std = "",
) -> None:
    """Paint a camera, a video or a picture in the style of another picture.

    Example: python -m framebind demo style_transfer --camera 0

    Example: python -m framebind demo style_transfer --camera 0 --style waves.jpg --style mosaic.png
    """
    model = options.model or (ANY_STYLE if style else TASK.model)
    main(partial(TASK.prepare, styles=style or (), **normalization(mean, std)), replace(options, model=model))


if __name__ == "__main__":
    typer.run(command)
