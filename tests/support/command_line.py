"""The commands of the command line, which are imported when they are asked for."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from typer.core import TyperGroup


@functools.cache
def commands_in(command: Any) -> Mapping[str, Any]:
    """The commands of a group by name, made once, in the order of its help and only those; none of a command that is no
    group.
    """
    if not isinstance(command, TyperGroup):
        return {}
    context: Any = None  # no group of ours asks for it
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: each for name, each in found.items() if each is not None and not each.hidden}
