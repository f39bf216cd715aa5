"""Each feature of a kernel's text has an operator case that reaches it. Finding all that are reached takes seconds."""

from __future__ import annotations

from support.cases import required


def test_every_feature_has_a_case() -> None:
    missing = sorted(required.required() - required.reached(), key=str)
    assert not missing, "\n".join(f"no case has {feature}" for feature in missing)


def test_exemptions_are_needed() -> None:
    """An exemption of what a case reaches hides that the case may go."""
    assert not required.EXEMPT.keys() & required.reached()
