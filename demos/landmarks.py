"""Demo of landmarks: the skeleton of a person or of a hand."""

from __future__ import annotations

from pathlib import Path

import typer

from ..tools.player.options import Options, demo
from ..tools.player.run import main
from ..video.assets import HAND_PICTURE, PHOTOGRAPH
from ..video.tasks.landmarks import TASK


@demo(TASK.model)
def command(options: Options) -> None:
    """Draw the skeleton of a person, or, with --model hand_landmark_lite, of a hand.

    One person, or one hand, who at first is most of the frame.

    Example: python -m framebind demo landmarks --camera 0

    Example: python -m framebind demo landmarks --camera 0 --model hand_landmark_lite
    """
    main(TASK.prepare, options, photograph=HAND_PICTURE if "hand" in Path(options.model).stem else PHOTOGRAPH)


if __name__ == "__main__":
    typer.run(command)
