"""Demo of classification: the five likeliest classes of each frame."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..video.assets import PHOTOGRAPH
from ..video.tasks.classify import TASK
from ..video.vision.pictures import photographs_of_skimage
from .player.options import Options, demo
from .player.run import main


@demo(TASK.model)
def command(
    options: Options,
    labels: Annotated[
        Path | None, typer.Option(help="The names of the model's classes, one per line; without it, they have numbers.")
    ] = None,
) -> None:
    """Show the five likeliest classes of each frame.

    Example: python -m framebind demo classification --camera 0 --labels imagenet.txt
    """
    folder = photographs_of_skimage()
    main(partial(TASK.prepare, labels=labels), options, photograph=folder / "chelsea.png" if folder else PHOTOGRAPH)


if __name__ == "__main__":
    typer.run(command)
