"""Demo of classification: the five likeliest classes of each frame."""

from __future__ import annotations

from functools import partial

import typer

from ..tools.common.flags import Labels, Mean, Std, normalization
from ..tools.player.options import Options, demo
from ..tools.player.run import main
from ..video.assets import PHOTOGRAPH
from ..video.tasks.classify import TASK
from ..video.vision.pictures import photographs_of_skimage


@demo(TASK.model)
def command(
    options: Options,
    labels: Labels = None,
    mean: Mean = "",
    std: Std = "",
) -> None:
    """Show the five likeliest classes of each frame.

    Example: python -m framebind demo classification --camera 0 --labels imagenet.txt
    """
    folder = photographs_of_skimage()
    prepare = partial(TASK.prepare, labels=labels, **normalization(mean, std))
    main(prepare, options, photograph=folder / "chelsea.png" if folder else PHOTOGRAPH)


if __name__ == "__main__":
    typer.run(command)
