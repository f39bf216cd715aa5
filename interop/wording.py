"""Words of messages and reprs."""

from __future__ import annotations


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Write a number with its noun: "1 operator", "2 operators". ``nouns`` is the plural, if s does not make it."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"
