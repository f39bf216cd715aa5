"""Operators that reduce, normalize or order along an axis."""
