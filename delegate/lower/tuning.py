"""The decisions of a program that were measured on the device instead of made by rules: a plain value to save."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from ...interop.device import Dispatches, Traits
from ...kernels.target import Target, TuningChoice
from ...kernels.views import Storage
from ..transform.graph import Graph
from .launches import LabelledLaunch, Lowered, local_bytes
from .lowering import lower

GROUPS = (64, 128, 256)
"""The work-group sizes to try, as far as the device supports them."""
GROUPS_PER_UNIT = (1, 2, 4)
"""The numbers of work-groups per compute unit that are tried for programs of one dispatch."""
WAYS: Mapping[Dispatches, str] = {
    "separate": "a dispatch for each step",
    "parts": "one dispatch for many steps",
    "one": "one dispatch for all steps",
}
"""The ways to run steps that are tried, in words."""
_MOST_BYTES = 1 << 20
"""The most bytes of a saved tuning; a larger one is refused as corrupt."""


class TuningError(Exception):
    """The reason why a tuning does not fit a program. The engine catches it, and goes by rule or measures anew."""


@dataclass(frozen=True)
class Tuning:
    """The measured decisions. The rule decides for 0, for None and for keys that are not in ``tuned``.

    ``tuned`` has the number of the candidate by key (TuningChoice in kernels/target.py). ``dispatches`` and
    ``groups_per_unit`` are passed to ``Device.record``.
    """

    group_size: int = 0
    tuned: Mapping[str, int] = field(default_factory=dict)
    dispatches: Dispatches | None = None
    groups_per_unit: int = 0

    def target(self, target: Target) -> Target:
        """The target with the measured decisions instead of the rules'."""
        return replace(target, group_size=self.group_size or target.group_size, tuned=self.tuned)


def target_for(traits: Traits, storage: Storage) -> Target:
    """The target for a program whose constants have this storage."""
    return replace(traits.target, halves=storage == "f16")


def lower_tuned(graph: Graph, target: Target, tuning: Tuning) -> Lowered:
    """The launches that follow from a tuning. Raises TuningError if it does not fit this graph on such a device."""
    if tuning.group_size > target.max_group_size:
        raise TuningError(
            f"work-groups of {tuning.group_size} are more than the {target.max_group_size} that the device has"
        )
    tuned = tuning.target(target)
    if tuning.tuned:
        asked = choices_by_key(lower(graph, replace(tuned, tuned={})).launches)
        for key, number in tuning.tuned.items():
            if key not in asked or number >= len(asked[key].candidates):
                raise TuningError(f"nothing asks for candidate {number} of '{key}'")
    lowered = lower(graph, tuned)
    if tuning.group_size or tuning.tuned:  # the rules' choices were checked when the operators were claimed
        for entry in lowered.launches:
            if local_bytes(entry.launch) > target.local_bytes:
                raise TuningError(f"{entry.label} needs more than {target.local_bytes} bytes of local memory")
    return lowered


def choices_by_key(launches: Sequence[LabelledLaunch]) -> dict[str, TuningChoice[Any]]:
    """The decisions that launches follow, or those that take their places, each once."""
    choices = [launch.choice for entry in launches for launch in (entry.launch, *entry.launch.halves)]
    return {choice.key: choice for choice in choices if choice is not None}


def describe(tuning: Tuning, choices: Mapping[str, TuningChoice[Any]]) -> tuple[str, ...]:
    """A line for each decision that was measured to be better than the rule's."""
    lines: list[str] = []
    if tuning.group_size:
        lines.append(f"work-groups of {tuning.group_size}")
    if tuning.dispatches is not None:
        lines.append(WAYS[tuning.dispatches])
    if tuning.groups_per_unit:
        lines.append(f"{tuning.groups_per_unit} work-groups a compute unit")
    for key, choice in choices.items():
        number = tuning.tuned.get(key, 0)
        if number:
            lines.append(f"{key}: {choice.candidates[number]} instead of {choice.candidates[0]}")
    return tuple(lines)


def encode(tuning: Tuning) -> bytes:
    return json.dumps(asdict(tuning), sort_keys=True).encode()


def decode(data: bytes) -> Tuning:
    """The tuning in bytes of ``encode``. Raises TuningError for other bytes; ``lower_tuned`` checks that it fits."""
    if len(data) > _MOST_BYTES:
        raise TuningError(f"it has {len(data)} bytes")
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TuningError(f"it is no JSON: {error}") from error
    if not isinstance(found, dict) or cast(Any, found).keys() != asdict(Tuning()).keys():
        raise TuningError("it has other fields")
    tuning = Tuning(**cast(dict[str, Any], found))
    tuned: Any = tuning.tuned
    if not isinstance(tuned, dict) or not all(type(n) is int and n > 0 for n in cast(Any, tuned).values()):
        raise TuningError("its candidates are no numbers")
    known = (0, *GROUPS), (0, *GROUPS_PER_UNIT), (None, *WAYS)
    for value, values in zip((tuning.group_size, tuning.groups_per_unit, tuning.dispatches), known, strict=True):
        if not any(type(value) is type(other) and value == other for other in values):
            raise TuningError(f"{value!r} is none of {values}")
    return tuning
