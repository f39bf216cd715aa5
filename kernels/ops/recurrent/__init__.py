"""Operators that keep a state between runs."""
