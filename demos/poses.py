"""Demo of poses: the skeletons of all people in a picture."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ..tools.player.options import Options, demo
from ..tools.player.run import main
from ..video.tasks.poses import LEAST_SCORE, TASK, People


@demo(TASK.model)
def command(
    options: Options,
    people: Annotated[People, typer.Option(help="Look for several people, or for one.")] = "several",
    score: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Least score of a person, and of a key point, that is drawn.")
    ] = LEAST_SCORE,
) -> None:
    """Draw the skeletons of all visible people (PoseNet); with --people one, only the best one.

    Example: python -m framebind demo poses --camera 0

    Example: python -m framebind demo poses --source street.mp4 --people one
    """
    main(partial(TASK.prepare, people=people, score=score), options)


if __name__ == "__main__":
    typer.run(command)
