"""The keys of a demo's window: a table of keys and their actions on the player."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import framebind as fb

from .hud import ACCENT, DIM, Part
from .player import Player


@dataclass(frozen=True)
class Key:
    """``names`` are those of fb.Window.keys(); ``label`` stands beside the first of them in the legend."""

    names: tuple[str, ...]
    action: Callable[[Player], None]
    label: str


def _pause(player: Player) -> None:
    player.paused = not player.paused


def _quit(player: Player) -> None:
    player.going_on = False


def _mirror(player: Player) -> None:
    player.source.mirror = not player.source.mirror


def _full_screen(player: Player) -> None:
    assert player.window is not None, "keys are pressed in a window"
    player.window.toggle_full_screen()


KEYS = (
    Key(("space",), _pause, "pause"),
    Key(("s",), lambda player: player.hud.say(player.recorder.take_screenshot()), "screenshot"),
    Key(("r",), lambda player: player.hud.say(player.recorder.toggle_recording()), "record"),
    Key(("p",), lambda player: player.switch_mode("cpu"), "model on CPU or GPU"),
    Key(("c",), lambda player: player.switch_mode("copying"), "with or without copies"),
    Key(("m",), _mirror, "mirror"),
    Key(("f",), _full_screen, "full screen"),
    Key(("i",), lambda player: player.hud.toggle_figures(), "these lines"),
    Key(("h", "?", "f1"), lambda player: player.hud.toggle_keys(), "keys"),
    Key(("q", "escape"), _quit, "quit"),
)
"""The keys 1 to 9 are not here: they choose the task's variants."""
KEYMAP = {name: key.action for key in KEYS for name in key.names}
LEGEND: list[Part] = [((key.names[0], ACCENT), (f" {key.label}", DIM)) for key in KEYS]


def press(player: Player, key: str) -> None:
    """Do the action of a key; keys without an action do nothing."""
    if key in KEYMAP:
        try:
            KEYMAP[key](player)
        except fb.SourceError as error:  # a file that cannot be written here is no reason to end
            player.hud.say(str(error))
    elif key.isdecimal() and 1 <= int(key) <= len(player.task.variants):
        player.choose_variant(int(key) - 1)
