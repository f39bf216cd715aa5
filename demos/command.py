"""``python -m framebind demo NAME``: the files in demos/ that have a ``command``, and tasks that have no such file.

``demo --model X`` alone shows the task that knows the model best.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import typer

from .. import demos
from ..tools.common.flags import Depth, Labels, Mean, Most, Std, normalization
from ..tools.player.options import Options
from ..tools.player.options import demo as with_options
from ..tools.player.run import main
from ..video import tasks
from ..video.task import Drawing, Scene, VideoTask
from ..video.tasks import REPLACED, find_task, task_names
from ..video.work import RAW, task_for

demo = typer.Typer(no_args_is_help=True)


@demo.callback(invoke_without_command=True)
@with_options("")
def of_model(
    options: Options,
    context: typer.Context,
    labels: Labels = None,
    mean: Mean = "",
    std: Std = "",
    depth: Depth = "",
    most: Most = None,
) -> None:
    """Show what a model makes of a camera, a video or a picture: by name, or by the model alone.

    Example: python -m framebind demo style_transfer --camera 0

    Example: python -m framebind demo --model yolo.tflite --camera 0
    """
    if (name := context.invoked_subcommand) is not None:
        if given := [each for each in context.params if _is_given(context, each)]:
            option = "--" + given[0].replace("_", "-")
            raise typer.BadParameter(f"options come behind the demo's name: demo {name} {option}")
        return
    if not options.model:
        raise typer.BadParameter("name a demo, or the --model that chooses one")
    task = task_for("", options.model, further=options.model_options().further)
    if task == RAW:
        raise typer.BadParameter(
            f"no task knows the outputs of '{options.model}': name a demo, or save them by process"
        )
    main(_prepared(task, labels=labels, depth=depth, most=most, **normalization(mean, std)), options)


def _is_given(context: typer.Context, option: str) -> bool:
    """Whether an option is on the command line."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def _prepared(name: str, **options: Any) -> Callable[[Scene], Drawing]:
    """Give a task the options that were given. Raises BadParameter for one that it does not take."""
    task, given = find_task(name), {name: value for name, value in options.items() if value}
    if unknown := [each for each in given if each not in task.options]:
        raise typer.BadParameter(f"the task '{name}' takes no --{unknown[0]}")
    return partial(task.prepare, **given)


def _command_of(name: str, task: VideoTask) -> Callable[..., None]:
    """The demo of a task that has no file in demos/."""

    def command(
        options: Options, labels: Labels = None, mean: Mean = "", std: Std = "", depth: Depth = "", most: Most = None
    ) -> None:
        if not options.model:
            raise typer.BadParameter(f"the demo '{name}' has no model of its own: name a --model")
        prepare = _prepared(name, labels=labels, depth=depth, most=most, **normalization(mean, std))
        main(prepare, options, photograph=task.photograph)

    about = (import_module(f"{tasks.__name__}.{name}").__doc__ or name).splitlines()[0]  # `python -OO` keeps none
    command.__doc__ = f"{about}\n\nExample: python -m framebind demo {name} --camera 0"
    return with_options(task.model)(command)


def _refusal(name: str, advice: str) -> Callable[[], None]:
    """A command that names what took the place of a demo."""

    def command() -> None:
        raise typer.BadParameter(f"the demo '{name}' was replaced in framebind 0.2.0: {advice}")

    return command


def _add_commands() -> None:
    shown = list[VideoTask | None]()
    for found in iter_modules(demos.__path__):
        if not found.ispkg and hasattr(module := import_module(f"{demos.__name__}.{found.name}"), "command"):
            demo.command(found.name)(module.command)
            shown.append(getattr(module, "TASK", None))
    for name in task_names():
        if (task := find_task(name)) not in shown and "video" in task.saves:
            demo.command(name)(_command_of(name, task))
    for name, advice in REPLACED.items():
        ignoring = {"ignore_unknown_options": True, "allow_extra_args": True}
        demo.command(name, hidden=True, context_settings=ignoring)(_refusal(name, advice))


_add_commands()
